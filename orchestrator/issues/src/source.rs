//! The port to a tracker.

use std::fmt;

use mala_core::{AgentId, Issue, IssueId};
use thiserror::Error;

use crate::error::Result;

/// The longest note or reason, in bytes. Trackers take them as one argument of a program, and systems bound those.
pub const MAX_TEXT: usize = 64 * 1024;

/// What a run needs of a tracker.
///
/// # Contract
///
/// - **No work is an answer, not an accident.** Whatever keeps a source from looking is an error.
/// - **Ids are exact.** A tracker may accept abbreviations; a source does not. An id that is not an issue's whole id is
///   [`NotFound`](crate::IssueError::NotFound), and nothing was changed.
/// - **Every change can be repeated.** Done twice, it has been done once. A caller that was killed in between starts
///   again and does no harm.
/// - **Text is data.** Ids, titles, notes and reasons may contain anything a text can; nothing of it is interpreted.
///   What no tracker can keep, NUL, becomes U+FFFD, and blanks around a text are dropped.
/// - **Threads may share a source.** Its calls may wait for each other, each for a bounded time.
///
/// `tests/issues/contract` holds a source to it.
pub trait IssueSource: Send + Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// The issues an agent may start on now, the most urgent first and at most `limit`: open, nobody's, not deferred, no
    /// epic, everything they depend on closed. They are as complete as [`IssueSource::show`] gives them.
    fn ready(&self, limit: usize) -> Result<Vec<Issue>>;

    /// The whole issue, whatever its status.
    fn show(&self, id: &IssueId) -> Result<Issue>;

    /// Takes the issue for `actor` in one step: of any number of claims by different actors at the same time, from
    /// any number of processes, one is answered [`Claimed`](ClaimAnswer::Claimed). Whoever has it claims it again.
    /// A closed issue is [`Closed`](crate::IssueError::Closed).
    fn claim(&self, id: &IssueId, actor: &AgentId) -> Result<ClaimAnswer>;

    /// Gives the issue back: open and nobody's. If `actor` does not have it, because it was given back, closed or handed
    /// to somebody else, nothing happens.
    fn release(&self, id: &IssueId, actor: &AgentId) -> Result<()>;

    /// Adds a note behind the others, which stay as they are. A note with this very text that is already there is
    /// not added again. Notes of several processes at the same time are all kept.
    fn append_note(&self, id: &IssueId, text: &str) -> Result<()>;

    fn add_label(&self, id: &IssueId, label: &Label) -> Result<()>;

    fn remove_label(&self, id: &IssueId, label: &Label) -> Result<()>;

    /// Closes the issue, whoever has it. One that is closed stays as it is, with its first reason.
    fn close(&self, id: &IssueId, reason: &str) -> Result<()>;
}

/// What a claim came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAnswer {
    Claimed,
    AlreadyTaken { by: String },
}

/// A word attached to an issue. Trackers agree on few characters: letters, digits, `-`, `_` and `:`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` is not a label: use 1 to 50 of the characters a-z, A-Z, 0-9, `-`, `_` and `:`", .0.escape_debug())]
pub struct LabelError(String);

impl Label {
    pub fn new(text: impl Into<String>) -> Result<Self, LabelError> {
        let text = text.into();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
        if (1..=50).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text))
        } else {
            Err(LabelError(text))
        }
    }

    /// An attempt failed and left notes for the next one.
    pub fn needs_followup() -> Self {
        Self("needs-followup".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_short_word_that_every_tracker_takes() {
        for text in ["needs-followup", "a", "area:parser", "P_1", &"x".repeat(50)] {
            assert_eq!(Label::new(text).unwrap().as_str(), text);
        }
        for text in ["", "a,b", "two words", "ümlaut", "a\n", &"x".repeat(51)] {
            assert!(Label::new(text).is_err(), "{text:?}");
        }
        assert_eq!(Label::new(Label::needs_followup().as_str()), Ok(Label::needs_followup()));
    }
}
