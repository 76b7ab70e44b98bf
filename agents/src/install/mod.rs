//! Hooks, and mala's tools ([`server`]), in a project's own client settings: put there, and taken away again.
//!
//! Pure functions over text: the caller reads and writes the file. Everything else in the file stays byte for byte as it is,
//! putting hooks in twice changes nothing, and [`remove`] gives back exactly the bytes that were there, if nobody changed
//! the file in between. How that works without keeping a copy is written in [`edit`].

mod edit;
mod entries;
pub mod server;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::Client;
pub(crate) use edit::parse_options;
pub use entries::is_named_mala;
use entries::shell_command;
pub(crate) use entries::{INJECTED, Origin, events, group, quoted_command, timeout};

/// The plugin that connects opencode with mala. The first line is how it is recognised.
const PLUGIN: &str = include_str!("opencode.js");
const PLUGIN_MARK: &str = "// mala:";
/// What the plugin calls mala with.
const PLUGIN_ARGUMENTS: &str = "[\"hook\", \"opencode\"]";

/// What the file should contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative to the top of the checkout.
    pub path: &'static str,
    pub text: String,
}

/// What is left without mala's hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// They are not in the file.
    Unchanged,
    Text(String),
    /// The file holds nothing else: mala made it.
    Delete,
}

impl Removal {
    /// What is left of `text`, from which this was made; nothing if the file is to be deleted.
    pub fn apply(self, text: &str) -> Option<String> {
        match self {
            Self::Unchanged => Some(text.to_owned()),
            Self::Text(text) => Some(text),
            Self::Delete => None,
        }
    }
}

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InstallError {
    #[error("`{file}` cannot be read at line {line}, column {column}: {problem}; repair it and try again")]
    Syntax { file: &'static str, line: usize, column: usize, problem: String },
    #[error("`{what}` in `{file}` is not {expected}; repair it and try again")]
    Kind { file: &'static str, what: String, expected: &'static str },
    #[error("`{what}` occurs twice in `{file}`; repair it and try again")]
    Twice { file: &'static str, what: String },
    #[error("`{file}` switches all hooks off (`disableAllHooks`); remove that line and try again")]
    SwitchedOff { file: &'static str },
    #[error("`{file}` is not mala's; move it away and try again")]
    Foreign { file: &'static str },
}

/// Where `client` looks for a project's hooks.
pub fn path(client: Client) -> &'static str {
    match client {
        Client::Claude => ".claude/settings.json",
        Client::Codex => ".codex/hooks.json",
        Client::Gemini => ".gemini/settings.json",
        Client::Opencode => ".opencode/plugin/mala.js",
    }
}

/// A file of one person's in the checkout whose word counts more than that of the file with the hooks.
pub fn overriding(client: Client) -> Option<&'static str> {
    (client == Client::Claude).then_some(".claude/settings.local.json")
}

/// Every file in a checkout by which hooks come and go.
pub fn files(client: Client) -> impl Iterator<Item = &'static str> {
    std::iter::once(path(client)).chain(overriding(client))
}

/// True if these settings, of a project or of a person, switch the client's hooks off. Text that cannot be read does not.
pub fn switches_off(client: Client, text: &str) -> bool {
    match client {
        Client::Claude => edit::is_flag(client, text, &["disableAllHooks"], true),
        Client::Gemini => edit::is_flag(client, text, &["hooksConfig", "enabled"], false),
        Client::Codex => {
            let table = toml::from_str::<toml::Table>(text).unwrap_or_default();
            let hooks = table.get("features").and_then(|features| features.get("hooks"));
            hooks.and_then(toml::Value::as_bool) == Some(false)
        }
        Client::Opencode => false,
    }
}

/// The command of mala's that `text`, the file at [`path`], makes the client run before a tool.
pub fn hook_command(client: Client, text: &str) -> Option<String> {
    match client {
        Client::Opencode => plugin_command(text),
        Client::Claude | Client::Codex | Client::Gemini => edit::command(client, text),
    }
}

/// The file with hooks that call `mala`, a program's name or path. `existing` is what it holds now, if it is there.
pub fn plan(client: Client, existing: Option<&str>, mala: &str) -> Result<Change, InstallError> {
    let text = match client {
        Client::Opencode => {
            if existing.is_some_and(|text| !text.starts_with(PLUGIN_MARK)) {
                return Err(InstallError::Foreign { file: path(client) });
            }
            plugin(mala, Origin::Project)
        }
        Client::Claude | Client::Codex | Client::Gemini => {
            // What an earlier version put there goes first.
            let clean = existing.map(|text| remove(client, text)).transpose()?;
            match (existing, &clean) {
                (Some(text), Some(Removal::Unchanged)) => edit::insert(client, text, mala)?,
                (_, Some(Removal::Text(text))) => edit::insert(client, text, mala)?,
                _ => edit::fresh(client, mala),
            }
        }
    };
    Ok(Change { path: path(client), text })
}

/// The file without mala's hooks.
pub fn remove(client: Client, text: &str) -> Result<Removal, InstallError> {
    match client {
        Client::Opencode if text.starts_with(PLUGIN_MARK) => Ok(Removal::Delete),
        Client::Opencode => Ok(Removal::Unchanged),
        Client::Claude | Client::Codex | Client::Gemini => edit::remove(client, text),
    }
}

/// The command that the plugin runs.
pub(crate) fn plugin_command(text: &str) -> Option<String> {
    let program = text.lines().find_map(|line| line.strip_prefix("const MALA = "))?;
    let origin = if text.contains(INJECTED) { Origin::Injected } else { Origin::Project };
    Some(shell_command(Client::Opencode, &serde_json::from_str::<String>(program).ok()?, origin))
}

/// The plugin's text.
pub(crate) fn plugin(mala: &str, origin: Origin) -> String {
    let text = PLUGIN.replace("\"MALA\"", &serde_json::Value::from(mala).to_string());
    match origin {
        Origin::Project => text,
        Origin::Injected => {
            text.replace(PLUGIN_ARGUMENTS, &format!("[\"hook\", \"opencode\", \"{INJECTED}\"]"))
        }
    }
}
