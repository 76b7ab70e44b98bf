//! A commit that is killed is either not there or finished, wherever it was.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use mala_core::ports::Liveness;
use mala_core::{Life, Owner};
use mala_git::commit::{Swept, sweep};

use super::files_of;
use crate::world::World;

#[derive(Debug)]
struct Everybody(Life);

impl Liveness for Everybody {
    fn of(&self, _: &Owner) -> Life {
        self.0
    }
}

/// When a call of git kills the process that made it.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Before,
    After,
}

/// A `git` that counts its calls and kills its caller at one of them. One that outlives the test ends when there is nothing left
/// to count in.
fn install_killer(w: &World) -> PathBuf {
    let real =
        String::from_utf8(w.command("sh").args(["-c", "command -v git"]).output().unwrap().stdout).unwrap();
    let real = real.trim();
    let script = format!(
        "#!/bin/sh\n\
         n=1; while ! mkdir \"$KILL_COUNT/$n\" 2>/dev/null; do [ -d \"$KILL_COUNT\" ] || exit 1; n=$((n + 1)); done\n\
         [ $n = \"$KILL_AT\" ] && [ \"$KILL_WHEN\" = Before ] && kill -9 $PPID && exit 1\n\
         {real} \"$@\"; status=$?\n\
         [ $n = \"$KILL_AT\" ] && [ \"$KILL_WHEN\" = After ] && kill -9 $PPID\n\
         exit $status\n"
    );
    w.program("../bin/git", &script);
    w.base().join("bin")
}

/// Commits `a.txt` and `new.txt` in a process that is killed at its `call`th call of git. True if it was killed.
fn commit_killed(w: &World, call: usize, moment: Moment) -> bool {
    let bin = install_killer(w);
    // Each call takes the next number by making a folder: two at once never share one.
    let count = w.base().join("count");
    fs::remove_dir_all(&count).ok();
    fs::create_dir(&count).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let out = w
        .command(env!("CARGO_BIN_EXE_gate-puppet"))
        .args(["commit", w.root.to_str().unwrap(), "killed", "a.txt", "new.txt"])
        .env("PATH", path)
        .env("KILL_COUNT", &count)
        .env("KILL_AT", call.to_string())
        .env("KILL_WHEN", format!("{moment:?}"))
        .output()
        .unwrap();
    match (out.status.signal(), out.status.success()) {
        (Some(9), _) => true,
        (None, true) => false,
        _ => panic!("call {call}: {}", String::from_utf8_lossy(&out.stderr)),
    }
}

/// How many calls of git the last commit came to.
fn calls(w: &World) -> usize {
    w.base().join("count").read_dir().unwrap().count()
}

fn world() -> World {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write("new.txt", "mine\n");
    w.write("b.txt", "staged by B\n");
    w.git(&["add", "b.txt"]);
    w.write("b.txt", "and edited\n");
    w
}

#[test]
fn killed_at_any_call_of_git_a_commit_is_not_there_or_finished() {
    let (mut undone, mut finished) = (0, 0);
    for moment in [Moment::Before, Moment::After] {
        for call in 1.. {
            let w = world();
            let before = w.photo();
            if !commit_killed(&w, call, moment) {
                // A git that answers for as long as the commit takes ends after it.
                if calls(&w) >= call {
                    continue;
                }
                assert!(call > 10, "the loop really met the calls");
                break;
            }
            sweep(&w.repo(), &Everybody(Life::Dead)).unwrap();
            assert!(!w.root.join(".git/index.lock").exists(), "{moment:?} {call}");
            assert_eq!(w.scope().work_dir().join("commits").read_dir().map_or(0, Iterator::count), 0);
            if w.git(&["rev-list", "--count", "HEAD"]) == "1" {
                assert_eq!(w.photo(), before, "{moment:?} {call}");
                undone += 1;
            } else {
                assert_eq!(files_of(&w, "HEAD"), ["M a.txt", "A new.txt"]);
                assert_eq!(w.git(&["status", "--porcelain"]), "MM b.txt", "{moment:?} {call}");
                assert_eq!(w.git(&["show", ":b.txt"]), "staged by B");
                finished += 1;
            }
            w.git(&["fsck", "--strict"]);
        }
    }
    assert!(undone > 10 && finished >= 1, "undone {undone}, finished {finished}");
}

#[test]
fn a_lock_left_behind_by_a_commit_that_knew_what_it_did_is_given_back() {
    let found = (1..40).find_map(|call| {
        let w = world();
        assert!(commit_killed(&w, call, Moment::Before), "it never came so far");
        let folders = w.scope().work_dir().join("commits").read_dir().into_iter().flatten();
        let has_journal = folders.flatten().any(|folder| folder.path().join("journal.json").exists());
        (has_journal && w.root.join(".git/index.lock").exists()).then_some(w)
    });
    let w = found.expect("between the journal and the branch");
    sweep(&w.repo(), &Everybody(Life::Dead)).unwrap();
    assert!(!w.root.join(".git/index.lock").exists());
    assert_eq!(w.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn killed_by_its_own_hook_it_can_be_tried_again_at_once() {
    let w = world();
    w.hook("pre-commit", "kill -9 $(ps -o ppid= -p $PPID)");
    let before = w.photo();
    let puppet = |w: &World| {
        let mut command = w.command(env!("CARGO_BIN_EXE_gate-puppet"));
        command.args(["commit", w.root.to_str().unwrap(), "again", "a.txt"]).output().unwrap()
    };
    assert_eq!(puppet(&w).status.signal(), Some(9));
    assert_eq!(w.photo(), before);
    w.remove(".git/hooks/pre-commit");
    assert!(puppet(&w).status.success(), "no sweep is needed for that");
    assert!(matches!(sweep(&w.repo(), &Everybody(Life::Dead)).unwrap().as_slice(), [Swept::Undone(_)]));
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt"]);
}

#[test]
fn nothing_is_swept_while_its_process_may_live() {
    let w = world();
    assert!(commit_killed(&w, 12, Moment::Before));
    for life in [Life::Alive, Life::Unknown] {
        assert_eq!(sweep(&w.repo(), &Everybody(life)).unwrap(), []);
    }
    assert_eq!(w.scope().work_dir().join("commits").read_dir().unwrap().count(), 1);
}

#[test]
fn a_lock_of_somebody_else_is_never_removed() {
    let w = world();
    assert!(commit_killed(&w, 12, Moment::Before));
    w.write(".git/index.lock", "theirs");
    sweep(&w.repo(), &Everybody(Life::Dead)).unwrap();
    assert_eq!(w.read(".git/index.lock"), "theirs");
}
