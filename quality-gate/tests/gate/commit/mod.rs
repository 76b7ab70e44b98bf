//! `commit`: exactly one's own files, and nothing else moves.

mod hooks;
mod kills;
mod races;

use std::os::unix::fs::symlink;

use mala_core::{Actor, IssueId, Owner, RunId};
use mala_gate::commit;
use mala_gate::evidence::Recording;
use mala_gate::rules::Foreign;
use mala_git::commit::{CommitError, Committed, GitHooks, Request, Selection};

use crate::evidence::{ended, launch, record, who};
use crate::world::{Locks, World, agent, path};

pub(crate) fn owner(pid: u32) -> Owner {
    Owner { host: "test".into(), boot_id: "test".into(), pid, start_time: 0, node: None }
}

pub(crate) fn request(message: &str, selection: Selection) -> Request {
    Request {
        who: Actor {
            agent: agent("A"),
            issue: Some(IssueId::new("proj-1").unwrap()),
            run: Some(RunId::new("run-7").unwrap()),
        },
        selection,
        message: message.into(),
        owner: owner(1),
    }
}

pub(crate) fn paths(paths: &[&str]) -> Selection {
    Selection::Paths(paths.iter().map(|text| path(text)).collect())
}

/// Commits as `A`, who owns what `locks` says.
pub(crate) fn try_commit(w: &World, locks: &Locks, selection: Selection) -> Result<Committed, CommitError> {
    commit(&w.repo(), locks, &GitHooks, &request("bd-proj-1: a change", selection), Foreign::Named)
}

pub(crate) fn files_of(w: &World, revision: &str) -> Vec<String> {
    let out = w.git(&["show", "--no-renames", "--format=", "--name-status", revision]);
    out.lines().map(|line| line.replace('\t', " ")).collect()
}

fn status(w: &World) -> Vec<String> {
    w.git(&["status", "--porcelain", "--untracked-files=all"]).lines().map(str::to_owned).collect()
}

/// Fails, and leaves everything as it was.
pub(crate) fn refused(w: &World, locks: &Locks, selection: Selection) -> String {
    let before = w.photo();
    let error = try_commit(w, locks, selection).unwrap_err();
    assert_eq!(w.photo(), before, "after: {error}");
    assert!(!w.root.join(".git/index.lock").exists());
    assert_eq!(
        w.scope().work_dir().join("commits").read_dir().map_or(0, Iterator::count),
        0,
        "nothing is left behind"
    );
    error.to_string()
}

#[test]
fn a_commit_takes_its_agents_files_and_leaves_everybody_elses() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write("new.txt", "mine too\n");
    w.write("b.txt", "staged by B\n");
    w.git(&["add", "b.txt"]);
    w.write("b.txt", "staged by B, and edited since\n");
    w.write("b-new.txt", "new by B\n");
    w.git(&["add", "-N", "b-new.txt"]);
    w.write("loose.txt", "nobody's\n");
    let locks = Locks::new(&[("A", "a.txt"), ("A", "new.txt"), ("B", "b.txt"), ("B", "b-new.txt")]);
    let others = w.git(&["ls-files", "--stage", "b.txt", "b-new.txt"]);
    let committed = try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(committed.id, w.head());
    assert_eq!(committed.branch.as_deref(), Some("refs/heads/main"));
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt", "A new.txt"]);
    assert_eq!(w.git(&["ls-files", "--stage", "b.txt", "b-new.txt"]), others);
    assert_eq!(status(&w), [" A b-new.txt", "MM b.txt", "?? loose.txt"]);
}

#[test]
fn named_files_and_folders_are_taken_and_nothing_else_of_ones_own() {
    let w = World::new();
    w.write("a.txt", "1\n");
    w.write("src/lib.rs", "2\n");
    w.write("src/deep/new.rs", "3\n");
    w.write("src2.rs", "4\n");
    let locks =
        Locks::new(&[("A", "a.txt"), ("A", "src/lib.rs"), ("A", "src/deep/new.rs"), ("A", "src2.rs")]);
    try_commit(&w, &locks, paths(&["src"])).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["A src/deep/new.rs", "M src/lib.rs"]);
    assert_eq!(status(&w), [" M a.txt", "?? src2.rs"]);
}

#[test]
fn deletions_renames_modes_links_and_filters_are_committed_as_git_would() {
    let w = World::new();
    w.write(".gitattributes", "*.up filter=up\n");
    w.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    w.git(&["add", ".gitattributes"]);
    w.git(&["commit", "-qm", "attributes"]);
    w.remove("a.txt");
    w.git(&["mv", "b.txt", "moved.txt"]);
    w.set_mode("src/lib.rs", 0o755);
    symlink("src", w.root.join("link")).unwrap();
    w.write("x.up", "shout\n");
    let own = ["a.txt", "b.txt", "moved.txt", "src/lib.rs", "link", "x.up"];
    let locks = Locks::new(&own.map(|name| ("A", name)));
    try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(
        files_of(&w, "HEAD"),
        ["D a.txt", "D b.txt", "A link", "A moved.txt", "M src/lib.rs", "A x.up"]
    );
    let tree = w.git(&["ls-tree", "-r", "HEAD"]);
    assert!(tree.contains("120000") && tree.contains("100755"), "{tree}");
    assert_eq!(w.git(&["show", "HEAD:x.up"]), "SHOUT");
    assert_eq!(status(&w), [""; 0]);
}

#[test]
fn a_file_may_become_a_folder_and_a_folder_a_file() {
    let w = World::new();
    w.remove("a.txt");
    w.write("a.txt/inner", "x\n");
    w.remove("src/lib.rs");
    std::fs::remove_dir(w.root.join("src")).unwrap();
    w.write("src", "a file now\n");
    let own = ["a.txt", "a.txt/inner", "src", "src/lib.rs"];
    try_commit(&w, &Locks::new(&own.map(|name| ("A", name))), Selection::Owned).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["D a.txt", "A a.txt/inner", "A src", "D src/lib.rs"]);
    assert_eq!(status(&w), [""; 0]);
}

#[test]
fn names_of_any_bytes_are_committed() {
    use std::os::unix::ffi::OsStrExt;
    let w = World::new();
    let name = std::ffi::OsStr::from_bytes(b"odd\n\xff \"name\"");
    w.write(std::path::Path::new(name), "x\n");
    let locks = Locks::default();
    locks.give_bytes("A", name.as_bytes());
    let committed = try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(committed.files[0].as_bytes(), name.as_bytes());
    assert_eq!(status(&w), [""; 0]);
}

#[test]
fn a_file_of_another_agent_is_refused_by_name() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write("b.txt", "theirs\n");
    w.write("loose.txt", "nobody's\n");
    let locks = Locks::new(&[("A", "a.txt"), ("B", "b.txt")]);
    let error = refused(&w, &locks, paths(&["a.txt", "b.txt"]));
    assert_eq!(error, "`b.txt` is held by `B`: leave it out, or ask for it");
    let error = refused(&w, &locks, paths(&["loose.txt"]));
    assert_eq!(error, "you have never held `loose.txt`: take it first");
}

#[test]
fn half_of_a_foreign_rename_is_refused_too() {
    let w = World::new();
    w.git(&["mv", "b.txt", "mine.txt"]);
    let locks = Locks::new(&[("A", "mine.txt"), ("B", "b.txt")]);
    let error = refused(&w, &locks, paths(&["mine.txt", "b.txt"]));
    assert!(error.contains("`b.txt` is held by `B`"), "{error}");
}

#[test]
fn there_must_be_something_to_commit_and_something_to_say() {
    let w = World::new();
    let locks = Locks::new(&[("A", "a.txt"), ("A", "ignored")]);
    assert_eq!(refused(&w, &locks, Selection::Owned), "nothing to commit: no file has changed");
    w.write(".git/info/exclude", "ignored\n");
    w.write("ignored", "x");
    w.write("b.txt", "theirs\n");
    for (names, expected) in [
        ("a.txt", "nothing has changed at `a.txt`, or git ignores it: see `git status`"),
        ("ignored", "nothing has changed at `ignored`, or git ignores it: see `git status`"),
    ] {
        assert_eq!(refused(&w, &locks, paths(&[names])), expected);
    }
    assert!(refused(&w, &locks, Selection::Owned).contains("1 changed, none of them held by `A`"));
    w.write("a.txt", "x\n");
    let error = commit(&w.repo(), &locks, &GitHooks, &request(" \n\t\n", Selection::Owned), Foreign::Named)
        .unwrap_err();
    assert_eq!(error.to_string(), "the commit message is empty: say what changes, with `-m`");
}

#[test]
fn the_first_commit_of_a_branch_works() {
    let w = World::empty();
    w.write("a.txt", "a\n");
    w.write("b.txt", "b\n");
    w.git(&["add", "b.txt"]);
    try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["A a.txt"]);
    assert_eq!(status(&w), ["A  b.txt"]);
    assert_eq!(w.git(&["reflog", "--format=%gs"]), "commit (initial): bd-proj-1: a change");
}

#[test]
fn on_a_detached_head_no_branch_moves() {
    let w = World::new();
    w.git(&["checkout", "-q", "--detach"]);
    w.write("a.txt", "x\n");
    let committed = try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    assert_eq!(committed.branch, None);
    assert_eq!(w.git(&["rev-parse", "HEAD~1"]), w.git(&["rev-parse", "main"]));
    assert!(!w.try_git(&["symbolic-ref", "-q", "HEAD"]).status.success(), "still detached");
    assert_eq!(status(&w), [""; 0]);
}

#[test]
fn in_a_linked_worktree_only_its_own_index_and_branch_move() {
    let w = World::new();
    w.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let main = w.photo();
    let linked = World::at(w.base().join("linked"), &w);
    linked.write("a.txt", "x\n");
    try_commit(&linked, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    assert_eq!(files_of(&linked, "side"), ["M a.txt"]);
    assert_eq!(status(&linked), [""; 0]);
    assert_eq!(w.photo(), main);
}

#[test]
fn in_the_middle_of_a_merge_nothing_is_committed() {
    let w = World::new();
    w.git(&["checkout", "-qb", "other"]);
    w.write("b.txt", "other\n");
    w.git(&["commit", "-qam", "other"]);
    w.git(&["checkout", "-q", "main"]);
    w.write("b.txt", "main\n");
    w.git(&["commit", "-qam", "main"]);
    assert!(!w.try_git(&["merge", "-q", "other"]).status.success());
    w.write("a.txt", "x\n");
    let error = refused(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned);
    assert!(error.starts_with("a merge is not finished in this checkout"), "{error}");
    // Conflicts without a merge, as a failed `git stash pop` leaves them.
    w.remove(".git/MERGE_HEAD");
    let error = refused(&w, &Locks::new(&[("A", "b.txt")]), Selection::Owned);
    assert_eq!(error, "`b.txt` has merge conflicts: resolve them and `git add` it first");
}

#[test]
fn submodules_are_left_alone() {
    let (w, other) = (World::new(), World::new());
    let from = other.root.to_str().unwrap();
    w.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", from, "sub"]);
    w.git(&["commit", "-qm", "sub"]);
    w.git(&[
        "-C",
        "sub",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@x",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    w.write("a.txt", "x\n");
    let locks = Locks::new(&[("A", "a.txt"), ("A", "sub")]);
    assert!(refused(&w, &locks, paths(&["sub"])).starts_with("`sub` is a submodule"));
    try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt"]);
    assert_eq!(status(&w), [" M sub"]);
}

#[test]
fn the_message_carries_what_mala_knows() {
    let w = World::new();
    w.write("a.txt", "x\n");
    w.write("src/lib.rs", "x\n");
    let locks = Locks::new(&[("A", "a.txt"), ("A", "src/lib.rs")]);
    let evidence = record(&w, "A", &locks, || {}).id;
    let wanted = request("bd-proj-1: subject\n\nBody --- with\n---\na divider.  \n\n\n", Selection::Owned);
    let made = commit(&w.repo(), &locks, &GitHooks, &wanted, Foreign::Named).unwrap();
    assert_eq!(made.evidence, std::slice::from_ref(&evidence));
    assert_eq!(
        w.git(&["log", "-1", "--format=%B"]),
        format!(
            "bd-proj-1: subject\n\nBody --- with\n---\na divider.\n\nMala-Issue: proj-1\nMala-Run: run-7\n\
             Mala-Agent: A\nMala-Evidence: {evidence}\nMala-Fence: 5, 10"
        )
    );
    assert_eq!(w.git(&["log", "-1", "--format=%(trailers:key=Mala-Issue,valueonly)"]), "proj-1");
}

#[test]
fn only_what_passed_on_exactly_this_is_named_as_its_evidence() {
    let w = World::new();
    let locks = Locks::new(&[("A", "a.txt")]);
    w.write("a.txt", "other\n");
    record(&w, "A", &locks, || {});
    w.write("a.txt", "this\n");
    // It held something else for a moment.
    record(&w, "A", &locks, || w.write("a.txt", "for a moment\n"));
    w.write("a.txt", "this\n");
    let failed = Recording::begin(&w.repo(), who("A"), launch(&w, "ruff check")).unwrap();
    failed.finish(ended(1), &locks).unwrap();
    let made = try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(made.evidence, []);
    w.write("a.txt", "and more\n");
    record(&w, "A", &locks, || {});
    let newest = record(&w, "A", &locks, || {});
    let made = try_commit(&w, &locks, Selection::Owned).unwrap();
    assert_eq!(made.evidence, [newest.id], "of one command the newest");
}

#[test]
fn author_and_signature_follow_the_users_settings() {
    let w = World::new();
    w.program(
        "../home/sign",
        "#!/bin/sh\ncat > /dev/null\nprintf -- '-----BEGIN PGP SIGNATURE-----\\nfake\\n'\necho '[GNUPG:] SIG_CREATED ' >&2\n",
    );
    w.git(&["config", "gpg.program", w.home().join("sign").to_str().unwrap()]);
    w.git(&["config", "commit.gpgSign", "true"]);
    w.git(&["config", "user.name", "Somebody Else"]);
    w.write("a.txt", "x\n");
    try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    let raw = w.git(&["cat-file", "commit", "HEAD"]);
    assert!(raw.contains("gpgsig -----BEGIN PGP SIGNATURE-----"), "{raw}");
    assert!(raw.contains("author Somebody Else <test@example.invalid>"), "{raw}");
}

#[test]
fn without_a_name_to_commit_under_nothing_happens() {
    let w = World::new();
    w.git(&["config", "--unset", "user.name"]);
    w.git(&["config", "--unset", "user.email"]);
    w.git(&["config", "user.useConfigOnly", "true"]);
    w.write("a.txt", "x\n");
    let error = refused(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned);
    assert_eq!(error, "git does not know who commits: `user.name` and `user.email` are not set");
    w.git(&["config", "user.name", "Test"]);
    let error = refused(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned);
    assert_eq!(error, "git does not know who commits: `user.email` is not set");
}
