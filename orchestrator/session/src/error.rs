//! Why something about an agent in a checkout did not work out.

use std::io;

use mala_agents::intent::IntentError;
use mala_config::ConfigError;
use mala_core::claim::TargetError;
use mala_core::scope::ScopeError;
use mala_core::text::plain;
use mala_core::{Key, NameError};
use mala_gate::JudgeError;
use mala_git::salvage::SalvageError;
use mala_git::{GitError, OwnershipError};
use mala_sandbox::{SandboxError, Writer};
use mala_store::StoreError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum SessionError {
    /// Whoever holds the file must not hand it on, and whoever gets it must not begin.
    #[error("`{}` is still open for writing{}; it would be written on after the hand-over", plain(.key), by(.writers))]
    StillOpen { key: Key, writers: Vec<Writer>, side: Handover },
    #[error("a change that was allowed before is still being made")]
    ChangeUnderWay,
    #[error("mala failed while it judged a write; start the agent again")]
    JudgePanicked,
    #[error("cannot find the process of this client")]
    NoClient,
    #[error("cannot reach the supervisor of this agent: {0}")]
    Unreachable(io::Error),
    #[error("the supervisor of this agent could not say who owns it")]
    NoAnswer,
    #[error("cannot tell what the tool would do")]
    Intent(#[from] IntentError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Salvage(#[from] SalvageError),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Which side of a hand-over was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handover {
    Release,
    /// The file is free, and a program of this agent still writes to it.
    Acquire,
}

fn by(writers: &[Writer]) -> String {
    let names: Vec<String> =
        writers.iter().map(|writer| format!("{} (pid {})", plain(&writer.program), writer.pid)).collect();
    if names.is_empty() { String::new() } else { format!(" by {}", names.join(", ")) }
}
