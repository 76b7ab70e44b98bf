//! Issues that agents of a run add.

use super::Batch;

const ADDS: &str = r#""$MALA" issue add "more than $id" > /dev/null || echo "$id" >> "$REFUSED"
    echo work > $id.txt; tested && commit done"#;

#[test]
fn issues_that_agents_add_wait_for_the_next_run() {
    let batch = Batch::new(ADDS);
    batch.issue("bd-1", &[]);
    let first = batch.run(&[]);
    assert_eq!((first.code, first.issues("claimed")), (0, vec!["bd-1"]), "{first:?}");
    assert_eq!(batch.status_of("bd-2"), "open");
    assert_eq!(batch.run(&[]).issues("claimed"), ["bd-2"]);
}

#[test]
fn a_run_that_takes_what_its_agents_add_comes_to_an_end() {
    let batch = Batch::with(ADDS, "[run]\ntake_added = \"now\"");
    batch.issue("bd-1", &[]);
    let refused = batch.outside("refused");
    let run =
        batch.command(&[]).env("REFUSED", &refused).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let run = super::Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1", "bd-2", "bd-3", "bd-4"]), "{run:?}");
    assert_eq!(std::fs::read_to_string(refused).unwrap(), "bd-4\n");
}
