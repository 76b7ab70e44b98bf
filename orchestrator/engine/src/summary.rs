//! What a run has come to.

use std::time::Duration;

use mala_core::{AgentId, IssueId, RunId, Timestamp};
use serde::{Serialize, Serializer};

use crate::ports::Contention;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub run: RunId,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// Why it ended before its work was done, if it did.
    pub stopped: Option<String>,
    /// Every attempt that ended, in that order.
    pub attempts: Vec<AttemptSummary>,
    /// Issues that were not begun, and why.
    pub left: Vec<Left>,
    /// In dollars; nothing if no client said.
    pub cost: Option<f64>,
    pub tokens: u64,
    pub contention: Contention,
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
    /// Times the gate was asked.
    pub gates: u32,
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
    pub cost: Option<f64>,
    pub tokens: u64,
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

impl Summary {
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
