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

/// A client that speaks as codex does, and says nothing of its cost.
const CODEX: &str = r#"
    used() { printf '{"type":"turn.completed","usage":{"input_tokens":%s,"cached_input_tokens":0,"output_tokens":0}}\n' "$1"; }
"#;

fn codex(script: &str, profile: &str, settings: &str) -> Batch {
    let settings = format!("[run]\nattempts = 1\ngate_attempts = 0\n{settings}");
    let batch = Batch::with(&format!("{CODEX}\n{script}"), &settings);
    let changed =
        batch.read("mala.toml").replace("kind = \"command\"", &format!("kind = \"codex\"\n{profile}"));
    batch.world.write("mala.toml", &changed);
    batch.world.git(&["commit", "-q", "-a", "-m", "settings"]);
    batch.issue("bd-1", &[]);
    batch
}

#[test]
fn a_limit_in_dollars_is_refused_where_nobody_knows_the_price_and_the_line_to_write_helps() {
    let refused = |batch: &Batch, args: &[&str]| {
        let answer = batch.text(args);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.contains("a limit in dollars is set"), "{answer:?}");
        answer.err
    };
    let unnamed = codex("", "", "");
    let said = refused(&unnamed, &["--budget", "5"]);
    assert!(said.contains("below [agents.script]: model = "), "{said}");
    refused(&unnamed, &["--budget", "5", "--dry-run"]);
    refused(&codex("", "cost = 2.5", ""), &[]);
    refused(&batch("", ""), &["--budget", "5"]);

    let unknown = codex("used 1000000", "model = \"gpt-nobody-knows\"", "");
    let said = refused(&unknown, &["--budget", "5"]);
    let (_, line) = said.split_once("dollars for a million tokens: ").unwrap();
    let settings = format!("{}\n[price]\n{}\n", unknown.read("mala.toml"), line.trim());
    unknown.world.write("mala.toml", &settings);
    unknown.world.git(&["commit", "-q", "-a", "-m", "a price"]);
    let run = unknown.run(&["--budget", "5"]);
    assert_eq!((run.issues("claimed"), &run.summary()["cost"]), (vec!["bd-1"], &2.0.into()), "{run:?}");
    let bad = unknown.text(&["--budget", "much"]);
    assert!(bad.code == 2 && bad.err.contains("--budget"), "{bad:?}");
}

#[test]
fn a_client_that_reports_tokens_has_a_cost_that_ends_the_run_and_one_without_a_price_is_said_to_be_unknown() {
    let priced = codex("used 1000000", "model = \"gpt-5\"", "");
    priced.issue("bd-2", &[]);
    let run = priced.run(&["--budget", "1", "--sequential"]);
    assert_eq!((run.issues("claimed"), &run.summary()["cost"]), (vec!["bd-1"], &1.25.into()), "{run:?}");
    assert!(run.summary()["stopped"].as_str().unwrap().contains("$1.25, more than its budget of $1.00"));
    let said = run.all("warning").into_iter().map(|event| event["text"].as_str().unwrap().to_owned());
    assert!(said.collect::<String>().contains("at the list price of `gpt-5`"), "{run:?}");

    let unpriced = codex("used 1000000", "model = \"gpt-nobody-knows\"", "");
    let run = unpriced.run(&[]);
    let summary = run.summary();
    assert!(summary["cost"].is_null() && summary["tokens"] == 1_000_000, "{summary}");
    assert_eq!(summary["unpriced"][0], "gpt-nobody-knows");
    let unpriced = codex("used 1000000", "model = \"gpt-nobody-knows\"", "");
    let said = unpriced.text(&[]);
    assert!(said.out.contains("; cost unknown: no price for `gpt-nobody-knows`"), "{said:?}");
}

#[test]
fn the_status_says_what_a_run_has_spent_of_its_budget_and_what_is_not_known() {
    let script = "[ $id = bd-1 ] && used 1000000 || sleep 600";
    let status = |profile: &str, args: &[&str]| {
        let batch = codex(script, profile, "");
        batch.issue("bd-2", &[]);
        let mut run = batch.start(&[args, &["--sequential"]].concat());
        let over = || {
            let status = done(&batch.world, "status --json").json();
            status["runs"][0]["attempts"].as_array().is_some_and(|attempts| attempts.len() == 2)
        };
        mala_tests::eventually("the first attempt is over", over);
        let (json, text) = (done(&batch.world, "status --json").json(), done(&batch.world, "status").out);
        run.kill().unwrap();
        run.wait().unwrap();
        (json["runs"][0].clone(), text)
    };
    let (json, text) = status("model = \"gpt-5\"", &["--budget", "5"]);
    assert_eq!((&json["cost"], &json["budget"]), (&1.25.into(), &5.0.into()), "{json}");
    assert!(text.contains("spent on attempts that are over: $1.25, of $5.00 at most"), "{text}");
    let (json, text) = status("model = \"gpt-nobody-knows\"", &[]);
    assert!(json["cost"].is_null() && json["unpriced"][0] == "gpt-nobody-knows", "{json}");
    assert!(text.contains("cost unknown: no price for `gpt-nobody-knows`"), "{text}");
}
