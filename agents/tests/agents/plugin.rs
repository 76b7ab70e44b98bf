//! The opencode plugin, run by node with a stand-in for mala.

use std::fs;
use std::path::Path;
use std::process::Command;

use mala_agents::{Client, install};
use serde_json::Value;

/// Calls the plugin as opencode does and prints what came of it.
const DRIVER: &str = r#"
import { Mala } from "./mala.mjs"
const prompts = []
const client = { session: { prompt: async (request) => prompts.push(request) } }
const hooks = await Mala({ client, directory: "/w" })
const output = { args: { command: "pytest", description: "run" } }
const result = { refused: null }
try {
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s", callID: "c" }, output)
} catch (error) {
  result.refused = error.message
}
result.args = output.args
const after = { output: "done", metadata: { exit: 0 } }
await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s", callID: "c", args: {} }, after)
result.output = after.output
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
result.prompts = prompts
console.log(JSON.stringify(result))
"#;

/// Node, or nothing and a loud word about it; CI must have it.
#[expect(clippy::print_stderr, reason = "what is skipped must be seen")]
fn node() -> Option<Command> {
    if Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(Command::new("node"));
    }
    assert!(std::env::var_os("CI").is_none(), "node is missing");
    eprintln!("SKIPPED: the opencode plugin: node is missing");
    None
}

/// Runs the plugin with a mala that does what `script` says.
fn run(script: &str) -> Option<Value> {
    let mut node = node()?;
    let folder = tempfile::tempdir().unwrap();
    let mala = folder.path().join("mala");
    let text = format!("#!/bin/sh\ncat > \"{}/call\"\n{script}\n", folder.path().display());
    // Another process writes it: what other tests start meanwhile would inherit a descriptor of ours for a moment, and
    // nobody can run a file that is open for writing.
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(&mala).arg(text).status().unwrap();
    assert!(written.success());
    drive(&mut node, folder.path(), mala.to_str().unwrap())
}

fn drive(node: &mut Command, folder: &Path, mala: &str) -> Option<Value> {
    fs::write(folder.join("mala.mjs"), install::plan(Client::Opencode, None, mala).unwrap().text).unwrap();
    fs::write(folder.join("driver.mjs"), DRIVER).unwrap();
    let output = node.arg(folder.join("driver.mjs")).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    Some(
        serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))),
    )
}

#[test]
fn a_yes_changes_nothing() {
    let Some(result) = run("echo '{}'") else { return };
    assert_eq!(result["refused"], Value::Null);
    assert_eq!(result["args"]["command"], "pytest");
    assert_eq!(result["output"], "done");
    assert_eq!(result["prompts"], serde_json::json!([]));
}

#[test]
fn a_no_stops_the_tool_with_the_reason() {
    let Some(result) = run(r#"echo '{"deny":"held by B"}'"#) else { return };
    assert_eq!(result["refused"], "held by B");
}

#[test]
fn a_rewritten_command_replaces_only_the_command() {
    let Some(result) = run(r#"echo '{"args":{"command":"mala test -- pytest"},"context":"B asks"}'"#) else {
        return;
    };
    assert_eq!(result["args"], serde_json::json!({"command": "mala test -- pytest", "description": "run"}));
    assert_eq!(result["output"], "done\n\nB asks");
}

#[test]
fn an_agent_that_stops_is_sent_back() {
    let Some(result) = run(r#"echo '{"send_back":"tests are missing"}'"#) else { return };
    assert_eq!(result["prompts"][0]["body"]["parts"][0]["text"], "tests are missing");
    assert_eq!(result["prompts"][0]["path"]["id"], "s");
}

#[test]
fn whatever_is_no_answer_is_a_refusal() {
    let failures = [
        ("exit 1", ""),
        ("echo reason >&2; exit 2", "reason"),
        ("echo no json", ""),
        ("kill -9 $$", ""),
        ("", ""),
    ];
    for (script, reason) in failures {
        let Some(result) = run(script) else { return };
        let refused = result["refused"].as_str().unwrap_or_else(|| panic!("{script}: {result}"));
        assert!(refused.contains(reason) && !refused.is_empty(), "{script}: {refused}");
        assert_eq!(result["output"], "done", "{script}");
    }
    let Some(mut node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let result = drive(&mut node, folder.path(), "/nowhere/mala").unwrap();
    assert!(result["refused"].as_str().unwrap().starts_with("mala did not answer"), "{result}");
}
