//! What the engine needs from the rest of mala. `cli` plugs the store, the sandbox, the gate and the screen in.
//!
//! Every port may block; the engine calls them away from the thread that keeps order. Every change of a [`Ledger`] is
//! one transaction that may be repeated.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::PipeReader;
use std::time::Duration;

use mala_core::{AgentId, IssueId, Key, Oid, Owner, RunId, Timestamp, Want};
pub use mala_core::{Attempt, Interruption};
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::State;

/// Whatever went wrong on the other side of a port.
pub type PortError = Box<dyn Error + Send + Sync>;

/// Why a run cannot begin.
#[derive(Debug, Error)]
pub enum BeginError {
    #[error("`mala run` {run} is already at work here ({owner}, since {since})")]
    Busy { run: RunId, owner: Owner, since: Timestamp },
    #[error("cannot begin a run")]
    Port(#[source] PortError),
}

/// What was tried at an issue so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tries {
    /// Attempts that came to an end, good or bad, and were not just stopped.
    pub ended: u32,
    /// The number that the next attempt gets.
    pub next: u32,
}

/// A wish to begin an attempt.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub run: RunId,
    pub issue: IssueId,
    pub agent: AgentId,
    /// The name of the profile that the agent is started with.
    pub profile: String,
    /// Files to be held from the start, all or none.
    pub files: Vec<Want>,
    pub head: Option<Oid>,
}

#[derive(Debug, Clone)]
pub enum ClaimAnswer {
    Claimed(Attempt),
    /// Somebody else works on the issue, or it is no longer open.
    Taken {
        why: String,
    },
    /// Nothing was taken.
    FilesHeld(Vec<Held>),
}

/// A file that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub file: String,
    pub by: AgentId,
    pub issue: Option<IssueId>,
}

/// What a step adds to the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The client's own name for the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the agent wants to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What is about to cut the attempt off, so that whoever finds it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption: Option<Interruption>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    pub from: State,
    pub ending: Ending,
    /// Appended to the issue before anything is released.
    pub note: Option<String>,
    pub saved_ref: Option<String>,
    pub cost: Option<f64>,
    pub tokens: u64,
    pub verdict: Option<Value>,
    /// Set if the attempt did not fail but was cut off.
    pub interruption: Option<Interruption>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The issue is closed, for this reason.
    Done { reason: String },
    /// The issue goes back, to be tried again.
    HandedOver { reason: String },
    /// The issue was tried often enough; a person has to look at it.
    Blocked { reason: String },
}

/// How waiting for others ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// Everything that was asked for is the agent's.
    Granted,
    /// For this reason it is not.
    InVain(String),
}

/// How much agents got in each other's way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Contention {
    pub lock_tries: u64,
    pub lock_waits: u64,
    pub refusals: u64,
    pub warnings: Vec<String>,
    /// What would help.
    pub advice: BTreeSet<Advice>,
}

/// What helps agents that get in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// They wait for files: one agent at a time.
    Sequential,
    /// They wait for their turn to test: tests in snapshots need none.
    IsolatedTests,
}

/// The journal of runs and the locks of their agents.
pub trait Ledger: Send + Sync {
    /// Begins the one run of this checkout.
    fn begin_run(&self, options: &Value) -> Result<RunId, BeginError>;

    fn end_run(&self, run: &RunId, summary: &Value) -> Result<(), PortError>;

    /// What was tried at the issue so far, over all runs.
    fn tries(&self, issue: &IssueId) -> Result<Tries, PortError>;

    /// Issues that were left to a person, as far as the ledger itself keeps issues.
    fn blocked(&self) -> Result<Vec<IssueId>, PortError>;

    /// Somebody asks for an issue that was left to a person: it is open again. Anything else stays as it is.
    fn unblock(&self, issue: &IssueId) -> Result<(), PortError>;

    /// Takes the issue, its files and the agent's name together, or nothing.
    fn claim(&self, request: &ClaimRequest) -> Result<ClaimAnswer, PortError>;

    /// Undoes a claim as if it had not been: no attempt is counted.
    fn put_back(&self, attempt: &Attempt, why: &str) -> Result<(), PortError>;

    /// Writes a step down, if the attempt still is where `from` says. If `to` is the same, only the detail is.
    fn advance(&self, attempt: &Attempt, from: State, to: State, detail: &Detail) -> Result<(), PortError>;

    /// Ends the attempt: note, state of the issue, release of every lock and the event are one transaction.
    fn finish(&self, attempt: &Attempt, finish: &Finish) -> Result<(), PortError>;

    /// Attempts that are not over although their run is.
    fn abandoned(&self) -> Result<Vec<Attempt>, PortError>;

    /// Those of `keys` that the attempt's agent held alone at some time since its claim and that nobody else holds now.
    /// They are held for it from now on, also if its process is gone.
    fn secure(&self, attempt: &Attempt, keys: &[Key]) -> Result<Vec<Key>, PortError>;

    /// True if the attempt's agent had the whole checkout for itself at some time since its claim and since `since`.
    fn held_everything(&self, attempt: &Attempt, since: Timestamp) -> Result<bool, PortError>;

    /// How much of the time since `since` the agent has spent waiting for locks and for its turn to test.
    fn waited(&self, agent: &AgentId, since: Timestamp) -> Result<Duration, PortError>;

    /// What the attempt's agent has asked for and nobody has given up yet. An agent that ends its turn meanwhile waits for it.
    fn awaited(&self, attempt: &Attempt) -> Result<Vec<Held>, PortError>;

    /// Waits until the attempt's agent holds everything it has asked for, or until the other end of `hangup` is closed.
    fn wait_for_asked(&self, attempt: &Attempt, hangup: PipeReader) -> Result<Waited, PortError>;

    /// Everybody who waits, directly or behind others, for something that this agent holds.
    fn held_up_by(&self, agent: &AgentId) -> Result<Vec<AgentId>, PortError>;

    /// When since `since` the agent last had a turn to test: now, while it has one. Such a command may be silent for long.
    fn last_tested(&self, agent: &AgentId, since: Timestamp) -> Result<Option<Timestamp>, PortError>;

    /// The last attempt at the issue, if it was cut off.
    fn unfinished(&self, issue: &IssueId) -> Result<Option<Attempt>, PortError>;

    /// Who holds something that `files` would need.
    fn holders(&self, files: &[Want]) -> Result<Vec<Held>, PortError>;

    fn contention(&self, since: Timestamp) -> Result<Contention, PortError>;
}

/// The seam to what decides whether an attempt is done.
pub trait Validator: Send + Sync {
    /// Judges what an attempt has come to.
    fn judge(&self, attempt: &Attempt, last_message: Option<&str>) -> Result<Judgement, PortError>;
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judgement {
    pub accepted: bool,
    /// Commits of this attempt, oldest first.
    pub commits: Vec<String>,
    /// The outcome without a commit that was accepted, such as `no-change: reason`.
    pub outcome: Option<String>,
    /// Only what did not pass.
    pub failed: Vec<FailedCheck>,
}

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedCheck {
    pub name: String,
    /// What is wrong and what to do about it.
    pub detail: String,
    pub evidence: Vec<String>,
    /// The end of the output of the command that failed, if one did.
    pub output: Option<String>,
}
