//! What callers tell the journal of runs, and why it may refuse.

use mala_core::{
    AgentId, AttemptId, AttemptState, EntryId, Interruption, IssueId, Lock, Oid, Run, RunId, Spend,
};
use serde_json::Value;
use thiserror::Error;

/// Where an issue lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracker {
    /// In this store: its status follows the attempts at it.
    BuiltIn,
    /// In another tracker, which keeps its own status.
    Other,
}

/// An agent's wish to work on an issue.
#[derive(Debug, Clone)]
pub struct NewAttempt {
    pub run: RunId,
    pub issue: IssueId,
    pub tracker: Tracker,
    pub agent: AgentId,
    /// How the agent is started.
    pub profile: String,
    /// The commit that is checked out.
    pub head: Option<Oid>,
}

/// What became known about an attempt. What is not given stays as it was.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub session: Option<String>,
    pub question: Option<String>,
    pub interruption: Option<Interruption>,
    pub saved_ref: Option<String>,
    pub verdict: Option<Value>,
    pub spend: Option<Spend>,
}

/// How an attempt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The issue is done.
    Done { commit: Option<String> },
    /// It did not work out.
    HandedOver { reason: String, next: Next },
    /// It was not begun.
    GivenBack,
}

/// What becomes of an issue that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Somebody else tries.
    TryAgain,
    /// A person looks at it first.
    AskAPerson,
}

/// The end of an attempt: everything about it is written at once or not at all.
#[derive(Debug, Clone)]
pub struct Finish {
    pub end: End,
    /// What the next one should know. Written before any lock is released.
    pub note: Option<String>,
    pub progress: Progress,
}

/// What [`crate::Store::finish`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// It ended now, and these locks were released.
    Now { locks: Vec<Lock> },
    /// It had ended before; nothing was changed.
    Before { state: AttemptState },
}

/// Why the journal refused.
#[derive(Debug, Error)]
pub enum JournalError {
    #[error("`mala run` is running already: {} since {}", .run.owner, .run.started_at)]
    AlreadyRunning { run: Box<Run> },
    #[error("no run `{id}` is known in this checkout, or it has ended")]
    UnknownRun { id: RunId },
    #[error("no attempt {id} is known in this checkout")]
    UnknownAttempt { id: AttemptId },
    #[error("`{agent}` is working on `{issue}`")]
    Attempted { issue: IssueId, agent: AgentId },
    #[error("`{issue}` waits in the landing queue, as entry {entry}")]
    Queued { issue: IssueId, entry: EntryId },
    #[error("the attempt {id} is over: it is {state}")]
    Over { id: AttemptId, state: AttemptState },
    #[error("the attempt {id} is {found}, not {expected}")]
    NotInState { id: AttemptId, expected: AttemptState, found: AttemptState },
    #[error("an attempt that is {from} does not become {to} next")]
    NoSuchStep { from: AttemptState, to: AttemptState },
}
