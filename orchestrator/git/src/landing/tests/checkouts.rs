//! Landing in checkouts that people use.

use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// `main` and a commit on top of it.
fn world(change: impl FnOnce(&World)) -> (World, Oid, Oid) {
    let world = World::new();
    let from = world.head();
    let to = world.offer(&from, change);
    (world, from, to)
}

fn edit_b(world: &World) {
    world.write("b", "landed\n");
}

/// The files that are named, and nothing has changed.
fn held(world: &World, from: &Oid, to: &Oid) -> Vec<String> {
    let before = (world.status(), fs::read(world.place(".git/index")).unwrap());
    let Landed::Held(obstacles) = world.land(from, to) else { panic!("it landed") };
    assert_eq!(world.oid(MAIN), *from);
    assert_eq!((world.status(), fs::read(world.place(".git/index")).unwrap()), before);
    assert!(obstacles.iter().all(|obstacle| !obstacle.why.is_empty()));
    obstacles
        .into_iter()
        .map(|obstacle| obstacle.path.map_or_else(String::new, |path| path.to_text()))
        .collect()
}

#[test]
fn branch_files_and_index_move_and_nothing_else() {
    let (world, from, to) = world(|world| {
        edit_b(world);
        world.write("deep/er/new", "new\n");
    });
    world.write("a", "dirty\n");
    world.write("dir/c", "staged\n");
    world.git(&["add", "dir/c"]);
    world.write("dir/c", "staged and dirty\n");
    world.write("untracked", "x\n");
    let times = || {
        ["a", "dir/c", "dir/d", "untracked"].map(|name| world.place(name).metadata().unwrap().mtime_nsec())
    };
    let (times_before, status) = (times(), world.status());
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!((world.oid(MAIN), world.status()), (to, status));
    assert_eq!((world.read("b"), world.read("deep/er/new")), ("landed\n".to_owned(), "new\n".to_owned()));
    assert_eq!(times(), times_before);
    assert_eq!(world.git(&["show", ":dir/c"]), "staged");
    assert_eq!(world.git(&["log", "-1", "-g", "--format=%gs", "main"]), "mala: landed bd-1");
    assert_eq!(world.git(&["log", "-1", "-g", "--format=%gs", "HEAD"]), "mala: landed bd-1");
}

#[test]
fn what_a_person_has_changed_holds_it() {
    let (world, from, to) = world(edit_b);
    world.write("b", "dirty\n");
    assert_eq!(held(&world, &from, &to), ["b"]);
    world.git(&["add", "b"]);
    assert_eq!(held(&world, &from, &to), ["b"]);
    world.write("b", "b\n");
    assert_eq!(held(&world, &from, &to), ["b"], "staged, although the file is as it was");
    world.git(&["reset", "-q"]);
    world.set_mode("b", 0o755);
    assert_eq!(held(&world, &from, &to), ["b"]);
    world.set_mode("b", 0o644);
    fs::remove_file(world.place("b")).unwrap();
    assert_eq!(held(&world, &from, &to), ["b"]);
    world.write("b", "b\n");
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!(world.status(), "");
}

#[test]
fn what_lands_may_lie_in_the_checkout_already_staged_or_not_and_stays_as_it_is() {
    let (world, from, to) = world(|world| {
        edit_b(world);
        world.write("new", "landed\n");
        world.write("staged", "landed\n");
        fs::remove_file(world.place("dir/c")).unwrap();
        world.write("dir/d", "landed\n");
    });
    edit_b(&world);
    world.write("new", "landed\n");
    world.write("staged", "landed\n");
    world.git(&["add", "staged"]);
    fs::remove_file(world.place("dir/c")).unwrap();
    let times = || ["b", "new", "staged"].map(|name| world.place(name).metadata().unwrap().ino());
    let before = times();
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!((world.oid(MAIN), world.status()), (to, String::new()));
    assert_eq!((times(), world.read("dir/d")), (before, "landed\n".to_owned()));
}

#[test]
fn what_lies_in_the_way_holds_it() {
    let (world, from, to) = world(|world| {
        world.write("new", "landed\n");
        world.write("x.ignored", "landed\n");
        world.git(&["add", "-f", "x.ignored"]);
        world.write("sub/file", "landed\n");
        world.write("other/file", "landed\n");
    });
    world.write("new", "mine\n");
    world.write("x.ignored", "mine\n");
    world.write("sub", "mine\n");
    symlink("dir", world.place("other")).unwrap();
    assert_eq!(held(&world, &from, &to), ["new", "other", "sub", "x.ignored"]);
    for name in ["new", "x.ignored", "sub", "other"] {
        fs::remove_file(world.place(name)).unwrap();
    }
    world.write("new/file", "mine\n");
    assert_eq!(held(&world, &from, &to), ["new/file"]);
    world.git(&["add", "new/file"]);
    assert_eq!(held(&world, &from, &to), ["new/file"]);
    world.git(&["rm", "-q", "--cached", "new/file"]);
    fs::remove_file(world.place("new/file")).unwrap();
    fs::create_dir(world.place("new/empty")).unwrap();
    assert_eq!(world.land(&from, &to), DONE, "empty directories are nothing");
    assert_eq!(world.status(), "");
}

#[test]
fn a_merge_or_a_rebase_under_way_holds_it() {
    let (world, from, to) = world(edit_b);
    fs::write(world.place(".git/MERGE_HEAD"), format!("{from}\n")).unwrap();
    assert_eq!(held(&world, &from, &to), [""]);
    fs::remove_file(world.place(".git/MERGE_HEAD")).unwrap();
    world.git(&["checkout", "-q", "--detach"]);
    fs::create_dir(world.place(".git/rebase-merge")).unwrap();
    fs::write(world.place(".git/rebase-merge/head-name"), format!("{MAIN}\n")).unwrap();
    assert_eq!(held(&world, &from, &to), [""]);
}

#[test]
fn a_branch_that_moved_stays_where_it_is() {
    let (world, from, to) = world(edit_b);
    world.write("a", "theirs\n");
    let theirs = world.commit("theirs");
    assert_eq!(world.land(&from, &to), Landed::Moved(Some(theirs.clone())));
    assert_eq!((world.head(), world.status()), (theirs, String::new()));
    world.git(&["checkout", "-q", "--detach"]);
    world.git(&["branch", "-q", "-D", "main"]);
    assert_eq!(world.land(&from, &to), Landed::Moved(None));
}

#[test]
fn a_branch_does_not_move_back() {
    let (world, from, to) = world(edit_b);
    let (directory, spared) = (world.landing_directory(), BTreeSet::new());
    let error = land(&world.repo, &step(&to, &from, &directory, &spared)).unwrap_err();
    assert!(matches!(error, LandError::NotForward { .. }));
}

#[test]
fn line_ends_filters_modes_and_symlinks_are_as_git_checks_them_out() {
    let (world, from, to) = world(|world| {
        world.write(".gitattributes", "*.crlf text eol=crlf\n*.up filter=up\n");
        world.write("x.crlf", "one\ntwo\n");
        world.write("x.up", "text\n");
        world.write("run", "x\n");
        world.set_mode("run", 0o755);
        world.set_mode("a", 0o755);
        symlink("dir/c", world.place("link")).unwrap();
    });
    world.git(&["config", "filter.up.smudge", "tr a-z A-Z"]);
    world.git(&["config", "filter.up.clean", "tr A-Z a-z"]);
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!(world.status(), "");
    assert_eq!((world.read("x.crlf").as_str(), world.read("x.up").as_str()), ("one\r\ntwo\r\n", "TEXT\n"));
    assert_eq!(fs::read_link(world.place("link")).unwrap(), Path::new("dir/c"));
    for name in ["run", "a"] {
        assert_eq!(world.place(name).metadata().unwrap().mode() & 0o100, 0o100, "{name}");
    }
    // What filters made is recognised as unchanged, too.
    let next = world.offer(&to, |world| {
        world.write("x.crlf", "three\r\n");
        world.write("x.up", "MORE\n");
        fs::remove_file(world.place("link")).unwrap();
        world.write("link", "file\n");
    });
    assert_eq!(world.land(&to, &next), DONE);
    assert_eq!(world.status(), "");
    assert_eq!((world.read("x.crlf").as_str(), world.read("x.up").as_str()), ("three\r\n", "MORE\n"));
    assert_eq!(world.read("link"), "file\n");
}

#[test]
fn files_become_directories_and_emptied_directories_go() {
    let (world, from, to) = world(|world| {
        fs::remove_file(world.place("b")).unwrap();
        world.write("b/deep/inner", "x\n");
        fs::remove_dir_all(world.place("dir")).unwrap();
        world.write("dir", "file\n");
    });
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!((world.status(), world.read("dir")), (String::new(), "file\n".to_owned()));
    let next = world.offer(&to, |world| fs::remove_dir_all(world.place("b")).unwrap());
    assert_eq!(world.land(&to, &next), DONE);
    assert!(!world.place("b").exists());
    assert_eq!(world.status(), "");
}

#[test]
fn an_untracked_file_keeps_a_directory_from_becoming_a_file() {
    let (world, from, to) = world(|world| {
        fs::remove_dir_all(world.place("dir")).unwrap();
        world.write("dir", "file\n");
    });
    world.write("dir/mine.ignored", "x");
    assert_eq!(held(&world, &from, &to), ["dir/mine.ignored"]);
}

#[test]
fn files_that_agents_hold_stay_and_their_index_entries_go_along() {
    let (world, from, to) = world(|world| {
        edit_b(world);
        world.write("dir/c", "landed\n");
    });
    world.write("b", "agent\n");
    assert_eq!(world.land_sparing(&from, &to, &["b"]), DONE);
    assert_eq!((world.read("b"), world.read("dir/c")), ("agent\n".to_owned(), "landed\n".to_owned()));
    assert_eq!((world.git(&["show", ":b"]), world.status()), ("landed".to_owned(), " M b".to_owned()));
}

#[test]
fn files_that_git_was_told_not_to_look_at_stay() {
    let (world, from, to) = world(edit_b);
    world.git(&["update-index", "--skip-worktree", "b"]);
    world.write("b", "mine\n");
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!((world.read("b"), world.git(&["show", ":b"])), ("mine\n".to_owned(), "landed".to_owned()));
    assert_eq!(world.git(&["ls-files", "-v", "b"]), "S b");
    assert_eq!(world.status(), "");
}

#[test]
fn a_submodule_moves_in_the_index_alone() {
    let (world, from, to) = world(|world| {
        edit_b(world);
        // A repository of its own, which `git add -A` takes for a submodule.
        git_at(world.dir.path(), &["clone", "-q", "repo", "repo/module"]);
    });
    fs::remove_dir_all(world.place("module")).unwrap();
    assert_eq!(world.land(&from, &to), DONE);
    assert!(world.git(&["ls-files", "--stage", "module"]).starts_with("160000"));
    assert_eq!((world.read("b"), world.place("module").exists()), ("landed\n".to_owned(), false));
}

#[test]
fn a_branch_that_nobody_has_checked_out_moves_alone() {
    let (world, from, to) = world(edit_b);
    world.git(&["checkout", "-q", "--detach"]);
    assert!(checkout_of(&world.repo, MAIN).unwrap().is_none());
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!((world.oid(MAIN), world.head(), world.read("b")), (to, from, "b\n".to_owned()));
    assert_eq!(world.status(), "");
}

#[test]
fn a_linked_worktree_goes_along() {
    let (world, from, to) = world(edit_b);
    world.git(&["checkout", "-q", "--detach"]);
    let linked = world.dir.path().join("linked tree");
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
    let checkout = checkout_of(&world.repo, MAIN).unwrap().unwrap();
    assert_eq!(checkout.root(), linked.canonicalize().unwrap());
    fs::write(linked.join("b"), "dirty\n").unwrap();
    assert!(matches!(world.land(&from, &to), Landed::Held(_)));
    fs::write(linked.join("b"), "b\n").unwrap();
    assert_eq!(world.land(&from, &to), DONE);
    assert_eq!(fs::read_to_string(linked.join("b")).unwrap(), "landed\n");
    assert_eq!(git_at(&linked, &["status", "--porcelain"]), "");
    assert_eq!((world.read("b"), world.status()), ("b\n".to_owned(), String::new()));
    fs::remove_dir_all(&linked).unwrap();
    assert!(checkout_of(&world.repo, MAIN).unwrap().is_none(), "its files are gone");
}

#[test]
fn a_branch_that_is_checked_out_twice_is_held() {
    let (world, from, to) = world(edit_b);
    let linked = world.dir.path().join("linked");
    world.git(&["worktree", "add", "-q", "--force", linked.to_str().unwrap(), "main"]);
    assert_eq!(held(&world, &from, &to), [""]);
}

#[test]
fn a_directory_on_another_file_system_will_do() {
    let shared = Path::new("/dev/shm");
    let (world, from, to) = world(|world| {
        edit_b(world);
        world.write("new/file", "new\n");
        symlink("b", world.place("link")).unwrap();
    });
    let is_elsewhere = |place: &Path| {
        place.metadata().is_ok_and(|meta| meta.dev() != world.repo.root().metadata().unwrap().dev())
    };
    if !is_elsewhere(shared) {
        return;
    }
    let directory = tempfile::tempdir_in(shared).unwrap();
    let spared = BTreeSet::new();
    assert_eq!(land(&world.repo, &step(&from, &to, directory.path(), &spared)).unwrap(), DONE);
    assert_eq!((world.status(), world.read("new/file")), (String::new(), "new\n".to_owned()));
    world.assert_nothing_left();
    assert!(
        !world
            .place(".git")
            .read_dir()
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("mala-"))
    );
}
