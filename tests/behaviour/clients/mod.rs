//! The real agent clients, from the package registry, with a model that follows a script.

mod answers;
mod enforced;
mod failures;
mod gemini_run;
mod hooks;
mod judged_once;
mod matrix;
mod negotiate;
mod opencode;
mod opencode_run;
mod profiles;
mod recorded;
mod run;
mod self_test;
mod setup;
mod trust;

use std::fs;
use std::path::Path;

use mala_tests::World;
use mala_tests::clients::{Client, Installed};
use mala_tests::model::{Reply, Script, Talk, ToolResult, call, javascript, say};
use serde_json::json;

use crate::cli::done;

/// A server with one tool, `save`, that writes a file.
const MCP_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/mcp-server.mjs");

/// How the model and the user are told who is in the way.
const NAMES_THE_HOLDER: &str = "`held.txt` is held by `other` (issue bd-7)";

/// The clients, or none where they cannot be had, which is said loudly and fails on CI.
fn installed() -> Option<&'static Installed> {
    Installed::or_skip(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A checkout with two tracked files, in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.root().join(path)).unwrap_or_default()
}

/// Claude's tools, on files of the checkout.
struct Claude<'a>(&'a World);

impl Claude<'_> {
    fn write(&self, path: &str, content: &str) -> Reply {
        call("Write", json!({"file_path": self.0.root().join(path), "content": content}))
    }

    /// Claude changes no file that it has not read.
    fn read(&self, path: &str) -> Reply {
        call("Read", json!({"file_path": self.0.root().join(path)}))
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Reply {
        let path = self.0.root().join(path);
        call("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
    }

    fn bash(&self, command: &str) -> Reply {
        call("Bash", json!({"command": command, "description": "as the script says"}))
    }

    fn save(&self, path: &str, text: &str) -> Reply {
        call("mcp__files__save", json!({"path": self.0.root().join(path), "text": text}))
    }

    /// A sub-agent with this prompt, whose end it awaits.
    fn delegate(&self, prompt: &str) -> Reply {
        let kind = "general-purpose";
        call(
            "Agent",
            json!({"description": "a part", "prompt": prompt, "subagent_type": kind, "run_in_background": false}),
        )
    }
}

/// What a sub-agent that is told to write does: it tries to change the held file.
fn with_part(script: Script, claude: &Claude<'_>) -> Script {
    script
        .when("PART: write")
        .then(claude.read("held.txt"))
        .then(claude.write("held.txt", "a part's\n"))
        .then(say("done"))
}

/// Gives claude the MCP server `files`.
fn with_mcp(client: Client<'_>) -> Client<'_> {
    let servers = json!({"mcpServers": {"files": {"command": "node", "args": [MCP_SERVER]}}});
    client.arg("--strict-mcp-config").arg("--mcp-config").arg(servers.to_string())
}

/// Codex's shell.
fn shell(command: &str) -> Reply {
    call("exec_command", json!({"cmd": command}))
}

/// Gemini's tools, on files of the checkout.
struct Gemini<'a>(&'a World);

impl Gemini<'_> {
    fn write(&self, path: &str, content: &str) -> Reply {
        call("write_file", json!({"file_path": self.0.root().join(path), "content": content}))
    }

    fn replace(&self, path: &str, old: &str, new: &str) -> Reply {
        let path = self.0.root().join(path);
        let why = "as the script says";
        call("replace", json!({"file_path": path, "old_string": old, "new_string": new, "instruction": why}))
    }

    fn shell(&self, command: &str) -> Reply {
        call("run_shell_command", json!({"command": command, "description": "as the script says"}))
    }
}

/// A patch of one line of a file, in codex's format.
fn replace(path: &str, old: &str, new: &str) -> String {
    format!("*** Update File: {path}\n@@\n-{old}\n+{new}")
}

/// A patch that codex applies from JavaScript.
fn javascript_patch(body: &str) -> Reply {
    let text = json!(format!("*** Begin Patch\n{body}\n*** End Patch\n"));
    javascript(&format!("text(await tools.apply_patch({text}))"))
}

/// What came of the calls of one tool, in order, as the model was told.
fn results(talk: &Talk, tool: &str) -> Vec<ToolResult> {
    talk.results().into_iter().filter(|result| result.tool == tool).collect()
}
