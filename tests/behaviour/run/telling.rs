//! What a person is told about a run: before it, while it goes on, and in the end.

use std::process::Stdio;

use mala_tests::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Batch, Run};
use crate::cli::{Answer, done};

#[test]
fn the_status_names_the_profile_and_the_process_of_an_agent() {
    let batch = Batch::new("touch $OUT; while [ -e $OUT ]; do sleep 0.02; done");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let started = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has begun", || sign.exists());
    let status = done(&batch.world, "status --json").json();
    let agent = &status["agents"][0];
    assert_eq!((&agent["id"], &agent["profile"]), (&"script-bd-1-1".into(), &"script".into()), "{status}");
    assert_ne!(agent["pid"], started.id(), "each agent has a process of its own: {status}");
    let pid = Pid::from_raw(i32::try_from(agent["pid"].as_i64().unwrap()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    std::fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let ended = Run::of(started);
    assert!(!ended.issues("rejected").is_empty(), "it was the agent's: {ended:?}");
}

#[test]
fn an_issue_that_another_worktree_works_on_is_left_with_a_sentence() {
    let batch = Batch::new(
        "touch $OUT; while [ -e $OUT ]; do sleep 0.02; done; echo work > $id.txt; tested && commit done",
    );
    batch.issue("bd-1", &[]);
    let (sign, other) = (batch.outside("sign"), batch.outside("other"));
    batch.world.git(&["worktree", "add", "-q", "-b", "other", other.to_str().unwrap()]);
    let first = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the first has begun", || sign.exists());
    let second: Run =
        Answer::from(batch.command(&["--issue", "bd-1"]).current_dir(&other).output().unwrap()).into();
    assert_eq!(second.summary()["left"][0]["why"], "`script-bd-1-1` is working on `bd-1`", "{second:?}");
    std::fs::remove_file(&sign).unwrap();
    assert_eq!(Run::of(first).code, 0);
}
