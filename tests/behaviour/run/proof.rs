//! What an agent ran, wrote or claims decides nothing: mala runs the required commands itself.

use std::process::Stdio;

use super::{Batch, Run};

const ONCE: &str = "[run]\ngate_attempts = 0\nattempts = 1";

/// Asserts that the only issue is not accepted, because of this check.
fn assert_rejected(run: &Run, check: &str) {
    assert_eq!((run.code, run.issues("handed_over")), (1, vec!["bd-1"]), "{run:?}");
    assert_eq!(run.only("rejected")["failed"][0]["name"], check, "{run:?}");
}

fn run(script: &str) -> Run {
    let batch = Batch::with(script, ONCE);
    batch.world.write(".gitignore", "answer\nbin/\n");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    batch.issue("bd-1", &[]);
    batch.run(&[])
}

#[test]
fn work_that_fails_is_rejected_whatever_the_agent_ran_before() {
    for ran in [
        "\"$MALA\" test -- true",
        "\"$MALA\" test -- sh -n check.sh",
        "\"$MALA\" test --wait 1m -- sh check.sh",
        "mkdir sub; echo true > sub/check.sh; cd sub; \"$MALA\" test --wait 1m -- sh check.sh; cd ..; rm -r sub",
    ] {
        let run = run(&format!("{ran}; echo broken > $id.txt; commit it; echo all tests pass"));
        assert_rejected(&run, "command");
    }
}

#[test]
fn neither_an_ignored_file_nor_the_agents_environment_decides() {
    // The checkout has its own `grep`, which finds nothing.
    let run = run("mkdir -p bin; printf '#!/bin/sh\\nexit 1\\n' > bin/grep; chmod +x bin/grep; export PATH=$PWD/bin:$PATH
        echo broken > $id.txt; \"$MALA\" test --wait 1m -- sh check.sh && commit it");
    assert_rejected(&run, "command");
}

#[test]
fn an_object_that_the_agent_writes_over_is_no_proof() {
    let run = run("echo work > other.txt; good=$(git hash-object -w other.txt); rm other.txt
        echo broken > $id.txt; commit it; bad=$(git rev-parse refs/mala/candidates/$id/1:$id.txt)
        at() { printf '.git/objects/%s' \"$(printf %s \"$1\" | sed 's|^..|&/|')\"; }
        chmod u+w \"$(at $bad)\"; cp \"$(at $good)\" \"$(at $bad)\"");
    assert!(run.issues("done").is_empty(), "{run:?}");
    let reason = run.only("handed_over")["reason"].to_string();
    assert!(reason.contains("does not hold what its name stands for"), "{reason}");
}

#[test]
fn the_author_names_the_issue_and_not_malas_own_trailer() {
    let run = run("echo work > $id.txt
        \"$MALA\" commit -m 'bd-999: of another' 2> said || { grep -q 'does not name `bd-1`' said && exit 7; }");
    assert_eq!(
        run.only("handed_over")["reason"],
        "the agent ended with code 7",
        "it is told at once: {run:?}"
    );
}

#[test]
fn no_commit_gets_below_the_last_one_whatever_way_it_is_made() {
    let batch = Batch::with(
        "echo more > more.txt; git add more.txt; git commit -qm 'nobody knows'
        tree=$(git write-tree); git update-ref refs/heads/main $(git commit-tree $tree -p HEAD -m 'by plumbing')
        echo work > $id.txt; commit fine",
        ONCE,
    );
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    assert_eq!(batch.world.git(&["log", "--format=%s"]), "bd-1: fine\nstart");
}

#[test]
fn a_red_branch_is_named_before_agents_begin_and_work_that_mends_it_is_accepted() {
    let batch = Batch::with("echo fixed > base.txt; commit mended", ONCE);
    batch.world.write("base.txt", "broken\n");
    batch.world.git(&["commit", "-qam", "red"]);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    let told = run.only("branch_red")["why"].as_str().unwrap();
    assert!(
        told.starts_with("the branch is red before any agent has begun: `sh check.sh` failed on"),
        "{told}"
    );
    let validating = &run.all("validating")[0];
    assert_eq!(validating["command"], "sh check.sh", "and what runs meanwhile is told: {run:?}");
    let names: Vec<&str> = run.events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names[..2], ["validating", "run_started"]);
}

#[test]
fn what_can_never_be_accepted_costs_no_session() {
    let batch = Batch::new("echo work > $id.txt; commit it");
    let settings =
        batch.read("mala.toml").replace("commands = [\"sh check.sh\"]", "commands = [\"no-such-tester\"]");
    batch.world.write("mala.toml", &settings);
    batch.world.git(&["commit", "-qam", "settings"]);
    batch.issue("bd-1", &[]);
    let answer = batch.text(&[]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(
        answer.err.contains("`no-such-tester` is required of every commit and cannot be run here"),
        "{answer:?}"
    );
    assert_eq!(batch.status_of("bd-1"), "open");
}

#[test]
fn a_repository_that_requires_nothing_is_told_that_nothing_is_proven() {
    let batch = Batch::new("echo work > $id.txt; commit it");
    let settings = batch.read("mala.toml").replace("commands = [\"sh check.sh\"]", "commands = []");
    batch.world.write("mala.toml", &settings);
    batch.world.git(&["commit", "-qam", "settings"]);
    batch.issue("bd-1", &[]);
    let run = Run::of(batch.command(&[]).stdout(Stdio::piped()).spawn().unwrap());
    let warned =
        run.all("warning").iter().any(|event| event["text"].as_str().unwrap().contains("nothing is proven"));
    assert!(warned, "{run:?}");
}

#[test]
fn the_doctor_says_whether_work_can_be_proven() {
    let batch = Batch::new("true");
    let line = || {
        let doctor = crate::cli::mala(&batch.world, ["doctor", "--json"]).output().unwrap();
        let checks = crate::cli::Answer::from(doctor).json()["checks"].clone();
        let found = checks.as_array().unwrap().iter().find(|check| check["name"] == "validation").cloned();
        found.unwrap()
    };
    assert!(
        line()["detail"].as_str().unwrap().ends_with("the last commit has not been validated yet"),
        "{}",
        line()
    );
    crate::cli::done(&batch.world, "test --agent ann");
    assert!(line()["detail"].as_str().unwrap().ends_with("has passed"), "{}", line());
    let settings = batch.read("mala.toml");
    let with = |commands: &str| {
        batch.world.write("mala.toml", &settings.replace("[\"sh check.sh\"]", commands));
        line()
    };
    let missing = with("[\"no-such-tester\"]");
    assert_eq!(missing["status"], "fail", "{missing}");
    assert!(
        missing["detail"].as_str().unwrap().contains("`no-such-tester` needs `no-such-tester`"),
        "{missing}"
    );
    assert_eq!(with("[]")["detail"], "no command is required, so nothing is proven");
}
