//! The life of one attempt at an issue, as a pure function.
//!
//! | from | what happens | to |
//! | --- | --- | --- |
//! | ready | [`Step::Claim`]: the issue, its files and an agent's name are reserved together | claimed |
//! | claimed | [`Step::Start`]: the agent's process runs | running |
//! | claimed | [`Step::PutBack`]: it cannot begin now, and no attempt is counted | ready |
//! | running | [`Step::Resume`]: the same session goes on, after a pause | running |
//! | running | [`Step::End`]: the agent has ended its turn | gating |
//! | gating | [`Step::Accept`]: the gate has passed | done |
//! | gating | [`Step::Reject`]: something is missing, and the session is told what | retrying |
//! | retrying | [`Step::Start`]: the session goes on with the reasons | running |
//! | gating | [`Step::Ask`]: nothing is done yet, because the agent has asked something | needs input |
//! | needs input | [`Step::Start`]: the session goes on with the answer, or without one | running |
//! | claimed, running, gating, retrying, needs input | [`Step::GiveUp`]: a note, saved work, free files | handed over |
//!
//! Every arrow is written to the ledger as a compare-and-swap before anything acts on it, so whoever finds the journal
//! of a killed run knows what may have happened since: at most the work of the state it names.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ready,
    Claimed,
    Running,
    Gating,
    Retrying,
    NeedsInput,
    Done,
    HandedOver,
}

impl State {
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Claimed,
        Self::Running,
        Self::Gating,
        Self::Retrying,
        Self::NeedsInput,
        Self::Done,
        Self::HandedOver,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Gating => "gating",
            Self::Retrying => "retrying",
            Self::NeedsInput => "needs_input",
            Self::Done => "done",
            Self::HandedOver => "handed_over",
        }
    }

    /// True if nothing more will happen to the attempt.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::HandedOver)
    }

    /// The state after `step`.
    ///
    /// # Errors
    ///
    /// When the step is not possible from here: a mistake in the program, never a user's.
    pub fn after(self, step: Step) -> Result<Self, Impossible> {
        use State::{Claimed, Done, Gating, HandedOver, NeedsInput, Ready, Retrying, Running};
        match (self, step) {
            (Ready, Step::Claim) => Ok(Claimed),
            (Claimed | Retrying | NeedsInput, Step::Start) | (Running, Step::Resume) => Ok(Running),
            (Claimed, Step::PutBack) => Ok(Ready),
            (Running, Step::End) => Ok(Gating),
            (Gating, Step::Accept) => Ok(Done),
            (Gating, Step::Reject) => Ok(Retrying),
            (Gating, Step::Ask) => Ok(NeedsInput),
            (Claimed | Running | Gating | Retrying | NeedsInput, Step::GiveUp) => Ok(HandedOver),
            _ => Err(Impossible { from: self, step }),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    Accept,
    Reject,
    Ask,
    GiveUp,
}

impl Step {
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Start,
        Self::PutBack,
        Self::Resume,
        Self::End,
        Self::Accept,
        Self::Reject,
        Self::Ask,
        Self::GiveUp,
    ];
}

/// A step that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an attempt that is {from} cannot take the step {step:?}")]
pub struct Impossible {
    pub from: State,
    pub step: Step,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    fn arrows() -> Vec<(State, Step, State)> {
        let mut arrows = Vec::new();
        for from in State::ALL {
            for step in Step::ALL {
                arrows.extend(from.after(step).ok().map(|to| (from, step, to)));
            }
        }
        arrows
    }

    #[test]
    fn the_table_in_the_documentation_is_the_table() {
        let text = include_str!("state.rs");
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
    fn every_state_is_reached_and_every_attempt_can_end() {
        let arrows = arrows();
        let mut reached = HashSet::from([State::Ready]);
        while let Some((_, _, to)) =
            arrows.iter().find(|(from, _, to)| reached.contains(from) && !reached.contains(to))
        {
            reached.insert(*to);
        }
        assert_eq!(reached.len(), State::ALL.len());
        for state in State::ALL.into_iter().filter(|state| !state.is_final() && *state != State::Ready) {
            assert!(state.after(Step::GiveUp).is_ok(), "{state} cannot be given up");
        }
    }

    #[test]
    fn what_has_ended_stays_ended() {
        for step in Step::ALL {
            assert!(State::Done.after(step).is_err() && State::HandedOver.after(step).is_err(), "{step:?}");
        }
    }

    #[test]
    fn nothing_is_done_without_the_gate() {
        let into_done: Vec<_> =
            arrows().into_iter().filter(|(_, _, to)| *to == State::Done).map(|(from, ..)| from).collect();
        assert_eq!(into_done, [State::Gating]);
    }
}
