//! What a person has in the checkout and git does not hold, after agents.

use std::fs;
use std::process::Stdio;

use mala_tests::eventually;

use super::{Batch, Run};

const REMOVE: &str = "rm -rf .env nested empty";

/// With an ignored file, a repository with a commit, and an empty directory, all of a person.
fn batch(script: &str) -> Batch {
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write(".gitignore", ".env\n");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "ignore"]);
    batch.world.write(".env", "KEY=1\n");
    batch.world.git(&["init", "-q", "nested"]);
    for (name, value) in [("user.name", "P"), ("user.email", "p@example.invalid")] {
        batch.world.git(&["-C", "nested", "config", name, value]);
    }
    batch.world.git(&["-C", "nested", "commit", "-q", "--allow-empty", "-m", "inner"]);
    fs::create_dir(batch.world.root().join("empty")).unwrap();
    batch.issue("bd-1", &[]);
    batch
}

fn assert_all_is_there(batch: &Batch) {
    assert_eq!(batch.read(".env"), "KEY=1\n");
    assert_eq!(batch.world.git(&["-C", "nested", "log", "--format=%s"]), "inner");
    assert!(batch.world.root().join("empty").is_dir());
}

fn warnings(run: &Run) -> String {
    run.all("warning").iter().map(|event| event["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_git_does_not_hold_is_put_back_and_named_whether_the_agent_fails_or_succeeds() {
    for (end, kind) in [("exit 1", "handed_over"), ("echo work > work.txt; tested && commit work", "done")] {
        let batch = batch(&format!("{REMOVE}; [ ! -e .env ] && touch $OUT; {end}"));
        let sign = batch.outside("sign");
        let run = Run::of(batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap());
        assert!(sign.exists(), "the agent could remove it: {run:?}");
        assert_eq!(run.issues(kind), ["bd-1"], "{run:?}");
        assert_all_is_there(&batch);
        let told = warnings(&run);
        assert!(told.contains("put back what was removed") && told.contains(".env"), "{told}");
        batch.assert_nothing_left();
    }
}

#[test]
fn what_an_agent_of_a_killed_run_removed_is_put_back_by_the_next_start() {
    let batch = batch(&format!("{REMOVE}; touch $OUT; sleep 600"));
    let sign = batch.outside("sign");
    let mut run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has left its sign", || sign.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(!batch.world.root().join(".env").exists());
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    let outcome = next.only("recovered")["outcome"].as_str().unwrap();
    assert!(outcome.contains("put back what was removed"), "{outcome}");
    assert_all_is_there(&batch);
    batch.assert_nothing_left();
}

#[test]
fn what_is_too_large_to_be_put_back_is_named_before_agents_begin() {
    let batch = batch("exit 1");
    batch.world.write(".gitignore", ".env\n*.sql\n");
    batch.world.git(&["commit", "-q", "-a", "-m", "ignore more"]);
    batch.world.write("dump.sql", &"x".repeat(2_000_000));
    let run =
        Run::of(batch.command(&[]).env("MALA_KEEP_MAX_FILE", "1MB").stdout(Stdio::piped()).spawn().unwrap());
    let told = warnings(&run);
    assert!(told.contains("dump.sql (2MB)") && told.contains("keep.max_file"), "{told}");
}

#[test]
fn what_was_kept_of_a_persons_work_and_is_gone_is_said_loudly_at_the_end_of_the_attempt() {
    let batch = Batch::with(
        "touch $OUT/begun; while ! [ -e $OUT/go ]; do sleep 0.05; done; exit 1",
        "[run]\nattempts = 1",
    );
    batch.world.write("base.txt", "the person's\n");
    batch.issue("bd-1", &[]);
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    let run = batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has begun", || out.join("begun").exists());
    for name in batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/mala-runs"]).lines() {
        batch.world.git(&["update-ref", "-d", name]);
    }
    batch.world.git(&["reflog", "expire", "--expire=now", "--all"]);
    batch.world.git(&["prune", "--expire=now"]);
    fs::write(out.join("go"), "").unwrap();
    let run = Run::of(run);
    let told = warnings(&run);
    assert!(told.contains("LOST") && told.contains("base.txt"), "{told}\n{run:?}");
}
