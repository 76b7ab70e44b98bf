//! kill -9 at every step of the journal: the next start repairs it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mala_tests::DEADLINE;

use super::Batch;

/// An agent that is refused once, told, and then succeeds: it passes through every state. A third process fails.
const SCRIPT: &str = r#"
    echo $$ >> "$OUT/processes"
    if is_retry; then echo work > $id.txt; else echo broken $$ > $id.txt; fi
    commit step
"#;

/// Kills `mala run` when the journal shows the nth step, for each n, until a run gets through.
#[test]
fn whatever_step_a_run_is_killed_at_the_next_start_repairs_it() {
    for step in 1.. {
        let batch = Batch::new(SCRIPT);
        batch.issue("bd-1", &["--file", "bd-1.txt"]);
        let out = batch.outside("out");
        fs::create_dir(&out).unwrap();
        if !killed_at_step(&batch, &out, step) {
            assert!(step > 5, "a run has more steps than {step}");
            return;
        }
        batch.assert_nothing_goes_on();
        let next =
            super::Run::of(batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!((next.code, batch.status_of("bd-1").as_str()), (0, "closed"), "step {step}: {next:?}");
        assert_eq!(batch.dirt(), "", "step {step}");
        batch.assert_nothing_left();
        batch.world.git(&["fsck", "--no-dangling"]);
    }
}

/// True if the run was killed as soon as `step` steps were written; false if it ended before.
fn killed_at_step(batch: &Batch, out: &Path, step: usize) -> bool {
    let mut run =
        batch.command(&[]).env("OUT", out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let steps = batch.world.store().events(&mala_store::EventFilter::default()).unwrap();
        if steps.iter().filter(|event| event.kind.starts_with("attempt.")).count() >= step {
            run.kill().unwrap();
            run.wait().unwrap();
            return true;
        }
        if run.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(Instant::now() < deadline, "step {step} never came");
        std::thread::sleep(Duration::from_micros(500));
    }
}
