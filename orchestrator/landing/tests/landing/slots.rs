//! The checkouts themselves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use mala_landing::{Placed, Pool, Slots, SlotsError, orphaned_slots, remove_slots};

use crate::world::{World, set_mode};

#[test]
fn a_slot_is_a_checkout_to_git_and_leaves_the_repository_alone() {
    let w = World::new();
    w.write("a.txt", "1\n").commit();
    w.git(&["tag", "-a", "v1", "-m", "v1"]);
    let head = w.write("a.txt", "2\n").commit();
    let refs = w.git(&["for-each-ref"]);
    let placed = w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap();
    let git = |args: &[&str]| {
        let out = std::process::Command::new("git").current_dir(placed.root()).args(args).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    assert!(git(&["describe"]).starts_with("v1-1-g"));
    assert_eq!(
        (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"])),
        (head.to_string(), String::new())
    );
    assert_eq!(w.git(&["worktree", "list"]).lines().count(), 1, "nothing to prune");
    assert_eq!((w.git(&["for-each-ref"]), w.git(&["status", "--porcelain"])), (refs, String::new()));
    assert!(!placed.root().starts_with(&w.root));
}

#[test]
fn files_links_modes_and_odd_names_move_along() {
    let w = World::new();
    w.write("swap", "a file\n")
        .write("caf\u{e9} \"x\"", "odd\n")
        .write("run.sh", "exit 0\n")
        .write("crlf", "a\r\nb\r\n");
    set_mode(&w.root.join("run.sh"), 0o755);
    symlink("run.sh", w.root.join("link")).unwrap();
    let one = w.commit();
    fs::remove_file(w.root.join("swap")).unwrap();
    fs::remove_file(w.root.join("link")).unwrap();
    w.write("swap/inner", "a directory now\n")
        .write("link", "a file now\n")
        .write(".gitattributes", "* text=auto\n");
    let two = w.commit();
    for commit in [&one, &two, &one, &two] {
        let placed = w.slots().take(Pool::Test, None, None).unwrap().place(commit).unwrap();
        let status = placed.repo().status().unwrap();
        assert_eq!(status.head.as_ref(), Some(commit));
        assert_eq!(placed.root().join("swap/inner").exists(), commit == &two);
        assert_eq!(placed.root().join("link").is_symlink(), commit == &one);
    }
}

#[test]
fn a_slot_that_was_tampered_with_is_made_whole() {
    let w = World::new();
    let head = w.write("a.txt", "1\n").write("b/c.txt", "2\n").commit();
    let root = w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap().root().to_owned();
    fs::write(root.join("a.txt"), "other\n").unwrap();
    fs::remove_dir_all(root.join("b")).unwrap();
    fs::create_dir(root.join("locked")).unwrap();
    fs::write(root.join("locked/x"), "x").unwrap();
    fs::remove_file(root.join(".git")).unwrap();
    fs::write(root.with_file_name("git").join("index.lock"), "of a git that was killed").unwrap();
    let placed = w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap();
    assert_eq!(fs::read_to_string(placed.root().join("a.txt")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(placed.root().join("b/c.txt")).unwrap(), "2\n");
    assert!(!placed.root().join("locked").exists());
    drop(placed);
    fs::write(root.with_file_name("git").join("index"), "no index").unwrap();
    let placed = w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap();
    assert_eq!(fs::read_to_string(placed.root().join("a.txt")).unwrap(), "1\n");
}

#[test]
fn a_slot_has_one_user_at_a_time_and_the_nearest_is_taken() {
    let w = World::new();
    let one = w.write("a", "1").commit();
    let two = w.write("a", "2").commit();
    let slots = w.slots();
    let first = slots.take(Pool::Test, None, None).unwrap().place(&one).unwrap();
    let second = slots.take(Pool::Test, None, None).unwrap().place(&two).unwrap();
    assert_ne!(first.root(), second.root());
    let (first_root, second_root) = (first.root().to_owned(), second.root().to_owned());
    drop((first, second));
    let near = slots.take(Pool::Test, Some(&two), None).unwrap().place(&two).unwrap();
    assert_eq!(near.root(), second_root);
    let other = slots.take(Pool::Test, Some(&two), None).unwrap().place(&two).unwrap();
    assert_eq!(other.root(), first_root);
}

#[test]
fn whoever_tries_something_waits_for_nobody() {
    let w = World::new().with("queue.slots", "1");
    let head = w.commit();
    let slots = w.slots();
    let taken: Vec<_> = (0..4).map(|_| slots.take(Pool::Test, Some(&head), None).unwrap()).collect();
    assert_eq!(taken.len(), 4);
}

#[test]
fn slots_inside_the_checkout_are_refused() {
    let w = World::new().with("queue.directory", "slots");
    w.commit();
    let error = Slots::of(&w.repo(), &w.settings()).unwrap_err();
    assert!(matches!(error, SlotsError::Inside(_)), "{error}");
}

#[test]
fn slots_of_a_repository_that_is_gone_are_found() {
    let w = World::new();
    let head = w.commit();
    w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap();
    let scope = w.repo().scope().clone();
    assert!(orphaned_slots(&scope, &w.settings()).is_empty());
    fs::rename(&w.root, w.beside("moved")).unwrap();
    let gone = orphaned_slots(&scope, &w.settings());
    assert_eq!(gone.len(), 1);
    remove_slots(&gone[0]).unwrap();
    assert!(!gone[0].exists());
}

#[test]
fn slots_that_take_too_much_are_emptied_the_oldest_first_and_never_one_in_use() {
    let w = World::new().with("queue.max_disk", "7MB");
    let (head, other) = (w.commit(), w.write("b", "b").commit());
    let slots = w.slots();
    let fill = |placed: &Placed| {
        fs::write(placed.root().join("../home/build"), vec![7; 3_000_000]).unwrap();
        placed.root().parent().unwrap().to_owned()
    };
    let built = |slot: &Path| slot.join("home/build").exists();
    let (first, second) = (
        slots.take(Pool::Test, None, None).unwrap().place(&head).unwrap(),
        slots.take(Pool::Test, None, None).unwrap().place(&head).unwrap(),
    );
    let (oldest, in_use) = (fill(&first), fill(&second));
    let third = slots.take(Pool::Test, None, None).unwrap().place(&other).unwrap();
    let newest = fill(&third);
    drop((first, third));
    let taken = slots.take(Pool::Test, Some(&other), None).unwrap();
    assert_eq!([&oldest, &in_use, &newest].map(|slot| built(slot)), [false, true, true], "9 MB do not fit");
    drop((taken, second));
}

#[test]
fn a_commit_that_fits_into_no_slot_is_an_error_that_names_the_setting() {
    let w = World::new().with("queue.max_disk", "1MB");
    let noise: String = (0..3_000_000_u32)
        .map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 26))
        .collect();
    let head = w.write("large.txt", &noise).commit();
    let error = w.slots().take(Pool::Test, None, None).unwrap().place(&head).unwrap_err();
    assert!(matches!(error, SlotsError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("`queue.max_disk` = \"1MB\""), "{error}");
    let left = mala_landing::slots_in_use(w.repo().scope(), &w.settings()).unwrap();
    assert!(left.is_empty(), "{left:?}");
}
