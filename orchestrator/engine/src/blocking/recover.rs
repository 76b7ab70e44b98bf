//! What a run that was killed has left behind, made good.

use mala_core::{Attempt, Interruption, RunId};
use mala_git::salvage;
use mala_store::Progress;

use super::offers::fate_of;
use super::{AttemptEnd, BlockingOps, Cause, EndKind, Fate};
use crate::error::{Result, causes};
use crate::summary::Recovered;
use crate::validator::Judgement;
use crate::{State, Step};

/// What becomes of an attempt whose work is offered.
const QUEUED: &str = "in the landing queue";

impl BlockingOps {
    /// Ends every attempt of runs that are gone: nothing of theirs runs any more, work that passes the gate counts, other
    /// work is saved and handed over. May itself be killed at any point and repeated. One that cannot be ended now, because
    /// its tracker does not answer for example, is left for the next start and keeps nobody else from working.
    pub(crate) fn recover(&self, run: &RunId) -> Result<Vec<Recovered>> {
        salvage::sweep(&self.repo);
        let (mut keep, mut agents) = (vec![run.clone()], Vec::new());
        let mut recovered = Vec::new();
        for attempt in self.abandoned()? {
            recovered.push(self.recover_one(&attempt).unwrap_or_else(|error| {
                keep.push(attempt.run.clone());
                agents.push(attempt.agent.clone());
                let why = causes(&error);
                Recovered::new(&attempt, format!("not ended, because that failed: {why}"))
            }));
        }
        // Once more: what was reaped just now may have left something, too.
        self.sessions.sweep();
        salvage::Staged::forget_others(self.repo.scope(), &agents);
        salvage::Before::forget_others(&self.repo, &keep)?;
        salvage::Snapshot::forget_others(&self.repo, &keep)?;
        Ok(recovered)
    }

    fn recover_one(&self, attempt: &Attempt) -> Result<Recovered> {
        let state = attempt.state;
        self.sessions.reap(attempt)?;
        if state == State::Claimed && attempt.saved_ref.is_none() && !self.has_left_work(attempt)? {
            self.put_back(attempt)?;
            return Ok(Recovered::new(attempt, "put back".to_owned()));
        }
        if state == State::Offered {
            return self.recover_offered(attempt);
        }
        // The gate may fail here for reasons of its own; what is certain is that the work must not be lost.
        let judgement = match state {
            State::Claimed => Judgement::default(),
            _ => self.validator.judge(attempt, None).unwrap_or_default(),
        };
        if let Some(offer) = judgement.offer.as_ref().filter(|_| judgement.accepted) {
            self.bring_to_gate(attempt)?;
            let priority = i64::from(self.source.show(&attempt.issue)?.priority.number());
            self.enqueue(attempt, offer, priority)?;
            return Ok(Recovered::new(attempt, QUEUED.to_owned()));
        }
        let is_accepted = judgement.accepted;
        if is_accepted {
            self.bring_to_gate(attempt)?;
        }
        let (reason, cause) = match attempt.interruption {
            Some(Interruption::Stopped) => ("the run was stopped", Cause::Stopped),
            Some(Interruption::Killed) | None => ("its run was killed", Cause::Killed),
        };
        let mut end = AttemptEnd::cut_off(attempt.clone(), reason, cause);
        if is_accepted {
            end.kind = EndKind::Accept;
        }
        let result = self.end(&AttemptEnd { judgement, ..end })?;
        let what = match (is_accepted, result.is_blocked) {
            (true, _) => "done",
            (false, true) => "blocked",
            (false, false) => "handed over",
        };
        let outcome = match &result.saved_ref {
            Some(saved) if !is_accepted => format!("{what}, work saved to {saved}"),
            _ => what.to_owned(),
        };
        let outcome = [vec![outcome], result.notices].concat().join("; ");
        let mut recovered = Recovered::new(attempt, outcome);
        recovered.not_accepted = if is_accepted { Vec::new() } else { result.commits };
        (recovered.saved_ref, recovered.files) = (result.saved_ref, result.files);
        Ok(recovered)
    }

    /// What waits in the landing queue goes on waiting, out of the checkout.
    fn recover_offered(&self, attempt: &Attempt) -> Result<Recovered> {
        let fate = match self.entries_of(attempt)?.pop() {
            Some(entry) => match fate_of(&entry) {
                Some(fate) => fate,
                None => {
                    self.make_ready(attempt, entry)?;
                    return Ok(Recovered::new(attempt, QUEUED.to_owned()));
                }
            },
            None => Fate::Rejected("its offer is in no queue".to_owned()),
        };
        let result = self.settle(attempt, &fate)?;
        let outcome = match &fate {
            Fate::Landed(commit) => format!("done, landed as {commit}"),
            Fate::Rejected(why) => format!("handed over: {why}"),
        };
        let outcome = [vec![outcome], result.notices].concat().join("; ");
        let mut recovered = Recovered::new(attempt, outcome);
        (recovered.saved_ref, recovered.files) = (result.saved_ref, result.files);
        Ok(recovered)
    }

    /// Journals the steps that the run did not come to: nothing is done but through the gate.
    fn bring_to_gate(&self, attempt: &Attempt) -> Result<()> {
        let mut state = attempt.state;
        while state.after(Step::Accept).is_err() {
            let step = if state == State::Running { Step::End } else { Step::Start };
            let next = state.after(step)?;
            self.advance(attempt, (state, next), &Progress::default())?;
            state = next;
        }
        Ok(())
    }
}
