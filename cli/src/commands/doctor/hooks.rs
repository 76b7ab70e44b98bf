//! Whether hooks are there, and whether they really fire: they are run.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use mala_agents::install::{self, Removal};
use mala_agents::{Client, Event};
use mala_core::Scope;
use mala_gate::Repo;
use mala_gate::hooks::{self, Hook};
use serde_json::{Value, json};

use super::{Check, Verdict};

const SET_UP: &str = "set them up: mala init";

/// Git's hooks: a message of an agent that names no issue must be refused.
pub(super) fn git(scope: &Scope) -> Check {
    const NAME: &str = "git hooks";
    let installed = match hooks::installed(&Repo::new(scope.clone())) {
        Ok(installed) => installed,
        Err(error) => return Check::fail(NAME, error),
    };
    let missing: Vec<&str> =
        installed.iter().filter(|(_, is_ready)| !is_ready).map(|(hook, _)| hook.name()).collect();
    if missing.len() == installed.len() {
        return warn(NAME, "not installed: commits of agents are not checked when they are made".to_owned());
    }
    if !missing.is_empty() {
        return warn(NAME, format!("{} missing or not executable", missing.join(", ")));
    }
    match commit_msg_refuses(scope.root()) {
        Ok(true) => Check::ok(NAME, "installed, and they fire: a message without its issue was refused"),
        Ok(false) => Check {
            name: NAME,
            status: Verdict::Fail,
            detail: "installed, but a message that names no issue was let through".to_owned(),
            fix: Some("check that `mala` is on the PATH, then: mala init".to_owned()),
        },
        Err(error) => Check::fail(NAME, error),
    }
}

fn commit_msg_refuses(root: &Path) -> io::Result<bool> {
    let file = std::env::temp_dir().join(format!("mala-doctor-{}", std::process::id()));
    std::fs::write(&file, "a message that names nothing\n")?;
    let ran = Command::new("git")
        .args(["hook", "run", Hook::CommitMsg.name(), "--"])
        .arg(&file)
        .current_dir(root)
        .env("MALA_AGENT", "doctor")
        .stdin(Stdio::null())
        .output();
    std::fs::remove_file(&file)?;
    let said = ran?;
    let reason = String::from_utf8_lossy(&said.stderr).into_owned();
    Ok(!said.status.success() && (reason.contains("names no issue") || reason.contains("does not name")))
}

/// The clients' hooks: a write into git's hooks must be refused.
pub(super) fn clients(scope: &Scope) -> Vec<Check> {
    let is_set_up = |client: &Client| {
        let text = std::fs::read_to_string(scope.root().join(install::path(*client)));
        text.is_ok_and(|text| !matches!(install::remove(*client, &text), Ok(Removal::Unchanged)))
    };
    Client::ALL.into_iter().filter(is_set_up).map(|client| fires(client, scope)).collect()
}

fn fires(client: Client, scope: &Scope) -> Check {
    let name = match client {
        Client::Claude => "claude hooks",
        Client::Codex => "codex hooks",
        Client::Gemini => "gemini hooks",
        Client::Opencode => "opencode hooks",
    };
    let target = scope.root().join(".git/hooks/mala-doctor");
    let call = |event: Event, tool: Value| {
        let mut call =
            json!({ "hook_event_name": event.name(client), "session_id": "doctor", "cwd": scope.root() });
        if let (Some(call), Value::Object(tool)) = (call.as_object_mut(), tool) {
            call.extend(tool);
        }
        run(client, &call)
    };
    let write = json!({ "tool_name": "Write", "tool_input": { "file_path": target, "content": "" } });
    let refused = call(Event::BeforeTool, write).map(|(code, out)| code == 2 || out.contains("git's hooks"));
    // It was a session like any other; now it is over.
    let _ = call(Event::SessionEnd, json!({}));
    match refused {
        Ok(true) => Check::ok(name, "set up, and they fire: a write into git's hooks was refused"),
        Ok(false) => Check {
            name,
            status: Verdict::Fail,
            detail: "set up, but a write into git's hooks was let through".to_owned(),
            fix: Some(SET_UP.to_owned()),
        },
        Err(error) => Check::fail(name, error),
    }
}

fn run(client: Client, call: &Value) -> io::Result<(i32, String)> {
    let mut hook = Command::new(std::env::current_exe()?)
        .args(["hook", client.name()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = hook.stdin.take() {
        input.write_all(call.to_string().as_bytes())?;
    }
    let out = hook.wait_with_output()?;
    Ok((out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stdout).into_owned()))
}

fn warn(name: &'static str, detail: String) -> Check {
    Check { name, status: Verdict::Warn, detail, fix: Some(SET_UP.to_owned()) }
}
