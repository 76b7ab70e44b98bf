//! What the model of each client calls its tools, and what it gives them.

use std::path::PathBuf;

use mala_tests::World;
use mala_tests::clients::Kind;
use mala_tests::model::{Reply, call, patch, say};
use serde_json::{Value, json};

use super::super::replace;

const WHY: &str = "as the script says";

/// The tools of one client, on files of a checkout.
#[derive(Debug, Clone)]
pub(super) struct Hands {
    pub(super) kind: Kind,
    root: PathBuf,
}

impl Hands {
    pub(super) fn new(kind: Kind, world: &World) -> Self {
        Self { kind, root: world.root().to_owned() }
    }

    /// What two clients want before they change a file.
    fn look(&self, path: &str) -> Option<Reply> {
        let path = self.root.join(path);
        match self.kind {
            Kind::Claude => Some(call("Read", json!({ "file_path": path }))),
            Kind::Opencode => Some(call("read", json!({ "filePath": path }))),
            Kind::Codex | Kind::Gemini => None,
        }
    }

    /// One line of a file becomes another.
    fn edit(&self, path: &str, old: &str, new: &str) -> Reply {
        let full = self.root.join(path);
        match self.kind {
            Kind::Claude => call("Edit", json!({"file_path": full, "old_string": old, "new_string": new})),
            Kind::Codex => patch(&replace(path, old, new)),
            Kind::Gemini => call(
                "replace",
                json!({"file_path": full, "old_string": old, "new_string": new, "instruction": WHY}),
            ),
            Kind::Opencode => call("edit", json!({"filePath": full, "oldString": old, "newString": new})),
        }
    }

    /// An edit, after a look at the file where the client wants one.
    pub(super) fn look_and_edit(&self, path: &str, old: &str, new: &str) -> Vec<Reply> {
        self.look(path).into_iter().chain([self.edit(path, old, new)]).collect()
    }

    /// A command that never ends.
    pub(super) fn hang(&self, command: &str) -> Reply {
        let command = format!("{command}; sleep 600");
        match self.kind {
            // It would let its model go on after 10 seconds.
            Kind::Codex => call("exec_command", json!({"cmd": command, "yield_time_ms": 600_000})),
            Kind::Claude | Kind::Gemini | Kind::Opencode => self.shell(&command),
        }
    }

    pub(super) fn shell(&self, command: &str) -> Reply {
        match self.kind {
            Kind::Claude => call("Bash", json!({"command": command, "description": WHY})),
            Kind::Codex => call("exec_command", json!({ "cmd": command })),
            Kind::Gemini => call("run_shell_command", json!({"command": command, "description": WHY})),
            Kind::Opencode => call("bash", json!({"command": command, "description": WHY})),
        }
    }

    /// A command that goes on while the model does.
    pub(super) fn background(&self, command: &str) -> Reply {
        match self.kind {
            Kind::Claude => {
                call("Bash", json!({"command": command, "description": WHY, "run_in_background": true}))
            }
            Kind::Codex => call("exec_command", json!({"cmd": command, "yield_time_ms": 250})),
            Kind::Gemini => call(
                "run_shell_command",
                json!({"command": command, "description": WHY, "is_background": true}),
            ),
            // It has no other way.
            Kind::Opencode => self.shell(&format!("({command}) > /dev/null 2>&1 < /dev/null &")),
        }
    }

    /// A sub-agent with this prompt, whose end is awaited.
    pub(super) fn delegate(&self, prompt: &str) -> Reply {
        match self.kind {
            Kind::Claude => call(
                "Agent",
                json!({"description": "a part", "prompt": prompt, "subagent_type": "general-purpose",
                    "run_in_background": false}),
            ),
            Kind::Codex => call("multi_agent_v1.spawn_agent", json!({ "message": prompt })),
            Kind::Gemini => call("invoke_agent", json!({"agent_name": "generalist", "prompt": prompt})),
            Kind::Opencode => {
                call("task", json!({"description": "a part", "prompt": prompt, "subagent_type": "general"}))
            }
        }
    }

    /// How a sub-agent ends.
    pub(super) fn end_part(&self) -> Reply {
        match self.kind {
            Kind::Gemini => call("complete_task", json!({"result": {"response": "done"}})),
            Kind::Claude | Kind::Codex | Kind::Opencode => say("done"),
        }
    }

    /// A search for tools that the model is not shown otherwise.
    pub(super) fn find_tools(&self, words: &str) -> Option<Reply> {
        match self.kind {
            Kind::Claude => Some(call("ToolSearch", json!({"query": words, "max_results": 20}))),
            Kind::Codex => Some(call("tool_search", json!({"query": words, "limit": 20}))),
            Kind::Gemini | Kind::Opencode => None,
        }
    }

    /// One of mala's own tools.
    pub(super) fn mala(&self, tool: &str, arguments: &Value) -> Reply {
        let name = match self.kind {
            Kind::Claude => format!("mcp__mala__{tool}"),
            Kind::Codex => format!("mcp__mala.{tool}"),
            Kind::Gemini => format!("mcp_mala_{tool}"),
            Kind::Opencode => format!("mala_{tool}"),
        };
        call(&name, arguments.clone())
    }
}
