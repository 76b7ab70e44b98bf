//! A wall clock that is set by hours, forward and back, while agents work.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mala_tests::{Terse, eventually};
use serde_json::Value;

use super::parking::HOOK;
use super::{Batch, Run};
use crate::cli::{Answer, held, mala, pair};

/// Each issue meets the clock in another place: `keeper` in its turn to test, with a file that `asker` is parked for; `red` on its
/// way to the branch and back; `third` and `fourth` one behind the other in a queue that stands still.
const STORY: &str = r#"
case $id in
keeper)
    echo keeper >> base.txt; touch "$OUT/held"; until_asked
    "$MALA" test --wait 5m -- test -s base.txt || exit 1
    until_there all-queued; commit done ;;
asker)
    if goes_on 'is yours now'; then
        echo asker >> base.txt; tested && commit done
    else
        until_there held; hook codex base.txt > /dev/null
    fi ;;
red)
    if is_retry; then echo fine > red.txt; else echo broken > red.txt; fi; commit done ;;
third)
    until_there paused; echo work > third.txt; tested && commit done ;;
fourth)
    until_there third-queued; echo work > fourth.txt; tested && commit done ;;
esac
"#;

const ISSUES: [&str; 5] = ["keeper", "asker", "red", "third", "fourth"];

/// A clock that is wrong by so many hours, for every process of mala that is told of it.
struct Clock(PathBuf);

impl Clock {
    fn set(&self, hours: i64) {
        let next = self.0.with_extension("next");
        fs::write(&next, format!("{}\n", hours * 3600)).unwrap();
        fs::rename(next, &self.0).unwrap();
    }

    fn told_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("MALA_WALL_CLOCK_ERROR", &self.0)
    }

    fn done(&self, batch: &Batch, args: &[&str]) -> Answer {
        let answer = self.run(batch, args);
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
        answer
    }

    fn run(&self, batch: &Batch, args: &[&str]) -> Answer {
        self.told_to(&mut mala(&batch.world, args)).output().unwrap().into()
    }
}

/// What a run has come to, as far as no clock should have a say in it.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: i32,
    /// Of the branch, newest first.
    subjects: Vec<String>,
    base: String,
    rejected: Vec<String>,
    attempts: Vec<(String, String, u64)>,
    /// What would say that a limit was reached, a lock was lost or a wait was in vain.
    complaints: Vec<String>,
    warnings: Vec<String>,
}

/// Lets all agents work while the clock is set to be wrong by these hours, one after the other.
fn outcome(hours: [i64; 5]) -> Outcome {
    let batch = Batch::with(&format!("{HOOK}\n{STORY}"), "");
    for id in ISSUES {
        batch.issue(id, &[]);
    }
    let (clock, out) = (Clock(batch.outside("clock")), batch.outside("signs"));
    fs::create_dir(&out).unwrap();
    clock.set(0);
    let sign = |name: &str| fs::write(out.join(name), "").unwrap();
    // Nobody supervises this holder: its lease is what keeps its lock.
    clock.done(&batch, &["lock", "acquire", "theirs.txt", "--agent", "person", "--ttl", "20m"]);
    batch.world.store().take("person", &["name:test"]);

    let mut command = batch.command(&["--max-agents", "5", "--timeout", "5m"]);
    let run = clock.told_to(&mut command).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the file is asked for, and the keeper waits for its turn", || {
        batch.world.count("waiter") == 2
    });
    clock.set(hours[0]);
    let refused = clock.run(&batch, &["lock", "acquire", "theirs.txt", "--agent", "other"]);
    assert_eq!(refused.code, 1, "a lease of 20 minutes is not over: {refused:?}");
    clock.done(&batch, &["lock", "acquire", "short.txt", "--agent", "person", "--ttl", "1s"]);
    clock.set(hours[1]);
    eventually("a lease of a second is over", || {
        clock.run(&batch, &["lock", "acquire", "short.txt", "--agent", "other"]).code == 0
    });
    batch.world.store().give_back("person", &["name:test"]);
    eventually("what was rejected has landed", || batch.status_of("red") == "closed");
    clock.set(hours[2]);
    clock.done(&batch, &["queue", "pause", "so that two wait"]);
    sign("paused");
    eventually("one waits", || waiting(&batch) == ["third"]);
    clock.set(hours[3]);
    sign("third-queued");
    eventually("two wait", || waiting(&batch) == ["third", "fourth"]);
    clock.set(hours[4]);
    clock.done(&batch, &["queue", "resume"]);
    sign("all-queued");
    let run = Run::of(run);

    let mut locks = held(&batch.world);
    locks.sort();
    assert_eq!(locks, [pair("short.txt", "other"), pair("theirs.txt", "person")]);
    clock.done(&batch, &["logs", "verify"]);
    assert_eq!(batch.dirt(), "");
    batch.assert_every_tip_is_green();
    assert_lengths(&run);
    of(&batch, &run)
}

/// Issues of the landing queue in the order in which they are served.
fn waiting(batch: &Batch) -> Vec<String> {
    let queue: Answer = mala(&batch.world, ["queue", "list", "--json"]).output().unwrap().into();
    let entries = queue.json()["entries"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|entry| entry["issue"].as_str().unwrap().to_owned()).collect()
}

/// Nothing took hours.
fn assert_lengths(run: &Run) {
    let (summary, hour) = (run.summary(), 3600.0);
    let within_an_hour = |value: &Value| value.as_f64().is_some_and(|seconds| (0.0..hour).contains(&seconds));
    assert!(within_an_hour(&summary["seconds"]), "{summary}");
    for attempt in summary["attempts"].as_array().unwrap() {
        assert!(within_an_hour(&attempt["seconds"]), "{attempt}");
    }
    let contention = &summary["contention"];
    for (what, seconds) in contention["agent_seconds"].as_object().unwrap() {
        assert!(within_an_hour(seconds) && seconds.as_f64() > Some(0.0), "{what}: {contention}");
    }
    assert_eq!(contention["hottest_file"]["path"], "base.txt", "{contention}");
}

fn of(batch: &Batch, run: &Run) -> Outcome {
    let mut attempts: Vec<_> = run.summary()["attempts"].as_array().unwrap().iter().map(attempt).collect();
    attempts.sort();
    let complaints = ["nudged", "paused", "yielded", "handed_over", "needs_input", "resting"];
    let told = complaints.iter().flat_map(|kind| run.all(kind)).map(ToString::to_string);
    Outcome {
        code: run.code,
        subjects: batch.world.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect(),
        base: batch.read("base.txt"),
        rejected: run.issues("rejected").into_iter().map(str::to_owned).collect(),
        attempts,
        complaints: told.collect(),
        warnings: run.all("warning").iter().map(|warning| warning["text"].to_string()).collect(),
    }
}

fn attempt(attempt: &Value) -> (String, String, u64) {
    let text = |name: &str| attempt[name].as_str().unwrap().to_owned();
    (text("issue"), text("result"), attempt["attempt"].as_u64().unwrap())
}

#[test]
fn a_clock_that_jumps_by_hours_both_ways_changes_nothing_about_a_run() {
    let expected = |kind: &str| -> Vec<String> {
        let order = ["asker", "keeper", "fourth", "third", "red"];
        order.iter().map(|id| format!("{id}: {kind}")).chain(["start".to_owned()]).collect()
    };
    let steady = outcome([0; 5]);
    assert_eq!(steady.subjects, expected("done"), "{steady:?}");
    assert_eq!((steady.code, steady.rejected.as_slice()), (0, &["red".to_owned()][..]), "{steady:?}");
    assert_eq!((steady.base.as_str(), steady.complaints.len()), ("base\nkeeper\nasker\n", 0), "{steady:?}");
    assert_eq!(outcome([5, -3, 9, -7, 30]), steady);
}
