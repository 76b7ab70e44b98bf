//! What a person is told about a run: before it, while it goes on, and in the end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use mala_tests::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Batch, Run};
use crate::cli::{Answer, MALA, done, mala, run};

const GOOD: &str = "echo work > $id.txt; tested && commit done";

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
fn uncommitted_files_and_missing_hooks_are_warned_about_at_the_start() {
    let batch = Batch::new(GOOD);
    batch.issue("bd-1", &[]);
    batch.world.write("base.txt", "a person's\n");
    (1..=7).for_each(|number| batch.world.write(&format!("new/{number}.txt"), "a person's too\n"));
    let files = "uncommitted changes that nobody holds: base.txt; untracked files that nobody holds: \
                 new/1.txt, new/2.txt, new/3.txt, new/4.txt, new/5.txt and 2 more;";
    for args in [&["--dry-run"][..], &[]] {
        let answer = batch.text(args);
        assert_eq!(answer.code, 0, "{answer:?}");
        let told = if args.is_empty() { &answer.err } else { &answer.out };
        assert!(told.contains(files) && told.contains("git stash -u"), "{answer:?}");
        assert!(told.contains("hooks") && told.contains("mala init"), "{answer:?}");
    }
    done(&batch.world, "init --yes");
    done(&batch.world, "lock acquire base.txt new/** --agent person");
    batch.issue("bd-2", &[]);
    let answer = batch.text(&["--dry-run"]);
    assert!(answer.out.contains("Do bd-2") && !answer.out.contains("mala init"), "{answer:?}");
    assert!(!answer.out.contains("base.txt") && !answer.out.contains("new/"), "{answer:?}");
}

#[test]
fn work_that_was_not_accepted_never_touches_the_branch_and_is_named_with_the_way_to_it() {
    let script = "case $attempt in 1) echo broken > $id.txt; commit untested;; *) echo work > $id.txt; tested && commit done;; esac";
    let batch = Batch::with(script, "[run]\ngate_attempts = 0");
    batch.issue("bd-1", &[]);
    let answer = batch.text(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("saved to refs/mala/candidates/bd-1/1"), "{answer:?}");
    assert_eq!(batch.world.git(&["log", "--format=%s"]), "bd-1: done\nstart");
    let batch = Batch::with(script, "[run]\ngate_attempts = 0\nattempts = 1");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!(run.summary()["not_accepted"], serde_json::json!([]), "{run:?}");
    assert_eq!(batch.world.git(&["log", "--format=%s"]), "start");
    let diff = done(&batch.world, "diff bd-1/1");
    assert!(diff.out.contains("+broken"), "{diff:?}");
}

/// What appears on a terminal of this kind.
fn on_terminal(batch: &Batch, term: &str) -> String {
    let command = format!("MALA_RUN_PROFILE=script {MALA} run");
    let mut script = batch.world.command("script");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]).env("TERM", term).stdin(Stdio::null());
    let answer: Answer = script.output().unwrap().into();
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.out
}

#[test]
fn a_terminal_without_any_skill_gets_plain_lines() {
    let batch = Batch::new(GOOD);
    for term in ["dumb", "xterm"] {
        batch.issue(term, &[]);
        let shown = on_terminal(&batch, term);
        assert!(shown.contains(&format!("{term}  ")) && shown.contains("done"), "{shown}");
        assert!(shown.contains(&format!("`script-{term}-1` started")), "{term}: {shown}");
    }
}

#[test]
fn blocked_issues_are_counted_and_named_with_what_to_do() {
    let batch = Batch::with("exit 1", "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    let first = batch.text(&[]);
    assert!(first.out.contains("0 done, 0 handed over, 1 blocked"), "{first:?}");
    for args in [&[][..], &["--dry-run"]] {
        let next = batch.text(args);
        assert_eq!(next.code, 0, "{next:?}");
        for part in ["1 issue is blocked: bd-1", "mala issue show bd-1", "mala run --issue bd-1"] {
            assert!(next.out.contains(part), "`{part}` is missing: {next:?}");
        }
    }
}

#[test]
fn words_fit_what_they_are_about() {
    let batch = Batch::with(GOOD, "");
    batch.issue("bd-1", &[]);
    let one = batch.text(&["--issue", "bd-1"]);
    assert!(!one.out.contains("closed already") && !one.err.contains("closed already"), "{one:?}");

    let batch = Batch::with("kill -9 $$", "[run]\nattempts = 2");
    batch.issue("bd-1", &[]);
    let killed = batch.run(&["--max-issues", "1"]);
    assert_eq!(killed.all("handed_over")[0]["reason"], "the agent was killed by signal 9", "{killed:?}");

    let batch = Batch::with("exit 1", "[run]\nretry_pause = \"1h\"");
    batch.issue("bd-1", &[]);
    let mut paused =
        batch.command(&[]).env("MALA_RUN_RETRY_PAUSE", "1h").stdout(Stdio::piped()).spawn().unwrap();
    eventually("it was tried", || batch.notes("bd-1").contains("Attempt 1"));
    paused.kill().unwrap();
    paused.wait().unwrap();
    let plan = batch.text(&["--dry-run"]);
    assert!(plan.out.contains("bd-1 was tried once"), "{plan:?}");
}

#[test]
fn a_stopped_run_says_so_once() {
    let batch = Batch::new("touch $OUT; while :; do sleep 0.05; done");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let mut command = crate::cli::mala(&batch.world, ["run", "--profile", "script"]);
    let run = command.env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has begun", || sign.exists());
    super::stopping::interrupt(&run);
    let answer: Answer = run.wait_with_output().unwrap().into();
    assert!(
        answer.out.contains("\nthe run was stopped; go on where it stopped: mala run --resume"),
        "{answer:?}"
    );
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

#[test]
fn what_a_run_does_to_prove_that_it_protects_counts_as_nobodys_lock() {
    let batch = Batch::new(GOOD);
    let idle = batch.run(&[]);
    let contention = &idle.summary()["contention"];
    assert_eq!((&contention["lock_tries"], &contention["refusals"]), (&0.into(), &0.into()), "{idle:?}");
    let health = done(&batch.world, "status --json").json()["health"].clone();
    assert_eq!((&health["lock_tries"], &health["lock_waits"]), (&0.into(), &0.into()), "{health}");
}

#[test]
fn an_issue_that_was_tried_too_often_is_left_with_what_to_type() {
    let batch = Batch::with("exit 1", "[run]\nattempts = 1");
    batch.issue("my issue", &[]);
    batch.text(&[]);
    let reopened = mala(&batch.world, ["issue", "reopen", "my issue"]).output().unwrap();
    assert!(reopened.status.success(), "{reopened:?}");
    let next = batch.run(&[]);
    let why = next.summary()["left"][0]["why"].as_str().unwrap();
    assert!(why.contains("it was tried once") && why.ends_with("mala run --issue 'my issue'"), "{why}");
}

#[test]
fn a_run_and_the_status_count_the_same_locks_and_turns_to_test_are_none() {
    let batch = Batch::new(GOOD);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    let (contention, health) =
        (&run.summary()["contention"], done(&batch.world, "status --json").json()["health"].clone());
    assert_ne!(health["lock_tries"], 0, "{health}");
    assert_eq!(
        (&contention["lock_tries"], &contention["lock_waits"]),
        (&health["lock_tries"], &health["lock_waits"])
    );
}

#[test]
fn the_help_says_what_the_exit_codes_mean() {
    let batch = Batch::new("");
    let help = run(&batch.world, "run --help").out;
    assert!(help.contains("Exit codes") && help.contains("handed over or left"), "{help}");
}

#[test]
fn what_agents_and_tests_print_is_for_nobody_else_to_read() {
    let batch = Batch::new("echo talking; echo work > $id.txt; tested; commit done");
    batch.issue("bd-1", &[]);
    assert_eq!(batch.run(&[]).issues("done"), ["bd-1"]);
    // Records of what ran are for everybody who may use the repository.
    let is_for_owner = |path: &std::path::Path| {
        let ends_with = |end: &str| path.extension().is_some_and(|own| own == end);
        ends_with("log") || ends_with("err") || ends_with("jsonl") && path.parent().unwrap().ends_with("logs")
    };
    let state = batch.world.root().join(".git/mala");
    let mut directories = vec![state];
    let mut seen = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                directories.push(path);
            } else if is_for_owner(&path) {
                assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{}", path.display());
                seen.push(path);
            }
        }
    }
    assert!(
        seen.len() >= 3,
        "the agent's words, the run's log and the output of a test are among them: {seen:?}"
    );
}
