//! `mala status` and `mala clean`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use mala_tests::{World, eventually};
use serde_json::{Value, json};

use super::{Sleeper, done, fields, mala, start};

#[test]
fn status_says_something_useful_when_nothing_goes_on() {
    let world = World::new();
    let text = done(&world, "status").out;
    assert!(text.contains("no agents") && text.contains("every file is free"), "{text}");
    let status = done(&world, "status --json").json();
    assert_eq!(
        fields(&status),
        [
            "agents",
            "asks",
            "health",
            "leftovers",
            "locks",
            "mutexes",
            "queue",
            "runs",
            "scope",
            "slots",
            "waiters"
        ]
    );
    assert_eq!(status["scope"], world.root().display().to_string());
    assert_eq!(
        status["health"],
        json!({
            "lock_tries": 0, "lock_waits": 0, "wait_rate": 0.0, "mutex_wait_seconds": 0.0, "warnings": [], "hottest_file": null,
            "agent_seconds": { "worked": 0.0, "waited_for_files": 0.0, "waited_for_turns": 0.0, "waited_for_landing": 0.0 },
        })
    );
}

#[test]
fn status_shows_agents_and_what_they_hold() {
    let world = World::new();
    done(&world, "lock acquire a --agent A --issue bd-7");
    let status = done(&world, "status --json").json();
    let agent = &status["agents"][0];
    assert_eq!(fields(agent), ["id", "issue", "pid", "profile", "since", "state"]);
    assert_eq!(
        (&agent["id"], &agent["issue"], &agent["state"]),
        (&"A".into(), &"bd-7".into(), &"active".into())
    );
    assert_eq!(status["locks"], done(&world, "lock list --json").json()["locks"]);
    let text = done(&world, "status").out;
    assert!(text.contains("bd-7") && text.contains("exclusive"), "{text}");
}

#[test]
fn what_the_dead_leave_is_shown_and_cleaned() {
    let world = World::new();
    let mut owner = Sleeper::start();
    done(&world, &format!("lock acquire a --agent A --owner-pid {}", owner.pid()));
    let mut waiter = start(&world, "lock acquire a --agent B --wait 60s");
    eventually("somebody waits", || world.count("waiter") == 1);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    owner.kill();
    let status = done(&world, "status --json").json();
    assert_eq!(status["locks"], json!([]));
    let kinds =
        |value: &Value| value.as_array().unwrap().iter().map(|l| l["kind"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&status["leftovers"]), ["lock", "waiter"]);
    let planned = done(&world, "clean --dry-run --json").json();
    assert_eq!(
        (&planned["done"], kinds(&planned["leftovers"])),
        (&false.into(), vec!["lock".into(), "waiter".into()])
    );
    let cleaned = done(&world, "clean").out;
    assert!(cleaned.contains("lock on `a` of `A`, whose process has ended"), "{cleaned}");
    assert_eq!(done(&world, "status --json").json()["leftovers"], json!([]));
    assert_eq!(done(&world, "clean").out, "nothing to put away\n");
    assert_eq!((world.count("lock"), world.count("waiter"), world.wake_files().len()), (0, 0, 0));
    let gone = done(&world, "status --all --json").json();
    assert_eq!(
        gone["agents"][1],
        json!({ "id": "A", "issue": null, "pid": owner.pid(), "profile": null, "state": "gone", "since": gone["agents"][1]["since"] })
    );
}

#[test]
fn clean_leaves_the_living_alone() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    done(&world, "clean --force");
    assert_eq!(world.count("lock"), 1);
}

#[test]
fn watching_shows_each_change() {
    let world = World::new();
    let mut watch = mala(&world, ["status", "--watch", "--json"])
        .env("MALA_STATUS_REFRESH", "100ms")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut locks =
        || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["locks"].clone();
    assert_eq!(locks(), json!([]));
    done(&world, "lock acquire a --agent A");
    assert_eq!(locks()[0]["path"], "a");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn whoever_watches_ends_when_nobody_reads_although_nothing_happens() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    for line in ["status --watch --json", "status --watch", "logs tail --follow --json", "logs tail --follow"]
    {
        let mut watch = mala(&world, line.split_whitespace())
            .env("MALA_STATUS_REFRESH", "1h")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let mut ended = None;
        eventually(line, || {
            ended = watch.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "{line}");
    }
}

#[test]
fn what_waiting_costs_is_told_with_the_file_that_costs_most() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    done(&world, "lock acquire b --agent A");
    for line in ["lock acquire a --agent B --wait 1ms", "lock acquire b --agent B --wait 50ms"] {
        assert_eq!(super::run(&world, line).code, 1);
    }
    let health = done(&world, "status --json").json()["health"].clone();
    assert_eq!(
        (&health["lock_tries"], &health["lock_waits"], &health["wait_rate"]),
        (&4.into(), &2.into(), &0.5.into())
    );
    assert_eq!(health["hottest_file"]["path"], "b", "{health}");
    let seconds = |what: &str| health["agent_seconds"][what].as_f64().unwrap();
    assert!(seconds("worked") > 0.0 && seconds("waited_for_files") >= 0.05, "{health}");
    assert_eq!(health["warnings"], json!([]), "so little is not worth a word");
    let text = done(&world, "status").out;
    assert!(text.contains("agents worked") && text.contains("(most for `b`:"), "{text}");
}
