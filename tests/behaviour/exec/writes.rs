//! Whoever does the writing: what others hold stays as it is, and what is free is taken.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;

use mala_tests::eventually;
use serde_json::json;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done, held, mala, pair};

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
fn to_delete_what_is_not_there_takes_no_lock() {
    let world = world();
    let unlink = "python3 -c 'import os; os.unlink(\"nothing.txt\")'";
    let answer = exec(&world, "me", &format!("{unlink}; {MALA} lock list --agent me --json"));
    assert!(answer.err.contains("FileNotFoundError"), "{answer:?}");
    assert_eq!(answer.json()["locks"], serde_json::json!([]));
}

#[test]
fn a_temporary_file_that_becomes_the_real_one_leaves_one_lock() {
    let world = world();
    let answer = exec(
        &world,
        "me",
        &format!(
            "for i in 1 2 3; do sed -i s/anybody/some/ free.txt; done; {MALA} lock list --agent me --json"
        ),
    );
    let locks = answer.json()["locks"].clone();
    assert_eq!((locks.as_array().unwrap().len(), &locks[0]["path"]), (1, &"free.txt".into()), "{locks}");
}

#[test]
fn a_lock_that_is_taken_away_stops_the_next_write_at_once() {
    let world = world();
    let mut agent = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c"])
        .arg("echo first > free.txt; read line; echo second > free.txt || echo refused")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the agent holds the file", || held(&world).contains(&pair("free.txt", "me")));
    world.sql().execute("DELETE FROM lock WHERE agent = 'me'", []).unwrap();
    done(&world, "lock acquire free.txt --agent other");
    agent.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let answer: Answer = agent.wait_with_output().unwrap().into();
    assert_eq!((answer.out.as_str(), read(&world, "free.txt").as_str()), ("refused\n", "first\n"));
    assert!(answer.err.contains("`free.txt` is held by `other`"), "{}", answer.err);
}

#[test]
fn every_grant_and_every_refusal_is_an_event_with_its_program() {
    let world = world();
    exec(&world, "me", "echo x > free.txt; cp free.txt new.txt; tee held.txt < /dev/null");
    let events = |kind: &str| {
        let log = done(&world, &format!("logs list --kind {kind} --agent me --json")).json();
        let events = log["events"].as_array().unwrap().clone();
        events
            .into_iter()
            .map(|event| (event["path"].clone(), event["detail"].to_string()))
            .collect::<Vec<_>>()
    };
    let has = |kind: &str, path: &str, program: &str| {
        let events = events(kind);
        let found = events.iter().any(|(at, detail)| at == path && detail.contains(program));
        assert!(found, "`{kind}` of {path} by {program}: {events:?}");
    };
    has("lock.acquired", "free.txt", "written by sh");
    has("lock.acquired", "new.txt", "written by cp");
    has("write.refused", "held.txt", "tee");
}

#[test]
fn a_program_that_insists_fills_no_log_and_gets_the_file_when_it_is_free() {
    let world = world();
    let script = "
import time
begin, tries = time.monotonic(), 0
while time.monotonic() < begin + 60:
    tries += 1
    try: open('held.txt', 'w').write('mine'); break
    except PermissionError: pass
    if tries == 3000: open('insisted', 'w')
print('wrote after', tries)
";
    let agent = mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it insists", || world.root().join("insisted").exists());
    done(&world, "lock release held.txt --agent other");
    let out = agent.wait_with_output().unwrap();
    assert!(out.stdout.starts_with(b"wrote after"), "{out:?}");
    assert_eq!(read(&world, "held.txt"), "mine");
    let log = done(&world, "logs list --kind write.refused --agent me --limit 5000 --json").json();
    let recorded = log["events"].as_array().unwrap().len();
    assert!((100..1000).contains(&recorded), "{recorded}");
}

#[test]
fn an_ordinary_user_is_protected_as_well_as_root() {
    const NOBODY: &str = "65534";
    let world = world();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // then all of these tests have shown it
    }
    // A folder of root's own may be all that leads to the program.
    let program = world.base().join("mala");
    let prepared = Command::new("sh")
        .args(["-c", "cp \"$1\" \"$2/mala\" && chown -R 65534:65534 \"$2\"", "sh", MALA])
        .arg(world.base())
        .status();
    assert!(prepared.unwrap().success());
    let script = "id -u; echo mine > free.txt; echo new > new.txt; echo mine > held.txt";
    let mut command = world.command("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&program);
    command.args(["exec", "--agent", "me", "--require-kernel", "--", "sh", "-c", script]);
    let answer: Answer = command.output().unwrap().into();
    assert!(answer.out == "65534\n" && answer.code != 0, "{answer:?}");
    assert!(answer.err.contains("`held.txt` is held by `other`"), "{}", answer.err);
    let files = ["held.txt", "free.txt", "new.txt"].map(|path| read(&world, path));
    assert_eq!(files, ["theirs\n", "mine\n", "new\n"]);
    assert_eq!(fs::metadata(world.root().join("new.txt")).unwrap().uid().to_string(), NOBODY);
}

#[test]
fn an_agent_that_tries_thousands_of_files_does_not_fill_the_store() {
    let world = world();
    done(&world, "lock acquire theirs/** --agent other");
    fs::create_dir(world.root().join("theirs")).unwrap();
    let script = "i=0; while [ $i -lt 2600 ]; do i=$((i + 1)); { : > theirs/$i; } 2>/dev/null; done; true";
    let answer: Answer = mala(&world, ["exec", "--json", "--agent", "me", "--", "bash", "-c", script])
        .output()
        .unwrap()
        .into();
    let refused = answer.json()["refused"].as_array().unwrap().clone();
    let times: u64 = refused.iter().map(|refused| refused["times"].as_u64().unwrap()).sum();
    assert_eq!((times, refused.len()), (2600, 2600), "the count is exact");
    for kind in ["write.refused", "lock.refused"] {
        let log = done(&world, &format!("logs list --kind {kind} --agent me --limit 5000 --json")).json();
        let events = log["events"].as_array().unwrap();
        let more: u64 = events.iter().filter_map(|event| event["detail"]["more"].as_u64()).sum();
        let ones = events.iter().filter(|event| event["detail"]["more"].is_null()).count();
        assert_eq!(ones, 2000, "{kind} one by one");
        assert_eq!(
            more,
            if kind == "write.refused" { 600 } else { 0 },
            "{kind}, of which only the number is kept"
        );
    }
}

#[test]
fn a_file_that_was_changed_since_it_was_read_is_named_at_the_first_write_and_written_all_the_same() {
    let world = world();
    let read = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": world.root(), "tool_name": "Read",
        "tool_input": { "file_path": "free.txt" }, "tool_use_id": "t" });
    let (call, [has_read, changed]) =
        (world.base().join("call"), ["read", "changed"].map(|n| world.base().join(n)));
    fs::write(&call, read.to_string()).unwrap();
    let script = format!(
        "{MALA} hook claude < {} && touch {} && until [ -e {} ]; do sleep 0.05; done; sed -i s/theirs/mine/ free.txt; \
         echo more >> free.txt",
        call.display(),
        has_read.display(),
        changed.display()
    );
    let answer = thread::scope(|scope| {
        let agent = scope.spawn(|| exec(&world, "me", &script));
        eventually("it has read the file", || has_read.exists());
        done(&world, "lock acquire free.txt --agent third");
        world.write("free.txt", "theirs\n");
        done(&world, "lock release free.txt --agent third");
        fs::write(&changed, "").unwrap();
        agent.join().unwrap()
    });
    assert_eq!(answer.code, 0, "{answer:?}");
    let told = "mala: changed since you read it: `free.txt`, by `third`, which held it until ";
    assert_eq!(answer.err.matches(told).count(), 1, "{}", answer.err);
    assert_eq!(crate::exec::read(&world, "free.txt"), "mine\nmore\n");
}

#[test]
fn files_of_a_lock_group_are_taken_together_whichever_is_written() {
    let world = world();
    world.write("mala.toml", "[project]\npreset = \"rust\"\n[lock]\ngroups = [\"schema.src schema.lock\"]\n");
    done(&world, "lock acquire db/schema.lock --agent other");
    let refused = exec(&world, "me", "mkdir -p db; echo x > db/schema.src; ls db");
    assert!(refused.err.contains("`db/schema.src` is held by `other`"), "{refused:?}");
    assert_eq!(read(&world, "db/schema.src"), "");
    let script = "echo x > Cargo.toml; $MALA lock list --json";
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", script]);
    let answer: Answer = command.env("MALA", MALA).output().unwrap().into();
    let held = answer.json()["locks"].clone();
    let mine = held.as_array().unwrap().iter().filter(|lock| lock["agent"] == "me");
    assert_eq!(
        mine.map(|lock| lock["path"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Cargo.lock", "Cargo.toml"]
    );
}
