//! Ends without code are accepted only if they are true.

use mala_git::Oid;

use super::{Desk, honest};

fn says(d: &mut Desk, line: &str) {
    d.subject.final_message = Some(format!("I looked into it.\n{line}"));
}

#[test]
fn no_change_is_accepted_from_an_agent_that_changed_nothing() {
    let mut d = Desk::new();
    says(&mut d, "MALA-OUTCOME: no-change: it works as described");
    d.edit("B", "b.txt", "B is busy\n");
    d.passes();
    d.edit("A", "a.txt", "forgotten\n");
    assert!(d.fails("clean-status").starts_with("no-change was declared, but `a.txt` is changed"));
}

#[test]
fn saying_nothing_or_saying_it_in_passing_is_not_enough() {
    let mut d = Desk::new();
    assert!(
        d.fails("outcome").starts_with("nothing was committed: commit your own files with: mala commit -m ")
    );
    says(&mut d, "I could have said MALA-OUTCOME: no-change: x");
    d.fails("outcome");
    says(&mut d, "MALA-OUTCOME: no-change: x\nBut I did not mean it.");
    d.fails("outcome");
}

#[test]
fn no_change_with_a_commit_is_a_contradiction() {
    let (mut d, _) = honest();
    says(&mut d, "MALA-OUTCOME: no-change: nothing to do");
    assert!(d.fails("outcome").contains("but"));
    // Also if the commit is not shown to the gate.
    d.subject.commit = None;
    assert!(d.fails("outcome").contains("names this issue"));
}

#[test]
fn obsolete_needs_a_clean_slate_too() {
    let mut d = Desk::new();
    says(&mut d, "MALA-OUTCOME: obsolete: the feature was removed");
    d.passes();
    d.edit("A", "a.txt", "x\n");
    d.fails("clean-status");
}

#[test]
fn already_complete_must_be_shown_by_a_commit() {
    let mut d = Desk::new();
    says(&mut d, "MALA-OUTCOME: already-complete: somebody did it");
    assert!(d.fails("outcome").contains("`git log`"));
    says(&mut d, "MALA-OUTCOME: already-complete: done in 0123456789abcdef");
    d.fails("outcome");
    let done_in = |commit: &Oid| format!("MALA-OUTCOME: already-complete: done in {}", &commit.as_str()[..8]);
    let unrelated = d.w.head();
    let said = done_in(&unrelated);
    says(&mut d, &said);
    assert!(d.fails("outcome").contains("does not name `bd-proj-1`"), "any commit would do otherwise");
    d.w.git(&["commit", "-q", "--allow-empty", "-m", "bd-proj-12: not this one"]);
    let said = done_in(&d.w.head());
    d.subject.claimed_head = Some(d.w.head());
    says(&mut d, &said);
    d.fails("outcome");
    d.w.git(&["commit", "-q", "--allow-empty", "-m", "bd-proj-1: this one"]);
    let said = done_in(&d.w.head());
    d.subject.claimed_head = Some(d.w.head());
    says(&mut d, &said);
    d.passes();
    says(&mut d, "MALA-OUTCOME: already-complete: somebody did it");
    assert!(d.fails("outcome").contains("names this issue"), "the commit has to be named");
}

#[test]
fn a_commit_on_another_branch_does_not_show_that_it_is_done() {
    let mut d = Desk::new();
    d.w.git(&["checkout", "-qb", "side"]);
    d.w.git(&["commit", "-q", "--allow-empty", "-m", "bd-proj-1: over there"]);
    let there = d.w.head();
    d.w.git(&["checkout", "-q", "main"]);
    says(&mut d, &format!("MALA-OUTCOME: already-complete: done in {there}"));
    d.fails("outcome");
}

#[test]
fn documentation_alone_needs_no_test() {
    let mut d = Desk::new();
    d.edit("A", "docs/guide.md", "words\n");
    d.edit("A", "README.md", "words\n");
    d.commit();
    d.fails("command");
    says(&mut d, "MALA-OUTCOME: docs-only: explains it");
    d.passes();
}

#[test]
fn docs_only_with_code_in_it_is_refused() {
    let mut d = Desk::new();
    d.edit("A", "README.md", "words\n");
    d.edit("A", "src/lib.rs", "code\n");
    d.commit();
    says(&mut d, "MALA-OUTCOME: docs-only: just words");
    assert!(d.fails("outcome").contains("`src/lib.rs` is no documentation"));
}

#[test]
fn a_program_in_the_clothes_of_documentation_is_refused() {
    let mut d = Desk::new();
    d.edit("A", "docs/run.md", "#!/bin/sh\n");
    d.w.set_mode("docs/run.md", 0o755);
    d.locks.give("A", "docs/link.md");
    std::os::unix::fs::symlink("../src/lib.rs", d.w.root.join("docs/link.md")).unwrap();
    d.commit();
    says(&mut d, "MALA-OUTCOME: docs-only: just words");
    assert!(d.fails("outcome").contains("`docs/link.md`, `docs/run.md` is no documentation"));
}

#[test]
fn documentation_of_others_stays_theirs() {
    let mut d = Desk::new();
    d.edit("B", "README.md", "B's words\n");
    d.git_commit_all();
    says(&mut d, "MALA-OUTCOME: docs-only: just words");
    d.fails("files-owned");
}

impl Desk {
    fn git_commit_all(&mut self) {
        self.w.git(&["add", "-A"]);
        self.git_commit(&["commit", "-qm", "bd-proj-1: all"]);
    }
}
