//! `mala exec`: ownership is physical.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Stdio};

use mala_tests::{World, eventually};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// Runs a shell script as an agent under enforcement.
fn exec(world: &World, agent: &str, script: &str) -> Answer {
    mala(world, ["exec", "--agent", agent, "--", "sh", "-c", script]).output().unwrap().into()
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.root().join(path)).unwrap_or_default()
}

/// A checkout in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

#[test]
fn whatever_does_the_writing_a_held_file_stays_as_it_is() {
    let world = world();
    for attempt in [
        "echo x > held.txt",
        "echo x >> held.txt",
        "sed -i s/theirs/mine/ held.txt",
        "python3 -c 'open(\"held.txt\", \"w\").write(\"x\")'",
        "truncate -s 0 held.txt",
        "rm -f held.txt",
        "mv held.txt elsewhere.txt",
        "cp free.txt held.txt",
        "ln -f free.txt held.txt",
        "ln -s held.txt alias && echo x > alias",
        "chmod 000 held.txt",
        "dd if=/dev/zero of=held.txt bs=1 count=1 2>/dev/null",
        "git checkout -q HEAD~0 -- held.txt; git rm -q -f held.txt",
        "(setsid sh -c 'echo x > held.txt' &) ; sleep 0.2; false",
        "cd /proc/self/cwd && echo x > ./held.txt",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_eq!(read(&world, "held.txt"), "theirs\n", "{attempt}: {answer:?}");
        assert_ne!(answer.code, 0, "{attempt}: {answer:?}");
    }
}

#[test]
fn a_refused_write_names_the_holder_and_the_next_step() {
    let world = world();
    let answer = exec(&world, "me", "echo x > held.txt");
    assert!(answer.err.contains("mala: `held.txt` is held by `other` (issue bd-7)"), "{}", answer.err);
    assert!(answer.err.contains("mala lock acquire held.txt --wait"), "{}", answer.err);
    assert!(
        answer.err.contains("mala exec: refused 1: `held.txt` (sh)"),
        "and the end sums it up: {}",
        answer.err
    );
    let log = done(&world, "logs list --kind lock.refused --agent me --json").json();
    assert_eq!(log["events"][0]["path"], "held.txt");
}

#[test]
fn the_first_writer_takes_a_free_file_and_gives_it_back_at_its_end() {
    let world = world();
    let answer = exec(&world, "me", &format!("echo x > free.txt; echo y > new.txt; {MALA} lock list --json"));
    assert_eq!(answer.code, 0, "{answer:?}");
    let inside: Vec<_> =
        answer.json()["locks"].as_array().unwrap().iter().map(|l| l["path"].clone()).collect();
    assert_eq!(inside, ["free.txt", "held.txt", "new.txt"]);
    assert_eq!((read(&world, "free.txt").as_str(), read(&world, "new.txt").as_str()), ("x\n", "y\n"));
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

#[test]
fn two_agents_in_one_checkout_keep_off_each_others_files() {
    let world = world();
    let mut first = mala(&world, ["exec", "--agent", "ann", "--", "sh", "-c", "echo ann > free.txt; cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("ann holds the file", || held(&world).contains(&pair("free.txt", "ann")));
    assert_ne!(exec(&world, "bob", "sed -i s/ann/bob/ free.txt").code, 0);
    assert_eq!(read(&world, "free.txt"), "ann\n");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(exec(&world, "bob", "sed -i s/ann/bob/ free.txt").code, 0);
    assert_eq!(read(&world, "free.txt"), "bob\n");
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

#[test]
fn strict_agents_lock_before_they_write() {
    let world = world();
    let strict = |script: &str| -> Answer {
        mala(&world, ["exec", "--agent", "me", "--strict", "--", "sh", "-c", script]).output().unwrap().into()
    };
    let refused = strict("echo x > free.txt");
    assert!(refused.code != 0 && refused.err.contains("mala lock acquire free.txt"), "{refused:?}");
    assert_eq!(read(&world, "free.txt"), "anybody's\n");
    assert_eq!(
        strict(&format!("{MALA} lock acquire free.txt && echo x > free.txt && echo y > new.txt")).code,
        0
    );
    assert_eq!(read(&world, "free.txt"), "x\n");
    let configured = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", "echo z > free.txt"])
        .env("MALA_ENFORCEMENT_UNLOCKED", "deny")
        .status();
    assert!(!configured.unwrap().success(), "the settings can ask for it too");
}

#[test]
fn ignored_files_need_no_lock_and_git_goes_on_working() {
    let world = world();
    world.write(".gitignore", "target/\n");
    let script = format!(
        "mkdir -p target/deep && echo x > target/deep/out && {MALA} lock list --json && echo mine >> free.txt && \
         git add free.txt && git -c user.name=a -c user.email=a@example.invalid commit -q -m mine"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["locks"].as_array().unwrap().len(), 1, "only what `other` holds");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "mine");
}

#[test]
fn git_does_not_move_a_shared_tree() {
    let world = world();
    world.git(&["branch", "elsewhere"]);
    world.write("free.txt", "changed\n");
    for attempt in [
        "git stash",
        "git reset -q --hard",
        "git checkout -q elsewhere",
        "git switch -q elsewhere",
        "git clean -fdx",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_ne!(answer.code, 0, "{attempt}");
        assert!(answer.err.contains("is refused in a shared checkout"), "{attempt}: {}", answer.err);
    }
    assert_eq!(read(&world, "free.txt"), "changed\n");
    let own = exec(
        &world,
        "me",
        "git checkout -q -- free.txt && git commit -q --allow-empty -m 'git stash' 2>&1; git log -1 --format=%s",
    );
    assert_eq!(read(&world, "free.txt"), "anybody's\n", "one's own file is another matter: {own:?}");
    done(&world, "lock release --all --agent other");
    let whole = exec(
        &world,
        "me",
        &format!("echo x > free.txt && {MALA} lock acquire . && git stash -q && git stash list"),
    );
    assert!(whole.code == 0 && whole.out.contains("stash@{0}"), "who holds everything may: {whole:?}");
}

#[test]
fn hooks_configuration_and_state_are_out_of_reach() {
    let world = world();
    for attempt in [
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "git config user.name x",
        "echo x >> .git/config",
        "echo x > .git/mala/state.db",
        "rm -rf .git/mala",
        "mv .git/mala .git/elsewhere",
        "mv .git .elsewhere",
        "rm .git/HEAD",
    ] {
        assert_ne!(exec(&world, "me", attempt).code, 0, "{attempt}");
    }
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    assert!(!world.root().join(".git/hooks/pre-commit").exists());
}

#[test]
fn a_temporary_file_that_becomes_the_real_one_leaves_one_lock() {
    let world = world();
    let answer =
        exec(&world, "me", &format!("sed -i s/anybody/some/ free.txt && {MALA} lock list --agent me --json"));
    let locks = answer.json()["locks"].clone();
    assert_eq!((locks.as_array().unwrap().len(), &locks[0]["path"]), (1, &"free.txt".into()), "{locks}");
}

#[test]
fn exit_codes_signals_and_streams_pass_through() {
    let world = world();
    let answer = exec(&world, "me", "echo out; echo err >&2; exit 7");
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (7, "out\n", "err\n"));
    assert_eq!(exec(&world, "me", "kill -TERM $$").code, 128 + 15);
    let missing: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "no-such-program"]).output().unwrap().into();
    assert_eq!(missing.code, 2, "{missing:?}");
}

/// Nothing of an agent is left: no lock, no process, no socket.
fn assert_nothing_left(world: &World) {
    assert_eq!(held(world), [pair("held.txt", "other")]);
    let sockets = fs::read_dir(world.state_dir().join("desk")).unwrap().count();
    assert_eq!(sockets, 0, "a socket is left");
    let base = world.base().display().to_string();
    let is_ours = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("environ"))
            .is_ok_and(|text| text.windows(base.len()).any(|part| part == base.as_bytes()))
    };
    let left: Vec<_> = fs::read_dir("/proc").unwrap().flatten().filter(is_ours).collect();
    assert!(left.is_empty(), "processes are left: {left:?}");
}

const WAIT: &str = "while :; do sleep 0.01; done";

/// Starts an agent in a process group of its own that says `ready` between the two scripts.
fn ready(world: &World, before: &str, after: &str) -> (Child, BufReader<ChildStdout>) {
    let script = format!("{before}; echo x > free.txt; echo ready; {after}");
    let mut agent = mala(world, ["exec", "--agent", "me", "--", "bash", "-c", &script])
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(agent.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (agent, out)
}

fn pid_of(agent: &Child) -> Pid {
    Pid::from_raw(i32::try_from(agent.id()).unwrap())
}

const SIGNALS: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

#[test]
fn signals_to_the_supervisor_reach_the_command_and_nothing_is_left() {
    let world = world();
    for signal in SIGNALS {
        let (mut agent, mut out) = ready(&world, &format!("trap 'echo got it; exit 7' {}", signal as i32), WAIT);
        kill(pid_of(&agent), signal).unwrap();
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert_eq!((agent.wait().unwrap().code(), said.as_str()), (Some(7), "got it\n"), "{signal}");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_command_that_a_signal_ends_says_so_by_its_code() {
    let world = world();
    for signal in SIGNALS {
        let (mut agent, mut out) = ready(&world, "ulimit -c 0", "echo $$; exec sleep 600");
        let mut pid = String::new();
        out.read_line(&mut pid).unwrap();
        // A shell has its own ways with signals.
        let program = || fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
        eventually("it is another program", || program() == "sleep\n");
        kill(pid_of(&agent), signal).unwrap();
        assert_eq!(agent.wait().unwrap().code(), Some(128 + signal as i32), "{signal}");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_command_once() {
    let world = world();
    let (mut agent, mut out) =
        ready(&world, "trap 'echo group' HUP; trap 'echo alone' USR1; trap 'exit 0' USR2", WAIT);
    let mut heard = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    for _ in 0..3 {
        killpg(pid_of(&agent), Signal::SIGHUP).unwrap();
        assert_eq!(heard(), "group\n");
        // A second one of the same kind that was passed on would have come before this one.
        kill(pid_of(&agent), Signal::SIGUSR1).unwrap();
        assert_eq!(heard(), "alone\n");
        kill(pid_of(&agent), Signal::SIGHUP).unwrap();
        assert_eq!(heard(), "group\n", "and one to the supervisor alone is not mistaken for it");
    }
    kill(pid_of(&agent), Signal::SIGUSR2).unwrap();
    assert_eq!((heard().as_str(), agent.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn one_name_is_one_agent_at_a_time() {
    let world = world();
    let answer = exec(&world, "other", "true");
    assert!(answer.code == 1 && answer.err.contains("is running already"), "{answer:?}");
    let nested = exec(&world, "me", &format!("{MALA} exec --agent inner -- true"));
    assert!(nested.code == 1 && nested.err.contains("already inside"), "{nested:?}");
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
fn a_killed_supervisor_takes_the_tree_and_the_locks_with_it() {
    let world = world();
    let pid = world.base().join("pid");
    let script = format!("echo $$ > {}; echo x > free.txt; sleep 600", pid.display());
    let mut supervisor = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &script]).spawn().unwrap();
    eventually("the agent holds the file", || held(&world).contains(&pair("free.txt", "me")));
    supervisor.kill().unwrap();
    assert_eq!(supervisor.wait().unwrap().signal(), Some(9));
    assert_eq!(held(&world), [pair("held.txt", "other")], "its locks are free at once");
    let root = fs::read_to_string(&pid).unwrap();
    eventually("the tree is dead", || !std::path::Path::new("/proc").join(root.trim()).join("exe").exists());
    done(&world, "lock acquire free.txt --agent other");
}

#[test]
fn a_file_that_is_still_open_for_writing_is_not_handed_on() {
    let world = world();
    let script = format!(
        "exec 3>> free.txt; {MALA} lock release free.txt; echo first $?; {MALA} lock transfer --from me --to other; \
         echo second $?; exec 3>&-; {MALA} lock release free.txt; echo third $?"
    );
    let answer = exec(&world, "me", &script);
    assert!(answer.out.contains("first 1") && answer.out.contains("second 1"), "{answer:?}");
    assert!(answer.out.contains("third 0"), "{answer:?}");
    assert!(answer.err.contains("`free.txt` is still open for writing by"), "{}", answer.err);
}

#[test]
fn a_file_opened_under_a_pattern_is_drained_too() {
    let world = world();
    let script = format!(
        "{MALA} lock acquire '*.txt' 2>/dev/null; {MALA} lock acquire 'src/**'; mkdir -p src; \
         exec 3> src/new.txt; {MALA} lock release 'src/**'; echo first $?"
    );
    let answer = exec(&world, "me", &script);
    assert!(answer.out.contains("first 1"), "{answer:?}");
    assert!(answer.err.contains("`src/new.txt` is still open for writing by sh"), "{}", answer.err);
}

#[test]
fn a_lock_lost_while_the_file_is_open_is_reported_loudly_and_recorded() {
    let world = world();
    let mut agent = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", "exec 3>> free.txt; cat"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the agent holds the file", || held(&world).contains(&pair("free.txt", "me")));
    // Nothing in mala takes a lock from a live agent just like that; somebody with a database at hand can.
    world.sql().execute("DELETE FROM lock WHERE agent = 'me'", []).unwrap();
    let lost = || done(&world, "logs list --kind lock.lost --agent me --json").json();
    eventually("it is noticed", || lost()["events"].as_array().unwrap().len() == 1);
    assert_eq!(lost()["events"][0]["path"], "free.txt");
    drop(agent.stdin.take());
    let answer: Answer = agent.wait_with_output().unwrap().into();
    assert!(answer.err.contains("lock lost: `free.txt` is still open in sh"), "{}", answer.err);
}
