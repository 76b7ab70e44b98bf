//! When agents have had enough.

use std::process::Stdio;

use super::{Batch, Run};
use crate::cli::done;

/// A client that speaks as claude does: `say` a text, `cost` so much, with a session of its own.
const CLAUDE: &str = r#"
    say() { printf '{"type":"assistant","session_id":"s-1","message":{"id":"m%s","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":1,"output_tokens":1}}}\n' "$1" "$2"; }
    cost() { printf '{"type":"result","subtype":"success","is_error":%s,"num_turns":1,"result":"%s","session_id":"s-1","total_cost_usd":%s,"usage":{}}\n' "$2" "$3" "$1"; }
"#;

fn handed_over(run: &Run) -> String {
    run.only("handed_over")["reason"].as_str().unwrap().to_owned()
}

fn batch(script: &str, limit: &str) -> Batch {
    let batch = Batch::with(script, &format!("{limit}\n[run]\nattempts = 1\ngate_attempts = 0"));
    batch.issue("bd-1", &[]);
    batch
}

/// With the settings of the profile itself changed.
fn claude(script: &str, limit: &str) -> Batch {
    let batch = batch(&format!("{CLAUDE}\n{script}"), "");
    let settings =
        batch.read("mala.toml").replace("kind = \"command\"", &format!("kind = \"claude\"\n{limit}"));
    batch.world.write("mala.toml", &settings);
    batch.world.git(&["commit", "-q", "-a", "-m", "settings"]);
    batch
}

#[test]
fn a_silent_agent_is_handed_over() {
    let batch = batch("echo half > half.txt; sleep 600", "idle = \"1s\"");
    let run = batch.run(&[]);
    assert_eq!((handed_over(&run).as_str(), batch.dirt().as_str()), ("it was silent for more than 1s", ""));
    batch.assert_nothing_left();
}

#[test]
fn an_agent_that_takes_too_long_is_handed_over() {
    let batch = batch("while :; do echo busy; sleep 0.1; done", "idle = \"30s\"\ntotal = \"2s\"");
    assert_eq!(handed_over(&batch.run(&[])), "it worked for more than 2s");
}

#[test]
fn waiting_for_others_is_not_silence() {
    let script = "\"$MALA\" lock acquire base.txt --wait 30s; echo more >> base.txt; tested && commit done";
    let batch = batch(script, "idle = \"2s\"\ntotal = \"3s\"");
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = batch.start(&[]);
    mala_tests::eventually("the agent waits", || {
        !done(&batch.world, "status --json").json()["waiters"].as_array().unwrap().is_empty()
    });
    std::thread::sleep(std::time::Duration::from_secs(5));
    done(&batch.world, "lock release base.txt --agent person");
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
}

#[test]
fn an_agent_that_takes_too_many_turns_or_too_much_money_is_handed_over() {
    let turns = claude("for i in 1 2 3 4 5; do say $i working; sleep 0.3; done; sleep 600", "turns = 3");
    assert_eq!(handed_over(&turns.run(&[])), "it took more than 3 turns");
    let money = claude("say 1 working; cost 2.5 false done; sleep 600", "cost = 2.0");
    assert_eq!(handed_over(&money.run(&[])), "it cost $2.50, more than $2.00");
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
fn a_run_ends_when_its_time_is_over() {
    let batch = batch("echo half > half.txt; while :; do echo busy; sleep 0.1; done", "");
    let run = batch.run(&["--timeout", "2s"]);
    assert_eq!((handed_over(&run).as_str(), batch.dirt().as_str()), ("the run's time of 2s is over", ""));
}
