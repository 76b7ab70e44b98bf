//! The agent clients mala speaks with.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no client mala knows; it knows claude, codex, gemini and opencode")]
pub struct UnknownClient(String);

impl Client {
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// The name of its program, and what follows `mala hook`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// The variable that is set for whatever it runs.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDECODE"),
            Self::Gemini => Some("GEMINI_CLI"),
            Self::Codex | Self::Opencode => None,
        }
    }

    /// The variable in which it tells its hooks where its project is.
    pub fn project_variable(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDE_PROJECT_DIR"),
            Self::Gemini => Some("GEMINI_PROJECT_DIR"),
            Self::Codex | Self::Opencode => None,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|client| client.name() == text)
            .ok_or_else(|| UnknownClient(text.to_owned()))
    }
}
