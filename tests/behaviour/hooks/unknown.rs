//! Tools nobody knows, and clients that do not close what they write to.

use std::thread;
use std::time::{Duration, Instant};

use super::*;

fn unknown(world: &World, tool: &str, input: &Value) -> Value {
    before(world, &call(world, "PreToolUse", tool, input))
}

#[test]
fn what_an_unknown_tool_names_must_not_be_somebody_elses() {
    let world = world();
    let held = world.root().join("held.txt");
    for (tool, input) in [
        ("UnknownTool", json!({ "foo": held })),
        ("UnknownTool", json!({ "deep": [{ "foo": ["x", "./held.txt"] }] })),
        ("mcp__x__put", json!({ "path": "free.txt", "foo": "held.txt" })),
        ("mcp__x__shell", json!({ "command": "echo > held.txt" })),
        ("mcp__x__shell", json!({ "cmd": "git reset --hard" })),
        ("mcp__x__run", json!({ "steps": [{ "script": "true\nsed -i s/a/b/ held.txt\n" }] })),
        ("mcp__x__run", json!({ "command": ["sed", "-i", "s/a/b/", "held.txt"] })),
        ("mcp__x__run", json!({ "command": "sed", "args": ["-i", "s/a/b/", "held.txt"] })),
    ] {
        let answer = unknown(&world, tool, &input);
        let reason = denial(&answer).unwrap_or_else(|| panic!("{tool} {input}: {answer}"));
        assert!(reason.starts_with("mala: "), "{reason}");
    }
}

#[test]
fn an_unknown_tool_that_harms_nobody_passes() {
    let world = world();
    for (tool, input) in [
        ("UnknownTool", json!({ "foo": world.root().join("free.txt") })),
        ("UnknownTool", json!({ "project": world.root(), "note": "about held.txt and others" })),
        ("mcp__x__shell", json!({ "command": "cat held.txt", "cwd": world.root() })),
        ("mcp__x__send", json!({ "to_address": "x@example.invalid", "body": "two\nlines" })),
        ("mcp__fs__read_file", json!({ "foo": "held.txt" })),
        ("Read", json!({ "file_path": world.root().join("held.txt") })),
    ] {
        let answer = unknown(&world, tool, &input);
        assert_eq!(denial(&answer), None, "{tool} {input}");
    }
}

#[test]
fn an_agent_of_the_longest_name_may_run_what_nobody_knows() {
    let world = world();
    world.write("held.txt", "half an edit\n");
    let name = "a".repeat(mala_core::name::MAX_NAME);
    let script = format!("MALA_AGENT={name} \"{MALA}\" hook claude; exit $?");
    let mut child = client(&world, &script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let call = bash(&world, "./unknown-program").to_string();
    child.stdin.take().unwrap().write_all(call.as_bytes()).unwrap();
    let answer: Answer = child.wait_with_output().unwrap().into();
    assert_eq!((answer.code, answer.out.trim()), (0, "{}"), "{answer:?}");
}

#[test]
fn a_whole_call_is_answered_although_nothing_is_closed() {
    let world = world();
    let began = Instant::now();
    let mut child =
        mala(&world, ["hook", "claude"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = write(&world, "held.txt").to_string();
    let (first, rest) = text.split_at(text.len() / 2);
    stdin.write_all(first.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(50));
    stdin.write_all(rest.as_bytes()).unwrap();
    let answer: Answer = child.wait_with_output().unwrap().into();
    assert!(denial(&answer.json()).is_some(), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop(stdin);
}

#[test]
fn a_call_that_never_comes_is_refused() {
    let world = world();
    let mut child = mala(&world, ["hook", "claude"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"hook_event_name\":").unwrap();
    let answer: Answer = child.wait_with_output().unwrap().into();
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("no whole hook call came on standard input"), "{answer:?}");
    drop(stdin);
}
