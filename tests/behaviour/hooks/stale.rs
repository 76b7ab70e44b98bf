//! Files that others change after a session has read them.

use std::fmt::Write;
use std::fs;
use std::process::Stdio;

use mala_tests::{World, eventually};
use serde_json::{Value, json};

use super::{client, denial, world};
use crate::cli::{MALA, done};

/// What happens in a session, one after the other.
enum Step {
    /// It calls its hook.
    Hook(&'static str, Value),
    /// A command of its own shell, or something that mala does not see.
    Shell(String),
    /// Another agent writes `free.txt`, and is done with it.
    OtherAgentWrites,
}

/// One session of a client. Gives what its hooks were answered.
fn session(world: &World, name: &str, steps: Vec<Step>) -> Vec<Value> {
    let file = |number: usize, kind: &str| world.base().join(format!("{number}.{kind}"));
    let mut script = String::from("set -e\n");
    let (mut answers, mut others) = (Vec::new(), Vec::new());
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Shell(line) => script.push_str(&line),
            Step::Hook(event, tool) => {
                let (input, output) = (file(number, "in"), file(number, "out"));
                let call = json!({ "hook_event_name": event, "session_id": "s", "cwd": world.root(),
                    "tool_name": tool["name"], "tool_input": tool["input"], "tool_use_id": "t" });
                fs::write(&input, call.to_string()).unwrap();
                write!(script, "\"{MALA}\" hook {name} < {} > {}", input.display(), output.display())
                    .unwrap();
                answers.push(output);
            }
            Step::OtherAgentWrites => {
                let (here, done) = (file(number, "here"), file(number, "done"));
                let wait = format!("until [ -e {} ]; do sleep 0.05; done", done.display());
                write!(script, "touch {}; {wait}", here.display()).unwrap();
                others.push((here, done));
            }
        }
        script.push('\n');
    }
    let mut client = client(world, &script);
    let session = client.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for (here, finished) in others {
        eventually("it has come so far", || here.exists());
        done(world, "lock acquire free.txt --agent third");
        world.write("free.txt", "theirs\n");
        done(world, "lock release free.txt --agent third");
        fs::write(&finished, "").unwrap();
    }
    let output = session.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    answers.iter().map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()).collect()
}

fn reads(path: &str) -> Value {
    json!({ "name": "Read", "input": { "file_path": path } })
}

fn writes(path: &str) -> Value {
    json!({ "name": "Write", "input": { "file_path": path, "content": "x" } })
}

fn edits(path: &str) -> Value {
    json!({ "name": "Edit", "input": { "file_path": path, "old_string": "y", "new_string": "x" } })
}

fn before(tool: Value) -> Step {
    Step::Hook("PreToolUse", tool)
}

fn after(tool: Value) -> Step {
    Step::Hook("PostToolUse", tool)
}

fn shell(line: &str) -> Step {
    Step::Shell(line.to_owned())
}

#[test]
fn a_whole_file_is_not_written_over_what_another_agent_did_since_it_was_read() {
    let world = world();
    let answers = session(
        &world,
        "claude",
        vec![
            before(reads("free.txt")),
            Step::OtherAgentWrites,
            before(writes("free.txt")),
            before(writes("free.txt")),
        ],
    );
    let reason = denial(&answers[1]).expect("it is refused");
    for words in [
        "`free.txt` has changed since you read it, by `third`, which held it until",
        "Nothing was written",
        "Read it again, then write its new content",
        "-anybody's\n+theirs",
    ] {
        assert!(reason.contains(words), "no word of {words:?}: {reason}");
    }
    assert_eq!(denial(&answers[2]), None, "once: it knows by now");
}

#[test]
fn what_was_read_again_may_be_written() {
    let world = world();
    let steps = vec![
        before(reads("free.txt")),
        Step::OtherAgentWrites,
        before(reads("free.txt")),
        before(writes("free.txt")),
    ];
    assert_eq!(denial(&session(&world, "claude", steps)[2]), None);
}

#[test]
fn an_edit_of_a_changed_file_goes_on_and_is_told_the_difference() {
    let world = world();
    let steps = vec![before(reads("free.txt")), Step::OtherAgentWrites, before(edits("free.txt"))];
    let answers = session(&world, "claude", steps);
    assert_eq!(denial(&answers[1]), None);
    let told = answers[1]["hookSpecificOutput"]["additionalContext"].as_str().expect("it is told");
    assert!(told.contains("`free.txt` has changed since you read it") && told.contains("+theirs"), "{told}");
}

#[test]
fn a_client_that_can_only_be_told_afterwards_is_told_afterwards() {
    let world = world();
    let tool = |name: &str, input: Value| json!({ "name": name, "input": input });
    let replace =
        || tool("replace", json!({ "file_path": "free.txt", "old_string": "t", "new_string": "u" }));
    let steps = vec![
        Step::Hook("BeforeTool", tool("read_file", json!({ "file_path": "free.txt" }))),
        Step::OtherAgentWrites,
        Step::Hook("BeforeTool", replace()),
        Step::Hook("AfterTool", replace()),
        Step::Hook("AfterTool", replace()),
    ];
    let answers = session(&world, "gemini", steps);
    assert_eq!(answers[1], json!({}));
    let told = answers[2]["hookSpecificOutput"]["additionalContext"].as_str().expect("it is told");
    assert!(told.contains("`free.txt` has changed since you read it, by `third`"), "{told}");
    assert_eq!(answers[3], json!({}), "once");
}

#[test]
fn what_a_session_changes_by_its_own_tools_and_commands_is_never_stale() {
    let world = world();
    let sed = || json!({ "name": "Bash", "input": { "command": "sed -i s/x/y/ free.txt" } });
    let script = || json!({ "name": "Bash", "input": { "command": "./format" } });
    world.write("format", "#!/bin/sh\necho formatted > free.txt\n");
    let steps = vec![
        before(reads("free.txt")),
        before(writes("free.txt")),
        shell("echo x > free.txt"),
        after(writes("free.txt")),
        before(writes("free.txt")),
        before(sed()),
        shell("sed -i s/x/y/ free.txt"),
        after(sed()),
        before(writes("free.txt")),
        before(script()),
        shell("sh ./format"),
        after(script()),
        before(writes("free.txt")),
    ];
    for (number, answer) in session(&world, "claude", steps).iter().enumerate() {
        assert_eq!(denial(answer), None, "answer {number}");
    }
    let steps = vec![
        before(reads(".gitignore")),
        before(script()),
        shell("echo formatted > .gitignore"),
        after(script()),
        before(writes(".gitignore")),
    ];
    let answers = session(&world, "claude", steps);
    assert_eq!(denial(&answers[3]), None, "nobody knew beforehand that the script would write it");
}

#[test]
fn a_person_s_change_since_a_file_was_read_is_not_written_over() {
    let world = world();
    let steps = vec![before(reads("free.txt")), shell("echo by hand > free.txt"), before(writes("free.txt"))];
    let answers = session(&world, "claude", steps);
    let reason = denial(&answers[1]).expect("it is refused");
    let said = "`free.txt` has changed since you read it, by a person or a program outside of mala";
    assert!(reason.contains(said) && reason.contains("+by hand"), "{reason}");
}
