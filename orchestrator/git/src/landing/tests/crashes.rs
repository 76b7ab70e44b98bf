//! Landings that are killed at every step, and repairs that are, too.

use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use super::*;

/// Where a landing in a checkout may be killed, before and after the branch has moved.
const BEFORE: [&str; 4] = ["before-lock", "locked", "index-built", "staged"];
const AFTER: [&str; 5] = ["ref-moved", "file", "files-done", "index-placed", "unlocked"];
const REPAIR: [&str; 7] = [
    "repair-begun",
    "repair-locked",
    "repair-staged",
    "file",
    "repair-files-done",
    "repair-index-placed",
    "repair-unlocked",
];

const ROOT: &str = "MALA_TEST_WORLD";
const CALL: &str = "MALA_TEST_CALL";

/// The process that is killed. It does nothing unless a test below starts it.
#[test]
#[ignore = "started by other tests"]
fn child() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let repo = repo_at(&root.join("repo"));
    let id = |name: &str| Oid::parse(&git_at(repo.root(), &["rev-parse", name])).unwrap();
    let (from, to) = (id("refs/test/from"), id("refs/test/to"));
    let (directory, spared) = (root.join("landing"), BTreeSet::new());
    let step = step(&from, &to, &directory, &spared);
    match std::env::var(CALL).unwrap().as_str() {
        "land" => drop(land(&repo, &step).unwrap()),
        _ => drop(repair(&repo, &step).unwrap()),
    }
}

/// Runs a landing or a repair in a process of its own that is killed there. False if it never came there.
fn killed(world: &World, call: &str, at: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "landing::tests::crashes::child", "--ignored", "--test-threads=1"])
        .env(ROOT, world.dir.path())
        .env(CALL, call)
        .env("MALA_CRASH_AT", format!("landing:{at}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    status.signal() == Some(9)
}

/// Something of everything: attributes that change how files look, files in place of directories and the other way round.
fn world() -> (World, Oid, Oid) {
    let world = World::new();
    world.write("x.crlf", "one\n");
    world.write("y.crlf", "one\n");
    let from = world.commit("line ends");
    let to = world.offer(&from, |world| {
        world.write(".gitattributes", "*.crlf text eol=crlf\n");
        world.write("x.crlf", "two\n");
        world.write("a", "landed\n");
        world.set_mode("a", 0o755);
        fs::remove_file(world.place("b")).unwrap();
        world.write("b/inner", "landed\n");
        fs::remove_dir_all(world.place("dir")).unwrap();
        world.write("dir", "landed\n");
        world.write("new/file", "landed\n");
    });
    // `y.crlf` is as git stores it in both; whoever checks it out anew gets other line ends.
    world.git(&["checkout", "-q", "main", "--", "."]);
    world.git(&["update-ref", "refs/test/from", from.as_str()]);
    world.git(&["update-ref", "refs/test/to", to.as_str()]);
    (world, from, to)
}

fn repaired(world: &World, from: &Oid, to: &Oid) -> Repaired {
    let (directory, spared) = (world.landing_directory(), BTreeSet::new());
    let repaired = repair(&world.repo, &step(from, to, &directory, &spared)).unwrap();
    world.assert_nothing_left();
    repaired
}

fn assert_before(world: &World, from: &Oid) {
    assert_eq!((world.oid(MAIN), world.status()), (from.clone(), String::new()));
    assert_eq!((world.read("b"), world.read("dir/c")), ("b\n".to_owned(), "c\n".to_owned()));
}

fn assert_after(world: &World, to: &Oid, at: &str) {
    assert_eq!((world.oid(MAIN), world.status()), (to.clone(), String::new()), "{at}");
    for name in ["a", "b/inner", "dir", "new/file"] {
        assert_eq!(world.read(name), "landed\n", "{at}: {name}");
    }
    assert_eq!(world.read("x.crlf"), "two\r\n", "{at}");
}

const FINISHED: Repaired = Repaired::Finished { left: Vec::new() };

#[test]
fn a_landing_killed_before_the_branch_moved_is_undone() {
    for at in BEFORE {
        let (world, from, to) = world();
        assert!(killed(&world, "land", at), "{at}");
        assert_eq!(repaired(&world, &from, &to), Repaired::Undone, "{at}");
        assert_before(&world, &from);
        assert_eq!(repaired(&world, &from, &to), Repaired::Undone, "{at}");
        assert_eq!(world.land(&from, &to), DONE, "{at}");
        assert_after(&world, &to, at);
    }
}

#[test]
fn a_landing_killed_after_the_branch_moved_is_finished() {
    for at in AFTER {
        let (world, from, to) = world();
        assert!(killed(&world, "land", at), "{at}");
        assert_eq!(repaired(&world, &from, &to), FINISHED, "{at}");
        assert_after(&world, &to, at);
        assert_eq!(repaired(&world, &from, &to), FINISHED, "{at}");
        assert_after(&world, &to, at);
    }
}

#[test]
fn a_repair_that_is_killed_is_repeated() {
    for (killed_at, is_before) in [("staged", true), ("ref-moved", false), ("file", false)] {
        let (world, from, to) = world();
        assert!(killed(&world, "land", killed_at));
        let reached: Vec<&str> = REPAIR.into_iter().filter(|at| killed(&world, "repair", at)).collect();
        if is_before {
            assert_eq!(reached, ["repair-begun", "repair-unlocked"]);
            assert_eq!(repaired(&world, &from, &to), Repaired::Undone);
            assert_before(&world, &from);
        } else {
            assert_eq!(reached, REPAIR);
            assert_eq!(repaired(&world, &from, &to), FINISHED);
            assert_after(&world, &to, killed_at);
        }
    }
}

#[test]
fn what_somebody_wrote_since_is_left_and_named() {
    let (world, from, to) = world();
    assert!(killed(&world, "land", "ref-moved"));
    world.write("a", "person\n");
    world.write("new/file", "person\n");
    let left = vec![path("a"), path("new/file")];
    for _ in 0..2 {
        assert_eq!(repaired(&world, &from, &to), Repaired::Finished { left: left.clone() });
        assert_eq!((world.read("a"), world.read("new/file")), ("person\n".to_owned(), "person\n".to_owned()));
        assert_eq!(world.read("dir"), "landed\n");
        assert_eq!(
            world.git(&["diff", "--cached", "--name-only"]),
            "",
            "nothing is staged that takes it back"
        );
    }
}

#[test]
fn a_repair_keeps_what_was_committed_on_top() {
    let (world, from, to) = world();
    assert!(killed(&world, "land", "ref-moved"));
    let tree = {
        fs::remove_file(world.place(".git/index.lock")).unwrap();
        let index = world.dir.path().join("index");
        let on_index = |args: &[&str]| {
            let out = Command::new("git")
                .current_dir(world.repo.root())
                .args(args)
                .env("GIT_INDEX_FILE", &index)
                .output();
            String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
        };
        on_index(&["read-tree", to.as_str()]);
        on_index(&["update-index", "--cacheinfo", &format!("100644,{},a", world.oid("HEAD:new/file"))]);
        on_index(&["write-tree"])
    };
    let on_top = world.git(&["commit-tree", &tree, "-p", to.as_str(), "-m", "on top"]);
    world.git(&["update-ref", MAIN, &on_top]);
    assert_eq!(repaired(&world, &from, &to), FINISHED);
    assert_eq!(world.read("new/file"), "landed\n");
    assert!(world.read("a").starts_with("1\n"), "not ours any more");
}

#[test]
fn a_lock_of_another_git_is_not_removed() {
    let (world, from, to) = world();
    assert!(killed(&world, "land", "staged"));
    fs::remove_file(world.place(".git/index.lock")).unwrap();
    fs::write(world.place(".git/index.lock"), "").unwrap();
    let (directory, spared) = (world.landing_directory(), BTreeSet::new());
    assert_eq!(repair(&world.repo, &step(&from, &to, &directory, &spared)).unwrap(), Repaired::Undone);
    assert!(world.place(".git/index.lock").exists());
}

#[test]
fn a_branch_that_moves_alone_is_repaired_too() {
    for (at, expected) in [("staged", Repaired::Undone), ("ref-moved", FINISHED)] {
        let (world, from, to) = world();
        world.git(&["checkout", "-q", "--detach"]);
        assert!(killed(&world, "land", at));
        assert_eq!(repaired(&world, &from, &to), expected);
        assert_eq!((world.head(), world.status()), (from, String::new()));
    }
}

#[test]
fn what_was_copied_from_another_file_system_is_cleared_away() {
    let (world, from, to) = world();
    let elsewhere = Path::new("/dev/shm");
    let device = |place: &Path| place.metadata().map(|meta| meta.dev()).ok();
    if device(elsewhere).is_none() || device(elsewhere) == device(world.repo.root()) {
        return;
    }
    let directory = tempfile::tempdir_in(elsewhere).unwrap();
    fs::remove_dir(world.landing_directory()).unwrap();
    symlink(directory.path(), world.landing_directory()).unwrap();
    assert!(killed(&world, "land", "copied"));
    assert!(world.status().contains(".mala-landing-"), "{}", world.status());
    assert!(killed(&world, "repair", "copied"));
    assert_eq!(repaired(&world, &from, &to), FINISHED);
    assert_after(&world, &to, "copied");
}
