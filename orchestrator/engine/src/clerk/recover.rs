//! What a run that was killed has left behind, made good.

use mala_core::{AgentId, IssueId};

use super::{Clerk, Given};
use crate::ports::{Abandoned, Attempt, Detail, Judgement, PortError};
use crate::salvage;
use crate::{State, Step};

/// What became of one abandoned attempt.
#[derive(Debug, Clone)]
pub(crate) struct Recovered {
    pub(crate) issue: IssueId,
    pub(crate) agent: AgentId,
    pub(crate) outcome: String,
}

impl Clerk {
    /// Ends every attempt of runs that are gone: nothing of theirs runs any more, work that passes the gate counts, other
    /// work is saved and handed over. May itself be killed at any point and repeated.
    pub(crate) fn recover(&self) -> Result<Vec<Recovered>, PortError> {
        salvage::sweep(&self.repo);
        self.launcher.sweep();
        let abandoned = self.ledger.abandoned()?;
        abandoned.into_iter().map(|one| self.recover_one(one)).collect()
    }

    fn recover_one(&self, abandoned: Abandoned) -> Result<Recovered, PortError> {
        let Abandoned { attempt, state } = abandoned;
        self.launcher.reap(&attempt)?;
        let (issue, agent) = (attempt.issue.clone(), attempt.agent.clone());
        let recovered = |outcome: String| Recovered { issue, agent, outcome };
        if state == State::Claimed && self.own_dirty_files(&attempt)?.is_empty() {
            self.put_back(&attempt, "its run ended before the agent began")?;
            return Ok(recovered("put back".to_owned()));
        }
        // The gate may fail here for reasons of its own; what is certain is that the work must not be lost.
        let judgement = match state {
            State::Claimed => Judgement::default(),
            _ => self.gate.judge(&attempt, None).unwrap_or_default(),
        };
        let is_accepted = judgement.accepted;
        let from = if is_accepted { self.bring_to_gate(&attempt, state)? } else { state };
        let given = Given {
            from,
            reason: "its run was killed".to_owned(),
            judgement,
            last_message: None,
            log: None,
            cost: None,
            tokens: 0,
            attempt,
        };
        if is_accepted {
            self.accept(&given)?;
            return Ok(recovered("done".to_owned()));
        }
        let handed = self.hand_over(&given)?;
        let what = if handed.is_blocked { "blocked" } else { "handed over" };
        Ok(recovered(match handed.saved_ref {
            Some(saved) => format!("{what}, work saved to {saved}"),
            None => what.to_owned(),
        }))
    }

    /// Journals the steps that the run did not come to: nothing is done but through the gate.
    fn bring_to_gate(&self, attempt: &Attempt, mut state: State) -> Result<State, PortError> {
        while state != State::Gating {
            let step = if state == State::Running { Step::End } else { Step::Start };
            let next = state.after(step)?;
            self.ledger.advance(attempt, state, next, &Detail::default())?;
            state = next;
        }
        Ok(state)
    }
}
