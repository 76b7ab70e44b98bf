//! What is said when agents get in each other's way.

use std::process::Stdio;

use mala_tests::Terse;

use super::{Batch, Run};
use crate::cli::done;

const GOOD: &str = "printf '%s' \"$prompt\" > $OUT/$id; echo work > $id.txt; tested && commit done";

/// An event as if an agent had waited for so long, made from a real one.
fn pretend(batch: &Batch, kind: &str, target: &str, waited_ms: u64) {
    let sql = format!(
        "INSERT INTO event (at, steady, scope, kind, agent, path, detail, target)
         SELECT at, steady, scope, '{kind}', 'ann', path, '{{\"waited_ms\": {waited_ms}}}', target FROM event
         WHERE CAST(path AS TEXT) = '{target}' AND kind = 'lock.acquired' ORDER BY seq DESC LIMIT 1"
    );
    assert_eq!(batch.world.sql().execute(&sql, []).unwrap(), 1);
}

fn warnings(batch: &Batch) -> Vec<String> {
    let found = done(&batch.world, "status --json").json()["health"]["warnings"].clone();
    found.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// With a real lock on a file `some-file` and one on a name `some-name` in the log.
fn with_locks(settings: &str) -> Batch {
    let batch = Batch::with(GOOD, settings);
    batch.world.store().take("ann", &["some-file", "name:some-name"]);
    batch
}

#[test]
fn each_line_has_its_warning_in_the_status_and_at_the_end_of_a_run() {
    let (batch, file) = (with_locks(""), "some-file");
    pretend(&batch, "wait.granted", file, 59_000);
    assert_eq!(warnings(&batch), Vec::<String>::new(), "less than a minute is not worth a word");
    pretend(&batch, "wait.granted", file, 600_000);
    let found = warnings(&batch).concat();
    assert!(found.contains("most for `some-file`: 10m") && found.contains("split that file"), "{found}");
    let end = batch.run(&[]);
    let told = end.summary()["contention"].clone();
    assert!(told["warnings"].to_string().contains("split that file"), "{told}");
    assert_eq!(told["advice"], serde_json::json!(["split_file"]), "{told}");
}

#[test]
fn a_long_wait_for_a_turn_to_test_has_its_warning() {
    let (batch, name) = (with_locks("[health]\nwaited_share = 1"), "some-name");
    pretend(&batch, "lock.acquired", name, 600_000);
    pretend(&batch, "wait.granted", name, 600_000);
    assert_eq!(
        warnings(&batch),
        Vec::<String>::new(),
        "turns are there to be waited for, and ten minutes are fine"
    );
    pretend(&batch, "lock.acquired", name, 600_001);
    let found = warnings(&batch).concat();
    assert!(found.contains("mala test --isolated") && found.contains("--rerun"), "{found}");
}

#[test]
fn a_run_tells_what_its_agents_worked_and_waited_and_for_what() {
    let script = "case $id in
        bd-1) echo one >> base.txt; touch \"$OUT/held\"; until_waited; tested && commit done;;
        bd-2) until_held; \"$MALA\" lock acquire base.txt --wait 60s && echo two >> base.txt; tested && commit done;;
        esac";
    let words = "until_held() { while ! [ -e \"$OUT/held\" ]; do sleep 0.02; done; }
        until_waited() { while ! \"$MALA\" status --json | grep -q '\"position\":1'; do sleep 0.02; done; sleep 0.2; }";
    let batch = Batch::new(&format!("{words}\n{script}"));
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let out = batch.outside("out");
    std::fs::create_dir(&out).unwrap();
    let mut command = batch.command(&["--max-agents", "2"]);
    let run = Run::of(command.env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(run.issues("done").len(), 2, "{run:?}");
    let told = &run.summary()["contention"];
    let seconds = |what: &str| told["agent_seconds"][what].as_f64().unwrap();
    for what in ["worked", "waited_for_files", "waited_for_landing"] {
        assert!(seconds(what) > 0.0, "{what}: {told}");
    }
    assert_eq!(told["hottest_file"]["path"], "base.txt", "{told}");
    let all = seconds("worked") + seconds("waited_for_files") + seconds("waited_for_landing");
    let took = run.summary()["seconds"].as_f64().unwrap();
    assert!(all <= 2.0 * took, "two agents have no more time than twice the run's {took}: {told}");
    let health = done(&batch.world, "status --json").json()["health"].clone();
    assert_eq!(
        health["agent_seconds"]["waited_for_files"], told["agent_seconds"]["waited_for_files"],
        "{health}"
    );
}

#[test]
fn nobody_is_told_or_made_to_run_one_agent_at_a_time() {
    let batch = with_locks("");
    pretend(&batch, "wait.granted", "some-file", 6_000_000);
    pretend(&batch, "lock.acquired", "some-name", 6_000_000);
    for id in ["a", "b"] {
        batch.issue(id, &[]);
    }
    let out = batch.outside("out");
    std::fs::create_dir(&out).unwrap();
    // Each waits for the other to have begun.
    batch.agent("touch $OUT/$id; while [ $(ls $OUT | wc -l) -lt 2 ]; do sleep 0.02; done; echo work > $id.txt; commit done");
    let mut command = batch.command(&["--max-agents", "2"]);
    let run = Run::of(command.env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(run.issues("done").len(), 2, "{run:?}");
    let told = format!("{} {}", run.summary()["contention"], warnings(&batch).concat());
    assert!(
        told.contains("split that file") && !told.contains("sequential") && !told.contains("at a time"),
        "{told}"
    );
}
