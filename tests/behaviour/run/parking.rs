//! Agents that wait for files which others hold: without a process, and without burning turns.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use mala_tests::eventually;
use serde_json::Value;

use super::{Batch, Run};
use crate::cli::{done, held, pair};

/// What a client does before it writes the file `$2`: it asks its hook.
pub(super) const HOOK: &str = r#"
hook() { "$MALA" hook "$1" --injected <<END
{"hook_event_name":"PreToolUse","session_id":"s","cwd":"$PWD","tool_name":"Write","tool_use_id":"t1","tool_input":{"file_path":"$PWD/$2","content":"x"}}
END
}
until_there() { while ! [ -e "$OUT/$1" ]; do sleep 0.02; done; }
until_asked() { while ! "$MALA" lock asks --json | grep -q "\"holder\":\"$me\""; do sleep 0.02; done; }
until_parked() { while ! "$MALA" status --json | grep -q '"position":1'; do sleep 0.02; done; }
goes_on() { printf '%s\n' "$prompt" | grep -q "$1"; }
[ -n "$id" ] || id=$(printf '%s\n' "$prompt" | sed -n 's/^Your work on \([^ ]*\) was .*/\1/p')
"#;

pub(super) fn batch(script: &str, settings: &str) -> (Batch, std::path::PathBuf) {
    let batch = Batch::with(&format!("{HOOK}\n{script}"), settings);
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    (batch, out)
}

fn start(batch: &Batch, out: &std::path::Path, args: &[&str]) -> Child {
    let command = &mut batch.command(args);
    command.env("OUT", out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(batch: &Batch, out: &std::path::Path) -> Run {
    Run::of(start(batch, out, &[]))
}

/// One agent holds a file until somebody asks for it; another one needs it.
const KEEPER_AND_ASKER: &str = r#"
case $id in
keeper)
    echo keeper >> base.txt; touch "$OUT/held"; until_asked; tested && commit done ;;
asker)
    if goes_on 'is yours now'; then
        echo asker >> base.txt; tested && commit done
    else
        until_there held; hook "$CLIENT" base.txt > "$OUT/answer"
    fi ;;
esac
"#;

/// Lets both agents run with the words of `client`; what its hook answered to the one who had to wait.
fn keeper_and_asker(client: &str) -> Value {
    let (batch, out) = batch(&format!("CLIENT={client}\n{KEEPER_AND_ASKER}"), "");
    batch.issue("keeper", &[]);
    batch.issue("asker", &[]);
    let run = run(&batch, &out);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(batch.read("base.txt"), "base\nkeeper\nasker\n");
    let parked = run.only("parked");
    assert_eq!((&parked["issue"], &parked["awaits"][0]["file"]), (&"asker".into(), &"base.txt".into()));
    assert_eq!(run.issues("done"), ["keeper", "asker"]);
    assert!(run.all("rejected").is_empty(), "waiting is no failure: {run:?}");
    batch.assert_nothing_left();
    assert_eq!(batch.world.count("waiter"), 0);
    serde_json::from_str(&fs::read_to_string(out.join("answer")).unwrap()).unwrap()
}

#[test]
fn claude_is_put_off_parked_and_taken_up_again_when_the_file_is_its() {
    let answer = keeper_and_asker("claude");
    assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "defer", "{answer}");
}

#[test]
fn other_clients_are_told_to_end_their_turn_and_are_taken_up_again() {
    let answer = keeper_and_asker("codex");
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{answer}");
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    assert!(reason.contains("asked for in your name") && reason.contains("end your turn"), "{reason}");
}

#[test]
fn whoever_waited_in_vain_is_told_so_and_judged_like_any_other() {
    let script = r#"
if goes_on 'in vain'; then
    echo work > "$id.txt"; tested && commit done
else
    hook claude base.txt
fi
"#;
    let (batch, out) = batch(script, "[lock]\nmax_wait = \"1s\"");
    batch.issue("bd-1", &[]);
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = run(&batch, &out);
    assert_eq!(
        (run.code, run.issues("parked"), run.issues("done")),
        (0, vec!["bd-1"], vec!["bd-1"]),
        "{run:?}"
    );
    assert_eq!(batch.world.count("waiter"), 0);
}

#[test]
fn a_run_that_is_stopped_does_not_wait_for_those_who_wait() {
    let (batch, out) = batch("hook claude base.txt", "");
    batch.issue("bd-1", &[]);
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = start(&batch, &out, &[]);
    eventually("the agent is parked", || batch.world.count("waiter") == 1);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(run.id()).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("handed_over")), (1, vec!["bd-1"]), "{run:?}");
    assert_eq!(held(&batch.world), [pair("base.txt", "person")]);
    assert_eq!(batch.world.count("waiter"), 0);
    done(&batch.world, "lock release base.txt --agent person");
    batch.assert_nothing_left();
}

/// The two ways of clients to wait.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// Claude exits in the middle of the call, and says so.
    PutsOff,
    /// Any other is told to end its turn.
    EndsTurn,
}

impl Client {
    /// A run of one agent that needs `base.txt`, which a person holds, and does `then` once the file is its own. It is parked.
    fn parked(self, then: &str, limits: &str, args: &[&str]) -> (Batch, Child) {
        let waits = match self {
            Self::PutsOff => r#"hook claude base.txt > /dev/null; say 1 hello; deferred"#,
            Self::EndsTurn => r#"hook codex base.txt > /dev/null"#,
        };
        let script = format!("{HOOK}{DEFERRED}\nif goes_on 'is yours now'; then\n{then}\nelse\n{waits}\nfi");
        let settings = "[run]\nattempts = 1\ngate_attempts = 0";
        let batch = match self {
            Self::PutsOff => Batch::claude(&script, limits, settings),
            Self::EndsTurn => Batch::with(&script, &format!("{limits}\n{settings}")),
        };
        batch.issue("bd-1", &[]);
        done(&batch.world, "lock acquire base.txt --agent person");
        let out = batch.outside("signs");
        fs::create_dir(&out).unwrap();
        let run = start(&batch, &out, args);
        eventually("the agent is parked", || batch.world.count("waiter") == 1);
        (batch, run)
    }
}

/// What claude prints when a call was put off.
const DEFERRED: &str = r#"
deferred() { printf '{"type":"result","subtype":"success","terminal_reason":"tool_deferred","is_error":false,"num_turns":1,"result":"","session_id":"s-1","total_cost_usd":0.1,"usage":{}}\n'; }
"#;

/// The file is kept for longer than the agent may work or be silent.
fn a_long_wait(client: Client) {
    let finish = "sleep 1; echo work >> base.txt; tested > /dev/null && commit done > /dev/null";
    let (batch, run) = client.parked(finish, "idle = \"6s\"\ntotal = \"10s\"", &[]);
    std::thread::sleep(Duration::from_secs(12));
    done(&batch.world, "lock release base.txt --agent person");
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    assert!(run.all("nudged").is_empty(), "it was not silent: {run:?}");
    batch.assert_nothing_left();
}

#[test]
fn while_a_call_is_put_off_no_limit_counts() {
    a_long_wait(Client::PutsOff);
}

#[test]
fn while_an_agent_that_ended_its_turn_waits_no_limit_counts() {
    a_long_wait(Client::EndsTurn);
}

/// The file is handed over, and its new holder works for ever.
fn limits_after_a_wait(client: Client) {
    let limit = "idle = \"60s\"\ntotal = \"4s\"";
    let (batch, run) = client.parked("sleep 600", limit, &["--timeout", "30s"]);
    let asks = done(&batch.world, "lock asks --json").json();
    let ask = asks["asks"][0]["id"].as_str().unwrap();
    done(&batch.world, &format!("lock answer {ask} release --agent person"));
    let run = Run::of(run);
    assert_eq!(run.only("handed_over")["reason"], "it worked for more than 4s", "{run:?}");
}

#[test]
fn when_a_call_that_was_put_off_goes_on_limits_count_again() {
    limits_after_a_wait(Client::PutsOff);
}

#[test]
fn when_an_agent_that_ended_its_turn_goes_on_limits_count_again() {
    limits_after_a_wait(Client::EndsTurn);
}

/// An agent ends its turn while a test of its own still runs. Its neighbour, which it waits for, can test all the same.
fn tests_end_with_the_turn(client: &str) {
    let script = r#"
case $id in
keeper)
    echo keeper >> base.txt; touch "$OUT/held"; until_parked
    "$MALA" status --json > "$OUT/status"; tested && commit done ;;
asker)
    if goes_on 'is yours now'; then
        echo asker >> base.txt; tested && commit done
    else
        until_there held; "$MALA" test --wait 1m -- sh check.sh for-ever & until_there testing; hook "$CLIENT" base.txt
    fi ;;
esac
"#;
    let (batch, out) = batch(&format!("CLIENT={client}\n{script}"), "");
    let check = format!("[ -z \"$1\" ] || {{ touch {}/testing; while :; do sleep 1; done; }}", out.display());
    batch.world.write("check.sh", &check);
    batch.world.git(&["commit", "-q", "-a", "-m", "a test without end"]);
    batch.issue("keeper", &[]);
    batch.issue("asker", &[]);
    let run = Run::of(start(&batch, &out, &["--timeout", "60s"]));
    assert_eq!((run.code, run.issues("parked")), (0, vec!["asker"]), "{run:?}");
    let status: Value = serde_json::from_str(&fs::read_to_string(out.join("status")).unwrap()).unwrap();
    let turns = status["mutexes"].as_array().unwrap();
    assert!(turns.iter().all(|turn| turn["holder"].is_null()), "{status}");
    assert_eq!(batch.read("base.txt"), "base\nkeeper\nasker\n");
}

#[test]
fn a_call_that_is_put_off_holds_no_turn_to_test() {
    tests_end_with_the_turn("claude");
}

#[test]
fn an_agent_that_ended_its_turn_to_wait_holds_no_turn_to_test() {
    tests_end_with_the_turn("codex");
}

/// The agent of the issue `waits` needs `base.txt`, which a person holds; `others` is what the agents of other issues do. One
/// agent works at a time.
fn one_at_a_time(others: &str, issues: &[&str]) -> (Batch, std::path::PathBuf, Child) {
    let script = format!(
        r#"
if [ $id != waits ]; then {others}
elif goes_on 'is yours now'; then echo waits >> base.txt; tested && commit done
else hook codex base.txt > /dev/null
fi
"#
    );
    let (batch, out) = batch(&script, "");
    batch.issue("waits", &["--priority", "0"]);
    issues.iter().for_each(|id| batch.issue(id, &[]));
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = start(&batch, &out, &["--sequential"]);
    (batch, out, run)
}

const GOOD: &str = "echo work > $id.txt; tested && commit done";

#[test]
fn while_an_agent_waits_another_one_works_in_its_place() {
    let (batch, _, run) = one_at_a_time(GOOD, &["other"]);
    eventually("the other issue is done", || batch.status_of("other") == "closed");
    done(&batch.world, "lock release base.txt --agent person");
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("done")), (0, vec!["other", "waits"]), "{run:?}");
    batch.assert_nothing_left();
}

#[test]
fn who_has_waited_goes_on_before_anything_new_and_not_beside_others() {
    let slow = format!("if [ $id = slow ]; then touch \"$OUT/slow\"; until_there enough; fi; {GOOD}");
    let (batch, out, run) = one_at_a_time(&slow, &["slow", "new"]);
    eventually("another one works", || out.join("slow").exists());
    done(&batch.world, "lock release base.txt --agent person");
    eventually("the file is its own", || held(&batch.world).contains(&pair("base.txt", "script-waits-1")));
    // Time for mistakes.
    std::thread::sleep(Duration::from_secs(1));
    fs::write(out.join("enough"), "").unwrap();
    let run = Run::of(run);
    let order: Vec<(&str, &str)> = run
        .events
        .iter()
        .map(|event| (event["event"].as_str().unwrap(), event["issue"].as_str().unwrap_or_default()))
        .filter(|(event, _)| ["started", "parked"].contains(event))
        .collect();
    let expected = [
        ("started", "waits"),
        ("parked", "waits"),
        ("started", "slow"),
        ("started", "waits"),
        ("started", "new"),
    ];
    assert_eq!(order, expected, "{run:?}");
    assert_eq!(run.issues("done").len(), 3, "{run:?}");
}

#[test]
fn nobody_waits_for_the_place_of_somebody_who_waits_for_it() {
    let stubborn = format!("\"$MALA\" lock acquire base.txt --wait 20s && {GOOD}");
    let (batch, _, run) = one_at_a_time(&stubborn, &["stubborn"]);
    eventually("both wait", || batch.world.count("waiter") == 2);
    done(&batch.world, "lock release base.txt --agent person");
    let run = Run::of(run);
    let order = vec!["waits", "stubborn"];
    assert_eq!((run.issues("claimed"), run.issues("done")), (order.clone(), order), "{run:?}");
}

#[test]
fn no_more_agents_wait_than_may_work() {
    let (batch, _, run) = one_at_a_time("hook codex base.txt > /dev/null", &["also", "third"]);
    eventually("two wait", || batch.world.count("waiter") == 2);
    // Time for mistakes.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(batch.status_of("third"), "open");
    super::stopping::interrupt(&run);
    let run = Run::of(run);
    assert_eq!(run.issues("claimed"), ["waits", "also"], "{run:?}");
}

/// An agent that speaks as claude does and gets no second chance from the gate.
fn claude(script: &str) -> (Batch, std::path::PathBuf) {
    let settings = "[run]\nattempts = 1\ngate_attempts = 0";
    let batch = Batch::claude(&format!("{HOOK}{DEFERRED}{script}"), "", settings);
    batch.issue("bd-1", &[]);
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    (batch, out)
}

#[test]
fn a_file_that_comes_while_the_client_exits_costs_no_round() {
    let script = r#"
if goes_on 'the call that was put off can be made now'; then
    echo work >> base.txt; tested > /dev/null && commit done > /dev/null
else
    hook claude base.txt > /dev/null; say 1 hello
    while ! "$MALA" lock holder base.txt | grep -q "$me"; do sleep 0.02; done; deferred
fi
"#;
    let (batch, out) = claude(script);
    done(&batch.world, "lock acquire base.txt --agent person");
    let run = start(&batch, &out, &[]);
    let pending = || done(&batch.world, "lock asks --json").json()["asks"].clone();
    eventually("it has asked", || pending().as_array().is_some_and(|asks| asks.len() == 1));
    let ask = pending()[0]["id"].as_str().unwrap().to_owned();
    done(&batch.world, &format!("lock answer {ask} release --agent person"));
    let run = Run::of(run);
    assert_eq!((run.issues("started").len(), run.issues("done")), (2, vec!["bd-1"]), "{run:?}");
    assert_eq!(run.issues("gating").len(), 1, "what is not finished is not judged: {run:?}");
}

#[test]
fn a_client_that_others_put_off_does_not_go_on_for_ever() {
    let (batch, out) = claude("say 1 hello; deferred");
    let run = Run::of(start(&batch, &out, &["--timeout", "20s"]));
    assert_eq!(run.issues("started").len(), 2, "{run:?}");
    assert_eq!(run.only("handed_over")["reason"], "the gate did not pass", "{run:?}");
}
