//! A file that changes hands is its new holder's alone, whatever the last one has begun or left open.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use mala_tests::{World, eventually};
use serde_json::json;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done, held, mala, pair};

/// Exchanges two names.
const EXCHANGE: &str = "import ctypes, sys; a, b = map(str.encode, sys.argv[1:]); ctypes.CDLL(None).renameat2(-100, a, -100, b, 2)";

/// Runs a script as `me` until its input ends, and waits until it has come to `touch ready.log`.
fn begin(world: &World, script: &str) -> Child {
    let agent = mala(world, ["exec", "--agent", "me", "--", "bash", "-c", &format!("{script}; cat")])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it has begun", || world.root().join("ready.log").exists());
    agent
}

fn world_with_folders() -> World {
    let world = world();
    world.write(".gitignore", "*.log\n");
    world.write("a/f", "a\n");
    world.write("b/f", "b\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "folders"]);
    world
}

#[test]
fn a_lock_is_not_given_on_a_file_that_another_agent_still_writes() {
    let world = world_with_folders();
    let mut me = begin(&world, "exec 3>> free.txt; touch ready.log");
    // However it comes that the lock is free.
    world.sql().execute("DELETE FROM lock WHERE agent = 'me'", []).unwrap();
    for answer in [
        exec(&world, "third", "echo third >> free.txt"),
        exec(&world, "third", &format!("{MALA} lock acquire free.txt")),
        mala(&world, ["lock", "acquire", "free.txt", "--agent", "other"]).output().unwrap().into(),
    ] {
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(answer.err.contains("`free.txt` is still open for writing by"), "{answer:?}");
        assert!(!held(&world).iter().any(|lock| lock.0 == "free.txt"), "it was given back");
    }
    drop(me.stdin.take());
    me.wait().unwrap();
    assert_eq!(read(&world, "free.txt"), "anybody's\n");
    let own = format!("exec 3>> free.txt; {MALA} lock acquire free.txt && echo third >> free.txt");
    assert_eq!(exec(&world, "third", &own).code, 0, "what one has open oneself is no obstacle");
    assert_eq!(read(&world, "free.txt"), "anybody's\nthird\n");
}

#[test]
fn what_is_open_in_exchanged_folders_is_not_handed_on() {
    let world = world_with_folders();
    for (open, now) in [("a/f", "b/f"), ("b/f", "a/f")] {
        let script =
            format!("exec 3>> {open}; python3 -c '{EXCHANGE}' a b; {MALA} lock release --all; echo $?");
        let answer = exec(&world, "me", &script);
        assert_eq!(answer.out, "1\n", "{answer:?}");
        assert!(answer.err.contains(&format!("`{now}` is still open for writing")), "{answer:?}");
    }
}

#[test]
fn an_exchanged_name_stays_locked() {
    let world = world_with_folders();
    // Another lock, so that these are looked up again.
    let script = format!(
        "echo > new.txt; echo >> free.txt; {MALA} lock acquire z >/dev/null; python3 -c '{EXCHANGE}' new.txt free.txt; \
         {MALA} lock list --agent me"
    );
    let answer = exec(&world, "me", &script);
    assert!(answer.out.contains("new.txt") && answer.out.contains("free.txt"), "{answer:?}");
}

#[test]
fn the_end_of_a_turn_gives_no_file_back_that_is_open() {
    let world = world_with_folders();
    let stop = json!({ "hook_event_name": "Stop", "session_id": "s", "cwd": world.root(), "stop_hook_active": false });
    world.write("stop.log", &stop.to_string());
    let script =
        format!("exec 3>> free.txt; {MALA} lock acquire a/f; {MALA} hook claude < stop.log; touch ready.log");
    let mut me = begin(&world, &script);
    assert!(held(&world).contains(&pair("free.txt", "me")), "{:?}", held(&world));
    assert!(!held(&world).contains(&pair("a/f", "me")), "it is not open");
    drop(me.stdin.take());
    me.wait().unwrap();
}

#[test]
fn a_lock_is_not_given_back_before_what_it_allowed_is_done() {
    let world = world_with_folders();
    let script = r"
import ctypes, os, subprocess, sys, threading, time
mala = sys.argv[1]
libc = ctypes.CDLL(None)
for folder in range(40):
    os.makedirs('.git/big/%d' % folder)
    for file in range(1000): os.close(os.open('.git/big/%d/%d' % (folder, file), os.O_CREAT | os.O_WRONLY))
open('mine.txt', 'w').write('mine\n')
subprocess.run([mala, 'lock', 'acquire', 'free.txt'], check=True)
# The second one waits for the first one, which takes its time.
renames = [(b'.git/big', b'big.log'), (b'mine.txt', b'free.txt')]
threads = [threading.Thread(target=libc.rename, args=names) for names in renames]
for thread in threads: thread.start(); time.sleep(0.05)
released = subprocess.run([mala, 'lock', 'release', 'free.txt'])
then = open('free.txt').read()
for thread in threads: thread.join()
print(released.returncode, then == open('free.txt').read())
";
    let answer: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", script, MALA]).output().unwrap().into();
    assert!(answer.out.ends_with("0 True\n") || answer.out.contains("1 "), "{answer:?}");
}

#[test]
fn a_folder_that_is_too_deep_for_a_pattern_does_not_move_with_what_others_hold() {
    for path in [vec!["d".repeat(200); 4].join("/"), vec!["d"; 64].join("/")] {
        let world = world();
        world.write(&format!("{path}/theirs.txt"), "theirs\n");
        done(&world, &format!("lock acquire {path}/theirs.txt --agent other"));
        let answer = exec(&world, "me", &format!("mv {path} moved"));
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(answer.err.contains("too long for a folder to be locked"), "{answer:?}");
        assert_eq!(read(&world, &format!("{path}/theirs.txt")), "theirs\n");
    }
}

#[test]
fn a_folder_does_not_take_a_name_that_is_locked() {
    let world = world();
    done(&world, "lock acquire new.txt docs/** --agent other");
    let answer =
        exec(&world, "me", "mkdir new.txt; mkdir docs free; mkdir docs/a; ls -d new.txt docs docs/a free");
    assert_eq!(answer.out, "docs\nfree\n", "{answer:?}");
    assert!(answer.err.contains("`new.txt` is held by `other`"), "{answer:?}");
    assert!(!held(&world).contains(&pair("free", "me")), "a folder needs no lock");
}

#[test]
fn a_file_is_not_handed_on_under_a_new_name_or_unreadable() {
    let world = world();
    world.write("folder/file", "");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "folder"]);
    for (script, file) in [
        ("exec 3>>free.txt; chmod 200 free.txt; mala lock release free.txt", "free.txt"),
        ("exec 3>>folder/file; mv folder moved; mala lock release --all", "moved/file"),
    ] {
        let script = script.replace("mala", MALA);
        let mut agent =
            mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &format!("{script}; echo $?")]);
        let out = agent.stderr(Stdio::piped()).output().unwrap();
        assert!(out.stdout.starts_with(b"1\n"), "{file}: {out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("still open for writing"), "{file}: {out:?}");
    }
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

#[test]
fn a_lock_lost_while_the_file_is_open_fails_the_gate() {
    let world = world();
    let script = format!(
        "exec 3>> free.txt; echo more > new.txt; {MALA} commit -m 'bd-1: more' new.txt >/dev/null; \
         {MALA} gate check --issue bd-1 --json; read line; {MALA} gate check --issue bd-1 --json"
    );
    let mut agent = mala(&world, ["exec", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", &script])
        .envs([("GIT_AUTHOR_NAME", "me"), ("GIT_AUTHOR_EMAIL", "me@example.invalid")])
        .envs([("GIT_COMMITTER_NAME", "me"), ("GIT_COMMITTER_EMAIL", "me@example.invalid")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let verdicts = "logs list --kind gate.passed --agent me --json";
    eventually("the commit is accepted", || !done(&world, verdicts).json()["events"][0].is_null());
    let free = "DELETE FROM lock WHERE agent = 'me' AND path = CAST('free.txt' AS BLOB)";
    assert_eq!(world.sql().execute(free, []).unwrap(), 1);
    let lost = "logs list --kind lock.lost --agent me --json";
    eventually("the loss is noticed", || !done(&world, lost).json()["events"][0].is_null());
    agent.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let answer: Answer = agent.wait_with_output().unwrap().into();
    let said: Vec<serde_json::Value> =
        answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdict = |verdict: &serde_json::Value| {
        let checks = verdict["checks"].as_array().unwrap();
        let failed = checks.iter().filter(|check| check["status"] == "fail");
        (verdict["verdict"].clone(), failed.map(|check| check["detail"].to_string()).collect::<Vec<_>>())
    };
    assert_eq!(verdict(&said[0]), ("pass".into(), Vec::new()), "{answer:?}");
    let (answered, failures) = verdict(&said[1]);
    assert_eq!((answered, failures.len(), answer.code), ("fail".into(), 1, 1), "{answer:?}");
    assert!(failures[0].contains("written without holding them: free.txt"), "{failures:?}");
}

#[test]
fn a_git_that_waited_for_anothers_lock_does_not_undo_what_that_one_wrote() {
    let world = world_with_folders();
    let commit =
        "git='git -c user.name=x -c user.email=x@y'; echo mine > mine.txt; git add mine.txt; touch ready.log
        until test -e .git/index.lock; do sleep 0.01; done
        touch begun.log; $git commit -qm first; echo $? > code.log; $git commit -qm second -- mine.txt";
    let mut me = begin(&world, commit);
    // A person's git, from its lock until it writes what it has staged.
    let (index, lock) = (world.root().join(".git/index"), world.root().join(".git/index.lock"));
    world.write("theirs.txt", "theirs\n");
    let staged = world.root().join("staged.log");
    fs::copy(&index, &staged).unwrap();
    let mut add = world.command("git");
    assert!(add.args(["add", "theirs.txt"]).env("GIT_INDEX_FILE", &staged).status().unwrap().success());
    fs::copy(&staged, &lock).unwrap();
    eventually("the agent's git begins", || world.root().join("begun.log").exists());
    thread::sleep(Duration::from_millis(400));
    fs::rename(&lock, &index).unwrap();
    drop(me.stdin.take());
    let answer: Answer = me.wait_with_output().unwrap().into();
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "theirs.txt", "{answer:?}");
    assert_eq!(read(&world, "code.log"), "128\n", "{answer:?}");
    assert!(answer.err.contains("this git has read it before: run it again"), "{answer:?}");
    assert_eq!(
        world.git(&["show", "--name-only", "--format=%s"]),
        "second\n\nmine.txt",
        "the next one worked"
    );
}

#[test]
fn to_look_at_the_state_of_the_checkout_does_not_change_the_index() {
    let world = world();
    let script =
        "touch -d '1 hour ago' free.txt; stat -c %i .git/index; git status --short; stat -c %i .git/index";
    let changes = |value: Option<&str>| {
        let mut command = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", script]);
        command.env_remove("GIT_OPTIONAL_LOCKS").envs(value.map(|value| ("GIT_OPTIONAL_LOCKS", value)));
        let answer = Answer::from(command.output().unwrap());
        let index: Vec<&str> = answer.out.lines().collect();
        assert_eq!((answer.code, index.len()), (0, 2), "{answer:?}");
        index[0] != index[1]
    };
    assert!(!changes(None));
    assert!(changes(Some("1")), "whoever wants it so");
}
