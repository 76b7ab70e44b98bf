//! Offers on their way to the branch, and what kills leave of them.

use std::process::Stdio;

use super::{Batch, Run};
use crate::cli::done;

/// Every place between the end of a turn and the end of a landing at which a run can be killed.
const CRASH_POINTS: [&str; 14] = [
    "offer:queued",
    "offer:out",
    "queue:green",
    "queue:begun",
    "landing:before-lock",
    "landing:locked",
    "landing:index-built",
    "landing:staged",
    "landing:ref-moved",
    "landing:file",
    "landing:files-done",
    "landing:index-placed",
    "landing:unlocked",
    "queue:landed",
];

/// Subjects of the branch, newest first.
fn subjects(batch: &Batch) -> Vec<String> {
    batch.world.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
}

fn killed_at(batch: &Batch, point: &str) {
    let mut command = batch.command(&["--max-agents", "1"]);
    let status = command.env("MALA_CRASH_AT", point).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(!status.unwrap().success(), "it was not killed at {point}");
}

#[test]
fn wherever_a_landing_is_killed_the_next_start_finishes_it_exactly_once() {
    for point in CRASH_POINTS {
        let batch = Batch::new("echo $id >> base.txt; echo work > $id.txt; tested && commit done");
        batch.issue("bd-1", &[]);
        killed_at(&batch, point);
        batch.assert_nothing_goes_on();
        let next = batch.run(&[]);
        assert_eq!((next.code, batch.status_of("bd-1").as_str()), (0, "closed"), "{point}: {next:?}");
        assert_eq!(subjects(&batch), ["bd-1: done", "start"], "{point}: {next:?}");
        assert_eq!(next.issues("claimed"), Vec::<&str>::new(), "{point}: it is not done again");
        assert_eq!((batch.dirt().as_str(), batch.read("base.txt").as_str()), ("", "base\nbd-1\n"), "{point}");
        batch.assert_nothing_left();
    }
}

#[test]
fn a_repair_that_is_killed_is_repaired() {
    for (first, second) in [
        ("landing:ref-moved", "landing:repair-begun"),
        ("landing:ref-moved", "landing:repair-locked"),
        ("landing:file", "landing:repair-staged"),
        ("landing:ref-moved", "landing:repair-files-done"),
        ("landing:files-done", "landing:repair-index-placed"),
        ("landing:staged", "landing:repair-begun"),
    ] {
        let batch = Batch::new("echo $id >> base.txt; echo work > $id.txt; tested && commit done");
        batch.issue("bd-1", &[]);
        killed_at(&batch, first);
        killed_at(&batch, second);
        let next = batch.run(&[]);
        assert_eq!((next.code, batch.status_of("bd-1").as_str()), (0, "closed"), "{second}: {next:?}");
        assert_eq!(subjects(&batch), ["bd-1: done", "start"], "{second}: {next:?}");
        assert_eq!(batch.dirt(), "", "{second}");
        batch.assert_nothing_left();
    }
}

#[test]
fn two_that_are_red_only_together_do_not_both_land() {
    let script = "if is_retry; then rm -f $id.txt; echo fine > other-$id.txt; else echo work > $id.txt; fi; commit done";
    let batch = Batch::new(script);
    batch.world.write("check.sh", "test ! -e bd-1.txt || test ! -e bd-2.txt\n");
    batch.world.git(&["commit", "-q", "-a", "-m", "they exclude each other"]);
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done").len(), run.all("rejected").len()), (0, 2, 1), "{run:?}");
    batch.assert_nothing_left();
}

#[test]
fn a_red_branch_is_not_validated_again_and_again() {
    let script = "case $id in
        bd-1) echo fine > $id.txt; commit innocent;;
        *) sleep 5; echo fixed > base.txt; commit mended;;
        esac";
    let batch = Batch::new(script);
    batch.world.write("base.txt", "broken\n");
    batch.world.git(&["commit", "-q", "-a", "-m", "red"]);
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done").len()), (0, 2), "{run:?}");
    assert_eq!(run.all("rejected").len(), 0, "nobody is to blame: {run:?}");
    let log = std::fs::read_to_string(batch.world.state_dir().join("evidence/validations.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 4, "the branch, the innocent work, the branch, both together: {log}");
}

#[test]
fn a_person_who_commits_meanwhile_goes_first_and_loses_nothing() {
    let script = "echo $id >> base.txt; commit done; touch \"$OUT/offered\"; while ! [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    let batch = Batch::new(script);
    batch.issue("bd-1", &[]);
    let out = batch.outside("signs");
    std::fs::create_dir(&out).unwrap();
    let run = batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap();
    mala_tests::eventually("it has offered", || out.join("offered").exists());
    batch.world.write("theirs.txt", "a person's\n");
    batch.world.git(&["add", "theirs.txt"]);
    batch.world.git(&["commit", "-q", "-m", "by a person", "--", "theirs.txt"]);
    batch.world.write("dirty.txt", "not committed\n");
    std::fs::write(out.join("go"), "").unwrap();
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    assert_eq!(subjects(&batch), ["bd-1: done", "by a person", "start"]);
    assert_eq!(batch.dirt(), "?? dirty.txt");
    assert_eq!(batch.read("base.txt"), "base\nbd-1\n");
}

#[test]
fn what_a_person_has_changed_is_not_written_over_and_lands_when_they_make_room() {
    let script = "echo $id >> base.txt; commit done; touch \"$OUT/offered\"; while ! [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    let batch = Batch::new(script);
    batch.world.write("new.txt", "");
    batch.world.git(&["add", "new.txt"]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    batch.issue("bd-1", &[]);
    let out = batch.outside("signs");
    std::fs::create_dir(&out).unwrap();
    let mut run = batch.command(&[]).env("OUT", &out).env("MALA_CRASH_AT", "queue:green").spawn().unwrap();
    mala_tests::eventually("it has offered", || out.join("offered").exists());
    std::fs::write(out.join("go"), "").unwrap();
    run.wait().unwrap();
    batch.world.write("base.txt", "a person's\n");
    let next = batch.run(&[]);
    assert_eq!(next.code, 1, "{next:?}");
    let why = next.only("held")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("`base.txt` has changes that are not committed"), "{why}");
    assert_eq!(
        (batch.read("base.txt").as_str(), batch.status_of("bd-1").as_str()),
        ("a person's\n", "in_progress")
    );
    batch.world.git(&["checkout", "-q", "--", "base.txt"]);
    done(&batch.world, "queue run");
    assert_eq!(
        (batch.read("base.txt").as_str(), batch.status_of("bd-1").as_str()),
        ("base\nbd-1\n", "closed")
    );
}

#[test]
fn a_file_in_which_a_person_had_left_changes_is_not_offered() {
    let script = "echo $id >> base.txt; commit done 2> said || { grep -q 'had uncommitted changes of a person' said && exit 7; }";
    let batch = Batch::with(script, "[run]\nattempts = 1\ngate_attempts = 0");
    batch.world.write("base.txt", "base\na person's\n");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.only("handed_over")["reason"], "the agent ended with code 7", "{run:?}");
    assert_eq!(batch.read("base.txt"), "base\na person's\n", "it is as they left it");
    let allowed = batch.run(&["--issue", "bd-1", "--allow-dirty"]);
    assert_eq!(allowed.issues("queued"), ["bd-1"], "{allowed:?}");
}

#[test]
fn a_client_that_hides_gits_settings_does_not_make_its_commits_nobodys() {
    let hidden = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1";
    let batch = Batch::new(&format!("{hidden}; echo work > work.txt; tested && commit work"));
    for name in ["user.name", "user.email"] {
        batch.world.git(&["config", "--unset", name]);
    }
    let settings = "[user]\n\tname = Pat\n\temail = pat@example.invalid\n";
    std::fs::write(batch.world.home().join(".gitconfig"), settings).unwrap();
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.issues("done"), ["bd-1"], "{run:?}");
    assert_eq!(batch.world.git(&["log", "-1", "--format=%an <%ae>"]), "Pat <pat@example.invalid>");
}
