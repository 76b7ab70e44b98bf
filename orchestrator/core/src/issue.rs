//! Issues: what agents are given to do, whichever tracker keeps them; and each attempt at one.
//!
//! Statuses and kinds are open sets, because trackers have their own words; mala itself gives a meaning to the ones named
//! here. An attempt is one agent's go at one issue; its states are a closed set with known steps between them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AgentId, IssueId, Owner, RunId, Timestamp};

/// Nobody works on it.
pub const OPEN: &str = "open";
/// Somebody has claimed it.
pub const IN_PROGRESS: &str = "in_progress";
/// It needs a person before anybody can go on.
pub const BLOCKED: &str = "blocked";
pub const CLOSED: &str = "closed";
/// The label of an issue that an earlier attempt did not finish.
pub const NEEDS_FOLLOWUP: &str = "needs-followup";

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Issue {
    pub id: IssueId,
    pub title: String,
    pub description: String,
    pub design: String,
    pub acceptance: String,
    /// Trackers have words of their own; what matters here is [`Issue::is_closed`].
    pub status: String,
    pub priority: Priority,
    /// `task`, `bug`, `epic` or a tracker's own word.
    pub kind: String,
    pub labels: Vec<String>,
    /// Issues that must be closed before this one.
    pub dependencies: Vec<IssueId>,
    pub parent: Option<IssueId>,
    /// Files it will touch, as far as known: paths and patterns, as they are typed.
    pub files: Vec<String>,
    pub assignee: Option<String>,
    pub created_at: Option<Timestamp>,
    pub notes: Vec<Note>,
}

impl Issue {
    /// Epics hold other issues together and are never given to an agent.
    pub fn is_epic(&self) -> bool {
        self.kind == "epic"
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.status.as_str(), "closed" | "done" | "resolved" | "tombstone")
    }
}

/// Something that was found out about an issue. Notes are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Unknown where a tracker keeps all notes as one text.
    pub at: Option<Timestamp>,
    pub author: Option<String>,
    pub text: String,
}

/// How urgent, from 0, the most, to 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8")]
pub struct Priority(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("priority {0} is not from 0, the most urgent, to 4")]
pub struct PriorityError(pub u8);

impl Priority {
    pub const NORMAL: Self = Self(2);

    pub fn number(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl TryFrom<u8> for Priority {
    type Error = PriorityError;

    fn try_from(number: u8) -> Result<Self, PriorityError> {
        if number <= 4 { Ok(Self(number)) } else { Err(PriorityError(number)) }
    }
}

/// A moment as trackers write it.
pub fn parse_moment(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp::from_millis(at.as_millisecond()))
}

/// One `mala run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    /// The process that runs it.
    pub owner: Owner,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub options: Value,
}

/// Number of an attempt, over all issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AttemptId(pub i64);

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Given back untouched: the issue is as ready as before.
    Ready,
    Claimed,
    Running,
    Gating,
    Retrying,
    /// The issue is done.
    Done,
    /// Given up, with a note for whoever comes next.
    HandedOver,
}

impl AttemptState {
    pub const ALL: &[Self] = &[
        Self::Ready,
        Self::Claimed,
        Self::Running,
        Self::Gating,
        Self::Retrying,
        Self::Done,
        Self::HandedOver,
    ];

    pub fn is_over(self) -> bool {
        matches!(self, Self::Ready | Self::Done | Self::HandedOver)
    }

    /// The steps of an attempt. An end is reached from every state that is none.
    pub fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (from, to) if to.is_over() => !from.is_over(),
            (Self::Claimed | Self::Retrying, Self::Running)
            | (Self::Running, Self::Gating)
            | (Self::Gating, Self::Retrying) => true,
            _ => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Gating => "gating",
            Self::Retrying => "retrying",
            Self::Done => "done",
            Self::HandedOver => "handed_over",
        }
    }
}

impl fmt::Display for AttemptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an attempt has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spend {
    /// In millionths of a dollar.
    pub cost_micros: u64,
    pub tokens: u64,
}

/// One agent's go at one issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    pub run: RunId,
    pub issue: IssueId,
    pub agent: AgentId,
    /// Of this issue; 1 is the first.
    pub number: u32,
    pub state: AttemptState,
    /// When it came into this state.
    pub since: Timestamp,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The client's own name for the session, to resume it by.
    pub session: Option<String>,
    /// The commit that was checked out when it began.
    pub head: Option<String>,
    /// Where its unfinished work was saved.
    pub saved_ref: Option<String>,
    pub verdict: Option<Value>,
    pub spend: Spend,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_ends_once_and_takes_no_other_step_then() {
        for from in AttemptState::ALL {
            for to in AttemptState::ALL.iter().filter(|to| to.is_over()) {
                assert_eq!(from.may_become(*to), !from.is_over(), "{from} -> {to}");
            }
            assert!(!from.may_become(AttemptState::Claimed), "{from}");
        }
        let steps = ["claimed", "running", "gating", "retrying", "running"];
        let state = |text: &str| *AttemptState::ALL.iter().find(|state| state.as_str() == text).unwrap();
        for pair in steps.windows(2) {
            assert!(state(pair[0]).may_become(state(pair[1])), "{pair:?}");
        }
        assert!(!state("claimed").may_become(state("gating")));
        assert!(!state("running").may_become(state("retrying")));
    }

    #[test]
    fn moments_of_trackers_are_understood_with_any_offset() {
        let expected = Some(Timestamp::from_millis(1_000));
        assert_eq!(parse_moment("1970-01-01T00:00:01Z"), expected);
        assert_eq!(parse_moment("1970-01-01T02:00:01.000000123+02:00"), expected);
        assert_eq!(parse_moment("yesterday"), None);
    }
}
