//! Candidates on top of a branch.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::objects::tests::forge;

fn candidate(base: &Oid, head: &Oid) -> Candidate {
    Candidate { base: base.clone(), head: head.clone(), message: None }
}

/// Stacks what `ours` does on top of what `theirs` does to the same base.
fn stacked(
    theirs: impl FnOnce(&World),
    ours: impl FnOnce(&World),
) -> (World, Oid, Result<Stacked, LandError>) {
    let world = World::new();
    let base = world.head();
    let head = world.offer(&base, ours);
    theirs(&world);
    let onto = world.commit("theirs");
    let stacked = stack(&world.repo, &onto, &candidate(&base, &head));
    (world, onto, stacked)
}

fn commit(stacked: Result<Stacked, LandError>) -> Oid {
    match stacked.unwrap() {
        Stacked::Commit(commit) => commit,
        other => panic!("{other:?}"),
    }
}

/// What the new commit changes, as `git diff --name-status` says it.
fn changed(world: &World, onto: &Oid, commit: &Oid) -> String {
    let names = world.git(&["diff", "--no-renames", "--name-status", onto.as_str(), commit.as_str()]);
    names.replace('\t', " ").replace('\n', ", ")
}

#[test]
fn a_commit_on_top_of_the_branch_stays_as_it_is_unless_it_gets_another_message() {
    let world = World::new();
    let base = world.head();
    let head = world.offer(&base, |world| world.write("b", "new\n"));
    let mut offered = candidate(&base, &head);
    assert_eq!(stack(&world.repo, &base, &offered).unwrap(), Stacked::Commit(head.clone()));
    offered.message = Some("bd-1: offered\n\nwith a body\n".to_owned());
    assert_eq!(stack(&world.repo, &base, &offered).unwrap(), Stacked::Commit(head.clone()));
    offered.message = Some("other\n".to_owned());
    let other = commit(stack(&world.repo, &base, &offered));
    assert_eq!(world.git(&["log", "-1", "--format=%s %T %P", other.as_str()]), {
        format!("other {} {base}", world.oid(&format!("{head}^{{tree}}")))
    });
}

#[test]
fn changes_of_other_files_are_put_beside_and_keep_author_date_and_message() {
    let (world, onto, stacked) =
        stacked(|world| world.write("b", "theirs\n"), |world| world.write("dir/c", "ours\n"));
    let commit = commit(stacked);
    assert_eq!(changed(&world, &onto, &commit), "M dir/c");
    let shown = world.git(&["log", "-1", "--format=%an %ae %ad %cn %P|%B", "--date=raw", commit.as_str()]);
    let who = "Ann ann@example.invalid 1000000000 +0130 committer";
    assert_eq!(shown, format!("{who} {onto}|bd-1: offered\n\nwith a body"));
    assert_eq!(world.head(), onto, "it is on no branch");
    assert_eq!(world.status(), "");
}

#[test]
fn several_commits_become_one() {
    let world = World::new();
    let base = world.head();
    let head = world.offer(&base, |world| {
        world.write("b", "first\n");
        world.commit("first");
        world.write("dir/c", "second\n");
    });
    let commit = commit(stack(&world.repo, &base, &candidate(&base, &head)));
    assert_eq!(changed(&world, &base, &commit), "M b, M dir/c");
    assert_eq!(world.oid(&format!("{commit}^")), base);
}

#[test]
fn changes_of_the_same_file_are_merged() {
    let (world, onto, stacked) = stacked(
        |world| world.write("a", "theirs\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        |world| world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nours\n"),
    );
    let commit = commit(stacked);
    assert_eq!(changed(&world, &onto, &commit), "M a");
    assert_eq!(world.git(&["show", &format!("{commit}:a")]), "theirs\n1\n2\n3\n4\n5\n6\n7\n8\nours");
}

#[test]
fn lines_that_the_branch_has_already_are_not_changed_again() {
    let (world, onto, stacked) = stacked(
        |world| world.write("a", "both\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        |world| world.write("a", "both\n2\n3\n4\n5\n6\n7\n8\nours\n"),
    );
    let commit = commit(stacked);
    let diff = world.git(&["diff", "-U0", onto.as_str(), commit.as_str()]);
    assert!(diff.ends_with("-9\n+ours"), "{diff}");
}

#[test]
fn a_merge_driver_that_drops_a_side_is_an_error() {
    let world = World::new();
    world.write(".gitattributes", "a merge=mine\n");
    let base = world.commit("attributes");
    world.git(&["config", "merge.mine.driver", "true"]);
    let head = world.offer(&base, |world| world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nours\n"));
    world.write("a", "theirs\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let onto = world.commit("theirs");
    let error = stack(&world.repo, &onto, &candidate(&base, &head)).unwrap_err();
    assert!(matches!(&error, LandError::Unproven { path: at, .. } if *at == path("a")), "{error}");
}

#[test]
fn a_merge_driver_that_invents_lines_is_an_error() {
    let world = World::new();
    world.write(".gitattributes", "a merge=odd\n");
    let base = world.commit("attributes");
    world.git(&["config", "merge.odd.driver", "echo odd >> %A"]);
    let head = world.offer(&base, |world| world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nours\n"));
    world.write("a", "theirs\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let onto = world.commit("theirs");
    let error = stack(&world.repo, &onto, &candidate(&base, &head)).unwrap_err();
    assert!(matches!(&error, LandError::Unproven { path: at, .. } if *at == path("a")), "{error}");
}

#[test]
fn different_changes_of_the_same_lines_are_a_conflict() {
    let (_world, _, stacked) =
        stacked(|world| world.write("b", "theirs\n"), |world| world.write("b", "ours\n"));
    assert_eq!(stacked.unwrap(), Stacked::Conflict(vec![path("b")]));
}

#[test]
fn a_file_that_one_side_renamed_and_the_other_changed_is_a_conflict() {
    let rename = |world: &World| fs::rename(world.place("a"), world.place("moved")).unwrap();
    let edit = |world: &World| world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nedited\n");
    let (_world, _, done) = stacked(rename, edit);
    assert_eq!(done.unwrap(), Stacked::Conflict(vec![path("a")]));
    let (_world, _, done) = stacked(edit, rename);
    assert_eq!(done.unwrap(), Stacked::Conflict(vec![path("a")]));
}

#[test]
fn a_new_file_stays_in_a_directory_that_the_other_side_renamed() {
    let (world, onto, stacked) = stacked(
        |world| {
            fs::rename(world.place("dir"), world.place("dir2")).unwrap();
            world.write("a", "theirs\n2\n3\n4\n5\n6\n7\n8\n9\n");
        },
        |world| {
            world.write("dir/new", "ours\n");
            world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nours\n");
        },
    );
    assert_eq!(changed(&world, &onto, &commit(stacked)), "M a, A dir/new");
}

#[test]
fn renames_of_other_files_do_not_keep_the_rest_from_being_merged() {
    let (world, onto, stacked) = stacked(
        |world| {
            fs::rename(world.place("dir/c"), world.place("theirs")).unwrap();
            world.write("a", "theirs\n2\n3\n4\n5\n6\n7\n8\n9\n");
        },
        |world| {
            fs::rename(world.place("dir/d"), world.place("ours")).unwrap();
            world.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nours\n");
        },
    );
    assert_eq!(changed(&world, &onto, &commit(stacked)), "M a, D dir/d, A ours");
}

#[test]
fn what_the_branch_has_already_is_nothing() {
    let edit = |world: &World| world.write("b", "same\n");
    let (_world, _, done) = stacked(edit, edit);
    assert_eq!(done.unwrap(), Stacked::Nothing);
    let (_world, _, done) = stacked(|world| world.write("b", "x\n"), |_| {});
    assert_eq!(done.unwrap(), Stacked::Nothing, "an empty candidate");
    let world = World::new();
    let base = world.head();
    assert_eq!(stack(&world.repo, &base, &candidate(&base, &base)).unwrap(), Stacked::Nothing);
}

#[test]
fn part_of_it_that_the_branch_has_already_is_left_out() {
    let (world, onto, stacked) = stacked(
        |world| world.write("b", "same\n"),
        |world| {
            world.write("b", "same\n");
            world.write("dir/c", "ours\n");
        },
    );
    assert_eq!(changed(&world, &onto, &commit(stacked)), "M dir/c");
}

#[test]
fn modes_deletions_renames_and_symlinks_are_taken_along() {
    let (world, onto, stacked) = stacked(
        |world| world.write("new", "theirs\n"),
        |world| {
            world.set_mode("b", 0o755);
            fs::remove_file(world.place("dir/c")).unwrap();
            fs::rename(world.place("a"), world.place("moved")).unwrap();
            symlink("b", world.place("link")).unwrap();
        },
    );
    let commit = commit(stacked);
    assert_eq!(changed(&world, &onto, &commit), "D a, M b, D dir/c, A link, A moved");
    assert!(world.git(&["ls-tree", commit.as_str(), "b"]).starts_with("100755"));
    assert!(world.git(&["ls-tree", commit.as_str(), "link"]).starts_with("120000"));
}

#[test]
fn a_mode_and_lines_of_the_same_file_are_merged() {
    let (world, onto, stacked) = stacked(
        |world| world.write("a", "theirs\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        |world| world.set_mode("a", 0o755),
    );
    let commit = commit(stacked);
    assert_eq!(changed(&world, &onto, &commit), "M a");
    assert!(world.git(&["ls-tree", commit.as_str(), "a"]).starts_with("100755"));
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file() {
    let swap = |world: &World| {
        fs::remove_file(world.place("b")).unwrap();
        world.write("b/inner", "x\n");
        fs::remove_dir_all(world.place("dir")).unwrap();
        world.write("dir", "file\n");
    };
    let (world, onto, done) = stacked(|world| world.write("new", "x\n"), swap);
    assert_eq!(changed(&world, &onto, &commit(done)), "D b, A b/inner, A dir, D dir/c, D dir/d");
    let (_world, _, done) = stacked(|world| world.write("dir/e", "theirs\n"), swap);
    assert!(matches!(done.unwrap(), Stacked::Conflict(_)));
    let (_world, _, done) = stacked(swap, |world| world.write("dir/e", "ours\n"));
    assert!(matches!(done.unwrap(), Stacked::Conflict(_)));
}

#[test]
fn names_that_are_no_text_are_taken_along() {
    let name = |world: &World| world.repo.root().join(OsStr::from_bytes(b"dir/\xff\n"));
    let (world, onto, stacked) =
        stacked(|world| world.write("b", "theirs\n"), |world| fs::write(name(world), "x").unwrap());
    let commit = commit(stacked);
    let changes = world.repo.changes_between(&onto, &commit).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].path, RepoPath::from_bytes(b"dir/\xff\n"));
}

#[test]
fn a_name_that_git_does_not_know_is_an_error_and_no_conflict() {
    let world = World::new();
    let base = world.head();
    let missing = Oid::parse(&"1".repeat(40)).unwrap();
    for (onto, offered) in [
        (&base, candidate(&base, &missing)),
        (&base, candidate(&missing, &base)),
        (&missing, candidate(&base, &base)),
    ] {
        assert!(matches!(stack(&world.repo, onto, &offered), Err(LandError::Git(_))));
    }
}

#[test]
fn a_blob_or_a_tree_that_was_written_over_is_an_error() {
    for name in ["b", "dir"] {
        let world = World::new();
        let base = world.head();
        let head = world.offer(&base, |world| {
            world.write("b", "ours\n");
            world.write("dir/c", "ours too\n");
        });
        let (there, other) = (world.oid(&format!("{head}:{name}")), world.oid(&format!("{base}:{name}")));
        forge(&world.repo, &there, &other);
        let done = stack(&world.repo, &base, &candidate(&base, &head));
        let forged = matches!(done, Err(LandError::Git(GitError::Forged { ref id })) if *id == there);
        assert!(forged, "{name}: {done:?}");
    }
}
