//! Which issue runs when.

use std::fs;
use std::process::Stdio;

use mala_tests::eventually;

use super::{Batch, Run};
use crate::cli::done;

const GOOD: &str = "echo work > $id.txt; tested && commit done";

#[test]
fn priorities_and_dependencies_decide_the_order() {
    let batch = Batch::new(GOOD);
    batch.issue("late", &["--priority", "4"]);
    batch.issue("first", &["--priority", "1"]);
    batch.issue("then", &["--priority", "0", "--after", "first"]);
    let run = batch.run(&["--sequential"]);
    assert_eq!((run.code, run.issues("claimed")), (0, vec!["first", "late", "then"]), "{run:?}");
}

#[test]
fn a_list_is_worked_off_in_its_order_and_nothing_else() {
    let batch = Batch::new(GOOD);
    for id in ["a", "b", "c"] {
        batch.issue(id, &[]);
    }
    let run = batch.run(&["--sequential", "--issue", "c", "--issue", "a"]);
    assert_eq!(run.issues("done"), ["c", "a"], "{run:?}");
    assert_eq!(batch.status_of("b"), "open");
}

#[test]
fn no_more_issues_are_begun_than_wanted() {
    let batch = Batch::new(GOOD);
    for id in ["a", "b", "c"] {
        batch.issue(id, &[]);
    }
    let run = batch.run(&["--max-issues", "2"]);
    assert_eq!(run.issues("done").len(), 2, "{run:?}");
}

#[test]
fn issues_that_share_a_file_with_work_under_way_are_begun_last_but_they_are() {
    let wait = "if [ $id = one ]; then while ! [ -e $OUT/two ]; do sleep 0.02; done; fi";
    let batch = Batch::new(&format!("touch $OUT/$id; {wait}; {GOOD}"));
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    batch.issue("one", &["--file", "src/**"]);
    batch.issue("two", &["--file", "src/lib.rs"]);
    batch.issue("three", &["--file", "docs/a.md"]);
    let mut command = batch.command(&["--max-agents", "2"]);
    let run = Run::of(command.env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!((run.code, run.issues("done").len()), (0, 3), "`two` was begun while `one` worked: {run:?}");
    assert_eq!(run.issues("claimed")[2], "two", "it shares a file with `one`: {run:?}");
}

#[test]
fn a_file_that_an_issue_names_is_nobodys_before_it_is_written() {
    let batch = Batch::new(GOOD);
    batch.issue("bd-1", &["--file", "base.txt"]);
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "it wrote another file: {run:?}");
}

#[test]
fn a_dry_run_shows_order_profiles_and_collisions_and_does_nothing() {
    let batch =
        Batch::with(GOOD, "[agents.other]\nkind = \"command\"\ncommand = [\"true\"]\nlabels = [\"docs\"]");
    batch.issue("a", &["--file", "src/**"]);
    batch.issue("b", &["--file", "src/x.rs", "--label", "docs"]);
    let answer: crate::cli::Answer = batch.command(&["--dry-run"]).output().unwrap().into();
    let plan = answer.json();
    let profiles: Vec<_> =
        plan["issues"].as_array().unwrap().iter().map(|issue| issue["profile"].clone()).collect();
    assert_eq!(profiles, ["script", "other"], "{plan}");
    assert_eq!(
        (&plan["collisions"][0]["first"], &plan["collisions"][0]["second"]),
        (&"a".into(), &"b".into())
    );
    assert_eq!(
        (batch.status_of("a").as_str(), batch.world.git(&["log", "--oneline"]).lines().count()),
        ("open", 1)
    );
}

#[test]
fn watching_waits_for_work_and_takes_it_up() {
    let batch = Batch::new(GOOD);
    let run = batch.start(&["--watch"]);
    let logs = batch.world.state_dir().join("logs");
    let is_waiting = || {
        let files = fs::read_dir(&logs).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|log| log.contains("waiting"))
    };
    eventually("it waits for issues", is_waiting);
    batch.issue("bd-1", &[]);
    eventually("the new issue is done", || batch.status_of("bd-1") == "closed");
    batch.issue("bd-2", &[]);
    eventually("and the next", || batch.status_of("bd-2") == "closed");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(run.id()).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1", "bd-2"]), "{run:?}");
    assert!(!run.all("waiting").is_empty());
}

#[test]
fn two_runs_in_one_checkout_are_one_too_many() {
    let batch = Batch::new(
        "touch $OUT; while [ -e $OUT ]; do sleep 0.02; done; echo work > $id.txt; tested && commit done",
    );
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let first = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the first has begun", || sign.exists());
    let second = batch.run(&["--timeout", "10s"]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(
        second.err.contains("is already at work here") && second.err.contains(&first.id().to_string()),
        "{}",
        second.err
    );
    fs::remove_file(&sign).unwrap();
    assert_eq!(Run::of(first).code, 0);
}

#[test]
fn work_that_waits_for_a_failed_issue_is_named() {
    let batch = Batch::with("exit 1", "[run]\nattempts = 1");
    batch.issue("a", &[]);
    batch.issue("b", &["--after", "a"]);
    let run = batch.run(&["--issue", "a", "--issue", "b"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.summary()["left"][0]["why"], "it waits for a, which is not closed", "{run:?}");
}

#[test]
fn issues_that_need_each_other_are_named_by_a_run_that_does_not_end_as_if_all_were_done() {
    let batch = Batch::new(GOOD);
    for id in ["a", "b"] {
        batch.issue(id, &[]);
    }
    // As an earlier version has imported them.
    batch.world.sql().execute_batch("INSERT INTO dependency VALUES ('a', 'b'), ('b', 'a')").unwrap();
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("claimed")), (1, Vec::new()), "{run:?}");
    let why = run.summary()["left"][0]["why"].as_str().unwrap();
    assert!(why.contains("`a` needs `b` needs `a`"), "{why}");
}
