//! What is read from git is what is there, whatever the repository's settings say.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use mala_git::{Change, Content, Head, Kind, Oid, RepoPath, State};

use crate::world::{World, path};

fn states(world: &World) -> Vec<(String, State)> {
    let status = world.repo().status().unwrap();
    status.entries.into_iter().map(|entry| (entry.path.to_string(), entry.state)).collect()
}

fn tracked(staged: Option<Change>, unstaged: Option<Change>) -> State {
    State::Tracked { staged, unstaged }
}

fn stored(world: &World, revision: &str) -> Content {
    Content::Object(Oid::parse(&world.git(&["rev-parse", revision])).unwrap())
}

#[test]
fn every_kind_of_change_is_seen() {
    let w = World::new();
    w.write("a.txt", "changed\n");
    w.git(&["add", "a.txt"]);
    w.write("a.txt", "changed again\n");
    w.remove("b.txt");
    w.set_mode("src/lib.rs", 0o755);
    w.write("new.txt", "new\n");
    w.git(&["mv", "-k", "nothing", "nowhere"]);
    assert_eq!(
        states(&w),
        [
            ("a.txt".into(), tracked(Some(Change::Modified), Some(Change::Modified))),
            ("b.txt".into(), tracked(None, Some(Change::Deleted))),
            ("src/lib.rs".into(), tracked(None, Some(Change::Modified))),
            ("new.txt".into(), State::Untracked),
        ]
    );
}

#[test]
fn a_rename_shows_both_names() {
    let w = World::new();
    w.git(&["config", "diff.renames", "copies"]);
    w.git(&["mv", "a.txt", "moved.txt"]);
    assert_eq!(
        states(&w),
        [
            ("a.txt".into(), tracked(Some(Change::Deleted), None)),
            ("moved.txt".into(), tracked(Some(Change::Added), None)),
        ]
    );
    w.git(&["commit", "-qm", "move"]);
    let commit = w.repo().commit(&w.head()).unwrap();
    let changes = w.repo().changes_of(&commit).unwrap();
    let names: Vec<String> = changes.iter().map(|change| change.path.to_string()).collect();
    assert_eq!(names, ["a.txt", "moved.txt"]);
    assert!(changes[0].after.is_none() && changes[1].before.is_none());
}

#[test]
fn names_may_be_any_bytes() {
    let w = World::new();
    let names: [&[u8]; 5] = [b"new\nline", b"\"quoted\"", b"\xff\xfe", b"back\\slash", b"tail\r"];
    for name in names {
        w.write(Path::new(OsStr::from_bytes(name)), name);
    }
    let repo = w.repo();
    let status = repo.status().unwrap();
    let mut seen: Vec<&[u8]> = status.paths().map(RepoPath::as_bytes).collect();
    let mut wanted = names.to_vec();
    seen.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(seen, wanted);
    let contents = repo.contents(status.paths()).unwrap();
    w.git(&["add", "."]);
    w.git(&["commit", "-qm", "names"]);
    let entries = repo.entries_in(&w.head(), status.paths()).unwrap();
    assert_eq!(entries.len(), names.len());
    for (path, oid) in entries {
        assert_eq!(contents[&path], Content::Object(oid), "{path}");
    }
}

#[test]
fn content_is_what_git_would_store() {
    let w = World::new();
    w.write(".gitattributes", "*.crlf text eol=crlf\n*.up filter=up\n");
    w.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    w.write("x.crlf", "one\r\ntwo\r\n");
    w.write("x.up", "shout\n");
    symlink("a.txt", w.root.join("link")).unwrap();
    symlink("src", w.root.join("folder")).unwrap();
    let paths = ["x.crlf", "x.up", "link", "folder", "gone", "folder/lib.rs", "src/lib.rs"].map(path);
    let contents = w.repo().contents(&paths).unwrap();
    w.git(&["add", "."]);
    for name in ["x.crlf", "x.up", "link", "folder", "src/lib.rs"] {
        assert_eq!(contents[&path(name)], stored(&w, &format!(":{name}")), "{name}");
    }
    assert_eq!(contents[&path("gone")], Content::Absent);
    assert_eq!(contents[&path("folder/lib.rs")], Content::Absent, "git does not look behind links");
}

#[test]
fn a_file_that_cannot_be_hashed_is_told_from_one_that_is_gone() {
    let w = World::new();
    // A filter that fails stands for whatever keeps git from reading a file; root may read everything.
    w.write(".gitattributes", "*.bad filter=bad\n");
    w.git(&["config", "filter.bad.clean", "false"]);
    w.git(&["config", "filter.bad.required", "true"]);
    w.write("x.bad", "x");
    let contents = w.repo().contents(&[path("x.bad"), path("a.txt")]).unwrap();
    assert_eq!(contents[&path("x.bad")], Content::Unknown);
    assert_eq!(contents[&path("a.txt")], stored(&w, "HEAD:a.txt"));
}

#[test]
fn files_hidden_from_git_status_are_still_seen() {
    let w = World::new();
    w.git(&["update-index", "--assume-unchanged", "a.txt"]);
    w.git(&["update-index", "--skip-worktree", "b.txt"]);
    w.write("a.txt", "hidden change\n");
    assert_eq!(w.git(&["status", "--porcelain"]), "", "git itself sees nothing");
    assert_eq!(states(&w), [("a.txt".into(), State::Unwatched), ("b.txt".into(), State::Unwatched)]);
}

#[test]
fn settings_cannot_hide_a_change() {
    let w = World::new();
    // This monitor claims that nothing has ever changed.
    w.program("../home/monitor", "#!/bin/sh\nprintf 'token\\0'\n");
    let monitor = w.home().join("monitor");
    w.git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
    w.git(&["config", "status.showUntrackedFiles", "no"]);
    w.git(&["update-index", "--fsmonitor"]);
    w.git(&["status", "--porcelain"]);
    w.write("a.txt", "x\n");
    w.write("new.txt", "x\n");
    assert_eq!(w.git(&["status", "--porcelain"]), "", "git itself sees nothing");
    assert_eq!(states(&w).len(), 2);
}

#[test]
fn a_replaced_commit_is_read_as_it_really_is() {
    let w = World::new();
    let honest = w.head();
    w.write("b.txt", "stolen\n");
    w.git(&["commit", "-qam", "bad"]);
    let bad = w.head();
    w.git(&["replace", bad.as_str(), honest.as_str()]);
    assert_eq!(w.git(&["log", "-1", "--format=%s", bad.as_str()]), "first", "git itself is fooled");
    let commit = w.repo().commit(&bad).unwrap();
    assert_eq!(commit.message.trim(), "bad");
    assert_eq!(w.repo().changes_of(&commit).unwrap().len(), 1);
}

#[test]
fn a_graft_does_not_change_a_commits_parents() {
    let w = World::new();
    let first = w.head();
    w.write("b.txt", "more\n");
    w.git(&["commit", "-qam", "second"]);
    w.write(".git/info/grafts", format!("{}\n", w.head()));
    assert_eq!(w.git(&["log", "-1", "--format=%P"]), "", "git itself is fooled");
    assert_eq!(w.repo().commit(&w.head()).unwrap().parents, [first]);
}

#[test]
fn the_line_of_first_parents_is_read_at_once() {
    let w = World::new();
    let first = w.head();
    w.git(&["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", ""]);
    w.git(&["switch", "-q", "-c", "aside"]);
    w.git(&["commit", "-q", "--allow-empty", "-m", "aside"]);
    w.git(&["switch", "-q", "main"]);
    w.git(&["merge", "-q", "--no-ff", "-m", "merged\n\nwith a body", "aside"]);
    let line = |before: Option<&Oid>, longest| w.repo().first_parents(&w.head(), before, longest).unwrap();
    let messages = |before, longest| {
        line(before, longest).into_iter().map(|commit| commit.message.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(messages(None, 10), ["merged\n\nwith a body", "", "first"]);
    assert_eq!(messages(None, 2), ["merged\n\nwith a body", ""]);
    assert_eq!(messages(Some(&first), 10), ["merged\n\nwith a body", ""]);
    assert_eq!(line(None, 1), [w.repo().commit(&w.head()).unwrap()]);
    assert_eq!(line(None, 1)[0].parents.len(), 2);
}

#[test]
fn the_head_is_a_branch_an_unborn_one_or_a_commit() {
    let w = World::empty();
    assert_eq!(w.repo().head().unwrap(), Head::Branch { name: "refs/heads/main".into(), at: None });
    assert_eq!(w.repo().status().unwrap().head, None);
    let w = World::new();
    let at = w.head();
    assert_eq!(
        w.repo().head().unwrap(),
        Head::Branch { name: "refs/heads/main".into(), at: Some(at.clone()) }
    );
    w.git(&["checkout", "-q", "--detach"]);
    assert_eq!(w.repo().head().unwrap(), Head::Detached { at: at.clone() });
    assert_eq!(w.repo().status().unwrap().head, Some(at));
}

#[test]
fn a_submodule_counts_by_its_commit_only_while_it_is_clean() {
    let w = World::new();
    let other = World::new();
    let from = other.root.to_str().unwrap();
    w.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", from, "sub"]);
    w.git(&["commit", "-qm", "sub"]);
    w.git(&["config", "-f", ".gitmodules", "submodule.sub.ignore", "all"]);
    w.git(&["commit", "-qam", "ignore it"]);
    let content = || w.repo().contents(&[path("sub")]).unwrap().remove(&path("sub")).unwrap();
    assert_eq!(content(), Content::Object(other.head()));
    w.write("sub/a.txt", "changed\n");
    let entries = w.repo().status().unwrap().entries;
    assert_eq!(entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Submodule]);
    assert_eq!(content(), Content::Unknown);
}

#[test]
fn an_untracked_repository_inside_is_one_entry() {
    let w = World::new();
    fs::create_dir(w.root.join("inner")).unwrap();
    w.command("git").args(["init", "-q", "inner"]).status().unwrap();
    w.write("inner/x", "x");
    let entries = w.repo().status().unwrap().entries;
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].path.to_string().as_str(), entries[0].kind), ("inner", Kind::NestedRepository));
}

#[test]
fn variables_of_the_caller_do_not_move_git_elsewhere() {
    // The library drops them itself, so this test runs a second copy of itself with a bent environment.
    if std::env::var_os("MALA_GATE_TEST_BENT").is_some() {
        let root = std::env::var_os("MALA_GATE_TEST_BENT").unwrap();
        let repo = mala_git::Repo::new(mala_core::Scope::discover(Path::new(&root)).unwrap());
        let status = repo.status().unwrap();
        assert_eq!(status.paths().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
        return;
    }
    let (w, other) = (World::new(), World::new());
    w.write("a.txt", "changed\n");
    let me = std::env::current_exe().unwrap();
    let out = w
        .command(me.to_str().unwrap())
        .args(["--exact", "git::variables_of_the_caller_do_not_move_git_elsewhere"])
        .env("MALA_GATE_TEST_BENT", &w.root)
        .env("GIT_DIR", other.root.join(".git"))
        .env("GIT_WORK_TREE", &other.root)
        .env("GIT_INDEX_FILE", other.root.join(".git/index"))
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.worktree")
        .env("GIT_CONFIG_VALUE_0", "/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_failure_names_the_command_the_reason_and_what_to_do() {
    let w = World::new();
    let missing = Oid::parse(&"1".repeat(40)).unwrap();
    let error = w.repo().commit(&missing).unwrap_err().to_string();
    assert!(error.starts_with("object 1111") && error.contains("see `git fsck`"), "{error}");
    let error = w.repo().with_env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1").head().unwrap_err().to_string();
    assert!(error.starts_with("`git ") && error.contains("(exit status: 128): fatal: "), "{error}");
}

#[test]
fn a_revision_that_is_not_there_is_one_thing_and_a_git_that_does_not_answer_another() {
    let w = World::new();
    let blob = w.git(&["rev-parse", "HEAD:a.txt"]);
    assert_eq!(w.repo().resolve("HEAD").unwrap(), Some(w.head()));
    for none in ["nope", "HEAD~99", "HEAD@{99}", "", "--all", &"0".repeat(40), &blob] {
        assert_eq!(w.repo().resolve(none).unwrap(), None, "{none}");
    }
    let of_another_user = w.repo().with_env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    let error = of_another_user.resolve("HEAD").unwrap_err().to_string();
    assert!(error.contains("dubious ownership") && error.contains("safe.directory"), "{error}");
    let error = of_another_user.head().unwrap_err().to_string();
    assert!(error.contains("dubious ownership"), "{error}");
}
