//! `mala run --resume`: where a run was cut off, it goes on.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use mala_tests::eventually;

use super::{Batch, Run, stopping::interrupt};
use crate::cli::done;

/// A client with sessions: its first process writes half of the work and hangs; one that resumes the session finishes it.
const HALF: &str = r#"
    printf '%s\n' "$*" >> "$OUT/calls"; printf '%s\n' "$prompt" >> "$OUT/calls"
    case "$*" in
    *"--resume s-1"*) echo more >> half.txt; tested > /dev/null
        "$MALA" commit -m "bd-1: both halves" > /dev/null; say 2 done; cost 0.1 false done;;
    *) say 1 hello; echo half > half.txt; echo changed > base.txt; touch "$OUT/begun"; sleep 600;;
    esac"#;

fn begun(batch: &Batch, args: &[&str], out: &Path) -> Child {
    fs::create_dir(out).unwrap();
    let run = batch.command(args).env("OUT", out).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has begun", || out.join("begun").exists());
    eventually("its session is written down", || {
        let count = "SELECT count(*) FROM attempt WHERE session = 's-1'";
        batch.world.sql().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    });
    run
}

fn resume(batch: &Batch, out: &Path) -> Run {
    Run::of(batch.command(&["--resume"]).env("OUT", out).stdout(Stdio::piped()).spawn().unwrap())
}

#[test]
fn after_a_stop_the_session_goes_on_with_its_work_in_its_place() {
    let batch = Batch::claude(HALF, "", "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let out = batch.outside("out");
    let run = begun(&batch, &["--issue", "bd-1"], &out);
    interrupt(&run);
    let first = Run::of(run);
    assert_eq!(first.only("handed_over")["is_blocked"], false, "a stop burns no attempt: {first:?}");
    assert_eq!((batch.dirt().as_str(), batch.read("base.txt").as_str()), ("", "base\n"));
    let next = resume(&batch, &out);
    assert_eq!((next.code, next.issues("done")), (0, vec!["bd-1"]), "only what it was asked: {next:?}");
    assert_eq!(
        (batch.read("half.txt").as_str(), batch.read("base.txt").as_str()),
        ("half\nmore\n", "changed\n")
    );
    let calls = fs::read_to_string(out.join("calls")).unwrap();
    assert!(calls.contains("--resume s-1") && calls.contains("is back in its place"), "{calls}");
    assert_eq!(batch.run(&["--resume"]).code, 1, "there is nothing more to resume");
    batch.assert_nothing_left();
}

#[test]
fn after_a_kill_the_session_goes_on_with_its_work_in_its_place() {
    let batch = Batch::claude(HALF, "", "");
    batch.issue("bd-1", &[]);
    let out = batch.outside("out");
    let mut run = begun(&batch, &[], &out);
    run.kill().unwrap();
    run.wait().unwrap();
    let next = resume(&batch, &out);
    assert_eq!(
        (next.code, next.issues("recovered"), next.issues("done")),
        (0, vec!["bd-1"], vec!["bd-1"]),
        "{next:?}"
    );
    assert_eq!(batch.read("half.txt"), "half\nmore\n");
    batch.assert_nothing_left();
}

#[test]
fn work_whose_files_have_changed_since_is_offered_instead() {
    let batch = Batch::claude(HALF, "", "");
    batch.issue("bd-1", &[]);
    let out = batch.outside("out");
    let run = begun(&batch, &[], &out);
    interrupt(&run);
    Run::of(run);
    batch.world.write("base.txt", "a person's\n");
    batch.world.git(&["commit", "-q", "-a", "-m", "meanwhile"]);
    let next = resume(&batch, &out);
    assert_eq!(next.issues("done"), ["bd-1"], "{next:?}");
    assert_eq!(
        (batch.read("half.txt").as_str(), batch.read("base.txt").as_str()),
        ("more\n", "a person's\n")
    );
    let calls = fs::read_to_string(out.join("calls")).unwrap();
    assert!(
        calls.contains(
            "to look at it: mala diff bd-1/1; to get its files: mala restore bd-1/1 --to DIRECTORY"
        ),
        "{calls}"
    );
}

#[test]
fn without_resuming_an_interrupted_issue_is_begun_anew() {
    let batch = Batch::claude(HALF, "", "");
    batch.issue("bd-1", &[]);
    let out = batch.outside("out");
    let run = begun(&batch, &[], &out);
    interrupt(&run);
    Run::of(run);
    fs::remove_file(out.join("begun")).unwrap();
    let mut next = batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap();
    eventually("it begins anew", || out.join("begun").exists());
    next.kill().unwrap();
    next.wait().unwrap();
    assert!(!fs::read_to_string(out.join("calls")).unwrap().contains("--resume"));
}

#[test]
fn the_time_that_a_run_was_given_begins_anew() {
    let batch = Batch::claude(HALF, "", "");
    batch.issue("bd-1", &[]);
    let out = batch.outside("out");
    let mut run = begun(&batch, &["--timeout", "1h"], &out);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(resume(&batch, &out).code, 0);
    let runs = done(&batch.world, "logs list --kind run.started --json").json();
    let given: Vec<_> =
        runs["events"].as_array().unwrap().iter().map(|run| &run["detail"]["options"]).collect();
    assert_eq!(given.len(), 2);
    assert_eq!((&given[0]["timeout_ms"], &given[1]["timeout_ms"]), (&3_600_000.into(), &3_600_000.into()));
}
