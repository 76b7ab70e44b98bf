//! The repository's own hooks see, change and refuse the commit as they would with `git commit`.

use mala_git::commit::Selection;

use super::{files_of, paths, refused, try_commit};
use crate::world::{Locks, World};

fn world() -> (World, Locks) {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write("new.txt", "new\n");
    w.write("b.txt", "theirs\n");
    w.git(&["add", "b.txt"]);
    (w, Locks::new(&[("A", "a.txt"), ("A", "new.txt"), ("B", "b.txt")]))
}

#[test]
fn a_refusing_hook_leaves_everything_as_it_was() {
    let (w, locks) = world();
    for hook in ["pre-commit", "prepare-commit-msg", "commit-msg"] {
        w.hook(hook, "echo because >&2; exit 3");
        let error = refused(&w, &locks, Selection::Owned);
        assert_eq!(error, format!("the hook `{hook}` refused the commit (exit status: 3):\nbecause"));
        w.remove(&format!(".git/hooks/{hook}"));
    }
}

#[test]
fn a_refusing_hook_that_damages_files_and_index_leaves_everything_as_it_was() {
    let (w, locks) = world();
    w.set_mode("a.txt", 0o600);
    w.hook(
        "pre-commit",
        "echo damage >> a.txt; chmod 755 a.txt; rm new.txt; git add -A . ; git rm -q --cached src/lib.rs; exit 1",
    );
    refused(&w, &locks, Selection::Owned);
    w.hook("pre-commit", "echo fine >> a.txt; git add a.txt");
    w.hook("commit-msg", "exit 1");
    refused(&w, &locks, Selection::Owned);
}

#[test]
fn a_hook_sees_exactly_the_files_of_the_commit() {
    let (w, locks) = world();
    w.hook("pre-commit", "git diff --cached --name-only > ../seen; git status --porcelain >> ../seen");
    try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(w.read("../seen"), "a.txt\nnew.txt\nM  a.txt\n M b.txt\nA  new.txt\n");
}

#[test]
fn what_a_formatter_stages_is_committed() {
    let (w, locks) = world();
    w.hook("pre-commit", "echo formatted > a.txt; git add a.txt");
    try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(w.git(&["show", "HEAD:a.txt"]), "formatted");
    assert_eq!(w.git(&["status", "--porcelain"]), "M  b.txt");
}

#[test]
fn a_formatter_that_fails_on_its_first_run_is_run_again() {
    let (w, locks) = world();
    w.hook("pre-commit", "grep -q formatted a.txt && exit 0; echo formatted > a.txt; exit 1");
    try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(w.git(&["show", "HEAD:a.txt"]), "formatted");
    assert_eq!(w.git(&["status", "--porcelain"]), "M  b.txt");
}

#[test]
fn a_hook_may_add_files_of_the_same_agent_only() {
    let (w, locks) = world();
    w.write("made.txt", "generated\n");
    w.hook("pre-commit", "git add made.txt");
    let error = refused(&w, &locks, paths(&["a.txt"]));
    assert!(
        error.starts_with("the hook `pre-commit` added files to the commit that are not yours: "),
        "{error}"
    );
    locks.give("A", "made.txt");
    try_commit(&w, &locks, paths(&["a.txt"])).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt", "A made.txt"]);
    w.write("a.txt", "again\n");
    w.hook("pre-commit", "git add b.txt");
    let error = refused(&w, &locks, paths(&["a.txt"]));
    assert!(error.contains("`b.txt` is held by `B`"), "{error}");
}

#[test]
fn hooks_for_messages_may_rewrite_them() {
    let (w, locks) = world();
    w.hook("prepare-commit-msg", "echo \"$2\" >> ../kind; echo 'Prepared: yes' >> \"$1\"");
    w.hook("commit-msg", "sed -i 's/a change/another change/' \"$1\"");
    try_commit(&w, &locks, Selection::Owned).unwrap();
    let message = w.git(&["log", "-1", "--format=%B"]);
    assert!(message.starts_with("bd-proj-1: another change\n"), "{message}");
    assert!(message.ends_with("Prepared: yes"), "{message}");
    assert_eq!(w.read("../kind"), "message\n");
    w.write("a.txt", "more\n");
    w.hook("commit-msg", ": > \"$1\"");
    assert!(refused(&w, &locks, Selection::Owned).starts_with("the commit message is empty"));
}

#[test]
fn the_hook_after_a_commit_sees_it_and_cannot_undo_it() {
    let (w, locks) = world();
    w.hook("post-commit", "git log -1 --format=%H > ../after; git status --porcelain >> ../after; exit 1");
    let committed = try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(w.read("../after"), format!("{}\nM  b.txt\n", committed.id));
    assert_eq!(committed.after_hook.unwrap(), "the hook `post-commit` failed (exit status: 1)");
    assert_eq!(w.head(), committed.id);
}

#[test]
fn hooks_are_found_where_the_repository_says() {
    let (w, locks) = world();
    w.program("tools/hooks/pre-commit", "#!/bin/sh\nexit 7\n");
    w.git(&["config", "core.hooksPath", "tools/hooks"]);
    assert!(refused(&w, &locks, paths(&["a.txt"])).contains("(exit status: 7)"));
}

#[test]
fn an_editor_never_opens() {
    let (w, locks) = world();
    w.hook("prepare-commit-msg", "$(git var GIT_EDITOR) \"$1\" || exit 1");
    w.git(&["config", "core.editor", "false"]);
    try_commit(&w, &locks, Selection::Owned).unwrap();
}
