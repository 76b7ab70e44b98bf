//! When agents have had enough.

use std::process::Stdio;

use super::{Batch, Run};
use crate::cli::done;

fn handed_over(run: &Run) -> String {
    run.only("handed_over")["reason"].as_str().unwrap().to_owned()
}

fn batch(script: &str, limit: &str) -> Batch {
    let batch = Batch::with(script, &format!("{limit}\n[run]\nattempts = 1\ngate_attempts = 0"));
    batch.issue("bd-1", &[]);
    batch
}

fn claude(script: &str, limit: &str) -> Batch {
    let batch = Batch::claude(script, limit, "[run]\nattempts = 1\ngate_attempts = 0");
    batch.issue("bd-1", &[]);
    batch
}

/// Runs it, but not for ever if the limit does not hold.
fn run(batch: &Batch) -> Run {
    batch.run(&["--timeout", "1m"])
}

#[test]
fn a_silent_agent_is_handed_over() {
    let batch = batch("echo half > half.txt; sleep 600", "idle = \"1s\"");
    let run = run(&batch);
    assert_eq!((handed_over(&run).as_str(), batch.dirt().as_str()), ("it was silent for more than 1s", ""));
    batch.assert_nothing_left();
}

#[test]
fn an_agent_that_takes_too_long_is_handed_over() {
    let batch = batch("while :; do echo busy; sleep 0.1; done", "idle = \"30s\"\ntotal = \"2s\"");
    assert_eq!(handed_over(&run(&batch)), "it worked for more than 2s");
}

#[test]
fn waiting_for_others_is_not_silence() {
    let script = "\"$MALA\" lock acquire base.txt --wait 30s; echo more >> base.txt; tested && commit done";
    let batch = batch(script, "idle = \"4s\"\ntotal = \"6s\"");
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = batch.start(&[]);
    mala_tests::eventually("the agent waits", || {
        !done(&batch.world, "status --json").json()["waiters"].as_array().unwrap().is_empty()
    });
    std::thread::sleep(std::time::Duration::from_secs(9));
    done(&batch.world, "lock release base.txt --agent person");
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
}

#[test]
fn waiting_for_a_turn_to_test_is_not_silence_and_neither_is_testing() {
    let script = r#"
        case $id in
        bd-1) while ! [ -e $OUT/slow ]; do echo waiting; sleep 0.05; done; echo work > $id.txt; "$MALA" test --wait 1m -- sh check.sh; commit done;;
        *) "$MALA" test --wait 1m -- sh check.sh slow; sleep 5; touch $OUT/tested;;
        esac"#;
    let batch = batch(script, "idle = \"7s\"\ntotal = \"60s\"");
    batch.issue("bd-2", &["--priority", "0"]);
    let out = batch.outside("signs");
    std::fs::create_dir(&out).unwrap();
    // The slow test ends when the test says so, long after the limit of silence, which begins anew then.
    let check = format!(
        "[ -z \"$1\" ] || touch {0}/slow; [ -z \"$1\" ] || while ! [ -e {0}/enough ]; do sleep 0.05; done",
        out.display()
    );
    batch.world.write("check.sh", &check);
    batch.world.git(&["commit", "-q", "-a", "-m", "a slow test"]);
    let run = batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap();
    let queue =
        || done(&batch.world, "status --json").json()["mutexes"][0]["queue"].as_array().map_or(0, Vec::len);
    mala_tests::eventually("one tests and one waits for its turn", || queue() == 1);
    std::thread::sleep(std::time::Duration::from_secs(11));
    std::fs::write(out.join("enough"), "").unwrap();
    let run = Run::of(run);
    assert_eq!(run.issues("done"), ["bd-1"], "it waited: {run:?}");
    assert!(out.join("tested").exists(), "the test was not cut off: {run:?}");
}

#[test]
fn a_silent_session_is_told_once_to_go_on_and_then_handed_over() {
    let script = r#"
        printf '%s\n' "$*" >> "$OUT"; cat >> "$OUT" <<< "$prompt"
        say 1 hello; echo half > half.txt; sleep 600"#;
    let batch = claude(
        &script.replace("cat >> \"$OUT\" <<< \"$prompt\"", "printf '%s\\n' \"$prompt\" >> \"$OUT\""),
        "idle = \"1s\"",
    );
    let out = batch.outside("calls");
    let run =
        Run::of(batch.command(&["--timeout", "1m"]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!((run.issues("nudged"), run.issues("started").len()), (vec!["bd-1"], 2), "{run:?}");
    assert_eq!(handed_over(&run), "it was silent for more than 1s");
    let calls = std::fs::read_to_string(out).unwrap();
    assert!(
        calls.contains("--resume s-1") && calls.contains("interrupted (it was silent for more than 1s)"),
        "{calls}"
    );
    assert_eq!(batch.dirt(), "");
}

#[test]
fn while_a_client_is_told_to_slow_down_nobody_else_begins_with_it() {
    let script = r#"
        if [ -e "$OUT" ]; then say 2 again; cost 0.1 false done; exit; fi
        touch "$OUT"; say 1 hello; cost 0.1 true "rate limit reached, try again in 3 seconds"; exit 1"#;
    let batch = claude(script, "");
    batch.issue("bd-2", &[]);
    let out = batch.outside("limited");
    let run = Run::of(
        batch
            .command(&[])
            .env("OUT", &out)
            .env("MALA_RUN_STAGGER", "1s")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let at = |kind: &str, issue: &str| {
        let event = run
            .all(kind)
            .into_iter()
            .find(|event| event["issue"] == issue)
            .unwrap_or_else(|| panic!("{run:?}"));
        event["at"].as_str().unwrap().to_owned()
    };
    let until = run.only("paused")["until"].as_str().unwrap().to_owned();
    assert!(at("claimed", "bd-2") >= until, "{run:?}");
    assert_eq!(run.only("resting")["issue"], "bd-2");
}

#[test]
fn an_agent_that_takes_too_many_turns_or_too_much_money_is_handed_over() {
    let turns = claude("for i in 1 2 3 4 5; do say $i working; sleep 0.3; done; sleep 600", "turns = 3");
    assert_eq!(handed_over(&run(&turns)), "it took more than 3 turns");
    let money = claude("say 1 working; cost 2.5 false done; sleep 600", "cost = 2.0");
    assert_eq!(handed_over(&run(&money)), "it cost $2.50, more than $2.00");
}

#[test]
fn a_run_ends_when_its_budget_is_spent() {
    let batch = claude("say 1 working; cost 2.5 false done", "");
    batch.issue("bd-2", &[]);
    let run = Run::of(
        batch
            .command(&["--sequential"])
            .env("MALA_RUN_BUDGET", "1.0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!((run.code, run.issues("claimed")), (1, vec!["bd-1"]), "{run:?}");
    assert_eq!(run.summary()["cost"], 2.5);
    assert_eq!(run.summary()["left"][0]["issue"], "bd-2");
}

#[test]
fn a_rate_limit_pauses_the_session_and_burns_no_attempt() {
    let script = r#"
        if [ -e "$OUT" ]; then
            printf '%s\n' "$*" >> "$OUT"
            echo work > bd-1.txt; tested > /dev/null && commit done > /dev/null; say 2 done; cost 0.1 false done
        else
            say 1 hello; touch "$OUT"; cost 0.1 true "rate limit reached, try again in 1 seconds"; exit 1
        fi"#;
    let batch = claude(&script.replace("$id", "bd-1"), "");
    let out = batch.outside("arguments");
    // A session that goes on is not told the whole story again, so the id is not in its prompt.
    let agent = std::fs::read_to_string(batch.outside("agent.sh")).unwrap().replace("$id: ", "bd-1: ");
    std::fs::write(batch.outside("agent.sh"), agent).unwrap();
    let run = Run::of(batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(
        (run.code, run.issues("paused"), run.issues("done")),
        (0, vec!["bd-1"], vec!["bd-1"]),
        "{run:?}"
    );
    assert_eq!(run.issues("claimed").len(), 1);
    let arguments = std::fs::read_to_string(out).unwrap();
    assert!(arguments.contains("--resume s-1"), "{arguments}");
    assert_eq!(run.summary()["cost"], 0.2, "both processes count");
}

#[test]
fn an_issue_whose_agent_failed_is_tried_again_later_and_later() {
    let batch = Batch::with("exit 7", "[run]\nattempts = 3");
    batch.issue("bd-1", &[]);
    let mut command = batch.command(&[]);
    let run = Run::of(command.env("MALA_RUN_RETRY_PAUSE", "300ms").stdout(Stdio::piped()).spawn().unwrap());
    let rests = run.all("resting");
    assert_eq!(rests.len(), 2, "not after the last attempt: {run:?}");
    assert_eq!(rests[0]["why"], "the agent ended with code 7");
    let claims = run.all("claimed");
    for (rest, claim) in rests.iter().zip(&claims[1..]) {
        assert!(claim["at"].as_str().unwrap() >= rest["until"].as_str().unwrap(), "{run:?}");
    }
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let batch = batch("echo half > half.txt; while :; do echo busy; sleep 0.1; done", "");
    let run = batch.run(&["--timeout", "2s"]);
    assert_eq!((handed_over(&run).as_str(), batch.dirt().as_str()), ("the run's time of 2s is over", ""));
}
