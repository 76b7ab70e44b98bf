//! What people had left uncommitted, and git's index, after agents.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use mala_tests::eventually;
use serde_json::json;

use super::{Batch, Run};

/// A person's uncommitted edit, staged edit and mode, and an agent that makes all of them what the last commit holds.
fn back_to_the_last_commit(end: &str) -> (Batch, Run) {
    let script = format!(
        "git checkout -q -- base.txt; git restore --staged --worktree staged.txt; chmod -x check.sh
         git show HEAD:both.txt > both.txt; {end}"
    );
    let batch = Batch::with(&script, "[run]\nattempts = 1");
    for name in ["staged.txt", "both.txt"] {
        batch.world.write(name, "committed\n");
    }
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    for name in ["staged.txt", "both.txt"] {
        batch.world.write(name, "staged\n");
    }
    batch.world.git(&["add", "staged.txt", "both.txt"]);
    batch.world.write("both.txt", "edited\n");
    batch.world.write("base.txt", "the person's\n");
    fs::set_permissions(batch.world.root().join("check.sh"), Permissions::from_mode(0o755)).unwrap();
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    (batch, run)
}

fn assert_the_persons_work_is_there(batch: &Batch) {
    assert_eq!(batch.dirt(), "M base.txt\nMM both.txt\n M check.sh\nM  staged.txt");
    assert_eq!(
        (batch.read("base.txt").as_str(), batch.read("both.txt").as_str()),
        ("the person's\n", "edited\n")
    );
    assert_eq!(batch.world.git(&["show", ":both.txt"]), "staged");
    batch.assert_nothing_left();
}

/// A filter that works where mala validates, and fails in the checkout.
const IN_SLOTS_ONLY: &str = "case $PWD in */slots/*) cat;; *) false;; esac";

#[test]
fn what_a_person_had_is_put_back_if_an_agent_makes_it_the_last_commits_and_fails() {
    let (batch, run) = back_to_the_last_commit("exit 1");
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_the_persons_work_is_there(&batch);
}

#[test]
fn what_a_person_had_is_put_back_if_an_agent_makes_it_the_last_commits_and_succeeds() {
    let (batch, run) = back_to_the_last_commit("echo work > work.txt; tested && commit work");
    assert_eq!(run.issues("done"), ["bd-1"], "{run:?}");
    assert_the_persons_work_is_there(&batch);
}

#[test]
fn an_accepted_change_of_a_mode_or_a_kind_leaves_nothing_staged() {
    let script = r#"
        chmod +x base.txt; rm target.txt; ln -s mala.toml target.txt
        git add base.txt target.txt; tested; commit modes"#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write("target.txt", "mala.toml");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.issues("done"), batch.dirt().as_str()), (vec!["bd-1"], ""), "{run:?}");
    batch.assert_nothing_left();
}

#[test]
fn what_git_was_told_not_to_look_at_is_put_back_and_what_the_agent_made_of_it_is_saved() {
    let script = "echo agent > skipped.txt; echo agent > assumed.txt; rm -f deleted.txt; exit 1";
    let batch = Batch::with(script, "[run]\nattempts = 1");
    let names = ["skipped.txt", "assumed.txt", "deleted.txt"];
    names.iter().for_each(|name| batch.world.write(name, "committed\n"));
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    names.iter().for_each(|name| batch.world.write(name, "the person's\n"));
    batch.world.git(&["update-index", "--skip-worktree", "skipped.txt", "deleted.txt"]);
    batch.world.git(&["update-index", "--assume-unchanged", "assumed.txt"]);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(names.map(|name| batch.read(name)), ["the person's\n"; 3]);
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:skipped.txt"]), "agent");
    let told = batch.world.git(&["ls-files", "-v", "assumed.txt", "deleted.txt", "skipped.txt"]);
    assert_eq!(told, "h assumed.txt\nS deleted.txt\nS skipped.txt");
    batch.assert_nothing_left();
}

#[test]
fn a_file_that_git_cannot_store_keeps_nothing_else_from_being_saved_and_put_back() {
    let script = r#"
        case $id in
        bd-1) echo agent > base.txt; echo agent > agent.locked; echo agent >> mine.locked; exit 1;;
        *) echo work > $id.txt; tested && commit work;;
        esac"#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write(".gitattributes", "*.locked filter=locked\n");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    for (name, value) in [("clean", "false"), ("smudge", IN_SLOTS_ONLY), ("required", "true")] {
        batch.world.git(&["config", &format!("filter.locked.{name}"), value]);
    }
    batch.world.write("mine.locked", "the person's\r\n");
    batch.issue("bd-1", &["--priority", "0"]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&["--sequential"]);
    assert_eq!((run.issues("handed_over"), run.issues("done")), (vec!["bd-1"], vec!["bd-2"]), "{run:?}");
    assert_eq!(batch.dirt(), "?? mine.locked");
    assert_eq!(batch.read("mine.locked"), "the person's\r\n");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:agent.locked"]), "agent");
    assert_eq!(batch.run(&[]).code, 0);
}

#[test]
fn a_persons_file_comes_back_with_its_permissions() {
    let script = "echo agent > secret.txt; rm gone.txt; echo agent > gone.txt; exit 1";
    let batch = Batch::with(script, "[run]\nattempts = 1");
    let files = ["secret.txt", "gone.txt"].map(|name| batch.world.root().join(name));
    for file in &files {
        fs::write(file, "the person's\n").unwrap();
        fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    }
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    for file in &files {
        assert_eq!(fs::read_to_string(file).unwrap(), "the person's\n");
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_left_where_it_is_and_named() {
    let script = r#"
        case $id in
        bd-1) echo half > half.txt; rm base.txt; mkfifo base.txt; exit 1;;
        *) echo work > $id.dat; tested && commit work;;
        esac"#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write("check.sh", "true\n");
    batch.world.git(&["commit", "-q", "-a", "-m", "a check that reads no file"]);
    batch.issue("bd-1", &["--priority", "0"]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&["--sequential"]);
    assert_eq!((run.issues("handed_over"), run.issues("done")), (vec!["bd-1"], vec!["bd-2"]), "{run:?}");
    assert_eq!((batch.read("half.txt").as_str(), batch.read("bd-2.dat").as_str()), ("", "work\n"));
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]), "half");
    let notes = batch.notes("bd-1");
    assert!(notes.contains("still in the checkout: base.txt (neither a file nor a link)"), "{notes}");
    let again = batch.text(&[]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("cannot be read"), "{again:?}");
}

#[test]
fn what_a_person_had_is_put_back_although_something_of_the_agents_cannot_be() {
    let script = "echo agent > base.txt; echo agent > a.locked; exit 1";
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write("a.locked", "committed\n");
    batch.world.write(".gitattributes", "*.locked filter=locked\n");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    for (name, value) in [("clean", "cat"), ("smudge", IN_SLOTS_ONLY), ("required", "true")] {
        batch.world.git(&["config", &format!("filter.locked.{name}"), value]);
    }
    batch.world.write("base.txt", "the person's\n");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(batch.read("base.txt"), "the person's\n");
    let notes = batch.notes("bd-1");
    assert!(notes.contains("uncommitted before is in refs/mala/bd-1/1.before"), "{notes}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1.before:base.txt"]), "the person's");
    let refs = batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/mala"]);
    assert_eq!(refs, "refs/mala/bd-1/1\nrefs/mala/bd-1/1.before");
    for name in ["base.txt", "a.locked"] {
        assert_eq!(batch.world.git(&["show", &format!("refs/mala/bd-1/1:{name}")]), "agent");
    }
}

/// A repository with files that git cannot write, and `files`, all committed.
fn with_locked(script: &str, files: &[&str]) -> Batch {
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write(".gitattributes", "*.locked filter=locked\n");
    files.iter().for_each(|name| batch.world.write(name, "committed\n"));
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    for (name, value) in [("clean", "cat"), ("smudge", IN_SLOTS_ONLY), ("required", "true")] {
        batch.world.git(&["config", &format!("filter.locked.{name}"), value]);
    }
    batch
}

#[test]
fn what_an_agent_holds_and_never_touches_is_not_its_work() {
    let batch = Batch::with("exit 1", "[run]\nattempts = 1");
    batch.world.write("staged.txt", "the person's\n");
    batch.world.git(&["add", "staged.txt"]);
    batch.world.write("base.txt", "the person's\n");
    batch.world.write("new.txt", "the person's\n");
    batch.issue("bd-1", &["--file", "*.txt"]);
    let run = batch.run(&[]);
    let handed = run.only("handed_over");
    assert_eq!((&handed["saved_ref"], &handed["files"]), (&json!(null), &json!([])), "{run:?}");
    assert_eq!(batch.dirt(), "M base.txt\nA  staged.txt\n?? new.txt");
    assert_eq!(batch.world.git(&["for-each-ref", "refs/mala"]), "");
    assert!(!batch.notes("bd-1").contains(".txt"), "{}", batch.notes("bd-1"));
    batch.assert_nothing_left();
}

#[test]
fn an_end_that_could_not_be_written_down_takes_nothing_more_when_it_is_tried_again() {
    let batch = Batch::with("echo agent > base.txt; exit 1", "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    batch.world.write("base.txt", "the person's\n");
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event WHEN new.kind = 'attempt.finished'
                   BEGIN SELECT RAISE(ABORT, 'not today'); END";
    batch.world.sql().execute_batch(trigger).unwrap();
    let failed = batch.command(&[]).output().unwrap();
    assert_eq!(failed.status.code(), Some(3), "{failed:?}");
    assert_eq!(batch.read("base.txt"), "the person's\n");
    batch.world.sql().execute_batch("DROP TRIGGER broken").unwrap();
    let next = batch.run(&[]);
    assert_eq!(next.only("recovered")["saved_ref"], "refs/mala/bd-1/1", "{next:?}");
    assert_eq!(batch.read("base.txt"), "the person's\n");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:base.txt"]), "agent");
    let refs = batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/mala"]);
    assert_eq!(refs, "refs/mala/bd-1/1", "the person's work is not taken for the agent's");
    assert!(batch.notes("bd-1").contains("refs/mala/bd-1/1"), "{}", batch.notes("bd-1"));
    batch.assert_nothing_left();
}

#[test]
fn what_somebody_writes_between_two_tries_to_restore_is_saved_too() {
    let script = "echo agent > other.txt; echo agent > z.locked; exit 1";
    let batch = with_locked(script, &["other.txt", "z.locked"]);
    batch.issue("bd-1", &[]);
    // A try ends with a new index.
    let index = || fs::metadata(batch.world.root().join(".git/index")).unwrap().ino();
    let first = index();
    let run = batch.start(&[]);
    eventually("a first try has restored it", || index() != first);
    assert_eq!(batch.read("other.txt"), "committed\n");
    batch.world.write("other.txt", "typed meanwhile\n");
    let run = Run::of(run);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:other.txt"]), "agent");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1.2:other.txt"]), "typed meanwhile");
    assert!(batch.notes("bd-1").contains("refs/mala/bd-1/1.2 "), "{}", batch.notes("bd-1"));
}

#[test]
fn one_file_that_cannot_be_restored_keeps_no_other_one_from_it_and_is_named() {
    for (end, event) in
        [("exit 1", "handed_over"), (r#"tested && "$MALA" commit -m "$id: work" work.txt"#, "done")]
    {
        let left =
            "echo agent > a.locked; echo agent > scratch.txt; git add scratch.txt; echo agent > base.txt";
        let batch = with_locked(&format!("echo work > work.txt; {end}; {left}"), &["a.locked"]);
        if event == "handed_over" {
            fs::write(batch.outside("agent.sh"), format!("{left}; exit 1")).unwrap();
        }
        batch.issue("bd-1", &[]);
        let run = batch.run(&[]);
        assert_eq!(run.issues(event), ["bd-1"], "{run:?}");
        assert_eq!((batch.dirt().as_str(), batch.read("base.txt").as_str()), ("D a.locked", "base\n"));
        let files = &run.summary()["attempts"][0]["files"];
        assert_eq!(*files, json!(["base.txt", "scratch.txt"]), "only what is out of the checkout: {run:?}");
        let notes = batch.notes("bd-1");
        for part in ["could not be restored", "a.locked", "refs/mala/bd-1/1 "] {
            assert!(notes.contains(part), "`{part}` is missing: {notes}");
        }
        let kept = fs::read_dir(batch.world.state_dir().join("staged")).map_or(0, Iterator::count);
        assert_eq!(kept, 0, "what is of no use any more is gone");
    }
}
