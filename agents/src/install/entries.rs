//! What mala's hooks look like in a client's settings.

use serde_json::Value;

use crate::Client;

/// How long a hook may take before the client gives up on it, in the client's own unit.
pub(crate) fn timeout(client: Client, event: &str) -> u32 {
    match (client, event) {
        (Client::Codex, "SessionEnd") => 3, // it grants no more
        (Client::Gemini, _) => 30_000,
        _ => 30,
    }
}

/// Keeps Claude's hooks on. The odd space is how it is known as ours.
pub(super) const MARKER: &str = "\"disableAllHooks\" : false";

/// Under which name Claude Code and Gemini CLI keep tool servers.
pub(super) const SERVERS: &str = "mcpServers";

/// mala as a tool server among others, in one line of JSON.
pub(super) fn server(mala: &str) -> String {
    format!("\"mala\": {{ \"command\": {}, \"args\": [\"mcp\"] }}", Value::from(mala))
}

/// True if `member` is what [`server`] makes of some program.
pub(super) fn is_our_server(member: &str) -> bool {
    let value = serde_json::from_str::<Value>(&format!("{{{member}}}")).unwrap_or_default();
    value["mala"]["command"].as_str().is_some_and(|program| server(program) == member)
}

/// How a hook came to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By the project's settings.
    Project,
    /// By arguments, environment or files of its own that a run has started the client with.
    Injected,
}

/// By this argument a hook says that it was injected. Where there is one, the project's own has nothing to say.
pub(crate) const INJECTED: &str = "--injected";

/// The command line of a hook, as the client's shell reads it.
pub(super) fn shell_command(client: Client, mala: &str, origin: Origin) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+".contains(char);
    let quoted = if !mala.is_empty() && mala.chars().all(is_plain) {
        mala.to_owned()
    } else {
        format!("'{}'", mala.replace('\'', r"'\''"))
    };
    match origin {
        Origin::Project => format!("{quoted} hook {client}"),
        Origin::Injected => format!("{quoted} hook {client} {INJECTED}"),
    }
}

/// The same as a quoted string, for JSON and for TOML.
pub(crate) fn quoted_command(client: Client, mala: &str, origin: Origin) -> String {
    Value::from(shell_command(client, mala, origin)).to_string()
}

/// True if `command` is one of ours, wherever mala was installed then.
pub(super) fn is_ours(client: Client, command: &str) -> bool {
    let Some(program) = command.strip_suffix(client.name()).and_then(|rest| rest.strip_suffix(" hook "))
    else {
        return false;
    };
    is_named_mala(program.trim_matches('\''))
}

/// True for a program, by name or path, that is called as mala is.
pub fn is_named_mala(program: &str) -> bool {
    program.rsplit('/').next().is_some_and(|name| name.starts_with("mala"))
}

/// The events mala listens to, in the client's own words.
pub(crate) fn events(client: Client) -> &'static [&'static str] {
    match client {
        Client::Claude => &[
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "UserPromptSubmit",
            "SessionStart",
            "SessionEnd",
            "Stop",
            "SubagentStop",
        ],
        Client::Codex => &[
            "PreToolUse",
            "PostToolUse",
            "UserPromptSubmit",
            "SessionStart",
            "SessionEnd",
            "Stop",
            "SubagentStop",
        ],
        Client::Gemini => {
            &["BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "SessionStart", "SessionEnd"]
        }
        Client::Opencode => &[],
    }
}

/// What is put into the list of `event`, in one line of JSON.
pub(crate) fn group(client: Client, event: &str, mala: &str, origin: Origin) -> String {
    // Claude matches every tool by `*`, the others by saying nothing.
    let matcher = if client == Client::Claude { "\"matcher\": \"*\", " } else { "" };
    let timeout = timeout(client, event);
    let failure =
        if client == Client::Claude && event == "PreToolUse" { ", \"onFailure\": \"block\"" } else { "" };
    let command = quoted_command(client, mala, origin);
    let hook =
        format!("{{ \"type\": \"command\", \"command\": {command}, \"timeout\": {timeout}{failure} }}");
    format!("{{ {matcher}\"hooks\": [{hook}] }}")
}
