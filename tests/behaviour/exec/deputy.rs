//! The supervisor has rights that the tree does not have, and does not use them for it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mala_tests::{World, eventually, write_script};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done, held, mala, pair};

/// A program that writes to the held file when it is run outside of the tree, as far as it can.
fn intruder(world: &World) -> PathBuf {
    let program = world.base().join("intruder");
    let held = world.root().join("held.txt");
    fs::write(&program, format!("#!/bin/sh\necho intruder > {}\ncat\n", held.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A repository with a changed file; to look at that, git runs the intruder.
fn booby_trap(world: &World, repo: PathBuf) -> PathBuf {
    let at = repo.to_str().unwrap();
    world.git(&["init", "-q", at]);
    fs::write(repo.join("file.txt"), "first\n").unwrap();
    world.git(&["-C", at, "add", "."]);
    world.git(&["-C", at, "commit", "-q", "-m", "first"]);
    world.git(&["-C", at, "config", "filter.x.clean", intruder(world).to_str().unwrap()]);
    fs::write(repo.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(repo.join("mala.toml"), "[validate]\nclean = true\n").unwrap();
    fs::write(repo.join("file.txt"), "other\n").unwrap();
    repo
}

#[test]
fn a_command_of_the_tree_acts_on_its_own_checkout_alone() {
    let world = world();
    let other = booby_trap(&world, world.base().join("other"));
    let other = other.display();
    let refused = |answer: &Answer| {
        answer.code == 1
            && answer.err.contains(&format!("`{other}` is not in the checkout of this agent"))
            && answer.err.contains(&format!("go to `{}`", world.root().display()))
    };
    for command in
        ["gate check", "gate pre-commit", "clean", "status", "lock list", "issue list", "logs list"]
    {
        let answer = exec(&world, "me", &format!("{MALA} -C {other} {command}"));
        assert!(refused(&answer), "{command}: {answer:?}");
        let answer = exec(&world, "me", &format!("cd {other} && {MALA} {command}"));
        assert!(refused(&answer), "{command}, there: {answer:?}");
    }
    let call = format!(
        r#"{{"hook_event_name": "Stop", "session_id": "s", "cwd": "{other}", "tool_name": "", "tool_input": {{}}}}"#
    );
    let answer = exec(&world, "me", &format!("echo '{call}' | {MALA} hook claude"));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(read(&world, "held.txt"), "theirs\n");
    assert!(!world.base().join("other/.git/mala").exists(), "the supervisor has opened a store there");
    let inside =
        exec(&world, "me", &format!("mkdir -p a/b && cd a/b && {MALA} lock list && {MALA} -C .. status"));
    assert_eq!(inside.code, 0, "{inside:?}");
}

#[test]
fn what_a_repository_in_the_checkout_configures_is_run_by_nobody() {
    let world = world();
    let module = booby_trap(&world, world.root().join("module"));
    world.git(&["config", "advice.addEmbeddedRepo", "false"]);
    world.git(&["add", "module"]);
    let at = module.to_str().unwrap();
    for step in ["staged", "committed", "watched"] {
        let answer = exec(&world, "me", &format!("{MALA} test -- true; {MALA} gate check; {MALA} status"));
        assert!(!answer.err.contains("counts for nothing"), "{answer:?}");
        done(&world, "test --agent me -- true");
        assert_eq!(read(&world, "held.txt"), "theirs\n", "{step}: {answer:?}");
        match step {
            "staged" => world.git(&["commit", "-q", "-m", "module", "--", "module"]),
            _ => world.git(&["-C", at, "config", "core.fsmonitor", intruder(&world).to_str().unwrap()]),
        };
    }
    let record = done(&world, "logs list evidence --json").json();
    let files = &record["evidence"][0]["files"];
    assert_eq!(files["module"], "unknown", "that it is changed is seen all the same: {record}");
}

#[test]
fn a_slot_leads_nobody_elsewhere_whatever_a_test_writes_there() {
    let world = world();
    let other = booby_trap(&world, world.base().join("other"));
    let script = format!(
        "echo {}/.git > ../git/commondir; echo '* filter=x' > .gitattributes; echo x > free.txt",
        other.display()
    );
    let answer = exec(&world, "me", &format!("{MALA} test --isolated --json -- sh -c \"{script}\""));
    assert_eq!((answer.code, read(&world, "held.txt").as_str()), (0, "theirs\n"), "{answer:?}");
    assert_eq!(answer.json()["after"].as_object().unwrap().len(), 2, "what it changed is seen: {answer:?}");
    assert!(
        answer.err.contains("ermission denied"),
        "the slot's own git directory is out of reach: {answer:?}"
    );
}

/// Outside of the checkout, agents write what they like: also what git reads, and where it is looked for.
#[test]
fn the_supervisors_git_is_the_one_from_before_the_agent() {
    let world = world();
    let (home, bin) = (world.base().join("home"), world.base().join("bin"));
    for folder in [&home, &bin] {
        fs::create_dir_all(folder).unwrap();
    }
    let held = world.root().join("held.txt").display().to_string();
    let script = format!(
        "cat > {0}/git <<'END'
#!/bin/sh
echo by another git >> {held}
PATH=${{PATH#*:}} exec git \"$@\"
END
        chmod +x {0}/git; cp {0}/git {0}/filter
        git config --file $HOME/.gitconfig filter.x.clean {0}/filter
        git config --file $HOME/.gitconfig trace2.normalTarget {held}
        echo '* filter=x' > .gitattributes; echo x > free.txt; echo x > new.txt
        {MALA} gate check; {MALA} test -- true; {MALA} status; true",
        bin.display()
    );
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &script]);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let answer: Answer = command.env("HOME", &home).env("PATH", path).output().unwrap().into();
    assert_eq!((answer.code, read(&world, "held.txt").as_str()), (0, "theirs\n"), "{answer:?}");
}

/// Tells git who commits.
fn introduce(world: &World) {
    for (name, value) in [("user.name", "Ann"), ("user.email", "ann@example.com")] {
        world.git(&["config", name, value]);
    }
}

/// Where git's hooks are files of the checkout, agents write them.
#[test]
fn taking_a_commit_back_runs_no_hook_of_the_agents() {
    let world = world();
    introduce(&world);
    world.git(&["config", "core.hooksPath", "hooks"]);
    let held = world.root().join("held.txt").display().to_string();
    let script = format!(
        "mkdir hooks
        for hook in post-index-change reference-transaction; do
            printf '#!/bin/sh\necho by a hook >> {held}\nexit 0\n' > hooks/$hook; chmod +x hooks/$hook
        done
        git add hooks && git commit -q -m mine && {MALA} commit --undo"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!((answer.code, read(&world, "held.txt").as_str()), (0, "theirs\n"), "{answer:?}");
    assert_eq!(world.git(&["log", "--format=%s"]), "start");
    assert!(read(&world, "hooks/post-index-change").contains("by a hook"), "and it is uncommitted again");
}

#[test]
fn people_have_their_hooks_when_they_take_a_commit_back() {
    let world = world();
    introduce(&world);
    let ran = world.base().join("ran");
    let hook = world.root().join(".git/hooks/reference-transaction");
    write_script(&hook, &format!("#!/bin/sh\necho $1 >> {}\n", ran.display()));
    let committed = || {
        let lines = fs::read_to_string(&ran).unwrap_or_default();
        lines.lines().filter(|line| *line == "committed").count()
    };
    done(&world, "lock acquire own.txt --agent ann");
    world.write("own.txt", "own\n");
    done(&world, "commit --agent ann -m own");
    let before = committed();
    done(&world, "commit --agent ann --undo");
    assert!(before > 0 && committed() > before, "{before}, {}", committed());
}

/// Runs mala, but not for long.
fn soon(world: &World, args: &[&str]) -> Answer {
    let mut command = world.command("timeout");
    command.args(["--kill-after=1", "10", MALA]).args(args).env_remove("MALA_AGENT");
    command.stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let world = world();
    let pipe = |path: &str| mkfifo(&world.root().join(path), Mode::S_IRWXU).unwrap();
    pipe("mala.toml");
    for args in [&["exec", "--agent", "me", "--", "true"][..], &["clean"], &["status"]] {
        let answer = soon(&world, args);
        assert!(answer.code == 2 && answer.err.contains("mala.toml"), "{args:?}: {answer:?}");
    }
    fs::remove_file(world.root().join("mala.toml")).unwrap();
    // Git would be asked about this one before the agent starts.
    fs::create_dir_all(world.root().join("sub/built")).unwrap();
    fs::write(world.root().join(".gitignore"), "built\n").unwrap();
    pipe("sub/.gitignore");
    let answer = soon(&world, &["exec", "--agent", "me", "--", "sh", "-c", "echo x > sub/x"]);
    assert_eq!((answer.code, read(&world, "sub/x").as_str()), (0, "x\n"), "{answer:?}");
    fs::remove_file(world.root().join("sub/.gitignore")).unwrap();
    fs::create_dir_all(world.root().join(".git/info")).unwrap();
    pipe(".git/info/exclude");
    let answer = soon(&world, &["exec", "--agent", "me", "--", "sh", "-c", "echo y > sub/y"]);
    assert_eq!((answer.code, read(&world, "sub/y").as_str()), (0, "y\n"), "{answer:?}");
    fs::remove_file(world.root().join(".git/info/exclude")).unwrap();
    pipe("words");
    for command in ["gate commit-msg words", "issue import words", "issue import /dev/zero"] {
        let script = format!("exec {MALA} {command}");
        let answer = soon(&world, &["exec", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", &script]);
        assert!(answer.code == 2 && answer.err.contains("not a regular file"), "{command}: {answer:?}");
    }
}

#[test]
fn a_turn_that_somebody_keeps_stops_nobody() {
    let world = world();
    assert_eq!(exec(&world, "me", "true").code, 0);
    let turn = world.root().join(".git/mala/git-locks/turn");
    let turn = fs::OpenOptions::new().create(true).append(true).open(turn).unwrap();
    turn.lock().unwrap();
    let lock = world.root().join(".git/index.lock");
    let script = "sh -c 'set -C; : > .git/index.lock; kill -9 $$'; true";
    let answer = soon(&world, &["exec", "--agent", "me", "--", "sh", "-c", script]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(soon(&world, &["clean"]).code, 0);
    assert!(lock.exists(), "without a turn nothing is removed");
    drop(turn);
    done(&world, "clean");
    assert!(!lock.exists(), "and later it is");
}

/// Connects to the supervisor so many times and asks nothing, until it is told to ask something.
const IDLE: &str = r#"
import os, socket, sys
print("ready", flush=True)
sys.stdin.readline()
crowd = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[2]))]
for s in crowd: s.connect(os.environ["MALA_SUPERVISOR"])
print("connected", flush=True)
sys.stdin.readline()
os.execvp("timeout", ["timeout", "20", sys.argv[1], "whoami"])
"#;

/// An agent that crowds the desk of its supervisor, when it is told to.
struct Crowd {
    supervisor: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Crowd {
    fn of(mut command: Command, program: &Path, size: u32) -> Self {
        command
            .args(["exec", "--agent", "me", "--", "python3", "-c", IDLE])
            .arg(program)
            .arg(size.to_string());
        command.env_remove("MALA_AGENT").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut supervisor = command.spawn().unwrap();
        let input = supervisor.stdin.take().unwrap();
        let mut output = BufReader::new(supervisor.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Self { supervisor, input, output }
    }

    fn go_on(&mut self) -> String {
        self.input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn a_crowd_at_the_supervisors_desk_does_no_harm() {
    let world = world();
    let mut crowd = Crowd::of(world.command(MALA), Path::new(MALA), 100);
    assert_eq!(crowd.go_on(), "connected\n");
    std::thread::sleep(Duration::from_millis(200));
    let threads = fs::read_dir(format!("/proc/{}/task", crowd.supervisor.id())).unwrap().count();
    assert!(threads < 90, "{threads}");
    assert!(crowd.go_on().contains("me"));
    assert!(crowd.supervisor.wait().unwrap().success());
}

#[test]
fn a_supervisor_that_had_no_thread_to_spare_answers_later() {
    const NOBODY: &str = "65534";
    let world = world();
    // No limit holds for root.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut program = PathBuf::from(MALA);
    if is_root {
        program = world.base().join("mala");
        fs::copy(MALA, &program).unwrap();
        let given = Command::new("chown").args(["-R", "65534:65534"]).arg(world.base()).status();
        assert!(given.unwrap().success());
    }
    let ordinary = |program: &Path| {
        let mut command = world.command("setpriv");
        if is_root {
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        }
        command.arg(program);
        command
    };
    let mut crowd = Crowd::of(ordinary(&program), &program, 3);
    let pid = crowd.supervisor.id().to_string();
    let limit = |limit: &str| {
        let mut command = ordinary(Path::new("prlimit"));
        assert!(command.args(["--pid", &pid, &format!("--nproc={limit}:")]).status().unwrap().success());
    };
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let usual = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
    let usual = usual.split_whitespace().next().unwrap();
    limit("1");
    let connected = crowd.go_on();
    std::thread::sleep(Duration::from_millis(200));
    limit(usual);
    assert_eq!(connected, "connected\n");
    assert!(crowd.go_on().contains("me"));
    assert!(crowd.supervisor.wait().unwrap().success());
}

/// Makes one of git's lock files whenever it is told to, and says how that went.
const MAKER: &str = r#"
import errno, os, sys
print("ready", flush=True)
for line in sys.stdin:
    try:
        os.close(os.open(".git/x.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        print("made", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"#;

#[test]
fn a_supervisor_that_can_open_nothing_more_says_so() {
    let world = world();
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", MAKER]);
    let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = supervisor.stdin.take().unwrap();
    let mut said = BufReader::new(supervisor.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "ready");
    let pid = supervisor.id().to_string();
    let mut try_with = |limit: u32| {
        let mut prlimit = world.command("prlimit");
        assert!(prlimit.args(["--pid", &pid, &format!("--nofile={limit}:")]).status().unwrap().success());
        input.write_all(b"\n").unwrap();
        said.next().unwrap()
    };
    // Each is the first thing that cannot be opened any more.
    let said: Vec<String> = (3..200).map(&mut try_with).take_while(|said| said != "made").collect();
    assert!(said.len() < 197 && said.iter().all(|said| said == "EMFILE"), "{said:?}");
    try_with(1024);
    drop(input);
    assert!(supervisor.wait().unwrap().success());
}

/// Listens where a supervisor would, says yes to whatever it is asked, and tells how much that was.
const FALSE_DESK: &str = r#"
import socket, sys
desk = socket.socket(socket.AF_UNIX); desk.bind(sys.argv[1]); desk.listen(); print("open", flush=True)
while True:
    asker = desk.accept()[0]; heard = 0
    while text := asker.recv(4096): heard += len(text)
    print(heard, flush=True)
    try: asker.send(b"\0")
    except OSError: pass
    asker.close()
"#;

#[test]
fn a_supervisor_shows_nothing_to_whoever_is_gone() {
    let world = world();
    let piped = exec(&world, "me", &format!("{MALA} status --watch --json | head -1; echo over"));
    assert!(piped.out.starts_with("{") && piped.out.ends_with("over\n"), "{piped:?}");
    let shown = world.base().join("shown");
    let script = format!("{MALA} status --watch > {} & read line; kill -9 $!; read line", shown.display());
    let mut agent = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let fds = format!("/proc/{}/fd", agent.id());
    let is_shown = || {
        let mut links = fs::read_dir(&fds).unwrap().flatten().map(|entry| fs::read_link(entry.path()));
        links.any(|link| link.is_ok_and(|link| link == shown))
    };
    eventually("the supervisor shows the status", is_shown);
    agent.stdin.as_mut().unwrap().write_all(b"kill it\n").unwrap();
    eventually("the supervisor goes on with other things", || !is_shown());
    drop(agent.stdin.take());
    agent.wait().unwrap();
}

#[test]
fn only_who_started_a_process_is_its_supervisor() {
    let world = world();
    assert_eq!(exec(&world, "me", "true").code, 0);
    let socket = world.root().join(".git/mala/desk/1.sock");
    let mut desk = world.command("python3");
    desk.args(["-c", FALSE_DESK]).arg(&socket).stdout(Stdio::piped());
    let mut desk = desk.spawn().unwrap();
    let mut said = BufReader::new(desk.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "open");
    let named = exec(&world, "me", &format!("MALA_SUPERVISOR={} {MALA} whoami", socket.display()));
    assert!(named.code == 3 && named.err.contains("did not start this one"), "{named:?}");
    let found = exec(&world, "me", &format!("env -u MALA_SUPERVISOR {MALA} mcp < /dev/null"));
    assert_eq!(found.code, 0, "{found:?}");
    desk.kill().unwrap();
    desk.wait().unwrap();
    // Whoever has found the true one first does not try this one.
    let heard: Vec<String> = said.collect();
    assert!(heard.iter().all(|heard| heard == "0"), "it was asked something: {heard:?}");
}

#[test]
fn inside_the_tree_nobody_is_anybody_else() {
    let world = world();
    let script = format!(
        "MALA_AGENT=other {MALA} lock release held.txt --agent other; {MALA} lock acquire x --agent other --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.json()["granted"][0]["agent"], "me");
    assert!(answer.err.contains("you act as `me`"), "{}", answer.err);
    let hidden = exec(&world, "me", &format!("unset MALA_SUPERVISOR; {MALA} lock acquire x --agent other"));
    assert_eq!(hidden.code, 3, "without its supervisor it gets nothing: {hidden:?}");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

/// Talks to the supervisor without mala: whatever is in `args`, with its own standard streams.
const FORGED: &str = r#"
import os, socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MALA_SUPERVISOR"])
socket.send_fds(s, [b"\0"], [0, 1, 2])
for text in [os.getcwd(), "mala"] + sys.argv[1:]:
    s.sendall(struct.pack("<Q", len(text)) + text.encode())
s.shutdown(socket.SHUT_WR); answer = s.recv(1); sys.exit(answer[0] if answer else 99)
"#;

#[test]
fn the_supervisor_is_no_deputy() {
    let world = world();
    fs::write(world.base().join("forged.py"), FORGED).unwrap();
    let forged = format!("python3 {}", world.base().join("forged.py").display());
    assert_eq!(
        exec(&world, "me", &format!("{forged} lock check free.txt")).code,
        0,
        "the forgery itself works"
    );
    for command in [
        "exec --agent evil -- cp free.txt held.txt",
        "man --out .",
        "demo --folder demo",
        "test -- cp free.txt held.txt",
    ] {
        assert_eq!(exec(&world, "me", &format!("{forged} {command}")).code, 2, "{command}");
    }
    assert_eq!(exec(&world, "me", &format!("{MALA} lock transfer --from other --to me")).code, 1);
    assert_eq!(exec(&world, "me", &format!("{MALA} clean --force")).code, 1);
    assert_eq!(read(&world, "held.txt"), "theirs\n");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    assert_eq!(world.git(&["status", "--short"]), "", "and nothing was made");
}
