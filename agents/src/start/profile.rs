//! Kinds of agents.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Client;

/// The client behind a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Claude,
    Codex,
    Gemini,
    Opencode,
    /// Any program.
    Command,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Command => "command",
        }
    }

    /// The client whose hooks and tools it is given.
    pub fn client(self) -> Option<Client> {
        match self {
            Self::Claude => Some(Client::Claude),
            Self::Codex => Some(Client::Codex),
            Self::Gemini => Some(Client::Gemini),
            Self::Opencode => Some(Client::Opencode),
            Self::Command => None,
        }
    }

    /// True if a model stands behind it that replies; a program of one's own may do anything.
    pub fn has_model(self) -> bool {
        self != Self::Command
    }

    /// True if its hooks come with a home of its own, to which it also writes.
    pub fn needs_home(self) -> bool {
        self == Self::Gemini
    }

    /// True if its client tells what it costs. opencode does so for the models that it knows.
    pub fn reports_cost(self) -> bool {
        matches!(self, Self::Claude | Self::Opencode)
    }

    /// True if a session can go on in another process.
    pub fn has_sessions(self) -> bool {
        self != Self::Command
    }
}

/// How a program gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    #[default]
    Stdin,
    /// In a file, whose path takes the place of `{prompt}` among the arguments, else comes last.
    File,
    /// In place of `{prompt}` among the arguments, else as the last one.
    Argument,
}

/// How to start a kind of agent, and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(skip)]
    pub name: String,
    pub kind: Kind,
    #[serde(default)]
    pub model: Option<String>,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// Only for [`Kind::Command`].
    #[serde(default)]
    pub prompt_by: PromptBy,
    /// Issues with one of these labels are given to it.
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What to type to get the program.
    #[serde(default)]
    pub install: Option<String>,
}

/// The profiles that need no settings.
pub fn built_in_profiles() -> Vec<Profile> {
    let profiles: BTreeMap<String, Profile> =
        toml::from_str(include_str!("../../profiles.toml")).expect("a test reads the built-in profiles");
    profiles.into_iter().map(|(name, profile)| Profile { name, ..profile }).collect()
}
