//! `mala logs`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use mala_tests::World;
use serde_json::Value;

use super::{done, fields, mala, run};

#[test]
fn events_tell_what_happened_in_order() {
    let world = World::new();
    done(&world, "lock acquire a --agent A --issue bd-1");
    run(&world, "lock acquire a --agent B");
    done(&world, "lock release a --agent A");
    let events = done(&world, "logs list --json").json()["events"].clone();
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["agent.joined", "lock.acquired", "issue.claimed", "agent.joined", "lock.refused", "lock.released"]
    );
    assert_eq!(
        fields(&events[1]),
        ["agent", "at", "detail", "issue", "kind", "lock", "path", "run", "seq", "target"]
    );
    assert_eq!(events[4]["detail"]["conflicts"][0]["by"], "A");
    let only = done(&world, "logs list --agent B --kind lock.refused --json").json();
    assert_eq!(only["events"].as_array().unwrap().len(), 1);
    assert_eq!(done(&world, "logs list -n 2 --json").json()["events"][1], events[5], "the newest");
}

#[test]
fn show_tells_one_event_or_the_story_of_a_lock() {
    let world = World::new();
    let id = done(&world, "lock acquire a --agent A --json").json()["granted"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    done(&world, "lock release a --agent A");
    let story = done(&world, &format!("logs show {id} --json")).json();
    assert_eq!(story["events"].as_array().unwrap().len(), 2);
    assert_eq!(done(&world, "logs show 2 --json").json()["events"][0]["kind"], "lock.acquired");
    let unknown = run(&world, "logs show zzz");
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("no event, lock, evidence or run is called `zzz`"), "{}", unknown.err);
}

#[test]
fn tail_follows() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let mut tail = mala(&world, ["logs", "tail", "-n", "1", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["kind"], "lock.acquired");
    done(&world, "lock release a --agent A");
    assert_eq!(next()["kind"], "lock.released");
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new();
    for i in 0..20 {
        done(&world, &format!("lock acquire f{i} --agent {}", "A".repeat(190)));
    }
    let mut list = mala(&world, ["logs", "list", "-n", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(list.stdout.take());
    let out = list.wait_with_output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
}
