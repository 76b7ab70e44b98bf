//! Lock files that a killed git leaves behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mala_tests::{World, eventually, write_script};
use walkdir::WalkDir;

use mala_tests::processes_with;

use super::{Batch, Run};

/// Gits that are stopped in the middle of their work, while they hold the locks of the index and of a ref.
const HOLD: &str = r#"
    hold() {
        echo held > held.txt; HOLD=1 git add held.txt & holder=$!
        HOLD=1 git tag held & holder="$holder $!"
        while ! [ -e .git/refs/tags/held.lock ] || ! [ -e .git/index.lock ]; do sleep 0.02; done
    }
"#;

fn batch(script: &str) -> Batch {
    let batch = Batch::with(&format!("{HOLD}\n{script}"), "[run]\nattempts = 1\ngate_attempts = 0");
    // Git reads a file through its filter while it holds the lock of the index.
    batch.world.git(&["config", "filter.slow.clean", "[ -z \"$HOLD\" ] && cat || sleep 600"]);
    batch.world.write(".gitattributes", "held.txt filter=slow\n");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "a slow filter"]);
    let hook = batch.world.root().join(".git/hooks/reference-transaction");
    write_script(&hook, "#!/bin/sh\n[ \"$1\" = prepared ] && [ -n \"$HOLD\" ] && sleep 600\nexit 0\n");
    batch
}

/// Git's own lock files that exist.
pub(super) fn locks(world: &World) -> Vec<String> {
    let git = world.root().join(".git");
    let entries =
        WalkDir::new(&git).into_iter().filter_entry(|entry| entry.path() != git.join("mala")).flatten();
    let names = entries.map(|entry| entry.path().display().to_string());
    names.filter(|name| name.ends_with(".lock")).collect()
}

#[test]
fn the_lock_of_a_killed_git_is_in_nobodys_way_although_its_agent_goes_on() {
    let batch = batch(
        "case $id in
        bd-1) hold; kill -9 $holder; touch $OUT/left; while ! [ -e $OUT/committed ]; do sleep 0.02; done;;
        *) while ! [ -e $OUT/left ]; do sleep 0.02; done
           echo work > $id.txt; git add $id.txt && tested && commit done && touch $OUT/committed;;
        esac",
    );
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    let run = Run::of(batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(run.issues("done"), ["bd-2"], "{run:?}");
    assert_eq!(locks(&batch.world), Vec::<String>::new());
    batch.assert_nothing_left();
}

#[test]
fn what_a_killed_supervisors_tree_left_is_removed_before_its_work_is_saved() {
    let batch = batch("echo half > half.txt; hold; touch $OUT; sleep 600");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("its git holds the lock", || sign.exists());
    kill_supervisor(&batch, Keeper::Lives);
    let run = Run::of(run);
    assert_eq!(run.only("handed_over")["saved_ref"], "refs/mala/bd-1/1", "{run:?}");
    assert_eq!((locks(&batch.world), batch.dirt().as_str()), (Vec::new(), ""));
    batch.world.git(&["commit", "-q", "--allow-empty", "-m", "the branch is free"]);
    batch.assert_nothing_left();
}

#[test]
fn what_is_left_when_the_run_itself_is_killed_is_removed_by_the_next_start() {
    let batch = batch("echo half > half.txt; hold; touch $OUT; sleep 600");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let mut run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("its git holds the lock", || sign.exists());
    kill_supervisor(&batch, Keeper::Dies);
    run.kill().unwrap();
    run.wait().unwrap();
    batch.assert_nothing_goes_on();
    let next = batch.run(&[]);
    assert_eq!(next.issues("recovered"), ["bd-1"], "{next:?}");
    assert_eq!((locks(&batch.world), batch.dirt().as_str()), (Vec::new(), ""));
}

#[test]
fn what_would_be_removed_is_listed_before() {
    let batch = batch("hold; touch $OUT; sleep 600");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let mut run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("its git holds the lock", || sign.exists());
    let listed = |line: &str| -> Vec<String> {
        let paths = crate::cli::done(&batch.world, line).json()["git_locks"].clone();
        let mut paths: Vec<_> = paths.as_array().unwrap().iter().map(text).collect();
        paths.sort();
        paths
    };
    assert_eq!(listed("clean --dry-run --json"), Vec::<String>::new(), "nothing of the living");
    // Its supervisor ends with it, and the keeper ends the tree: nobody is left who would clear up.
    run.kill().unwrap();
    run.wait().unwrap();
    batch.assert_nothing_goes_on();
    let mut left = locks(&batch.world);
    left.sort();
    assert!(left.iter().any(|name| name.ends_with("/index.lock")), "{left:?}");
    eventually("their makers are dead, and they are listed", || listed("clean --dry-run --json") == left);
    assert_eq!(listed("clean --json"), left);
    assert_eq!(locks(&batch.world), Vec::<String>::new());
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn a_persons_lock_is_left_alone() {
    let batch = batch("hold; kill -9 $holder; exit 1");
    batch.issue("bd-1", &[]);
    let mut person = person_holds(&batch, "person");
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    let theirs = batch.world.root().join(".git/refs/heads/person.lock").display().to_string();
    assert_eq!(locks(&batch.world), [theirs], "the agent's is gone, the person's is not");
    crate::cli::done(&batch.world, "clean");
    assert_eq!(locks(&batch.world).len(), 1);
    // The person's git gets what it wanted.
    use std::io::Write;
    person.stdin.take().unwrap().write_all(b"commit\n").unwrap();
    assert!(person.wait().unwrap().success());
    batch.world.git(&["rev-parse", "--verify", "refs/heads/person"]);
}

/// A git outside of any agent that holds the lock of a branch.
fn person_holds(batch: &Batch, branch: &str) -> Child {
    use std::io::Write;
    let head = batch.world.git(&["rev-parse", "HEAD"]);
    let mut command = batch.world.command("git");
    command.args(["update-ref", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut person = command.spawn().unwrap();
    let text = format!("start\nupdate refs/heads/{branch} {head}\nprepare\n");
    person.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    let lock = batch.world.root().join(format!(".git/refs/heads/{branch}.lock"));
    eventually("the person's git holds the lock", || lock.exists());
    person
}

/// What happens to the process that ends the tree.
#[derive(Clone, Copy, PartialEq)]
enum Keeper {
    Lives,
    Dies,
}

/// Kills `mala exec`, which keeps the agent's tree.
fn kill_supervisor(batch: &Batch, keeper: Keeper) {
    let script = batch.outside("agent.sh").display().to_string();
    let is_supervisor = |folder: &Path| {
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_keeper = fs::read(folder.join("comm")).is_ok_and(|name| name == b"mala-keeper\n");
        line.contains(" exec --agent ") && line.contains(&script) && (keeper == Keeper::Dies || !is_keeper)
    };
    assert!(!processes_with(&script).is_empty());
    for entry in fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_supervisor(&entry.path())) {
        Command::new("kill").arg("-9").arg(entry.file_name()).status().unwrap();
    }
}
