//! What a killed run leaves is made good by the next start.

use std::fs;
use std::process::Stdio;

use mala_core::ports::Liveness as _;
use mala_core::{IssueId, Life};
use mala_store::process::ProcessTable;
use mala_tests::eventually;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::json;

use super::{Batch, Run};

/// A run that is killed with -9 once its agent has left a sign.
fn killed(script: &str, settings: &str) -> Batch {
    let batch = Batch::with(script, settings);
    kill(&batch);
    batch
}

fn kill(batch: &Batch) {
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let mut run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has left its sign", || sign.exists());
    run.kill().unwrap();
    run.wait().unwrap();
}

/// With a branch `other` that changes the same line as the last commit.
fn with_conflict(script: &str) -> Batch {
    let batch = Batch::with(script, "");
    for (branch, from) in [("other", "HEAD"), ("ours", "other~1")] {
        batch.world.git(&["checkout", "-q", "-b", branch, from]);
        batch.world.write("base.txt", &format!("{branch}\n"));
        batch.world.git(&["commit", "-q", "-a", "--allow-empty", "-m", branch]);
    }
    batch
}

#[test]
fn agents_end_with_their_run_and_their_work_is_saved() {
    let batch = killed("echo half > half.txt; touch $OUT; sleep 600", "");
    batch.assert_nothing_goes_on();
    assert_eq!(batch.read("half.txt"), "half\n");
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    let recovered = next.only("recovered");
    assert_eq!(recovered["outcome"], "handed over, work saved to refs/mala/bd-1/1", "{next:?}");
    assert_eq!(
        (batch.dirt().as_str(), batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]).as_str()),
        ("", "half")
    );
    assert!(batch.notes("bd-1").contains("its run was killed"));
    assert_eq!(next.only("claimed")["attempt"], 2, "and goes on");
    batch.assert_nothing_left();
}

#[test]
fn a_supervisor_that_does_not_notice_the_end_of_its_run_is_ended_by_the_next_one() {
    let batch = Batch::new("echo half > half.txt; touch $OUT; sleep 600");
    batch.issue("bd-1", &[]);
    let sign = batch.outside("sign");
    let mut run = batch.command(&[]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the agent has left its sign", || sign.exists());
    let attempt = batch.world.store().attempts(&IssueId::new("bd-1").unwrap()).unwrap().remove(0);
    let supervisor = attempt.supervisor.expect("it was written down before the agent was started");
    signal::kill(Pid::from_raw(i32::try_from(supervisor.pid).unwrap()), Signal::SIGSTOP).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    let outcome = &next.only("recovered")["outcome"];
    assert_eq!(outcome, "handed over, work saved to refs/mala/bd-1/1", "{next:?}");
    assert_eq!(ProcessTable.of(&supervisor), Life::Dead);
    batch.assert_nothing_left();
}

/// The git that saves work runs outside of the agent's tree.
#[test]
fn saving_work_runs_nothing_that_its_agent_has_put_into_the_users_settings() {
    let batch = Batch::new(
        "git config --file $HOME/.gitconfig filter.x.clean \"touch $HOME/ran; cat\"; \
         echo '* filter=x' > .gitattributes; echo work > new.txt; exit 1",
    );
    batch.issue("bd-1", &[]);
    let run = batch.run(&["--max-issues", "1"]);
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:new.txt"]), "work", "{run:?}");
    assert!(!batch.world.home().join("ran").exists(), "{run:?}");
}

#[test]
fn work_that_was_proven_before_the_kill_counts() {
    let batch = killed("echo work > $id.txt; tested && commit done; touch $OUT; sleep 600", "");
    let next = batch.run(&[]);
    let outcome = &next.only("recovered")["outcome"];
    assert_eq!((next.code, outcome), (0, &"in the landing queue".into()), "{next:?}");
    assert_eq!(
        (batch.status_of("bd-1").as_str(), next.issues("claimed").len()),
        ("closed", 0),
        "it is not done again"
    );
}

#[test]
fn what_somebody_writes_over_after_the_kill_was_saved_before() {
    let ways = [
        // The kernel tier, a lock by hand, and a client's hook.
        "exec --agent other -- sh -c 'echo mine > half.txt; echo mine > base.txt'",
        "lock acquire half.txt base.txt --agent other",
        "hook claude",
    ];
    for way in ways {
        let batch = killed("echo half > half.txt; echo agent >> base.txt; touch $OUT; sleep 600", "");
        batch.assert_nothing_goes_on();
        let call = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "cwd": batch.world.root(), "tool_name": "Write",
            "tool_use_id": "t", "tool_input": { "file_path": batch.world.root().join("half.txt"), "content": "mine" },
        });
        let script = format!("{} {way} <<'END'\n{call}\nEND\n", crate::cli::MALA);
        let done = batch.world.command("sh").args(["-c", &script]).output().unwrap();
        assert!(done.status.success(), "{way}: {done:?}");
        for file in ["half.txt", "base.txt"] {
            batch.world.write(file, "mine\n");
        }
        let show = |file: &str| batch.world.git(&["show", &format!("refs/mala/bd-1/1:{file}")]);
        assert_eq!((show("half.txt").as_str(), show("base.txt").as_str()), ("half", "base\nagent"), "{way}");
        batch.world.git(&["add", "-A"]);
        batch.world.git(&["commit", "-qm", "theirs"]);
        fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
        let next = batch.run(&["--max-issues", "1"]);
        let outcome = &next.only("recovered")["outcome"];
        assert_eq!(outcome, "handed over, work saved to refs/mala/bd-1/1", "{way}: {next:?}");
        let note = batch.notes("bd-1");
        assert!(note.contains("base.txt, half.txt") && note.contains("refs/mala/bd-1/1"), "{way}: {note}");
        assert_eq!(batch.read("half.txt"), "mine\n", "{way}");
    }
}

#[test]
fn a_file_that_somebody_took_after_the_kill_is_left_to_them() {
    let batch = killed("echo half > half.txt; echo agent >> base.txt; touch $OUT; sleep 600", "");
    crate::cli::done(&batch.world, "lock acquire base.txt --agent person");
    batch.world.write("base.txt", "the person's\n");
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    assert_eq!(next.issues("recovered"), ["bd-1"], "{next:?}");
    assert_eq!((batch.read("base.txt").as_str(), batch.dirt().as_str()), ("the person's\n", "M base.txt"));
}

#[test]
fn a_killed_run_can_be_resumed_with_what_it_was_asked_to_do() {
    let script =
        "[ -e $OUT ] && { echo work > $id.txt; tested && commit done; exit; }; touch $OUT; sleep 600";
    let batch = Batch::new(script);
    for id in ["a", "b", "c"] {
        batch.issue(id, &[]);
    }
    assert_eq!(batch.run(&["--resume"]).code, 1, "there is nothing to resume");
    let sign = batch.outside("sign");
    let mut run = batch
        .command(&["--sequential", "--issue", "c", "--issue", "a"])
        .env("OUT", &sign)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it has begun", || sign.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let next =
        Run::of(batch.command(&["--resume"]).env("OUT", &sign).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!((next.code, next.issues("done")), (0, vec!["c", "a"]), "{next:?}");
    assert_eq!(batch.status_of("b"), "open");
}

#[test]
fn a_mistyped_issue_does_not_take_the_place_of_the_run_to_go_on_with() {
    let batch = killed("echo half > half.txt; touch $OUT; sleep 600", "");
    assert_eq!(batch.run(&["--issue", "nope"]).code, 2);
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--resume", "--max-issues", "1"]);
    assert_eq!((next.issues("recovered"), next.issues("claimed")), (vec!["bd-1"], vec!["bd-1"]), "{next:?}");
}

#[test]
fn after_a_kill_the_status_and_a_dry_run_say_what_would_be_made_good() {
    let batch = killed("echo half > half.txt; touch $OUT; sleep 600", "");
    let run: String = batch.world.sql().query_row("SELECT id FROM run", [], |row| row.get(0)).unwrap();
    let text = crate::cli::done(&batch.world, "status").out;
    for part in
        [format!("run {run} was killed with bd-1 under way").as_str(), "mala run --resume", "mala run\n"]
    {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    let status = crate::cli::done(&batch.world, "status --json").json();
    let left = status["leftovers"].as_array().unwrap().iter().find(|left| left["kind"] == "run").unwrap();
    assert_eq!((&left["id"], &left["issues"]), (&run.into(), &serde_json::json!(["bd-1"])), "{left}");
    for more in [&["--dry-run"][..], &["--resume", "--dry-run"]] {
        let plan = batch.text(more);
        assert!(plan.code == 0 && plan.out.contains("bd-1 was left by a run that was killed"), "{plan:?}");
        assert!(!plan.out.contains("nothing is ready"), "{plan:?}");
    }
    assert_eq!(batch.read("half.txt"), "half\n", "nothing was done");
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    batch.run(&["--max-issues", "1"]);
    let text = crate::cli::done(&batch.world, "status").out;
    assert!(!text.contains("was killed"), "{text}");
}

#[test]
fn files_that_are_taken_out_of_the_checkout_are_named_with_the_way_back() {
    let batch = killed("echo half > half.txt; echo agent >> base.txt; touch $OUT; sleep 600", "");
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.text(&["--max-issues", "1"]);
    let told = "base.txt, half.txt: taken out of the checkout; to get them back: mala restore bd-1/1";
    assert_eq!(next.out.matches(told).count(), 2, "when it happens, and in the end: {next:?}");
    crate::cli::done(&batch.world, "restore bd-1/1");
    assert_eq!(batch.read("half.txt"), "half\n", "and it is the way");
}

/// Git is refused a merge in a run, but not under a name that nobody knows, as far as it leaves the branch alone.
const MERGE: &str = "\"$MALA\" lock acquire . && cp $(command -v git) ../vcs && ! ../vcs merge -q other";

#[test]
fn an_agent_that_was_killed_in_the_middle_of_a_merge_leaves_saved_work_and_no_merge() {
    let merge = format!("{MERGE} && echo resolved > base.txt");
    let batch = with_conflict(&format!("{merge} && echo half > half.txt && touch $OUT; sleep 600"));
    kill(&batch);
    assert!(batch.world.root().join(".git/MERGE_HEAD").exists());
    let plan = batch.text(&["--dry-run"]);
    assert!(plan.code == 0 && plan.out.contains("bd-1 was left by a run that was killed"), "{plan:?}");
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let next = batch.run(&["--max-issues", "1"]);
    assert_eq!(next.only("recovered")["saved_ref"], "refs/mala/bd-1/1", "{next:?}");
    let show = |file: &str| batch.world.git(&["show", &format!("refs/mala/bd-1/1:{file}")]);
    assert_eq!((show("base.txt").as_str(), show("half.txt").as_str()), ("resolved", "half"));
    assert_eq!((batch.dirt().as_str(), batch.read("base.txt").as_str()), ("", "ours\n"));
    assert_no_merge(&batch);
    assert_eq!(next.only("claimed")["attempt"], 2, "and the run goes on");
}

#[test]
fn an_agent_that_fails_in_the_middle_of_a_merge_leaves_none() {
    let batch = with_conflict(&format!("{MERGE}; exit 1"));
    batch.issue("bd-1", &[]);
    let run = batch.run(&["--max-issues", "1"]);
    assert!(run.issues("handed_over").starts_with(&["bd-1"]), "{run:?}");
    assert_eq!(batch.dirt(), "", "{run:?}");
    assert_no_merge(&batch);
}

fn assert_no_merge(batch: &Batch) {
    for sign in ["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"] {
        assert!(!batch.world.root().join(".git").join(sign).exists(), "{sign} is left");
    }
}

#[test]
fn work_is_saved_before_a_run_is_refused_and_can_be_gone_on_with() {
    let batch = killed("echo half > half.txt; touch $OUT; sleep 600", "");
    batch.world.git(&["checkout", "-q", "--detach"]);
    fs::write(batch.outside("agent.sh"), "exit 0").unwrap();
    let branch = batch.world.git(&["branch", "--format=%(refname:short)", "--list", "ma*"]);
    let refused = batch.text(&["--max-issues", "1"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("no branch is checked out"), "{refused:?}");
    assert!(refused.out.contains("half.txt: taken out of the checkout"), "it says so: {refused:?}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:half.txt"]), "half");
    assert_eq!(batch.dirt(), "");
    batch.world.git(&["checkout", "-q", &branch]);
    let next = batch.run(&["--resume"]);
    assert_eq!(next.issues("claimed").first(), Some(&"bd-1"), "{next:?}");
}
