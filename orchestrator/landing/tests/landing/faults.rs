//! What goes wrong around slots and landings: nobody is blamed for it, nothing is lost, and once it is over all goes on.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mala_core::EntryState;
use mala_landing::Pool;

use crate::queue::{candidate, enqueue, entry, round, tip, try_round, work_off, world};
use crate::world::World;

#[test]
fn a_test_that_kills_itself_and_its_process_group_is_red_and_mala_goes_on() {
    for suicide in ["kill -9 $$", "kill -9 0", "kill -TERM 0; sleep 600"] {
        let w = World::requiring("sh check.sh");
        let commit = w.write("check.sh", &format!("{suicide}\n")).commit();
        let validation = w.validate(&commit);
        assert!(!validation.has_passed(), "{suicide}");
        assert!(validation.failure().unwrap().ending().contains("signal"), "{suicide}: {validation:?}");
        let mended = w.write("check.sh", "exit 0\n").commit();
        assert!(w.has_passed(&mended), "{suicide}");
    }
}

#[test]
fn a_test_that_changes_its_own_checkout_changes_nothing_for_the_next_one() {
    let w = World::requiring("sh check.sh");
    let script = "echo 1 >>counted; echo broken >a.txt; rm b.txt; chmod 000 dir; git reset --soft HEAD~1; rm -rf .git\n\
         test $(wc -l <counted) = 1\n";
    w.write("check.sh", "exit 0\n").commit();
    w.write("check.sh", script).write("a.txt", "a\n").write("b.txt", "b\n").write("dir/c", "c\n");
    let first = w.commit();
    assert!(w.has_passed(&first));
    let next = w
        .write("check.sh", "test \"$(cat a.txt b.txt dir/c)\" = \"a\nb\nc\" && test ! -e counted\n")
        .commit();
    let validation = w.validate(&next);
    assert!(validation.has_passed(), "{validation:?}");
    assert_eq!(w.git(&["status", "--porcelain"]), "");
}

/// Where the slots of the world lie.
fn slots_of(w: &World) -> PathBuf {
    let slot = w.slots().take(Pool::Validation, None, None).unwrap().place(&tip(w)).unwrap();
    slot.root().parent().unwrap().parent().unwrap().to_owned()
}

#[test]
fn slots_that_somebody_has_removed_are_made_again() {
    let w = world();
    let slots = slots_of(&w);
    for gone in ["v1/tree", "v1/git", "v1/git/index", "v1/git/HEAD", "v1/home", "v1", ""] {
        let place = slots.join(gone);
        if place.is_dir() {
            fs::remove_dir_all(&place).unwrap();
        } else {
            fs::remove_file(&place).unwrap();
        }
        let commit = w.write("other.txt", gone).commit();
        assert!(w.has_passed(&commit), "without `{gone}`");
    }
}

#[test]
fn a_slot_that_leads_into_a_persons_checkout_is_not_followed() {
    let w = world();
    let slots = slots_of(&w);
    fs::remove_dir_all(slots.join("v1/tree")).unwrap();
    let person = w.beside("person");
    fs::create_dir(&person).unwrap();
    fs::write(person.join("mine"), "mine\n").unwrap();
    symlink(&person, slots.join("v1/tree")).unwrap();
    assert!(w.has_passed(&tip(&w)));
    assert_eq!(fs::read_to_string(person.join("mine")).unwrap(), "mine\n");
    assert_eq!(fs::read_dir(&person).unwrap().count(), 1);
}

/// A world whose required command waits, in its slot, until the test lets it go on.
fn with_gate() -> World {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "[ -e gate ] || exit 0; touch begun; until [ -e go ]; do sleep 0.01; done\n")
        .commit();
    for (name, value) in [("user.name", "t"), ("user.email", "t@example.invalid")] {
        w.git(&["config", name, value]);
    }
    w
}

/// Does something while a required command runs in the first slot.
fn meanwhile(slots: &Path, act: impl FnOnce() + Send + 'static) -> mpsc::Receiver<()> {
    let (tree, (tell, done)) = (slots.join("v1/tree"), mpsc::channel());
    thread::spawn(move || {
        let began = Instant::now();
        while !tree.join("begun").exists() {
            assert!(began.elapsed() < Duration::from_secs(120), "no command has begun");
            thread::sleep(Duration::from_millis(5));
        }
        act();
        fs::write(tree.join("go"), "").unwrap();
        tell.send(()).unwrap();
    });
    done
}

/// What a person types who wants to be rid of everything that seems unneeded.
fn collect_garbage(root: &Path) {
    for args in [&["reflog", "expire", "--expire=now", "--all"][..], &["gc", "-q", "--prune=now"]] {
        assert!(Command::new("git").current_dir(root).args(args).status().unwrap().success());
    }
}

#[test]
fn garbage_that_is_collected_during_a_validation_takes_no_work_along() {
    let w = with_gate();
    let slots = slots_of(&w);
    let base = tip(&w);
    let ids = ["gate", "two"].map(|name| enqueue(&w, &base, &candidate(&w, &base, name, "fine\n")));
    let root = w.root.clone();
    let done = meanwhile(&slots, move || collect_garbage(&root));
    let first = try_round(&w).unwrap();
    done.recv().unwrap();
    assert!(first.settled.iter().all(|settled| settled.entry.state == EntryState::Landed), "{first:?}");
    for id in ids {
        if entry(&w, id).state != EntryState::Landed {
            // What the stack had made is gone; it is made again.
            fs::write(slots.join("v1/tree/go"), "").ok();
        }
    }
    let done = meanwhile(&slots, || {});
    work_off(&w);
    drop(done);
    assert_eq!(ids.map(|id| entry(&w, id).state), [EntryState::Landed; 2]);
    w.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn garbage_that_is_collected_between_offer_and_landing_takes_no_work_along() {
    let w = world();
    let base = tip(&w);
    let id = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "fine\n"));
    collect_garbage(&w.root);
    w.git(&["pack-refs", "--all", "--prune"]);
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
}

#[test]
fn an_entry_whose_commit_is_gone_fails_by_name_and_holds_nobody_up() {
    let w = world();
    let base = tip(&w);
    let lost = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "fine\n"));
    let other = enqueue(&w, &base, &candidate(&w, &base, "b.txt", "fine\n"));
    w.git(&["update-ref", "-d", &entry(&w, lost).pin]);
    collect_garbage(&w.root);
    work_off(&w);
    assert_eq!((entry(&w, lost).state, entry(&w, other).state), (EntryState::Failed, EntryState::Landed));
    let reason = entry(&w, lost).reason.unwrap();
    assert!(reason.contains(entry(&w, lost).head.short()), "{reason}");
}

#[test]
fn a_submodule_is_an_empty_directory_in_a_slot_and_lands_as_it_is() {
    let w = world();
    let other = World::new();
    let inner = other.write("x", "x").commit();
    let link = format!("160000,{inner},vendored");
    w.git(&["update-index", "--add", "--cacheinfo", &link]);
    w.git(&["commit", "-q", "-m", "a submodule"]);
    let base = tip(&w);
    assert!(w.has_passed(&base));
    let id = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "fine\n"));
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert!(w.git(&["ls-tree", "main", "vendored"]).starts_with("160000"));
}

#[test]
fn line_ends_and_names_of_any_bytes_are_in_a_slot_as_git_checks_them_out() {
    let w = World::requiring("sh check.sh");
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\n name");
    let check = "*.sh text eol=lf\n* text=auto eol=crlf\n*.bin -text\n";
    w.write(".gitattributes", "").write("stored.txt", "with\r\nboth\n").write("raw.bin", "\n").commit();
    fs::write(w.root.join(odd), "bytes\n").unwrap();
    w.write(".gitattributes", "* text=auto eol=crlf\n*.sh text eol=lf\n*.bin -text\n");
    w.write("text.txt", "a\nb\n").write("check.sh", "test $(tr -dc '\\r' <text.txt | wc -c) = 2\n");
    let one = w.commit();
    let validation = w.validate(&one);
    assert!(validation.has_passed(), "{validation:?}");
    w.write(".gitattributes", check);
    let two = w.commit();
    let placed = w.slots().take(Pool::Validation, None, None).unwrap().place(&two).unwrap();
    assert_eq!(fs::read(placed.root().join(odd)).unwrap(), b"bytes\r\n");
    assert_eq!(fs::read(placed.root().join("raw.bin")).unwrap(), b"\n");
    assert_eq!(fs::read(placed.root().join("stored.txt")).unwrap(), b"with\r\nboth\n");
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

#[test]
fn pointers_of_large_files_are_tested_as_they_are_where_nothing_restores_them() {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "grep -q git-lfs big.dat\n").write("big.dat", POINTER);
    w.write(".gitattributes", "*.dat filter=lfs diff=lfs merge=lfs -text\n");
    assert!(w.has_passed(&w.commit()));
}

#[test]
fn a_filter_that_is_missing_is_an_error_that_names_it_and_blames_nobody() {
    let w = world();
    w.write("big.dat", POINTER).write(".gitattributes", "*.dat filter=lfs -text\n").commit();
    let base = tip(&w);
    let id = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "fine\n"));
    let settings = [("clean", "no-such-lfs clean"), ("smudge", "no-such-lfs smudge"), ("required", "true")];
    for (name, value) in settings {
        w.git(&["config", &format!("filter.lfs.{name}"), value]);
    }
    let error = w.try_validate(&base).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no-such-lfs smudge") && text.contains("such as git-lfs"), "{text}");
    let failed = try_round(&w).unwrap();
    assert!(failed.failure.is_some() && failed.settled.is_empty(), "{failed:?}");
    assert_eq!((entry(&w, id).state, tip(&w)), (EntryState::Waiting, base));
    for (name, _) in settings {
        w.git(&["config", "--unset", &format!("filter.lfs.{name}")]);
    }
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
}

/// A small file system of its own, gone when dropped. Nothing where that is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let options = format!("size={size},mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        mounted.is_ok_and(|out| out.status.success()).then(|| Self(path.to_owned()))
    }

    fn grow(&self) {
        let grown = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&self.0).status().unwrap();
        assert!(grown.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An entry with a file of about two megabytes, in a world where `directory` of it has no room for that.
fn on_a_full_disk(directory: impl FnOnce(&World) -> PathBuf) {
    let w = world();
    let base = tip(&w);
    let directory = directory(&w);
    let Some(disk) = SmallDisk::at(&directory, "640k") else { return };
    let big = "0123456789abcde\n".repeat(128 * 1024);
    let id = enqueue(&w, &base, &candidate(&w, &base, "big.dat", &big));
    let failed = try_round(&w).unwrap();
    assert!(failed.settled.is_empty(), "{failed:?}");
    let words = failed.failure.unwrap().to_string();
    assert!(words.contains("room on the disk"), "{words}");
    assert_eq!((entry(&w, id).state, tip(&w)), (EntryState::Waiting, base));
    assert_eq!(w.git(&["status", "--porcelain"]), "");
    disk.grow();
    assert_eq!(round(&w).settled.len(), 1);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(w.git(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(w.root.join("big.dat")).unwrap(), big);
}

#[test]
fn a_disk_that_is_full_when_a_slot_is_moved_blames_nobody() {
    on_a_full_disk(|w| w.beside("cache"));
}

#[test]
fn a_disk_that_is_full_when_a_landing_is_prepared_moves_nothing() {
    on_a_full_disk(|w| w.root.join(".git/mala/landing"));
}

#[test]
fn evidence_that_cannot_be_written_proves_nothing() {
    let w = world();
    let base = tip(&w);
    let Some(disk) = SmallDisk::at(&w.root.join(".git/mala/evidence"), "16k") else { return };
    let filler = w.root.join(".git/mala/evidence/filler");
    let _ = fs::write(&filler, vec![0; 64 << 10]);
    let id = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "fine\n"));
    let failed = try_round(&w).unwrap();
    assert!(failed.failure.is_some() && failed.settled.is_empty(), "{failed:?}");
    assert_eq!((entry(&w, id).state, tip(&w)), (EntryState::Waiting, base));
    disk.grow();
    fs::remove_file(&filler).unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
}
