//! Ctrl-C, once, twice and three times.

use std::process::Stdio;

use mala_tests::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Batch, Run};

/// Starts a run whose agent has begun, and gives the place where agents leave signs.
fn begun(script: &str) -> (Batch, std::process::Child) {
    let batch = Batch::new(script);
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let sign = batch.outside("sign");
    let run = batch.command(&["--sequential"]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has begun", || sign.exists());
    (batch, run)
}

pub(super) fn interrupt(run: &std::process::Child) {
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), Signal::SIGINT).unwrap();
}

#[test]
fn once_judges_what_is_there_and_hands_over_the_rest() {
    let (batch, run) = begun(
        "echo work > $id.txt; tested && commit done; echo half > half.txt; touch $OUT; while :; do sleep 0.05; done",
    );
    interrupt(&run);
    let run = Run::of(run);
    assert_eq!(run.issues("queued"), ["bd-1"], "what was offered counts: {run:?}");
    let left = run.summary()["left"][0]["why"].as_str().unwrap().to_owned();
    assert_eq!(left, "its work waits in the landing queue as entry 1: mala queue run");
    assert_eq!(
        (run.issues("claimed"), batch.status_of("bd-2").as_str()),
        (vec!["bd-1"], "open"),
        "nothing new"
    );
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]), "half");
    assert_eq!((run.code, batch.dirt().as_str()), (1, ""), "nothing unproven stays in the checkout");
    crate::cli::done(&batch.world, "queue run");
    assert_eq!((batch.status_of("bd-1").as_str(), batch.read("bd-1.txt").as_str()), ("closed", "work\n"));
    batch.assert_nothing_left();
}

#[test]
fn once_hands_over_what_is_not_finished() {
    let (batch, run) = begun("echo half > half.txt; touch $OUT; while :; do sleep 0.05; done");
    interrupt(&run);
    let run = Run::of(run);
    assert_eq!(run.only("handed_over")["reason"], "the run was stopped", "{run:?}");
    assert_eq!((batch.dirt().as_str(), batch.status_of("bd-1").as_str()), ("", "open"));
    assert!(batch.notes("bd-1").contains("the run was stopped"));
}

#[test]
fn once_gives_an_agent_time_to_end_by_itself() {
    let (batch, run) = begun(
        "trap 'echo finished > half.txt; exit 0' TERM; echo half > half.txt; touch $OUT; while :; do sleep 0.05; done",
    );
    interrupt(&run);
    let run = Run::of(run);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]), "finished");
}

#[test]
fn twice_does_not_wait_for_an_agent_that_does_not_listen() {
    let (batch, run) = begun("trap '' TERM; echo half > half.txt; touch $OUT; while :; do sleep 0.05; done");
    let started = std::time::Instant::now();
    interrupt(&run);
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&run);
    let run = Run::of(run);
    assert!(started.elapsed() < std::time::Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!((run.issues("handed_over"), batch.dirt().as_str()), (vec!["bd-1"], ""), "{run:?}");
    batch.assert_nothing_left();
}

#[test]
fn three_times_is_now_and_the_next_start_makes_it_good() {
    let (batch, run) = begun("trap '' TERM; echo half > half.txt; touch $OUT; while :; do sleep 0.05; done");
    // Three different ones, because two of a kind that come together are one.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), signal).unwrap();
    }
    let first = Run::of(run);
    assert!(first.code == 1 && first.all("handed_over").is_empty(), "{first:?}");
    assert_eq!(batch.read("half.txt"), "half\n", "nothing was lost");
    std::fs::write(batch.outside("agent.sh"), "exit 1").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    assert_eq!(next.issues("recovered"), ["bd-1"], "{next:?}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]), "half");
    assert_eq!(batch.dirt(), "");
    assert!(batch.notes("bd-1").contains("the run was stopped"), "{}", batch.notes("bd-1"));
}

#[test]
fn an_offer_that_nobody_had_time_to_judge_is_kept_and_named() {
    let script =
        "trap '' TERM; echo work > $id.txt; commit untested; touch $OUT; while :; do sleep 0.05; done";
    let (batch, run) = begun(script);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), signal).unwrap();
    }
    let run = Run::of(run);
    assert_eq!(run.only("handed_over")["saved_ref"], "refs/mala/candidates/bd-1/1", "{run:?}");
    assert!(batch.notes("bd-1").contains("refs/mala/candidates/bd-1/1"), "{}", batch.notes("bd-1"));
    assert_eq!(batch.world.git(&["log", "--format=%s"]), "start");
}

#[test]
fn stops_of_every_kind_burn_no_attempt() {
    let script = "trap '' TERM; echo half > half.txt; touch $OUT; while :; do sleep 0.05; done";
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    for signals in
        [&[Signal::SIGINT, Signal::SIGTERM][..], &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]]
    {
        let run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
        eventually("the agent has begun", || sign.exists());
        for signal in signals {
            kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), *signal).unwrap();
        }
        Run::of(run);
        std::fs::remove_file(&sign).unwrap();
    }
    std::fs::write(batch.outside("agent.sh"), "exit 1").unwrap();
    let next = batch.run(&[]);
    assert_eq!((next.issues("recovered"), next.issues("claimed")), (vec!["bd-1"], vec!["bd-1"]), "{next:?}");
}
