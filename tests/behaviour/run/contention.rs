//! What is said, and done, when agents get in each other's way.

use std::process::Stdio;

use mala_tests::Terse;

use super::{Batch, Run};
use crate::cli::done;

const GOOD: &str = "printf '%s' \"$prompt\" > $OUT/$id; echo work > $id.txt; tested && commit done";

/// Events as if agents had done nothing but wait, made from a real one.
fn pretend(batch: &Batch, kind: &str, target: &str, detail: &str, times: usize) {
    let sql = format!(
        "INSERT INTO event (at, scope, kind, agent, path, detail, target)
         SELECT at, scope, '{kind}', 'ann', path, '{detail}', target FROM event
         WHERE CAST(path AS TEXT) = '{target}' AND kind = 'lock.acquired' ORDER BY seq DESC LIMIT 1"
    );
    for _ in 0..times {
        batch.world.sql().execute(&sql, []).unwrap();
    }
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
    assert_eq!(warnings(&batch), Vec::<String>::new());
    pretend(&batch, "wait.started", file, "{}", 20);
    pretend(&batch, "lock.acquired", file, "{}", 480);
    assert_eq!(warnings(&batch), Vec::<String>::new(), "20 waits and 4 % are fine");
    pretend(&batch, "wait.started", file, "{}", 1);
    assert!(warnings(&batch).concat().contains("21 lock waits in 24 h"), "{:?}", warnings(&batch));
    pretend(&batch, "wait.started", file, "{}", 9);
    assert!(warnings(&batch).concat().contains("% of lock tries"), "{:?}", warnings(&batch));
    let end = batch.run(&[]);
    let told = end.summary()["contention"]["warnings"].to_string();
    assert!(told.contains("--sequential"), "{told}");
}

#[test]
fn a_long_wait_for_a_turn_to_test_has_its_warning() {
    let (batch, name) = (with_locks(""), "some-name");
    pretend(&batch, "wait.started", name, "{}", 100);
    pretend(&batch, "lock.acquired", name, r#"{"waited_ms": 600000}"#, 1);
    assert_eq!(
        warnings(&batch),
        Vec::<String>::new(),
        "turns are there to be waited for, and ten minutes are fine"
    );
    pretend(&batch, "lock.acquired", name, r#"{"waited_ms": 600001}"#, 1);
    let found = warnings(&batch).concat();
    assert!(found.contains("mala test --isolated") && found.contains("--rerun"), "{found}");
}

#[test]
fn what_the_warnings_advise_is_done_if_somebody_wants_that() {
    for is_wanted in [false, true] {
        let batch = with_locks(&format!("[run]\nmitigate = {is_wanted}"));
        pretend(&batch, "wait.started", "some-file", "{}", 30);
        pretend(&batch, "lock.acquired", "some-name", r#"{"waited_ms": 700000}"#, 1);
        for id in ["a", "b", "c"] {
            batch.issue(id, &[]);
        }
        let out = batch.outside("out");
        std::fs::create_dir(&out).unwrap();
        let mut command = batch.command(&["--max-agents", "3"]);
        // The advice is there before the first agent has begun.
        command.env("MALA_RUN_STAGGER", "300ms").env("OUT", &out);
        let run = Run::of(command.stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(run.issues("done").len(), 3, "{run:?}");
        let told = run.all("warning").iter().map(|event| event.to_string()).collect::<String>();
        assert_eq!(told.contains("one at a time"), is_wanted, "{told}");
        let prompt = std::fs::read_to_string(out.join("c")).unwrap();
        assert_eq!(prompt.contains("mala test --isolated"), is_wanted, "{prompt}");
    }
}
