//! What is in a run's way and is no agent's fault: a run that nobody can judge, a checkout without a branch, broken settings,
//! and a neighbour that is faster.

use std::fs;
use std::process::{Child, Stdio};

use mala_core::{IssueId, Owner, PersonId, Who};
use mala_tests::{children, eventually, keeper_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::{Batch, Run};
use crate::cli::done;

const WORK: &str = "echo work > $id.txt; tested && commit done";

/// A run of one agent at a time, when its first agent has left a sign. It goes on when the sign is gone.
fn halted(batch: &Batch, args: &[&str]) -> Child {
    let sign = batch.outside("sign");
    let mut command = batch.command(args);
    let run = command.args(["--sequential"]).env("OUT", &sign).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    eventually("the agent has left its sign", || sign.exists());
    run
}

fn go_on(batch: &Batch, run: Child) -> Run {
    fs::remove_file(batch.outside("sign")).unwrap();
    Run::of(run)
}

#[test]
fn a_run_that_cannot_be_judged_from_here_is_ended_by_a_person() {
    let batch = Batch::new(WORK);
    batch.issue("bd-1", &[]);
    let elsewhere =
        Owner { host: "elsewhere".into(), boot_id: "other".into(), pid: 1, start_time: 1, node: None };
    let id = batch.world.store().begin_run(&elsewhere, &json!({})).unwrap().id;
    for (command, says) in [
        ("clean", format!("left alone: run {id} of pid 1 on elsewhere")),
        ("clean --force --dry-run", format!("would put away: run {id}")),
        ("clean --force", format!("put away: run {id}")),
    ] {
        let refused = batch.run(&[]);
        assert!(refused.code == 1 && refused.err.contains("mala clean --force"), "{refused:?}");
        let out = done(&batch.world, command).out;
        assert!(out.contains(&says), "{out}");
    }
    assert_eq!(batch.run(&[]).code, 0);
    let last = done(&batch.world, "clean --force").out;
    assert!(last.contains("nothing to put away"), "{last}");
}

#[test]
fn nothing_begins_where_no_agent_can_commit() {
    let batch = Batch::new(WORK);
    let git = |command: &str| batch.world.git(&command.split(' ').collect::<Vec<_>>());
    batch.issue("bd-1", &[]);
    let branch = git("symbolic-ref --short HEAD");
    git("switch -q -c other");
    git("commit -q --allow-empty -m other");
    git(&format!("switch -q {branch}"));
    for (begin, end, says) in [
        ("checkout -q --detach", format!("switch -q {branch}"), ["no branch is checked out", "git switch"]),
        (
            "merge -q --no-ff --no-commit other",
            "merge --abort".to_owned(),
            ["a merge is not finished", "git merge --abort"],
        ),
        (
            "bisect start HEAD HEAD~1",
            "bisect reset".to_owned(),
            ["a bisection is not finished", "git bisect reset"],
        ),
    ] {
        if begin.starts_with("bisect") {
            git("commit -q --allow-empty -m second");
        }
        git(begin);
        for args in [&[][..], &["--dry-run"]] {
            let refused = batch.text(args);
            assert_eq!(refused.code, 1, "{begin}: {refused:?}");
            assert!(says.iter().all(|part| refused.err.contains(part)), "{begin}: {refused:?}");
        }
        git(&end);
    }
    assert_eq!((batch.status_of("bd-1").as_str(), batch.run(&[]).code), ("open", 0));
}

#[test]
fn a_merge_that_begins_during_a_run_keeps_further_issues_from_being_begun() {
    let batch = Batch::new("[ $id = bd-1 ] && touch $OUT; while [ -e $OUT ]; do sleep 0.02; done; exit 1");
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let run = halted(&batch, &["--max-issues", "2"]);
    let head = batch.world.git(&["rev-parse", "HEAD"]);
    fs::write(batch.world.root().join(".git/MERGE_HEAD"), format!("{head}\n")).unwrap();
    let run = go_on(&batch, run);
    assert_eq!((run.code, run.issues("claimed")), (1, vec!["bd-1"]), "{run:?}");
    let why = run.summary()["left"].to_string();
    assert!(why.contains("bd-2") && why.contains("a merge is not finished"), "{why}");
    assert!(batch.world.root().join(".git/MERGE_HEAD").exists(), "it is a person's");
}

#[test]
fn a_persons_merge_is_not_taken_for_that_of_an_agent_that_had_the_whole_checkout_before() {
    let had = "\"$MALA\" lock acquire . && \"$MALA\" lock release . && touch $OUT";
    let batch = Batch::new(&format!("{had}; while [ -e $OUT ]; do sleep 0.02; done; exit 1"));
    batch.issue("bd-1", &[]);
    let run = halted(&batch, &["--max-issues", "1"]);
    let head = batch.world.git(&["rev-parse", "HEAD"]);
    // A busy machine's clock of files may be further behind than that of locks.
    std::thread::sleep(std::time::Duration::from_millis(100));
    fs::write(batch.world.root().join(".git/MERGE_HEAD"), format!("{head}\n")).unwrap();
    let run = go_on(&batch, run);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert!(batch.world.root().join(".git/MERGE_HEAD").exists(), "{run:?}");
}

#[test]
fn settings_that_break_during_a_run_stop_it_and_cost_no_attempt() {
    let batch = Batch::with(
        "[ $id = bd-1 ] && touch $OUT; while [ -e $OUT ]; do sleep 0.02; done; exit 1",
        "[run]\nattempts = 1",
    );
    for id in ["bd-1", "bd-2", "bd-3"] {
        batch.issue(id, &[]);
    }
    let run = halted(&batch, &[]);
    let settings = batch.read("mala.toml");
    batch.world.write("mala.toml", &format!("{settings}[broken"));
    let run = go_on(&batch, run);
    assert_eq!((run.code, run.issues("claimed")), (1, vec!["bd-1", "bd-2"]), "{run:?}");
    let why = run.summary()["stopped"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("cannot be started") && why.contains("mala.toml"), "{why}");
    assert_eq!(["bd-1", "bd-2", "bd-3"].map(|id| batch.status_of(id)), ["blocked", "open", "open"]);
    batch.world.write("mala.toml", &settings);
    fs::write(batch.outside("agent.sh"), "exit 1").unwrap();
    let next = batch.run(&[]);
    let mut started = next.issues("started");
    started.sort_unstable();
    assert_eq!(started, ["bd-2", "bd-3"], "{next:?}");
    batch.assert_nothing_left();
}

/// A halted run that was asked for an issue which somebody else has finished by now.
fn with_an_issue_that_others_finish() -> (Batch, Child) {
    let wait = "touch $OUT; while [ -e $OUT ]; do sleep 0.02; done";
    let batch = Batch::new(&format!("{wait}; {WORK}"));
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let somebody = Who::Person(PersonId::new("somebody").unwrap());
    batch.world.store().claim_issue(&somebody, &IssueId::new("bd-2").unwrap()).unwrap();
    let run = halted(&batch, &["--issue", "bd-2", "--issue", "bd-1"]);
    done(&batch.world, "issue close bd-2");
    (batch, run)
}

#[test]
fn what_others_have_finished_meanwhile_is_not_left() {
    let (batch, run) = with_an_issue_that_others_finish();
    let run = go_on(&batch, run);
    assert_eq!(run.issues("put_back"), ["bd-2"], "{run:?}");
    assert_eq!((run.code, &run.summary()["left"]), (0, &json!([])), "{run:?}");
}

#[test]
fn work_that_was_proven_before_its_keeper_was_killed_counts() {
    let batch = Batch::new(&format!("{WORK}; touch $OUT; sleep 600"));
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &["--after", "bd-1"]);
    let run = halted(&batch, &["--max-issues", "1"]);
    let keeper = children(run.id()).into_iter().find_map(keeper_of).unwrap();
    kill(keeper, Signal::SIGKILL).unwrap();
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    batch.assert_nothing_left();
}

#[test]
fn who_is_in_a_hurry_does_not_wait_for_what_the_tracker_knows_of_others() {
    let (batch, run) = with_an_issue_that_others_finish();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), signal).unwrap();
    }
    let run = Run::of(run);
    let left: Vec<_> = run.summary()["left"].as_array().unwrap().iter().map(|left| &left["issue"]).collect();
    assert!(left.contains(&&json!("bd-2")), "it was not asked: {run:?}");
    assert_eq!(batch.status_of("bd-2"), "closed");
}
