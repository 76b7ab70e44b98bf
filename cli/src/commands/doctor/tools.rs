//! Whether clients find mala's tools: the server that their settings name is started and spoken to.

use std::io;
use std::path::Path;
use std::process::Command;

use mala_agents::Client;
use mala_agents::install::{self, server};
use mala_core::Scope;
use serde_json::{Value, json};

use super::{Check, Verdict, programs};

/// One check for each client that mala is set up for.
pub(super) fn clients(scope: &Scope) -> Vec<Check> {
    let read = |file: &str| std::fs::read_to_string(scope.root().join(file)).ok();
    let look = |client: Client| {
        let hook = read(install::path(client)).and_then(|text| install::hook_command(client, &text));
        // Opencode gets both by its plugin.
        let file = server::path(client)?;
        match (read(file).and_then(|text| server::command(client, &text)), hook) {
            (Some(command), _) => Some(answers(client, &command, scope.root())),
            (None, Some(_)) => Some(Check {
                name: name(client),
                status: Verdict::Warn,
                detail: format!("not set up: `{file}` names no server called `mala`"),
                fix: Some("set them up: mala init".to_owned()),
            }),
            (None, None) => None,
        }
    };
    Client::ALL.into_iter().filter_map(look).collect()
}

fn answers(client: Client, command: &[String], root: &Path) -> Check {
    let shown = command.join(" ");
    // What a stranger has put into a checkout is not to be run.
    if !command.first().is_some_and(|program| install::is_named_mala(program)) {
        let fix = Some("give that server another name, then: mala init".to_owned());
        let detail = format!("`{shown}` is called `mala` and is not mala's server");
        return Check { name: name(client), status: Verdict::Fail, detail, fix };
    }
    match greet(command, root) {
        Ok(answer) if answer["result"]["serverInfo"]["name"] == "mala" => Check::ok(
            name(client),
            format!("set up, and `{shown}` answers; {client} asks once whether to trust it"),
        ),
        Ok(_) => broken(client, &format!("set up, but `{shown}` is not mala's server")),
        Err(error) => broken(client, &format!("set up, but `{shown}` does not answer: {error}")),
    }
}

fn broken(client: Client, detail: &str) -> Check {
    let fix = Some("put `mala` on the PATH, or: mala init".to_owned());
    Check { name: name(client), status: Verdict::Fail, detail: detail.to_owned(), fix }
}

/// What the server says to a client that comes and leaves.
fn greet(command: &[String], root: &Path) -> io::Result<Value> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "mala doctor", "version": env!("CARGO_PKG_VERSION") },
    });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let mut server = Command::new(program);
    let said = programs::output(server.args(args).current_dir(root), format!("{hello}\n").as_bytes())?.stdout;
    Ok(serde_json::from_slice(said.split(|byte| *byte == b'\n').next().unwrap_or_default())?)
}

/// What a client's tools are called among the checks.
fn name(client: Client) -> &'static str {
    match client {
        Client::Claude => "claude tools",
        Client::Codex => "codex tools",
        Client::Gemini => "gemini tools",
        Client::Opencode => "opencode tools",
    }
}
