//! One agent's attempt at one issue, and its life as a pure function.
//!
//! | from | what happens | to |
//! | --- | --- | --- |
//! | ready | [`Step::Claim`]: the issue is claimed | claimed |
//! | claimed | [`Step::Start`]: the agent's process runs | running |
//! | claimed | [`Step::PutBack`]: it cannot begin now, and no attempt is counted | ready |
//! | running | [`Step::Resume`]: the same session goes on, after a pause | running |
//! | running | [`Step::End`]: the agent has ended its turn | gating |
//! | gating | [`Step::Accept`]: the gate has passed | done |
//! | gating | [`Step::Reject`]: something is missing, and the session is told what | retrying |
//! | gating | [`Step::Offer`]: the fast checks have passed, and the work waits in the landing queue | offered |
//! | offered | [`Step::Accept`]: the branch has moved to it | done |
//! | offered | [`Step::Reject`]: its validation has failed, and the session is told why | retrying |
//! | retrying | [`Step::Start`]: the session goes on with the reasons | running |
//! | gating | [`Step::Ask`]: nothing is done yet, because the agent has asked something | needs input |
//! | needs input | [`Step::Start`]: the session goes on with the answer, or without one | running |
//! | claimed, running, gating, offered, retrying, needs input | [`Step::GiveUp`]: a note, saved work, free files | handed over |
//!
//! Every arrow is journaled as a compare-and-swap before anything acts on it, so whoever finds the journal of a killed run
//! knows what may have happened since: at most the work of the state it names.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::{AgentId, IssueId, Oid, Owner, RunId, Timestamp};

/// Number of an attempt, over all issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AttemptId(pub i64);

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One agent's go at one issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    pub run: RunId,
    pub issue: IssueId,
    pub agent: AgentId,
    /// How its agent is started; unknown of one that an older mala has begun.
    pub profile: Option<String>,
    /// Grows with every attempt at the issue, over all runs; the first is 1.
    pub number: u32,
    pub state: AttemptState,
    /// When it came into this state.
    pub since: Timestamp,
    /// When the issue was claimed for it.
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The process that runs the agent, or did: whether it still lives is for the reader to find out.
    pub supervisor: Option<Owner>,
    /// The client's own name for the session, to resume it by.
    pub session: Option<String>,
    /// The commit that was checked out when it began; nothing in a repository without one.
    pub head: Option<Oid>,
    /// What the agent wants to know, while it needs input.
    pub question: Option<String>,
    /// Set if the attempt did not fail but was cut off, or is about to be.
    pub interruption: Option<Interruption>,
    /// Where its unfinished work was saved.
    pub saved_ref: Option<String>,
    pub verdict: Option<Value>,
    pub spend: Spend,
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Not claimed yet, or given back untouched: the issue is as ready as before.
    Ready,
    Claimed,
    Running,
    /// The agent waits for an answer.
    NeedsInput,
    Gating,
    /// In the landing queue.
    Offered,
    Retrying,
    /// The issue is done.
    Done,
    /// Given up, with a note for the next attempt.
    HandedOver,
}

impl AttemptState {
    pub const ALL: [Self; 9] = [
        Self::Ready,
        Self::Claimed,
        Self::Running,
        Self::NeedsInput,
        Self::Gating,
        Self::Offered,
        Self::Retrying,
        Self::Done,
        Self::HandedOver,
    ];

    /// True if nothing more will happen to the attempt.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ready | Self::Done | Self::HandedOver)
    }

    /// The state after `step`.
    ///
    /// # Errors
    ///
    /// When the step is not possible from here: a mistake in the program, never a user's.
    pub fn after(self, step: Step) -> Result<Self, StepError> {
        use AttemptState::{
            Claimed, Done, Gating, HandedOver, NeedsInput, Offered, Ready, Retrying, Running,
        };
        match (self, step) {
            (Ready, Step::Claim) => Ok(Claimed),
            (Claimed | Retrying | NeedsInput, Step::Start) | (Running, Step::Resume) => Ok(Running),
            (Claimed, Step::PutBack) => Ok(Ready),
            (Running, Step::End) => Ok(Gating),
            (Gating, Step::Offer) => Ok(Offered),
            (Gating | Offered, Step::Accept) => Ok(Done),
            (Gating | Offered, Step::Reject) => Ok(Retrying),
            (Gating, Step::Ask) => Ok(NeedsInput),
            (Claimed | Running | NeedsInput | Gating | Offered | Retrying, Step::GiveUp) => Ok(HandedOver),
            _ => Err(StepError { from: self, step }),
        }
    }

    /// True if some step leads there.
    pub fn may_become(self, next: Self) -> bool {
        Step::ALL.into_iter().any(|step| self.after(step) == Ok(next))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::NeedsInput => "needs_input",
            Self::Gating => "gating",
            Self::Offered => "offered",
            Self::Retrying => "retrying",
            Self::Done => "done",
            Self::HandedOver => "handed_over",
        }
    }

    /// The state that [`AttemptState::as_str`] calls so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for AttemptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What can happen to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    Claim,
    Start,
    PutBack,
    Resume,
    End,
    Offer,
    Accept,
    Reject,
    Ask,
    GiveUp,
}

impl Step {
    pub const ALL: [Self; 10] = [
        Self::Claim,
        Self::Start,
        Self::PutBack,
        Self::Resume,
        Self::End,
        Self::Offer,
        Self::Accept,
        Self::Reject,
        Self::Ask,
        Self::GiveUp,
    ];
}

/// A step that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an attempt that is {from} cannot take the step {step:?}")]
pub struct StepError {
    pub from: AttemptState,
    pub step: Step,
}

/// What cut an attempt off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    /// A person stopped the run. The attempt does not count.
    Stopped,
    /// The run was killed. It counts, or an issue that kills its run would be tried for ever.
    Killed,
}

impl Interruption {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }

    /// The interruption that [`Interruption::as_str`] calls so.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Stopped, Self::Killed].into_iter().find(|known| known.as_str() == text)
    }
}

/// What an attempt has cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Spend {
    /// In millionths of a dollar, as far as it is known.
    pub cost_micros: u64,
    pub tokens: u64,
    /// Models whose part of the cost is not known.
    pub unpriced: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    fn arrows() -> Vec<(AttemptState, Step, AttemptState)> {
        let mut arrows = Vec::new();
        for from in AttemptState::ALL {
            for step in Step::ALL {
                arrows.extend(from.after(step).ok().map(|to| (from, step, to)));
            }
        }
        arrows
    }

    #[test]
    fn the_table_in_the_documentation_is_the_table() {
        let text = include_str!("attempt.rs");
        let mut documented = BTreeSet::new();
        for line in text.lines().filter(|line| line.contains("[`Step::")) {
            let cells: Vec<&str> = line.trim_start_matches("//! |").split('|').map(str::trim).collect();
            let Some(step) = cells.get(1).and_then(|cell| cell.strip_prefix("[`Step::")) else { continue };
            let step = step.split('`').next().unwrap();
            for from in cells[0].split(", ") {
                documented.insert((from.replace(' ', "_"), step.to_owned(), cells[2].replace(' ', "_")));
            }
        }
        let real: BTreeSet<_> = arrows()
            .into_iter()
            .map(|(from, step, to)| (from.to_string(), format!("{step:?}"), to.to_string()))
            .collect();
        assert_eq!(documented, real);
    }

    #[test]
    fn every_state_is_reached_has_a_name_and_can_end() {
        let arrows = arrows();
        let mut reached = HashSet::from([AttemptState::Ready]);
        while let Some((_, _, to)) =
            arrows.iter().find(|(from, _, to)| reached.contains(from) && !reached.contains(to))
        {
            reached.insert(*to);
        }
        assert_eq!(reached.len(), AttemptState::ALL.len());
        for state in AttemptState::ALL {
            assert_eq!(AttemptState::parse(state.as_str()), Some(state));
            assert_eq!(state.may_become(AttemptState::HandedOver), !state.is_over(), "{state}");
        }
    }

    #[test]
    fn what_has_ended_stays_ended() {
        for step in Step::ALL {
            for state in [AttemptState::Done, AttemptState::HandedOver] {
                assert!(state.after(step).is_err(), "{state} {step:?}");
            }
        }
    }

    #[test]
    fn nothing_is_done_without_the_gate() {
        let into_done: Vec<_> = arrows()
            .into_iter()
            .filter(|(_, _, to)| *to == AttemptState::Done)
            .map(|(from, ..)| from)
            .collect();
        assert_eq!(into_done, [AttemptState::Gating, AttemptState::Offered]);
        let into_offered: Vec<_> =
            AttemptState::ALL.into_iter().filter(|from| from.may_become(AttemptState::Offered)).collect();
        assert_eq!(into_offered, [AttemptState::Gating]);
    }
}
