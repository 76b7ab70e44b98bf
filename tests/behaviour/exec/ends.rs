//! How an agent's tree begins and ends, and what it says about that.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mala_tests::{eventually, keeper_of};
use nix::sys::signal::Signal;
use walkdir::WalkDir;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done, held, mala, pair};

#[test]
fn exit_codes_signals_and_streams_pass_through() {
    let world = world();
    let answer = exec(&world, "me", "echo out; echo err >&2; exit 7");
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (7, "out\n", "err\n"));
    assert_eq!(exec(&world, "me", "kill -TERM $$").code, 128 + 15);
    let missing: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "no-such-program"]).output().unwrap().into();
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("cannot start `no-such-program`"), "{missing:?}");
}

#[test]
fn one_name_is_one_agent_at_a_time() {
    let world = world();
    let mut first = mala(&world, ["exec", "--agent", "twin", "--", "sh", "-c", "touch begun.txt; cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the first one runs", || world.root().join("begun.txt").exists());
    let answer = exec(&world, "twin", "true");
    assert!(answer.code == 1 && answer.err.contains("is running already"), "{answer:?}");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    let nested = exec(&world, "me", &format!("{MALA} exec --agent inner -- true"));
    assert!(nested.code == 1 && nested.err.contains("`mala exec` does not nest"), "{nested:?}");
    assert!(!nested.err.contains("does not protect") && nested.err.contains("hint: "), "{nested:?}");
}

#[test]
fn who_locks_by_a_name_and_then_runs_a_command_by_it_is_one_agent() {
    let world = world();
    let mistyped: Answer =
        mala(&world, ["exec", "--agent", "other", "--", "no-such"]).output().unwrap().into();
    assert_eq!(held(&world), [pair("held.txt", "other")], "nothing was started: {mistyped:?}");
    let other = exec(&world, "other", "echo mine >> held.txt && cat");
    assert_eq!((other.code, read(&world, "held.txt").as_str()), (0, "theirs\nmine\n"), "{other:?}");
    assert!(held(&world).is_empty(), "the agent ends with its command");
    done(&world, "lock acquire held.txt --agent other");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

#[test]
fn the_doctor_knows_that_an_agent_is_held_to_its_locks() {
    let world = world();
    let doctor = exec(&world, "me", &format!("{MALA} doctor --json")).json();
    let checks = doctor["checks"].as_array().unwrap();
    for name in ["store", "enforcement"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["status"], "ok", "{check}");
        assert!(check["detail"].as_str().unwrap().contains("supervisor"), "{check}");
    }
}

#[test]
fn output_into_a_file_of_the_checkout_is_refused_in_words() {
    let world = world();
    let out = fs::File::create(world.root().join("out.txt")).unwrap();
    let answer: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "true"]).stdout(out).output().unwrap().into();
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("standard output goes to a file in the checkout"), "{answer:?}");
    assert!(answer.err.contains("hint: send it elsewhere"), "{answer:?}");
}

#[test]
fn json_is_one_document_when_the_command_has_ended() {
    let world = world();
    let script = "echo printed; echo x > held.txt; exit 3";
    let answer: Answer =
        mala(&world, ["exec", "--json", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", script])
            .output()
            .unwrap()
            .into();
    let expected = serde_json::json!({
        "agent": "me", "issue": "bd-1", "enforced": true, "exit_code": 3, "signal": null,
        "refused": [{"program": "sh", "what": "held.txt", "times": 1}], "refused_besides": 0,
    });
    assert_eq!((answer.code, answer.json()), (3, expected));
    assert!(answer.err.contains("printed\n"), "{}", answer.err);
}

#[test]
fn the_whole_tree_ends_with_its_agent() {
    let world = world();
    let pid = world.base().join("pid");
    let file = pid.display();
    let script = format!(
        "(setsid sh -c 'echo $$ > {file}; exec sleep 600' >/dev/null 2>&1 &); while ! [ -s {file} ]; do sleep 0.01; done"
    );
    assert_eq!(exec(&world, "me", &script).code, 0);
    let daemon = fs::read_to_string(&pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(daemon.trim()).exists(), "the daemon was reaped");
}

#[test]
fn an_agent_that_has_ended_leaves_nothing_in_malas_folder() {
    let world = world();
    let files = || -> BTreeSet<PathBuf> {
        let all = WalkDir::new(world.root().join(".git/mala")).into_iter().flatten();
        all.filter(|entry| !entry.file_type().is_dir()).map(|entry| entry.into_path()).collect()
    };
    let killed_git = "sh -c 'set -C; : > .git/index.lock; kill -9 $$'; git add free.txt; echo > new";
    // Who removes git's left lock files takes turns, by a file that stays.
    assert_eq!(exec(&world, "me", killed_git).code, 0);
    let before = files();
    assert!(
        !before.iter().any(|file| file.extension().is_some_and(|ending| ending == "jsonl")),
        "{before:?}"
    );
    for script in ["true", "false", "kill -9 $$", "sleep 100 & echo > new", killed_git] {
        let answer = exec(&world, "me", script);
        assert_eq!(files(), before, "{script}: {answer:?}");
    }
}

#[test]
fn a_killed_supervisor_takes_the_tree_and_the_locks_with_it() {
    let world = world();
    let pid = world.base().join("pid");
    // One writer opens the file again and again, another one has it open.
    let script = format!(
        "echo $$ > {}; exec 3>> free.txt; (while :; do echo again >> free.txt; done) & while :; do echo open >&3; done",
        pid.display()
    );
    let mut supervisor = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("both write", || ["again", "open"].iter().all(|word| read(&world, "free.txt").contains(word)));
    supervisor.kill().unwrap();
    // Nobody has asked yet how it ended: what is left of it holds nothing.
    done(&world, "lock acquire free.txt --agent other --wait 2s");
    let then = read(&world, "free.txt");
    assert_eq!(supervisor.wait().unwrap().signal(), Some(9));
    let root = fs::read_to_string(&pid).unwrap();
    eventually("the tree is dead", || !std::path::Path::new("/proc").join(root.trim()).join("exe").exists());
    assert!(read(&world, "free.txt") == then, "nobody wrote to the file of another agent");
    let spares = || fs::read_dir(world.root().join(".git/mala/spares")).unwrap().count();
    assert_eq!(spares(), 1, "folders that it had made in advance");
    eventually("they are put away", || {
        done(&world, "clean");
        spares() == 0
    });
}

/// A process that does nothing for as long as this value lives.
struct Stopped(nix::unistd::Pid);

impl Stopped {
    fn now(pid: nix::unistd::Pid) -> Self {
        nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        nix::sys::signal::kill(self.0, Signal::SIGCONT).unwrap();
    }
}

#[test]
fn a_lock_of_the_dead_is_worth_nothing_while_their_programs_write_on() {
    let world = world();
    let script = "exec 3>> free.txt; while :; do echo open >&3; done";
    let mut supervisor = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it writes", || read(&world, "free.txt").contains("open"));
    // Whoever ends the tree when its supervisor is gone is slow.
    let stopped = Stopped::now(keeper_of(supervisor.id()).unwrap());
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let mut asking = mala(&world, ["lock", "acquire", "free.txt", "--agent", "other"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it is promised", || held(&world).contains(&pair("free.txt", "other")));
    std::thread::sleep(Duration::from_millis(100));
    assert!(asking.try_wait().unwrap().is_none(), "it has the lock while somebody else writes");
    drop(stopped);
    assert!(asking.wait().unwrap().success());
    let then = read(&world, "free.txt");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(read(&world, "free.txt").len(), then.len());
}

#[test]
fn git_starts_nothing_in_the_background_that_would_end_half_way_with_its_agent() {
    let world = world();
    let commit = "echo more >> free.txt; GIT_TRACE=$HOME/trace \
                  git -c user.name=x -c user.email=x@y commit -qam more";
    let starts_more = || {
        let trace = world.home().join("trace");
        let text = fs::read_to_string(&trace).unwrap();
        fs::remove_file(trace).unwrap();
        assert!(text.contains("git commit"), "{text}");
        text.contains("maintenance")
    };
    let answer = exec(&world, "me", commit);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!starts_more());
    assert!(world.command("sh").args(["-c", commit]).status().unwrap().success());
    assert!(starts_more(), "without mala");
}

#[test]
fn what_a_killed_supervisor_and_a_killed_test_leave_on_the_disk_is_listed_and_removed() {
    let world = world();
    let start = |args: &[&str]| {
        let mut command = mala(&world, args.iter().copied());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let state = world.state_dir();
    let inside = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let mut supervisor = start(&["exec", "--agent", "me", "--", "sh", "-c", "echo on > free.txt; sleep 600"]);
    let mut test = start(&["test", "--agent", "it", "--isolated", "--", "sleep", "600"]);
    eventually("the agent is at work", || read(&world, "free.txt") == "on\n");
    eventually("the test is at work", || {
        done(&world, "logs list --kind test.started --json").json()["events"].as_array().unwrap().len() == 1
    });
    let living = done(&world, "clean --dry-run --json").json()["leftovers"].clone();
    assert_eq!(living, serde_json::json!([]), "nothing of the living");
    for killed in [&mut supervisor, &mut test] {
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    // A test leaves its slot, which the next one uses.
    let left = [inside(&state.join("spares")), inside(&state.join("desk"))].concat();
    assert_eq!(left.len(), 2, "{left:?}");
    let listed = |answer: &Answer| -> Vec<PathBuf> {
        let all = answer.json()["leftovers"].as_array().unwrap().clone();
        let of_files = all.iter().filter(|it| it["kind"] == "files");
        of_files.map(|it| PathBuf::from(it["path"].as_str().unwrap())).collect()
    };
    eventually("their trees are dead, and it is listed", || {
        listed(&done(&world, "clean --dry-run --json")) == left
    });
    assert_eq!(listed(&done(&world, "clean --json")), left);
    assert!(left.iter().all(|path| !path.exists()), "{left:?}");
    assert_eq!(listed(&done(&world, "clean --dry-run --json")), Vec::<PathBuf>::new());
}
