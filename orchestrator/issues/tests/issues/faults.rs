//! Trackers that hang, flood, crash or talk nonsense.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{AgentId, IssueId};
use mala_issues::{Beads, IssueError, IssueSource, Label, Limits, Tracker};

use crate::contract::{NewIssue, Seed};
use crate::stand_in::{PROGRAM, StandIn};

fn misbehaving(mode: &str) -> (StandIn, Limits) {
    let tracker = StandIn::new(Tracker::Bd);
    tracker.set("mode", mode);
    (tracker, Limits { time: Duration::from_secs(20), output: 1024 * 1024 })
}

/// Whether a process is there and has not ended.
fn runs(pid: &str) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

fn ends(pid: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while runs(pid) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    !runs(pid)
}

#[test]
fn a_tracker_that_hangs_is_ended_with_all_it_started() {
    let (tracker, limits) = misbehaving("hang");
    let limits = Limits { time: Duration::from_secs(2), ..limits };
    let error = tracker.source(limits).ready(1).unwrap_err();
    insta::assert_snapshot!(error, @"`bd ready` was stopped: it did not end within 2 s");
    for pid in tracker.get("pids").split(' ') {
        assert!(ends(pid), "process {pid} goes on");
    }
}

#[test]
fn a_tracker_that_floods_is_stopped() {
    let (tracker, limits) = misbehaving("flood");
    let error = tracker.source(limits).ready(1).unwrap_err();
    insta::assert_snapshot!(error, @"`bd ready` was stopped: it wrote more than 1048576 bytes");
}

#[test]
fn a_helper_left_behind_does_not_hold_up_the_answer() {
    let (tracker, limits) = misbehaving("linger");
    assert_eq!(tracker.source(limits).ready(1).unwrap(), []);
    let pid = tracker.get("pids").trim().to_owned();
    assert!(runs(&pid), "what a tracker leaves behind is its own business");
    std::process::Command::new("kill").arg(&pid).status().unwrap();
}

#[test]
fn a_tracker_that_closes_its_output_early_is_waited_for() {
    let (tracker, limits) = misbehaving("close-early");
    assert_eq!(tracker.source(limits).ready(1).unwrap(), []);
    let hasty = Limits { time: Duration::from_millis(50), ..limits };
    assert!(matches!(tracker.source(hasty).ready(1), Err(IssueError::TimedOut { .. })));
}

#[test]
fn nonsense_is_never_an_empty_queue() {
    for mode in ["garbage", "empty"] {
        let (tracker, limits) = misbehaving(mode);
        let error = tracker.source(limits).ready(1).unwrap_err();
        assert!(matches!(error, IssueError::Unreadable { .. }), "{mode}: {error:?}");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }
}

#[test]
fn a_failure_is_told_in_the_trackers_own_words_on_one_line() {
    let (tracker, limits) = misbehaving("angry");
    let error = tracker.source(limits).ready(1).unwrap_err();
    insta::assert_snapshot!(error, @"`bd ready` was refused: panic: [31mout of cheese [0m goroutine 1 [running]:");
}

#[test]
fn a_crash_without_words_says_how_it_ended() {
    let (tracker, limits) = misbehaving("crash");
    let error = tracker.source(limits).ready(1).unwrap_err().to_string();
    assert!(error.contains("signal: 6"), "{error}");
}

#[test]
fn a_change_that_is_refused_is_an_error_and_changes_nothing() {
    for kind in Tracker::ALL {
        let tracker = StandIn::new(kind);
        let source = tracker.source(Limits::default());
        let (actor, label) = (AgentId::new("a").unwrap(), Label::needs_followup());
        let (free, held) = (tracker.add(&NewIssue::task("free")), tracker.add(&NewIssue::task("held")));
        source.claim(&held, &actor).unwrap();
        source.add_label(&held, &label).unwrap();
        let before = tracker.get("issues.json");
        tracker.set("mode", "read-only");
        let results = [
            source.claim(&free, &actor).map(drop),
            source.release(&held, &actor),
            source.append_note(&free, "text"),
            source.add_label(&free, &label),
            source.remove_label(&held, &label),
            source.close(&free, "done"),
        ];
        for result in results {
            match result {
                Err(IssueError::Failed { message, .. }) => {
                    assert!(message.contains("read-only"), "{message}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(tracker.get("issues.json"), before);
    }
}

#[test]
fn every_operation_says_that_the_program_is_missing() {
    let tracker = StandIn::new(Tracker::Bd);
    for kind in Tracker::ALL {
        let source = Beads::new(kind, "/nowhere/tracker", tracker.root(), Limits::default());
        let (id, actor) = (IssueId::new("a-1").unwrap(), AgentId::new("a").unwrap());
        let label = Label::needs_followup();
        let results = [
            source.ready(1).map(drop),
            source.show(&id).map(drop),
            source.claim(&id, &actor).map(drop),
            source.release(&id, &actor),
            source.append_note(&id, "text"),
            source.add_label(&id, &label),
            source.remove_label(&id, &label),
            source.close(&id, "done"),
        ];
        for result in results {
            match result {
                Err(IssueError::NotInstalled { tracker }) => assert_eq!(tracker, kind),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_missing_folder_is_not_taken_for_a_missing_program() {
    let source = Beads::new(Tracker::Bd, PROGRAM, "/nowhere/checkout", Limits::default());
    match source.ready(1) {
        Err(IssueError::Start { root, .. }) => assert_eq!(root, Path::new("/nowhere/checkout")),
        other => panic!("{other:?}"),
    }
}
