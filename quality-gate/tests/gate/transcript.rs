//! What clients wrote down counts where it is allowed to, and never more than it shows.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use mala_core::Timestamp;
use mala_gate::evidence::{EvidenceLog, Strength};
use mala_gate::transcript::{Call, Client, calls, evidence};
use mala_gate::{Records, check};
use mala_git::Content;
use serde_json::{Value, json};

use crate::rules::{Desk, find};
use crate::world::{World, agent, path};

fn lines(lines: &[Value]) -> String {
    lines.iter().fold(String::from("not json\n{}\n"), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    })
}

fn claude(command: &str, result: &Value, is_error: bool) -> String {
    lines(&[
        json!({"type": "assistant", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/repo", "message": {"content": [
            {"type": "text", "text": "let me test"},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}}]}}),
        json!({"type": "user", "timestamp": "2026-01-01T00:00:05.000Z", "cwd": "/repo", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": is_error, "content": result}]},
            "toolUseResult": {"stdout": "", "stderr": "", "interrupted": false}}),
    ])
}

fn codex(arguments: &Value, output: &Value) -> String {
    lines(&[
        json!({"timestamp": "2026-01-01T00:00:00.000Z", "type": "session_meta", "payload": {"cwd": "/repo"}}),
        json!({"timestamp": "2026-01-01T00:00:01.000Z", "type": "response_item", "payload": {
            "type": "function_call", "name": "shell", "arguments": arguments.to_string(), "call_id": "call_1"}}),
        json!({"timestamp": "2026-01-01T00:00:02.000Z", "type": "response_item", "payload": {
            "type": "function_call_output", "call_id": "call_1", "output": output}}),
    ])
}

fn read(client: Client, text: &str) -> Vec<Call> {
    calls(client, text.as_bytes()).unwrap()
}

#[test]
fn claude_says_what_it_ran_and_how_it_ended() {
    let call = &read(Client::Claude, &claude("cd sub && pytest -q", &json!("ok"), false))[0];
    assert_eq!((call.argv.join(" ").as_str(), call.cwd.to_str()), ("pytest -q", Some("/repo/sub")));
    assert_eq!(call.exit_code, Some(0));
    assert_eq!(call.ended_at.since(call.started_at), Duration::from_secs(5));
    let parts = json!([{"type": "text", "text": "Exit code 3\nboom"}]);
    assert_eq!(read(Client::Claude, &claude("pytest", &parts, true))[0].exit_code, Some(3));
    let call = &read(Client::Claude, &claude("pytest", &json!("Exit code 0, it says"), true))[0];
    assert_eq!(call.exit_code, Some(1), "an error is never a success");
}

#[test]
fn codex_says_it_in_several_forms() {
    let line = json!({"command": ["bash", "-lc", "pytest -q"], "workdir": "sub"});
    let result = json!(json!({"output": "...", "metadata": {"exit_code": 2}}).to_string());
    let call = &read(Client::Codex, &codex(&line, &result))[0];
    assert_eq!((call.argv.join(" ").as_str(), call.cwd.to_str()), ("pytest -q", Some("/repo/sub")));
    assert_eq!(call.exit_code, Some(2));
    let said = |text: &str| read(Client::Codex, &codex(&json!({"cmd": "pytest"}), &json!(text)))[0].exit_code;
    assert_eq!(said("Exit code: 0\nWall time: 1 s\nOutput:\nfine"), Some(0));
    assert_eq!(said("Process exited with code 5\nOutput:\nExit code: 0"), Some(5));
    assert_eq!(said("Output:\nExit code: 0"), None, "the command's own words are not its end");
}

#[test]
fn what_only_a_shell_understands_or_runs_in_the_background_is_passed_over() {
    for line in ["pytest || true", "pytest; true", "pytest | tail -1", "(pytest)"] {
        assert_eq!(read(Client::Claude, &claude(line, &json!(""), false)), [], "{line}");
        assert_eq!(read(Client::Codex, &codex(&json!({"cmd": line}), &json!("Exit code: 0"))), [], "{line}");
    }
    let background = claude("pytest", &json!(""), false)
        .replace("\"command\":\"pytest\"", "\"command\":\"pytest\",\"run_in_background\":true");
    assert!(background.contains("run_in_background"));
    assert_eq!(read(Client::Claude, &background), []);
    let interrupted =
        claude("pytest", &json!(""), false).replace("\"interrupted\":false", "\"interrupted\":true");
    assert_eq!(read(Client::Claude, &interrupted)[0].exit_code, None);
}

fn call(w: &World, started_at: Timestamp) -> Call {
    Call {
        id: "toolu_1".into(),
        argv: vec!["pytest".into()],
        cwd: w.root.clone(),
        started_at,
        ended_at: started_at,
        exit_code: Some(0),
    }
}

/// Later than everything that happened before.
fn later() -> Timestamp {
    sleep(Duration::from_millis(20));
    let now = Timestamp::now();
    sleep(Duration::from_millis(20));
    now
}

#[test]
fn a_file_that_was_touched_after_the_start_is_unknown() {
    let w = World::new();
    w.write("a.txt", "tested\n");
    w.write("b.txt", "tested\n");
    let started = later();
    w.write("b.txt", "edited since\n");
    let paths = [path("a.txt"), path("b.txt"), path("gone.txt")];
    let found =
        evidence(&w.repo(), &crate::world::Locks::default(), &agent("A"), &[call(&w, started)], &paths)
            .unwrap();
    assert_eq!(found[0].strength, Strength::Transcript);
    assert!(matches!(found[0].files[&path("a.txt")], Content::Object(_)));
    assert_eq!(found[0].files[&path("b.txt")], Content::Unknown);
    assert_eq!(found[0].files[&path("gone.txt")], Content::Absent);
}

fn verdict_by_transcript(d: &Desk, calls: &[Call], committed: &[&str]) -> mala_gate::Verdict {
    let paths: Vec<_> = committed.iter().map(|text| path(text)).collect();
    let transcripts = evidence(&d.w.repo(), &d.locks, &agent("A"), calls, &paths).unwrap();
    let log = EvidenceLog::of(&d.w.scope());
    let records = Records { log: &log, transcripts: &transcripts };
    check(&d.w.repo(), &d.locks, &records, &d.rules, &d.subject).unwrap()
}

#[test]
fn the_gate_judges_a_transcript_by_the_same_rules() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    let good = call(&d.w, later());
    d.commit();
    let verdict = verdict_by_transcript(&d, std::slice::from_ref(&good), &["a.txt"]);
    assert!(verdict.is_pass(), "{verdict:#?}");
    let detail = &find(&verdict, "command").detail;
    assert_eq!(detail, "`pytest` passed on what was committed (as its client's transcript says)");
    assert!(!d.check().is_pass(), "it does not count where it was not asked for");
    let of_another =
        evidence(&d.w.repo(), &d.locks, &agent("B"), std::slice::from_ref(&good), &[path("a.txt")]);
    let (log, of_another) = (EvidenceLog::of(&d.w.scope()), of_another.unwrap());
    let records = Records { log: &log, transcripts: &of_another };
    let verdict = check(&d.w.repo(), &d.locks, &records, &d.rules, &d.subject).unwrap();
    assert!(!verdict.is_pass(), "it is not this agent's");
    let failed = Call { exit_code: Some(1), ..good.clone() };
    assert!(!verdict_by_transcript(&d, &[failed], &["a.txt"]).is_pass());
    // Edited after the run and committed again.
    d.edit("A", "a.txt", "worse\n");
    d.commit();
    let verdict = verdict_by_transcript(&d, &[good], &["a.txt"]);
    assert!(find(&verdict, "command").detail.starts_with("`a.txt` was committed with other content"));
}
