//! However a commit was made, it holds only its agent's files.

use mala_gate::verdict::Status;

use super::{Desk, find};

/// `A` has tested its change, and `B`'s change is staged beside it.
fn desk() -> Desk {
    let d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.edit("B", "b.txt", "B's\n");
    d.w.git(&["add", "b.txt"]);
    d.run("A", "pytest", 0);
    d
}

fn takes_foreign_file(d: &Desk) {
    let verdict = d.check();
    let check = find(&verdict, "files-owned");
    assert_eq!(check.status, Status::Fail, "{verdict:#?}");
    assert!(check.detail.contains("b.txt (held by B)"), "{}", check.detail);
}

#[test]
fn with_no_verify_and_all() {
    let mut d = desk();
    d.git_commit(&["commit", "-q", "--no-verify", "-a", "-m", "bd-proj-1: all"]);
    takes_foreign_file(&d);
}

#[test]
fn with_somebody_elses_staged_file() {
    let mut d = desk();
    d.w.git(&["add", "a.txt"]);
    d.git_commit(&["-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "bd-proj-1: staged"]);
    takes_foreign_file(&d);
}

#[test]
fn with_plumbing() {
    let mut d = desk();
    d.w.git(&["add", "a.txt"]);
    let tree = d.w.git(&["write-tree"]);
    let id = d.w.git(&["commit-tree", "-p", "HEAD", "-m", "bd-proj-1: plumbing", &tree]);
    d.git_commit(&["update-ref", "HEAD", &id]);
    takes_foreign_file(&d);
}

#[test]
fn with_a_cherry_pick_of_somebody_elses_commit() {
    let mut d = Desk::new();
    d.w.git(&["checkout", "-qb", "side"]);
    d.edit("B", "b.txt", "B's\n");
    d.w.git(&["commit", "-qam", "bd-proj-1: b"]);
    d.w.git(&["checkout", "-q", "main"]);
    d.git_commit(&["cherry-pick", "side"]);
    takes_foreign_file(&d);
}

#[test]
fn with_a_merge() {
    let mut d = Desk::new();
    d.w.git(&["checkout", "-qb", "side"]);
    d.edit("B", "b.txt", "B's\n");
    d.w.git(&["commit", "-qam", "side"]);
    d.w.git(&["checkout", "-q", "main"]);
    d.git_commit(&["merge", "-q", "--no-ff", "-m", "bd-proj-1: merge", "side"]);
    takes_foreign_file(&d);
}

#[test]
fn with_a_rename_that_takes_a_foreign_file_away() {
    let mut d = Desk::new();
    d.locks.give("B", "b.txt");
    d.locks.give("A", "mine.txt");
    d.w.git(&["mv", "b.txt", "mine.txt"]);
    d.run("A", "pytest", 0);
    d.git_commit(&["commit", "-qm", "bd-proj-1: rename"]);
    takes_foreign_file(&d);
}

#[test]
fn with_a_replaced_commit() {
    let mut d = desk();
    let honest = d.commit_as("A", "bd-proj-1: honest");
    d.w.git(&["reset", "-q", "--soft", "HEAD~1"]);
    d.git_commit(&["commit", "-q", "-a", "-m", "bd-proj-1: all"]);
    d.w.git(&["replace", d.w.head().as_str(), honest.as_str()]);
    takes_foreign_file(&d);
}

#[test]
fn with_a_submodule_that_git_was_told_to_ignore() {
    let mut d = desk();
    d.w.git(&["reset", "-q"]);
    let link = format!("160000,{},vendored", d.w.head());
    d.w.git(&["update-index", "--add", "--cacheinfo", &link]);
    d.w.git(&["config", "diff.ignoreSubmodules", "all"]);
    d.git_commit(&["commit", "-qm", "bd-proj-1: vendored"]);
    let verdict = d.check();
    let check = find(&verdict, "files-owned");
    assert!(check.detail.contains("vendored"), "{}", check.detail);
}

#[test]
fn with_a_commit_that_is_on_no_branch() {
    let mut d = desk();
    d.commit();
    let id = d.w.git(&["commit-tree", "-p", "HEAD~1", "-m", "bd-proj-1: dangling", "HEAD^{tree}"]);
    d.subject.commit = mala_git::Oid::parse(&id);
    assert!(d.fails("on-a-branch").contains("`mala commit`"));
}

#[test]
fn with_a_commit_that_only_what_is_checked_out_leads_to() {
    let mut d = desk();
    d.commit();
    let detail = |d: &Desk| find(&d.check(), "on-a-branch").detail.clone();
    assert_eq!(detail(&d), "a branch leads to it");
    d.w.git(&["checkout", "-q", "--detach"]);
    assert_eq!(detail(&d), "a branch leads to it");
    d.w.git(&["branch", "-q", "-f", "main", "HEAD~1"]);
    assert_eq!(detail(&d), "what is checked out leads to it, and no branch does");
}

#[test]
fn with_a_good_file_hidden_behind_a_flag_of_the_index() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "bad\n");
    d.commit();
    // The checkout shows a good file, git is told not to look, and the test passes.
    d.w.git(&["update-index", "--assume-unchanged", "a.txt"]);
    d.w.write("a.txt", "good\n");
    d.run("A", "pytest", 0);
    assert!(d.fails("command").starts_with("`a.txt` was committed with other content"));
}

#[test]
fn with_an_empty_commit() {
    let mut d = Desk::new();
    d.run("A", "pytest", 0);
    d.git_commit(&["commit", "-q", "--allow-empty", "-m", "bd-proj-1: nothing"]);
    assert!(d.fails("files-owned").starts_with("the commit changes no file"));
}
