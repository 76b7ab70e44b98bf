//! How records of commands are named, and who a command or a commit is by.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AgentId, IssueId, RunId};

/// Names one record. Short, random, and part of commit messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EvidenceId(String);

impl EvidenceId {
    pub fn random() -> Self {
        let letters =
            std::iter::repeat_with(|| fastrand::choice(b"0123456789abcdefghijklmnopqrstuvwxyz".iter()));
        Self("ev-".chars().chain(letters.flatten().take(10).map(|byte| char::from(*byte))).collect())
    }

    /// An id made elsewhere, such as that of a call in a transcript.
    pub fn named(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EvidenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The agent that does something, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub agent: AgentId,
    pub issue: Option<IssueId>,
    pub run: Option<RunId>,
}
