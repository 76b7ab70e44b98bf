//! Issues: what agents are given to do, whichever tracker keeps them.
//!
//! Statuses and kinds are open sets, because trackers have their own words; mala itself gives a meaning to the ones named
//! here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{IssueId, Owner, RunId, Timestamp};

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

/// An issue that another tracker keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignIssue {
    pub issue: Issue,
    /// As it is written there: whether it has changed is told by this.
    pub source: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_trackers_are_understood_with_any_offset() {
        let expected = Some(Timestamp::from_millis(1_000));
        assert_eq!(parse_moment("1970-01-01T00:00:01Z"), expected);
        assert_eq!(parse_moment("1970-01-01T02:00:01.000000123+02:00"), expected);
        assert_eq!(parse_moment("yesterday"), None);
    }
}
