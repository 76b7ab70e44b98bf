//! Agents that wait for files which others hold: without a process, and without burning turns.

use std::fs;
use std::process::Stdio;

use mala_tests::eventually;
use serde_json::Value;

use super::{Batch, Run};
use crate::cli::{done, held};

/// What a client does before it writes the file `$2`: it asks its hook.
const HOOK: &str = r#"
hook() { "$MALA" hook "$1" <<END
{"hook_event_name":"PreToolUse","session_id":"s","cwd":"$PWD","tool_name":"Write","tool_use_id":"t1","tool_input":{"file_path":"$PWD/$2","content":"x"}}
END
}
until_there() { while ! [ -e "$OUT/$1" ]; do sleep 0.02; done; }
until_asked() { while ! "$MALA" lock asks --json | grep -q "\"holder\":\"$me\""; do sleep 0.02; done; }
until_parked() { while ! "$MALA" status --json | grep -q '"position":1'; do sleep 0.02; done; }
goes_on() { printf '%s\n' "$prompt" | grep -q "$1"; }
"#;

fn batch(script: &str, settings: &str) -> (Batch, std::path::PathBuf) {
    let batch = Batch::with(&format!("{HOOK}\n{script}"), settings);
    let out = batch.outside("signs");
    fs::create_dir(&out).unwrap();
    (batch, out)
}

fn run(batch: &Batch, out: &std::path::Path) -> Run {
    let command = &mut batch.command(&[]);
    Run::of(command.env("OUT", out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
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
fn nobody_is_parked_in_a_circle() {
    let script = r#"
case $id in
one)
    if goes_on 'is yours now'; then
        echo one >> b.txt; tested && commit done
    else
        echo one > a.txt; until_there b; hook claude b.txt > "$OUT/one"
    fi ;;
two)
    echo two > b.txt; touch "$OUT/b"; until_parked; hook claude a.txt > "$OUT/two"; tested && commit done ;;
esac
"#;
    let (batch, out) = batch(script, "");
    batch.issue("one", &[]);
    batch.issue("two", &[]);
    let run = run(&batch, &out);
    assert_eq!(run.code, 0, "{run:?}");
    let answer: Value = serde_json::from_str(&fs::read_to_string(out.join("two")).unwrap()).unwrap();
    let reason = answer["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
    assert!(reason.contains("Waiting for it would never end") && reason.contains(" -> "), "{reason}");
    assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(run.issues("parked"), ["one"]);
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
    let run =
        batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the agent is parked", || batch.world.count("waiter") == 1);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(run.id()).unwrap()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    let run = Run::of(run);
    assert_eq!((run.code, run.issues("handed_over")), (1, vec!["bd-1"]), "{run:?}");
    assert_eq!(held(&batch.world), [crate::cli::pair("base.txt", "person")]);
    assert_eq!(batch.world.count("waiter"), 0);
    done(&batch.world, "lock release base.txt --agent person");
    batch.assert_nothing_left();
}
