//! What happens in a run, for people, programs and the log.

use mala_core::{AgentId, EntryId, IssueId, Oid, RunId, Timestamp};
use serde::Serialize;

use crate::summary::{Recovered, Summary};
use crate::validator::FailedCheck;

/// One thing that happened. Field names are a contract: they are what `mala run --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A required command runs on the branch as it is, before the run begins.
    Validating {
        commit: Oid,
        command: String,
    },
    /// A client does what it does at its first start, before there are agents.
    Preparing {
        profile: String,
    },
    RunStarted {
        run: RunId,
        max_agents: usize,
    },
    /// What a run that was killed had left behind.
    Recovered(Recovered),
    Claimed {
        issue: IssueId,
        title: String,
        agent: AgentId,
        profile: String,
        attempt: u32,
    },
    /// It could not begin; no attempt was counted.
    PutBack {
        issue: IssueId,
        why: String,
    },
    Started {
        issue: IssueId,
        agent: AgentId,
        pid: u32,
        session: Option<String>,
    },
    Doing {
        issue: IssueId,
        agent: AgentId,
        what: String,
    },
    Used {
        issue: IssueId,
        agent: AgentId,
        tokens: u64,
        cost: Option<f64>,
        turns: u64,
    },
    /// The agent has ended its turn and waits for files that others hold, or for issues to land.
    Parked {
        issue: IssueId,
        agent: AgentId,
        awaits: Vec<Held>,
        issues: Vec<IssueId>,
    },
    /// Agents waited for each other in a circle: this one's work is out of the checkout and its files are free until these issues
    /// are over.
    Yielded {
        issue: IssueId,
        agent: AgentId,
        to: Vec<IssueId>,
        /// Where its work is meanwhile.
        saved_ref: Option<String>,
    },
    /// The client was told to slow down.
    Paused {
        issue: IssueId,
        agent: AgentId,
        why: String,
        until: Timestamp,
    },
    Resumed {
        issue: IssueId,
        agent: AgentId,
    },
    Gating {
        issue: IssueId,
        agent: AgentId,
    },
    /// The work waits in the landing queue; it is out of the checkout meanwhile.
    Queued {
        issue: IssueId,
        agent: AgentId,
        entry: EntryId,
        commit: String,
        /// Others may take its files while it waits.
        frees_files: bool,
    },
    /// An entry of the landing queue cannot go on.
    Held {
        issue: Option<IssueId>,
        entry: EntryId,
        why: String,
    },
    /// Work of an earlier run, or of a person, is on the branch.
    Landed {
        issue: Option<IssueId>,
        entry: EntryId,
        commit: String,
    },
    /// Work of an earlier run, or of a person, is not going to land as it is.
    EntryRejected {
        issue: Option<IssueId>,
        entry: EntryId,
        why: String,
    },
    /// The required commands run once more in an emptied slot, on what has landed.
    AuditBegun {
        commit: String,
        landings: u32,
    },
    /// `why`: they have failed, and the queue is paused.
    AuditEnded {
        commit: String,
        passed: bool,
        why: Option<String>,
    },
    /// The agent has ended its turn with a question. A note on the issue is the answer; without one the agent has to
    /// decide itself.
    NeedsInput {
        issue: IssueId,
        agent: AgentId,
        question: String,
        until: Timestamp,
    },
    /// The session goes on after its question; without an answer if nobody gave one.
    Answered {
        issue: IssueId,
        agent: AgentId,
        answer: Option<String>,
        /// Who has answered.
        by: Option<String>,
    },
    /// A tool has run and none of mala's hooks was called before: agents of this profile are told nothing in advance, and only
    /// the kernel keeps them from others' files. Told once for each profile.
    Unhooked {
        issue: IssueId,
        agent: AgentId,
        profile: String,
    },
    /// The agent was silent for too long: it is told so, once.
    Nudged {
        issue: IssueId,
        agent: AgentId,
        why: String,
    },
    /// It is not begun before this moment.
    Resting {
        issue: IssueId,
        why: String,
        until: Timestamp,
    },
    /// The gate did not pass. `is_sent_back`: the agent is told and goes on; otherwise the attempt ends.
    Rejected {
        issue: IssueId,
        agent: AgentId,
        round: u32,
        rounds: u32,
        is_sent_back: bool,
        failed: Vec<FailedCheck>,
    },
    Done {
        issue: IssueId,
        agent: AgentId,
        commits: Vec<String>,
        outcome: Option<String>,
    },
    HandedOver {
        issue: IssueId,
        agent: AgentId,
        attempt: u32,
        reason: String,
        saved_ref: Option<String>,
        /// What was saved there and taken out of the checkout.
        files: Vec<String>,
        is_blocked: bool,
    },
    /// Nothing is ready; the tracker is asked again from time to time.
    Waiting {
        for_what: String,
    },
    Warning {
        text: String,
    },
    /// The required commands fail on the branch itself. Told once for each reason.
    BranchRed {
        why: String,
    },
    Stopping {
        how: String,
        cause: StopCause,
    },
    RunEnded {
        summary: Box<Summary>,
    },
}

/// Why a run ends before its work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// Somebody wants it to.
    Person,
    /// Its time is over.
    Time,
    /// Its budget is spent.
    Budget,
    /// No agent can be started.
    Agents,
}

/// A file that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub file: String,
    pub by: AgentId,
    pub issue: Option<IssueId>,
}

/// Where events go. Called in their order, from one thread; must not block for long.
pub trait Reporter: Send {
    fn report(&mut self, at: Timestamp, event: &Event);

    /// Time has passed: a live view may redraw.
    fn tick(&mut self) {}
}
