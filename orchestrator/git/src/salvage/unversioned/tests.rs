use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::salvage::tests::World;

const LIMITS: Limits = Limits { file_bytes: 1000, total_bytes: 100_000, files: 1000 };

fn run() -> RunId {
    RunId::new("run-1").unwrap()
}

fn take(world: &World) -> Snapshot {
    let (snapshot, oversize) = Snapshot::take(&world.repo, &run(), &LIMITS, &[]).unwrap();
    assert_eq!(oversize, []);
    snapshot
}

/// A checkout in which a person has what git does not hold.
fn world() -> World {
    let world = World::new();
    world.write(".gitignore", ".env\n*.local\nprivate/\n");
    world.git(&["add", "."]);
    world.commit("ignore");
    world.write(".env", "KEY=1\n");
    world.write("dir/settings.local", "mine\n");
    world.write("private/notes/todo", "a lot\n");
    symlink("notes/todo", world.repo.root().join("private/link")).unwrap();
    fs::create_dir_all(world.repo.root().join("uploads/empty")).unwrap();
    let nested = world.repo.root().join("nested");
    fs::create_dir(&nested).unwrap();
    world.git(&["init", "-q", "nested"]);
    world.write("nested/file", "in git\n");
    world.git(&["-C", "nested", "add", "."]);
    world.git(&["-C", "nested", "-c", "user.name=t", "-c", "user.email=t@x", "commit", "-q", "-m", "inner"]);
    world.write("nested/untracked", "not in git\n");
    world
}

fn path(text: &str) -> RepoPath {
    RepoPath::from_bytes(text.as_bytes())
}

fn remove(world: &World, names: &[&str]) {
    for name in names {
        let place = world.repo.root().join(name);
        match place.symlink_metadata().unwrap().is_dir() {
            true => fs::remove_dir_all(place).unwrap(),
            false => fs::remove_file(place).unwrap(),
        }
    }
}

#[test]
fn what_an_agent_removed_comes_back_as_it_was() {
    let world = world();
    let env = world.repo.root().join(".env");
    fs::set_permissions(&env, fs::Permissions::from_mode(0o440)).unwrap();
    let before = env.metadata().unwrap();
    let snapshot = take(&world);
    remove(&world, &[".env", "dir/settings.local", "private", "uploads", "nested"]);

    let restored = snapshot.restore(&world.repo);

    assert!(restored.lost.is_empty() && restored.changed.is_empty(), "{restored:?}");
    let after = env.metadata().unwrap();
    assert_eq!(fs::read(&env).unwrap(), b"KEY=1\n");
    assert_eq!(after.permissions().mode() & 0o7777, 0o440);
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(world.read("dir/settings.local"), "mine\n");
    assert_eq!(world.read("private/link"), "a lot\n");
    assert!(world.repo.root().join("uploads/empty").is_dir());
    assert_eq!(world.git(&["-C", "nested", "log", "--format=%s"]), "inner");
    assert_eq!(world.git(&["-C", "nested", "fsck", "--strict"]), "");
    assert_eq!(world.git(&["-C", "nested", "status", "--porcelain"]), "?? untracked");
    assert!(snapshot.restore(&world.repo).put_back.is_empty(), "a second time there is nothing to do");
}

#[test]
fn a_process_that_begins_later_finds_what_was_copied() {
    let world = world();
    take(&world);
    remove(&world, &[".env"]);
    let found = Snapshot::of(&world.repo, &run()).unwrap();
    assert_eq!(found.restore(&world.repo).put_back, [path(".env")]);
    let other = Snapshot::of(&world.repo, &RunId::new("run-2").unwrap()).unwrap();
    assert!(other.is_empty());
}

#[test]
fn what_holds_something_else_stays_and_its_earlier_content_is_named() {
    let world = world();
    let snapshot = take(&world);
    world.write(".env", "KEY=2, by whom?\n");
    let restored = snapshot.restore(&world.repo);
    let [(changed, earlier)] = restored.changed.as_slice() else { panic!("{restored:?}") };
    assert_eq!(*changed, path(".env"));
    assert_eq!(fs::read(earlier).unwrap(), b"KEY=1\n");
    assert_eq!(world.read(".env"), "KEY=2, by whom?\n");
    // Written anew with the same content is no change.
    world.write(".env", "KEY=1\n");
    assert!(snapshot.restore(&world.repo).changed.is_empty());
}

#[test]
fn what_a_person_writes_between_two_attempts_counts() {
    let world = world();
    let mut snapshot = take(&world);
    world.write(".env", "KEY=2, by a person\n");
    snapshot.refresh(&world.repo, &LIMITS).unwrap();
    remove(&world, &[".env"]);
    Snapshot::of(&world.repo, &run()).unwrap().restore(&world.repo);
    assert_eq!(world.read(".env"), "KEY=2, by a person\n");
}

#[test]
fn what_a_build_or_a_running_process_makes_is_not_copied() {
    let world = world();
    let made = [
        "private/target/debug/a",
        "private/node_modules/b",
        "private/own/c",
        "private/x.db-wal",
        "private/server.pid",
    ];
    for name in made {
        world.write(name, "made\n");
    }
    world.write("private/cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    world.write("private/cache/d", "made\n");
    let (snapshot, _) = Snapshot::take(&world.repo, &run(), &LIMITS, &["/private/own".to_owned()]).unwrap();
    remove(&world, &["private"]);
    snapshot.restore(&world.repo);
    for name in made.iter().chain(&["private/cache/d"]) {
        assert!(!world.repo.root().join(name).exists(), "{name}");
    }
    assert_eq!(world.read("private/notes/todo"), "a lot\n");
}

#[test]
fn what_is_too_large_is_named_and_the_rest_is_copied() {
    let world = world();
    world.write("private/dump.sql", &"x".repeat(2000));
    let (snapshot, oversize) = Snapshot::take(&world.repo, &run(), &LIMITS, &[]).unwrap();
    assert_eq!(oversize, [Oversize { path: path("private/dump.sql"), bytes: Some(2000) }]);
    remove(&world, &["private"]);
    snapshot.restore(&world.repo);
    assert_eq!(world.read("private/notes/todo"), "a lot\n");
    // Small ones come first where there is not room for all.
    let found = |name: &str, bytes| Unversioned { path: path(name), kind: scan::Kind::File, bytes };
    let limits = Limits { file_bytes: 100, total_bytes: 100, files: 2 };
    let (kept, oversize) = limits.choose(vec![found("c", 90), found("a", 60), found("b", 30), found("d", 5)]);
    assert_eq!(kept.iter().map(|kept| kept.bytes).collect::<Vec<_>>(), [5, 30]);
    assert_eq!(oversize.iter().map(|it| it.bytes).collect::<Vec<_>>(), [Some(90), Some(60)]);
    // Half a repository is worth nothing.
    let parts = vec![found("in/.git/HEAD", 5), found("in/.git/objects/pack/p", 200), found("in/file", 5)];
    let (kept, oversize) = limits.choose(parts);
    assert_eq!(kept.iter().map(|kept| &kept.path).collect::<Vec<_>>(), [&path("in/file")]);
    assert_eq!(oversize, [Oversize { path: path("in/.git"), bytes: Some(205) }]);
}

#[test]
fn nothing_is_written_through_a_link_in_the_place_of_a_directory() {
    let world = world();
    let snapshot = take(&world);
    remove(&world, &["private"]);
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), world.repo.root().join("private")).unwrap();
    let restored = snapshot.restore(&world.repo);
    assert!(
        restored.lost.iter().any(|(lost, why)| *lost == path("private/notes/todo") && why.contains("link")),
        "{restored:?}"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_copy_is_named_and_never_put_back() {
    let world = world();
    let snapshot = take(&world);
    let record = snapshot.latest().find(|record| record.path == path(".env")).unwrap();
    let What::File(copy) = &record.what else { panic!("{record:?}") };
    fs::write(snapshot.place_of(&record.path, copy.number), "KE").unwrap();
    remove(&world, &[".env"]);
    let restored = snapshot.restore(&world.repo);
    assert_eq!(restored.lost, [(path(".env"), "its copy is damaged".to_owned())]);
    assert!(!world.repo.root().join(".env").exists());
}

#[test]
fn git_may_tidy_up_in_a_repository_that_is_still_there() {
    let world = world();
    let snapshot = take(&world);
    world.git(&["-C", "nested", "gc", "-q", "--prune=now"]);
    let tidy = world.git(&["-C", "nested", "count-objects", "-v"]);
    remove(&world, &["nested/untracked"]);
    assert_eq!(snapshot.restore(&world.repo).put_back, [path("nested/untracked")]);
    assert_eq!(world.git(&["-C", "nested", "count-objects", "-v"]), tidy);
}

#[test]
fn copies_go_with_their_run_unless_a_person_was_told_of_them() {
    let world = world();
    let snapshot = take(&world);
    Snapshot::forget_others(&world.repo, &[run()]).unwrap();
    assert!(snapshot.directory.exists());
    snapshot.keep().unwrap();
    Snapshot::forget(&world.repo, &run()).unwrap();
    assert_eq!(Snapshot::named(&world.repo).len(), 1);
    fs::remove_file(snapshot.directory.join(NAMED)).unwrap();
    Snapshot::forget_others(&world.repo, &[]).unwrap();
    assert!(!snapshot.directory.exists());
}

#[test]
fn names_that_are_no_text_come_back() {
    let world = world();
    let name = OsStr::from_bytes(b"private/\xff\"\n");
    fs::write(world.repo.root().join(name), "odd\n").unwrap();
    take(&world);
    fs::remove_file(world.repo.root().join(name)).unwrap();
    Snapshot::of(&world.repo, &run()).unwrap().restore(&world.repo);
    assert_eq!(fs::read(world.repo.root().join(name)).unwrap(), b"odd\n");
}
