//! What callers ask about asks, what they get back, and why they may be refused.

use std::time::Duration;

use mala_core::ask::{MAX_DEFERRAL, MAX_WHY};
use mala_core::{AgentId, Ask, AskId, AskState, Lock, Target, Timestamp, Urgency, Want};
use thiserror::Error;

use crate::request::Party;

/// A wish for something that somebody else holds.
#[derive(Debug, Clone)]
pub struct AskRequest {
    pub party: Party,
    pub want: Want,
    /// The lease the asker wants to have.
    pub ttl: Duration,
    pub why: String,
    pub urgency: Urgency,
    /// How long the holder has to answer.
    pub due_in: Duration,
}

/// Which asks to list.
#[derive(Debug, Clone, Default)]
pub struct AskFilter {
    pub asker: Option<AgentId>,
    pub holder: Option<AgentId>,
    /// Also those that are over.
    pub ended: bool,
}

/// What became of an ask, and what the asker holds now because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub ask: Ask,
    /// Empty if something else still stands in the asker's way.
    pub granted: Vec<Lock>,
}

/// Why an ask or an answer was refused.
#[derive(Debug, Error)]
pub enum AskError {
    #[error("no ask `{id}` is known in this checkout")]
    Unknown { id: AskId },
    #[error("nobody holds `{target}`: it can be locked right away")]
    Free { target: Box<Target> },
    #[error("`{agent}` holds `{target}` itself")]
    Yours { agent: AgentId, target: Box<Target> },
    #[error("`{target}` is held by a command that runs: it can be waited for, not asked for")]
    Named { target: Box<Target> },
    #[error("the reason has {len} bytes: at most {MAX_WHY} are allowed")]
    WhyTooLong { len: usize },
    #[error("the ask `{id}` is about a lock of `{holder}`: only `{holder}` can answer it")]
    NotHolder { id: AskId, holder: AgentId },
    #[error("the ask `{id}` is `{asker}`'s: only `{asker}` can take or cancel it")]
    NotAsker { id: AskId, asker: AgentId },
    #[error("the ask `{id}` is {state} already")]
    Over { id: AskId, state: AskState },
    #[error("the ask `{id}` was deferred already: release the lock, or say why not in a message")]
    DeferredAlready { id: AskId },
    #[error("a lock can be kept for at most {} more minutes", MAX_DEFERRAL.as_secs() / 60)]
    DeferredTooLong,
    #[error("the lock is not the one that was asked for any more: look again with `mala lock asks`")]
    Changed { id: AskId },
    #[error("the ask `{id}` is not due before {due_at}")]
    NotDue { id: AskId, due_at: Timestamp },
    #[error("`{holder}` was active {} s ago: ask it again, or let a person decide", .idle.as_secs())]
    HolderActive { holder: AgentId, idle: Duration },
    #[error("`{target}` has changes that are not committed: only a person can decide to take it")]
    Uncommitted { target: Box<Target> },
    #[error("`{agent}` runs under supervision: only a person can force a lock out of somebody's hands")]
    NotAPerson { agent: AgentId },
}
