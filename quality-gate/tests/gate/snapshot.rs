//! A snapshot holds the last commit and one agent's changes, and nobody else's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use mala_core::ports::Liveness;
use mala_core::{Life, Owner};
use mala_gate::evidence::{Place, Recording};
use mala_git::snapshot::{Carried, How, Snapshot, SnapshotError, sweep};

use crate::commit::owner;
use crate::evidence::{ended, launch, who};
use crate::world::{Locks, World, agent};

fn snapshot(w: &World, locks: &Locks, carried: &[Carried]) -> Snapshot {
    Snapshot::of_agent(&w.repo(), locks, &agent("A"), &owner(1), carried).unwrap()
}

fn git_in(w: &World, folder: &Path, args: &[&str]) -> String {
    let mut command: Command = w.command("git");
    let out = command.current_dir(folder).args(args).output().unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

fn carried(folder: &str, how: How) -> Carried {
    Carried { folder: folder.into(), how }
}

#[test]
fn ones_own_changes_are_in_it_and_nobody_elses() {
    let w = World::new();
    w.write("own-tool.sh", "#!/bin/sh\n");
    w.set_mode("own-tool.sh", 0o755);
    symlink("a.txt", w.root.join("own-link")).unwrap();
    w.write("a.txt", "mine\n");
    w.remove("src/lib.rs");
    w.write("b.txt", "half an edit of B\n");
    w.git(&["add", "b.txt"]);
    w.write("b-new.txt", "new by B\n");
    let own = ["a.txt", "src/lib.rs", "own-tool.sh", "own-link"];
    let locks = Locks::new(&own.map(|path| ("A", path)));
    locks.give("B", "b.txt");
    let before = w.photo();
    let s = snapshot(&w, &locks, &[]);
    let read = |path: &str| fs::read_to_string(s.root().join(path)).ok();
    assert_eq!(read("a.txt").as_deref(), Some("mine\n"));
    assert_eq!(read("b.txt").as_deref(), Some("b\n"), "as in the last commit");
    assert_eq!(read("src/lib.rs"), None);
    assert_eq!(read("b-new.txt"), None);
    assert_eq!(fs::read_link(s.root().join("own-link")).unwrap(), Path::new("a.txt"));
    assert_eq!(fs::metadata(s.root().join("own-tool.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(w.photo(), before);
}

#[test]
fn it_is_a_checkout_to_git_and_leaves_the_repository_alone() {
    let w = World::new();
    w.git(&["tag", "-a", "v1", "-m", "v1"]);
    w.write("a.txt", "mine\n");
    let before = w.photo();
    let s = snapshot(&w, &Locks::new(&[("A", "a.txt")]), &[]);
    let git = |args: &[&str]| git_in(&w, s.root(), args);
    assert_eq!(git(&["rev-parse", "HEAD"]), w.head().as_str());
    assert_eq!(git(&["rev-parse", "--show-toplevel"]), s.root().to_str().unwrap());
    assert_eq!(git(&["describe", "--dirty"]), "v1-dirty");
    assert_eq!(git(&["status", "--porcelain"]), " M a.txt");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "only in here"]);
    assert_eq!(w.photo(), before, "its commits move no branch");
    assert_eq!(w.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn it_is_gone_when_it_is_not_needed_any_more() {
    let w = World::new();
    let s = snapshot(&w, &Locks::default(), &[]);
    let root = s.root().to_owned();
    fs::create_dir_all(root.join("cache/locked")).unwrap();
    fs::set_permissions(root.join("cache/locked"), fs::Permissions::from_mode(0o500)).unwrap();
    drop(s);
    assert!(!root.exists());
    assert_eq!(w.scope().work_dir().join("snapshots").read_dir().unwrap().count(), 0);
    assert_eq!(w.git(&["worktree", "list"]).lines().count(), 1);
}

#[derive(Debug)]
struct Pids(Vec<u32>);

impl Liveness for Pids {
    fn of(&self, owner: &Owner) -> Life {
        if self.0.contains(&owner.pid) { Life::Alive } else { Life::Dead }
    }
}

#[test]
fn what_a_killed_process_leaves_is_swept_and_what_a_living_one_uses_is_not() {
    let w = World::new();
    let mut puppet = w
        .command(env!("CARGO_BIN_EXE_gate-puppet"))
        .args(["snapshot", w.root.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(puppet.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    assert_eq!(sweep(&w.repo(), &Pids(vec![puppet.id()])).unwrap().len(), 0);
    puppet.kill().unwrap();
    puppet.wait().unwrap();
    let swept = sweep(&w.repo(), &Pids(vec![])).unwrap();
    assert_eq!(swept.len(), 1);
    assert!(!swept[0].exists());
}

#[test]
fn folders_that_git_ignores_come_along_shared_or_copied() {
    let w = World::new();
    w.write(".gitignore", "node_modules\n.venv/\n");
    w.git(&["add", ".gitignore"]);
    w.git(&["commit", "-qm", "ignore"]);
    w.write("node_modules/x/index.js", "x\n");
    w.write(".venv/bin/tool", "tool\n");
    w.set_mode(".venv/bin/tool", 0o755);
    let plan = [
        carried("node_modules", How::Shared),
        carried(".venv/", How::Copied),
        carried("missing", How::Copied),
    ];
    // Build tools compare ages.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    fs::File::open(w.root.join(".venv/bin/tool")).unwrap().set_modified(long_ago).unwrap();
    let s = snapshot(&w, &Locks::default(), &plan);
    assert_eq!(fs::metadata(s.root().join(".venv/bin/tool")).unwrap().modified().unwrap(), long_ago);
    assert!(fs::symlink_metadata(s.root().join("node_modules")).unwrap().is_symlink());
    fs::write(s.root().join(".venv/bin/tool"), "changed in the snapshot").unwrap();
    assert_eq!(w.read(".venv/bin/tool"), "tool\n");
    assert_eq!(fs::metadata(s.root().join(".venv/bin/tool")).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(!s.root().join("missing").exists());
    drop(s);
    assert_eq!(w.read("node_modules/x/index.js"), "x\n", "what is shared stays");
}

#[test]
fn folders_outside_are_refused() {
    let w = World::new();
    for folder in ["/etc", "../home", "a/../../home", "", "."] {
        let plan = [carried(folder, How::Shared)];
        let refused = Snapshot::of_agent(&w.repo(), &Locks::default(), &agent("A"), &owner(1), &plan);
        assert!(refused.unwrap_err().to_string().contains("is not a folder inside the checkout"), "{folder}");
    }
}

#[test]
fn a_run_in_it_is_recorded_without_others_changes_and_without_carried_folders() {
    let w = World::new();
    w.write(".git/info/exclude", "target/\n");
    w.write("target/x", "x");
    w.write("a.txt", "mine\n");
    w.write("b.txt", "B's\n");
    let locks = Locks::new(&[("A", "a.txt"), ("B", "b.txt")]);
    let s = snapshot(&w, &locks, &[carried("target", How::Shared)]);
    let mut launch = launch(&w, "pytest");
    launch.place = Place::Isolated;
    let recording = Recording::begin(s.repo(), who("A"), launch).unwrap();
    w.write("b.txt", "B goes on\n");
    let evidence = recording.finish(ended(0), &locks).unwrap();
    let names: Vec<String> = evidence.files.keys().map(ToString::to_string).collect();
    assert_eq!(
        names,
        ["a.txt"],
        "a link called `target` is not what `target/` ignores, and no change either"
    );
    assert!(evidence.isolated && evidence.foreign.is_empty() && evidence.after.is_empty());
    assert_eq!(evidence.head, Some(w.head()));
}

#[test]
fn two_agents_have_a_snapshot_each_while_the_checkout_is_broken() {
    let w = World::new();
    w.write("a.txt", "A's\n");
    w.write("b.txt", "B's\n");
    w.write("src/lib.rs", "broken by C\n");
    let locks = Locks::new(&[("A", "a.txt"), ("B", "b.txt"), ("C", "src/lib.rs")]);
    let of = |name: &str| Snapshot::of_agent(&w.repo(), &locks, &agent(name), &owner(1), &[]).unwrap();
    let (first, second) = (of("A"), of("B"));
    let read = |s: &Snapshot, path: &str| fs::read_to_string(s.root().join(path)).unwrap();
    assert_eq!((read(&first, "a.txt"), read(&first, "b.txt")), ("A's\n".into(), "b\n".into()));
    assert_eq!((read(&second, "a.txt"), read(&second, "b.txt")), ("a\n".into(), "B's\n".into()));
    for s in [&first, &second] {
        assert_eq!(read(s, "src/lib.rs"), "// lib\n");
    }
}

#[test]
fn folders_of_the_checkout_have_their_place_in_it() {
    let w = World::new();
    let s = snapshot(&w, &Locks::default(), &[]);
    let place = |cwd: &Path| s.place(cwd).unwrap();
    assert_eq!(place(&w.root.join("src")), s.root().join("src"));
    assert_eq!(place(&w.root), s.root());
    assert!(matches!(s.place(&w.home()), Err(SnapshotError::NoFolder { .. })));
}

#[test]
fn without_a_commit_there_is_nothing_to_take() {
    let w = World::empty();
    let refused = Snapshot::of_agent(&w.repo(), &Locks::default(), &agent("A"), &owner(1), &[]);
    assert!(refused.unwrap_err().to_string().contains("before the first commit"));
}

#[test]
fn a_file_that_became_a_folder_and_the_other_way_round_are_taken_over() {
    let w = World::new();
    w.remove("a.txt");
    w.write("a.txt/inner", "x\n");
    fs::remove_dir_all(w.root.join("src")).unwrap();
    w.write("src", "a file\n");
    let own = ["a.txt", "a.txt/inner", "src", "src/lib.rs"];
    let s = snapshot(&w, &Locks::new(&own.map(|path| ("A", path))), &[]);
    assert_eq!(fs::read_to_string(s.root().join("a.txt/inner")).unwrap(), "x\n");
    assert_eq!(fs::read_to_string(s.root().join("src")).unwrap(), "a file\n");
}
