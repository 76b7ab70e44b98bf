//! Programs notice as little as possible of `mala exec`.

use std::fs;
use std::process::Stdio;

use mala_tests::eventually;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, mala};

#[test]
fn an_open_that_fails_has_done_nothing() {
    let world = world();
    let script = "
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
while True:
    try: os.open('/dev/null', os.O_RDONLY)
    except OSError: break
for name, flags in [('free.txt', os.O_WRONLY | os.O_TRUNC), ('new.txt', os.O_WRONLY | os.O_CREAT)]:
    try: os.open(name, flags); print('opened', name)
    except OSError as error: print(os.strerror(error.errno))
os.close(10)
os.close(os.open('free.txt', os.O_WRONLY | os.O_TRUNC | os.O_APPEND))
print(os.stat('free.txt').st_size)
";
    let run = |body: &str| -> Answer {
        mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", body]).output().unwrap().into()
    };
    let failing = &script[..script.find("os.close(10)").unwrap()];
    assert_eq!(run(failing).out, "Too many open files\n".repeat(2));
    assert_eq!(read(&world, "free.txt"), "anybody's\n");
    assert!(!world.root().join("new.txt").exists());
    assert_eq!(run(script).out, format!("{}0\n", "Too many open files\n".repeat(2)));
}

#[test]
fn a_program_that_believes_its_environment_finds_itself_where_it_was_started() {
    let world = world();
    let mut exec = mala(&world, ["-C", world.root().to_str().unwrap(), "exec", "--agent", "me"]);
    exec.args(["--", "printenv", "PWD"]).current_dir(world.base()).env("PWD", "/elsewhere");
    let answer: Answer = exec.output().unwrap().into();
    assert_eq!(answer.out.trim(), world.root().to_str().unwrap(), "{answer:?}");
}

#[test]
fn git_makes_worktrees_elsewhere_and_fills_them() {
    let world = world();
    let there = world.base().join("wt");
    let made =
        exec(&world, "me", &format!("git worktree add -q -b side {0} && cat {0}/free.txt", there.display()));
    assert_eq!((made.code, made.out.as_str()), (0, "anybody's\n"), "{made:?}");
    // In this checkout it still moves nothing, whatever the environment says.
    world.write("free.txt", "changed\n");
    let (root, git) = (world.root().display().to_string(), world.root().join(".git/worktrees/wt"));
    for (folder, work, options) in [
        (git.clone(), root.as_str(), "reset --hard"),
        (git.clone(), "/", "reset --hard"),
        (git.clone(), there.to_str().unwrap(), &format!("--work-tree={root} reset --hard")),
        (git.clone(), there.to_str().unwrap(), "reset --hard HEAD"),
        (world.root().join(".git"), there.to_str().unwrap(), "reset --hard"),
        (git.join("../.."), there.to_str().unwrap(), "reset --hard"),
    ] {
        let script = format!("GIT_DIR={} GIT_WORK_TREE={work} git {options}", folder.display());
        let answer = exec(&world, "me", &script);
        assert!(answer.code != 0 && answer.err.contains("mala: "), "{script}: {answer:?}");
    }
    let bare = exec(&world, "me", &format!("GIT_DIR={} git reset --hard", git.display()));
    assert!(bare.code != 0, "{bare:?}");
    assert_eq!(read(&world, "free.txt"), "changed\n");
}

#[test]
fn in_other_repositories_git_does_what_it_likes() {
    let world = world();
    let other = world.base().join("other");
    let script = format!(
        "git init -q {0} && cd {0} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a && git checkout -q -b b \
         && git stash -q && cd / && git -C {0} checkout -q -b c && git -C {0} branch --show-current",
        other.display()
    );
    assert_eq!(exec(&world, "me", &script).out, "c\n");
    for command in
        [&["git", "stash"][..], &["git", "reset", "--hard"], &["git", "-C", ".", "checkout", "-b", "x"]]
    {
        let words = ["exec", "--agent", "me", "--"].iter().chain(command);
        let answer: Answer = mala(&world, words).output().unwrap().into();
        assert!(answer.code != 0 && answer.err.contains("shared checkout"), "{command:?}: {answer:?}");
    }
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let world = world();
    let ignoring = "import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])";
    let words = [MALA, "exec", "--agent", "me", "--", "sh", "-c", "echo x > held.txt; exit 5"];
    let answer: Answer = world.command("python3").args(["-c", ignoring]).args(words).output().unwrap().into();
    assert_eq!((answer.code, read(&world, "held.txt").as_str()), (5, "theirs\n"), "{answer:?}");
}

#[test]
fn who_waits_for_the_other_end_of_a_pipe_hears_signals() {
    let world = world();
    let script = "
import os, signal
os.mkfifo('pipe')
def heard(*_): print('heard', flush=True); os._exit(0)
signal.signal(signal.SIGALRM, heard)
signal.alarm(1)
os.open('pipe', os.O_WRONLY)
";
    let answer: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "timeout", "20", "python3", "-c", script])
            .output()
            .unwrap()
            .into();
    assert_eq!((answer.code, answer.out.as_str()), (0, "heard\n"), "{answer:?}");
}

#[test]
fn a_program_is_found_in_path_and_keeps_its_name() {
    let world = world();
    mala_tests::write_script(&world.root().join("tools/tool"), "#!/bin/sh\necho found \"$@\"\n");
    std::fs::create_dir(world.root().join("empty")).unwrap();
    let path = format!("empty:tools:{}", std::env::var("PATH").unwrap());
    let run = |command: &[&str]| -> Answer {
        let words = ["exec", "--agent", "me", "--"].iter().chain(command);
        mala(&world, words).env("PATH", &path).output().unwrap().into()
    };
    for (command, out) in [
        (&["tool", "a b"][..], "found a b\n"),
        (&["tools/tool"], "found\n"),
        (&["bash", "-c", "echo $0"], "bash\n"),
    ] {
        let answer = run(command);
        assert_eq!((answer.code, answer.out.as_str()), (0, out), "{command:?}: {answer:?}");
    }
    let missing = run(&["no-such-tool"]);
    assert!(missing.code == 2 && missing.err.contains("`no-such-tool`: it is not in PATH"), "{missing:?}");
}

#[test]
fn an_index_that_no_git_knows_any_more_is_not_kept_open() {
    let world = world();
    let script =
        "for i in 1 2 3 4 5 6; do echo $i > free.txt; git add free.txt; git rev-parse HEAD; done; read line";
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", script]);
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let fds = format!("/proc/{}/fd", agent.id());
    let is_kept = || {
        let mut links = fs::read_dir(&fds).unwrap().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links.any(|link| link.to_string_lossy().contains(".git/index"))
    };
    eventually("all is staged", || world.git(&["diff", "--cached"]).contains("+6") && is_kept());
    eventually("what is known about the dead is forgotten", || !is_kept());
    drop(agent.stdin.take());
    agent.wait().unwrap();
}

#[test]
fn a_supervisor_may_have_more_files_open_than_its_agent() {
    let world = world();
    let script = "ulimit -Sn; supervisor=$(cut -d' ' -f4 /proc/$PPID/stat); grep 'open files' /proc/$supervisor/limits";
    let mut command = world.command("sh");
    command.args(["-c", "ulimit -Sn 200; exec \"$@\"", "sh"]);
    command.args([MALA, "exec", "--agent", "me", "--", "sh", "-c", script]).env_remove("MALA_AGENT");
    let answer: Answer = command.output().unwrap().into();
    let lines: Vec<&str> = answer.out.lines().collect();
    let [agents, supervisors] = lines[..] else { panic!("{answer:?}") };
    assert_eq!(agents, "200");
    let limits: Vec<&str> = supervisors.split_whitespace().skip(3).collect();
    assert!(limits[0] != "200" && limits[0] == limits[1], "{supervisors}");
}
