//! An entry of the landing queue: a candidate on its way to the target branch, and its life as a pure function.
//!
//! | from | what happens | to |
//! | --- | --- | --- |
//! | waiting | [`EntryStep::Validate`]: the required commands run on a tree with it | validating |
//! | waiting, validating | [`EntryStep::Pass`]: its tree has passed, now or before | green |
//! | green | [`EntryStep::Land`]: the branch is about to move to it | landing |
//! | landing | [`EntryStep::Finish`]: the branch has moved | landed |
//! | waiting, validating, green | [`EntryStep::Collide`]: it does not merge with what is on the branch | conflict |
//! | validating | [`EntryStep::Reject`]: its tree has failed, and the tree before it has not | red |
//! | waiting, validating, green, held | [`EntryStep::Hold`]: something in the checkout is in its way | held |
//! | waiting, validating | [`EntryStep::Fail`]: no verdict can be reached | failed |
//! | waiting, validating, green, held | [`EntryStep::Drop`]: nobody wants it any more | dropped |
//! | waiting, validating, green, held, landing | [`EntryStep::PutBack`]: it takes part in the next round | waiting |
//! | conflict, red, failed, dropped | [`EntryStep::Retry`]: it is tried once more, as it is | waiting |
//!
//! Nothing lands that is not green, and what is landing is left only by the end or the undoing of that landing.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use crate::{AgentId, AttemptId, IssueId, Oid, RunId, Timestamp};

/// Number of an entry, over all branches, in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct EntryId(pub i64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EntryId {
    type Err = EntryIdError;

    fn from_str(text: &str) -> Result<Self, EntryIdError> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| EntryIdError { text: text.to_owned() })
    }
}

/// A text that is not the number of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not the number of an entry in the landing queue")]
pub struct EntryIdError {
    pub text: String,
}

/// The place of a candidate in the landing queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub id: EntryId,
    /// Where it lands, as the full name of a ref.
    pub branch: String,
    /// The commit that the candidate was made on.
    pub base: Oid,
    /// The candidate.
    pub head: Oid,
    /// The ref that keeps the candidate.
    pub pin: String,
    pub issue: Option<IssueId>,
    pub agent: Option<AgentId>,
    pub run: Option<RunId>,
    pub attempt: Option<AttemptId>,
    /// The lowest is served first. That of the issue, from 0 to 4, where there is one.
    pub priority: i64,
    pub state: EntryState,
    /// Why it is where it is.
    pub reason: Option<String>,
    pub arrived_at: Timestamp,
    /// When it came into this state.
    pub since: Timestamp,
    /// How often this work was rejected: by conflict or by a failed validation, in earlier entries of its attempt as well.
    pub rejections: u32,
    /// How many validations of it were killed together with the process that ran them.
    pub kills: u32,
    /// How often the branch was moved by other hands while it was validated.
    pub overtaken: u32,
    /// The commit on the branch that it has become.
    pub landed: Option<Oid>,
    /// Its work is out of the checkout, so that it can take part in a round.
    pub is_ready: bool,
    /// Its files have been free since then: others may hold them while it waits, and have started from the branch without it.
    pub frees_files: bool,
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    Waiting,
    Validating,
    /// Proven on the commits below it, and not on the branch yet.
    Green,
    /// The branch is being moved to it.
    Landing,
    Landed,
    /// It does not merge.
    Conflict,
    /// Its tree fails.
    Red,
    /// A person has to make room for it first.
    Held,
    /// mala could not judge it.
    Failed,
    Dropped,
}

impl EntryState {
    pub const ALL: [Self; 10] = [
        Self::Waiting,
        Self::Validating,
        Self::Green,
        Self::Landing,
        Self::Landed,
        Self::Conflict,
        Self::Red,
        Self::Held,
        Self::Failed,
        Self::Dropped,
    ];

    /// True if nothing more happens to the entry, unless it is retried.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Landed | Self::Conflict | Self::Red | Self::Failed | Self::Dropped)
    }

    /// True for a verdict that the work itself is to blame for.
    pub fn is_rejection(self) -> bool {
        matches!(self, Self::Conflict | Self::Red)
    }

    /// The state after `step`.
    ///
    /// # Errors
    ///
    /// When the step is not possible from here.
    pub fn after(self, step: EntryStep) -> Result<Self, EntryStepError> {
        use EntryState::{Conflict, Dropped, Failed, Green, Held, Landed, Landing, Red, Validating, Waiting};
        match (self, step) {
            (Waiting, EntryStep::Validate) => Ok(Validating),
            (Waiting | Validating, EntryStep::Pass) => Ok(Green),
            (Green, EntryStep::Land) => Ok(Landing),
            (Landing, EntryStep::Finish) => Ok(Landed),
            (Waiting | Validating | Green, EntryStep::Collide) => Ok(Conflict),
            (Validating, EntryStep::Reject) => Ok(Red),
            (Waiting | Validating | Green | Held, EntryStep::Hold) => Ok(Held),
            (Waiting | Validating, EntryStep::Fail) => Ok(Failed),
            (Waiting | Validating | Green | Held, EntryStep::Drop) => Ok(Dropped),
            (Waiting | Validating | Green | Held | Landing, EntryStep::PutBack)
            | (Conflict | Red | Failed | Dropped, EntryStep::Retry) => Ok(Waiting),
            _ => Err(EntryStepError { from: self, step }),
        }
    }

    /// True if some step leads there.
    pub fn may_become(self, next: Self) -> bool {
        EntryStep::ALL.into_iter().any(|step| self.after(step) == Ok(next))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Validating => "validating",
            Self::Green => "green",
            Self::Landing => "landing",
            Self::Landed => "landed",
            Self::Conflict => "conflict",
            Self::Red => "red",
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }

    /// The state that [`EntryState::as_str`] calls so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What can happen to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryStep {
    Validate,
    Pass,
    Land,
    Finish,
    Collide,
    Reject,
    Hold,
    Fail,
    Drop,
    PutBack,
    Retry,
}

impl EntryStep {
    pub const ALL: [Self; 11] = [
        Self::Validate,
        Self::Pass,
        Self::Land,
        Self::Finish,
        Self::Collide,
        Self::Reject,
        Self::Hold,
        Self::Fail,
        Self::Drop,
        Self::PutBack,
        Self::Retry,
    ];
}

/// A step that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an entry that is {from} cannot take the step {step:?}")]
pub struct EntryStepError {
    pub from: EntryState,
    pub step: EntryStep,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    fn arrows() -> Vec<(EntryState, EntryStep, EntryState)> {
        let mut arrows = Vec::new();
        for from in EntryState::ALL {
            for step in EntryStep::ALL {
                arrows.extend(from.after(step).ok().map(|to| (from, step, to)));
            }
        }
        arrows
    }

    #[test]
    fn the_table_in_the_documentation_is_the_table() {
        let text = include_str!("entry.rs");
        let mut documented = BTreeSet::new();
        for line in text.lines().filter(|line| line.starts_with("//! |")) {
            let cells: Vec<&str> = line.trim_start_matches("//! |").split('|').map(str::trim).collect();
            let Some(step) = cells.get(1).and_then(|cell| cell.strip_prefix("[`EntryStep::")) else {
                continue;
            };
            let step = step.split('`').next().unwrap();
            for from in cells[0].split(", ") {
                documented.insert((from.to_owned(), step.to_owned(), cells[2].to_owned()));
            }
        }
        let real: BTreeSet<_> = arrows()
            .into_iter()
            .map(|(from, step, to)| (from.to_string(), format!("{step:?}"), to.to_string()))
            .collect();
        assert_eq!(documented, real);
    }

    #[test]
    fn every_state_is_reached_and_has_a_name() {
        let arrows = arrows();
        let mut reached = HashSet::from([EntryState::Waiting]);
        while let Some((_, _, to)) =
            arrows.iter().find(|(from, _, to)| reached.contains(from) && !reached.contains(to))
        {
            reached.insert(*to);
        }
        assert_eq!(reached.len(), EntryState::ALL.len());
        for state in EntryState::ALL {
            assert_eq!(EntryState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn what_is_over_is_only_retried_and_what_has_landed_stays() {
        for (from, step, _) in arrows() {
            assert_eq!(from.is_over(), step == EntryStep::Retry, "{from} {step:?}");
            assert_ne!(from, EntryState::Landed);
        }
    }

    #[test]
    fn everything_open_can_wait_again() {
        for state in EntryState::ALL {
            let can_wait = state.after(EntryStep::PutBack) == Ok(EntryState::Waiting);
            assert_eq!(can_wait, !state.is_over(), "{state}");
        }
    }

    #[test]
    fn nothing_lands_that_is_not_green() {
        let before = |state: EntryState| -> Vec<EntryState> {
            EntryState::ALL.into_iter().filter(|from| from.may_become(state)).collect()
        };
        assert_eq!(before(EntryState::Landing), [EntryState::Green]);
        assert_eq!(before(EntryState::Landed), [EntryState::Landing]);
        let after_landing: HashSet<_> =
            EntryState::ALL.into_iter().filter(|to| EntryState::Landing.may_become(*to)).collect();
        assert_eq!(after_landing, HashSet::from([EntryState::Waiting, EntryState::Landed]));
    }

    #[test]
    fn ids_are_positive_numbers() {
        assert_eq!("17".parse(), Ok(EntryId(17)));
        assert_eq!(EntryId(17).to_string(), "17");
        assert_eq!(serde_json::to_value(EntryId(17)).unwrap(), 17);
        for text in ["", "0", "-1", "x", "1.5", "99999999999999999999"] {
            let error = text.parse::<EntryId>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{text}` is not the number of an entry in the landing queue")
            );
        }
    }
}
