//! What a run has come to.

use std::time::Duration;

use mala_core::{AgentId, Attempt, IssueId, RunId, Timestamp};
use serde::{Serialize, Serializer};

use crate::cost::Cost;
use crate::health::Contention;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub run: RunId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// By no clock that can be set.
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
    /// Why it ended before its work was done, if it did.
    pub stopped: Option<String>,
    /// What an earlier run that was killed had left, made good at the start.
    pub recovered: Vec<Recovered>,
    /// Every attempt that ended, in that order.
    pub attempts: Vec<AttemptSummary>,
    /// Issues that were not begun, and why.
    pub left: Vec<Left>,
    /// Commits of attempts that the gate did not accept. They are still on the branch: only where no kernel keeps
    /// agents from committing by themselves.
    pub not_accepted: Vec<NotAccepted>,
    /// Issues that wait for a person, of this run and of others; empty if the run was for other issues only.
    pub blocked: Vec<IssueId>,
    #[serde(flatten)]
    pub cost: Cost,
    pub tokens: u64,
    pub contention: Contention,
    /// Who could not be told what a person should know, and why.
    pub unnotified: Vec<String>,
}

/// What became of an attempt whose run was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovered {
    pub issue: IssueId,
    pub agent: AgentId,
    pub attempt: u32,
    pub outcome: String,
    pub saved_ref: Option<String>,
    /// What was saved there and taken out of the checkout.
    pub files: Vec<String>,
    /// Its commits, if the gate did not accept them.
    pub not_accepted: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotAccepted {
    pub issue: IssueId,
    pub attempt: u32,
    pub commit: String,
    /// What to type to take it back.
    pub undo: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptSummary {
    pub issue: IssueId,
    pub title: String,
    pub agent: AgentId,
    pub attempt: u32,
    pub result: AttemptResult,
    pub commits: Vec<String>,
    pub outcome: Option<String>,
    pub reason: Option<String>,
    pub saved_ref: Option<String>,
    /// What was saved there and taken out of the checkout.
    pub files: Vec<String>,
    /// Times the gate was asked.
    pub gates: u32,
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
    #[serde(flatten)]
    pub cost: Cost,
    pub tokens: u64,
    /// Its client was seen to use a tool without calling a hook of mala's.
    pub is_unhooked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    Done,
    HandedOver,
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub issue: IssueId,
    pub why: String,
}

impl Recovered {
    /// With nothing saved and nothing committed.
    pub(crate) fn new(attempt: &Attempt, outcome: String) -> Self {
        Self {
            issue: attempt.issue.clone(),
            agent: attempt.agent.clone(),
            attempt: attempt.number,
            outcome,
            saved_ref: None,
            files: Vec::new(),
            not_accepted: Vec::new(),
        }
    }
}

impl Summary {
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self {
            run: RunId::new("r").expect("a name"),
            started_at: Timestamp::from_millis(0),
            ended_at: Timestamp::from_millis(1),
            took: Duration::ZERO,
            stopped: None,
            recovered: Vec::new(),
            attempts: Vec::new(),
            left: Vec::new(),
            not_accepted: Vec::new(),
            blocked: Vec::new(),
            cost: Cost::default(),
            tokens: 0,
            contention: Contention::default(),
            unnotified: Vec::new(),
        }
    }

    /// Adds what was made good at the start, and what of all that stays on the branch without having been accepted.
    pub(crate) fn add_recovered(&mut self, recovered: Vec<Recovered>) {
        self.recovered = recovered;
        let earlier = self.recovered.iter().map(|it| (&it.issue, it.attempt, &it.not_accepted));
        let failed = self.attempts.iter().filter(|it| it.result != AttemptResult::Done);
        let failed = failed.map(|it| (&it.issue, it.attempt, &it.commits));
        let all = earlier.chain(failed).flat_map(|(issue, attempt, commits)| {
            commits.iter().map(move |commit| NotAccepted {
                issue: issue.clone(),
                attempt,
                commit: commit.clone(),
                undo: format!("git revert {commit}"),
            })
        });
        self.not_accepted = all.collect();
    }

    /// True if every issue that was touched is done and nothing was left.
    pub fn is_all_done(&self) -> bool {
        let is_done = |issue: &IssueId| {
            self.attempts.iter().any(|it| it.issue == *issue && it.result == AttemptResult::Done)
        };
        self.left.is_empty() && self.attempts.iter().all(|attempt| is_done(&attempt.issue))
    }
}

fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((span.as_secs_f64() * 1000.0).round() / 1000.0)
}
