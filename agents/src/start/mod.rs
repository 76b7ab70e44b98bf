//! How to start a client: its command line, environment and prompt, as plain data.
//!
//! Nothing of the user's own settings is changed: hooks and tools are handed to each process, for its own life. Nothing
//! here starts anything.

mod clients;
mod profile;
pub mod prompt;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::launch::OPENCODE_CONFIG;
use crate::launch::home::Home;
pub use profile::{Kind, Profile, PromptBy, built_in_profiles};

/// The longest prompt that is handed over as an argument; systems bound a single one at 128 KiB.
pub const LONGEST_ARGUMENT: usize = 120 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchError {
    #[error("the profile `{profile}` has no command; name one: [agents.{profile}] command = [\"PROGRAM\"]")]
    NoCommand { profile: String },
    #[error(
        "the prompt has {len} bytes, more than fits into an argument; use `prompt = \"stdin\"` in [agents.{profile}]"
    )]
    TooLong { profile: String, len: usize },
    #[error("{kind} keeps no session that could be resumed")]
    NoSessions { kind: &'static str },
    #[error(
        "the profile `{profile}` sets `{name}`, by which mala gives {kind} its hooks; take it out of [agents.{profile}] and \
         put what it says into {kind}'s own settings"
    )]
    Taken { profile: String, kind: &'static str, name: &'static str },
}

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    pub profile: &'a Profile,
    pub prompt: &'a str,
    /// The session to go on with; a new one if empty.
    pub session: Option<&'a str>,
    /// The program that hooks and tools call.
    pub mala: &'a str,
    /// The checkout that is worked in.
    pub root: &'a Path,
    /// A folder of this agent's own, outside the checkout and not open to everybody, for files that a client reads. Where
    /// [`Kind::needs_home`], a new and empty one that it may write to.
    pub folder: &'a Path,
    /// The home that a client would have without mala.
    pub home: &'a Path,
    /// The most it may cost, where the client can be told.
    pub budget: Option<f64>,
    pub is_root: bool,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSpec {
    /// The program, then its arguments.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// What it reads from stdin; nothing at all if empty.
    pub stdin: Option<String>,
    /// Files to write beforehand.
    pub files: Vec<(PathBuf, String)>,
    /// A home to make beforehand, and whose it takes the place of.
    pub home: Option<(Home, PathBuf)>,
}

/// The command line, environment and prompt for `order`.
pub fn spec(order: &Order<'_>) -> Result<LaunchSpec, LaunchError> {
    let profile = order.profile;
    if profile.command.is_empty() {
        return Err(LaunchError::NoCommand { profile: profile.name.clone() });
    }
    if let Some(name) = taken(profile) {
        return Err(LaunchError::Taken { profile: profile.name.clone(), kind: profile.kind.name(), name });
    }
    let mut spec = LaunchSpec {
        command: profile.command.clone(),
        env: profile.env.clone(),
        stdin: None,
        files: Vec::new(),
        home: None,
    };
    match profile.kind {
        Kind::Claude => clients::claude(order, &mut spec),
        Kind::Codex => clients::codex(order, &mut spec),
        Kind::Gemini => clients::gemini(order, &mut spec)?,
        Kind::Opencode => clients::opencode(order, &mut spec)?,
        Kind::Command => clients::command(order, &mut spec)?,
    }
    Ok(spec)
}

/// What the profile sets although the client gets its hooks by it: one of the two would be lost without a word.
fn taken(profile: &Profile) -> Option<&'static str> {
    let variable = |name: &'static str| profile.env.contains_key(name).then_some(name);
    match profile.kind {
        Kind::Claude => {
            let is_it = |arg: &String| arg == "--settings" || arg.starts_with("--settings=");
            profile.command.iter().any(is_it).then_some("--settings")
        }
        Kind::Opencode => variable(OPENCODE_CONFIG),
        Kind::Codex | Kind::Gemini | Kind::Command => None,
    }
}
