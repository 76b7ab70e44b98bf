//! What the gate says about an attempt, and what follows from it.

use mala_config::NoChange;
use mala_core::shell::word;
use mala_core::{CheckName, IssueId};
use mala_store::Progress;

use super::events::JobEvent;
use super::job::{Judging, Phase};
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, causes};
use crate::blocking::{Cause, EndKind, Fingerprint, LaterChanges};
use crate::error::{EngineError, Result};
use crate::event::Event;
use crate::validator::Judgement;
use crate::{State, Step};

/// How often the gate is asked when it fails itself.
const MAX_GATE_TRIES: u32 = 3;

impl Dispatcher {
    /// The agent's turn is over; the gate decides. In a hurry nobody is asked any more.
    pub(super) async fn ask_gate(&mut self, id: &IssueId, last_call: Option<String>) {
        if matches!(self.stopping, Stopping::Hurry | Stopping::Now) {
            let reason = self.stopping.reason().to_owned();
            return self.hand_over(id, reason, Cause::Stopped);
        }
        let Some(job) = self.jobs.get(id) else { return };
        let progress = Progress { session: job.session_id.clone(), ..Progress::default() };
        if job.state == State::Running && !self.take_step(id, Step::End, progress).await {
            return;
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.gates += 1;
        job.phase = Phase::Judging(Judging { errors: 0, last_call });
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Gating { issue: id.clone(), agent });
        self.judge(id);
    }

    fn judge(&self, id: &IssueId) {
        let Some(job) = self.jobs.get(id) else { return };
        let (ops, attempt, is_torn) = (self.ops.clone(), job.attempt.clone(), job.last_turn.is_torn);
        let message = job.last_turn.message.clone();
        // Who gets no further round is not sent back for what it has left.
        let is_last = matches!(&job.phase, Phase::Judging(judging) if judging.last_call.is_some());
        let is_last = is_last || self.stopping != Stopping::No || job.last_turn.failure.is_some();
        let later = if is_last { LaterChanges::Save } else { job.later_changes };
        self.background_for(
            id,
            move || {
                if is_torn {
                    ops.sessions.reap(&attempt)?;
                }
                ops.judge(&attempt, message.as_deref(), later).map(Box::new)
            },
            JobEvent::Judged,
        );
    }

    pub(super) async fn on_judged(&mut self, id: &IssueId, judged: Result<Box<(Judgement, Fingerprint)>>) {
        let (judgement, fingerprint) = match judged {
            Ok(judged) => *judged,
            Err(error) => return self.on_gate_error(id, &error),
        };
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Judging(Judging { last_call, .. }) = &job.phase else { return };
        let last_call = last_call.clone();
        job.judgement = judgement;
        let is_same = job.fingerprint.replace(fingerprint) == job.fingerprint;
        if job.judgement.accepted {
            return match job.judgement.offer {
                Some(_) => self.offer(id),
                None if job.judgement.is_unproven && self.ops.options.no_change == NoChange::Ask => {
                    let said = job.judgement.outcome.clone().unwrap_or_default();
                    self.hand_over(id, nothing_to_do(id, &said), Cause::Asks);
                }
                None => self.end(id, EndKind::Accept),
            };
        }
        if job.judgement.failed.iter().any(|check| check.name == CheckName::CleanStatus) {
            job.later_changes = LaterChanges::Save;
        }
        if last_call.is_none() && self.park(id).await {
            return;
        }
        let Some(job) = self.jobs.get(id) else { return };
        let question = if last_call.is_none() { self.question_of(job) } else { None };
        let no_round = last_call.or_else(|| self.no_further_round(id, is_same));
        match question {
            Some(question) => self.on_question(id, question, no_round.is_some()).await,
            None => self.on_rejection(id, no_round).await,
        }
    }

    /// Sends the agent back, unless there is a reason not to.
    pub(super) async fn on_rejection(&mut self, id: &IssueId, no_round: Option<String>) {
        let Some(job) = self.jobs.get(id) else { return };
        let (round, rounds) = (job.rounds + 1, self.ops.options.gate_attempts);
        let (agent, failed) = (job.attempt.agent.clone(), job.judgement.failed.clone());
        let (is_sent_back, was_offered) = (no_round.is_none(), job.state == State::Offered);
        self.tell(&Event::Rejected { issue: id.clone(), agent, round, rounds, is_sent_back, failed });
        if let Some(reason) = no_round {
            let cause = self.cause();
            return self.hand_over(id, reason, cause);
        }
        if self.take_step(id, Step::Reject, Progress::default()).await {
            if let Some(job) = self.jobs.get_mut(id) {
                job.rounds = round;
            }
            if was_offered {
                self.put_work_back(id);
            } else {
                self.launch(id, Purpose::Retry).await;
            }
        }
    }

    /// What the gate started may have been killed, or the disk may have been full for a moment.
    fn on_gate_error(&mut self, id: &IssueId, error: &EngineError) {
        let Some(Phase::Judging(judging)) = self.jobs.get_mut(id).map(|job| &mut job.phase) else { return };
        judging.errors += 1;
        let text = causes(error);
        if judging.errors < MAX_GATE_TRIES {
            self.warn(&format!("{id}: the gate failed and is asked again: {text}"));
            return self.judge(id);
        }
        let cause = self.cause();
        self.hand_over(id, format!("the gate itself failed: {text}"), cause);
    }

    /// What ends attempts now: a stop of the run is no failure of theirs.
    pub(super) fn cause(&self) -> Cause {
        if self.stopping == Stopping::No { Cause::Failed } else { Cause::Stopped }
    }

    /// Why the agent is not sent back, if it is not.
    pub(super) fn no_further_round(&self, id: &IssueId, is_same: bool) -> Option<String> {
        let job = self.jobs.get(id)?;
        if self.stopping != Stopping::No {
            return Some(self.stopping.reason().to_owned());
        }
        if let Some(how) = &job.last_turn.failure {
            return Some(how.clone());
        }
        if is_same {
            return Some("nothing has changed since the gate last said what is missing".to_owned());
        }
        let rounds = self.ops.options.gate_attempts;
        (job.rounds >= rounds).then(|| match rounds {
            0 => "the gate did not pass".to_owned(),
            1 => "the gate did not pass after it was told once what is missing".to_owned(),
            _ => format!("the gate did not pass after it was told {rounds} times what is missing"),
        })
    }
}

/// Why a person is asked about an issue without a commit.
fn nothing_to_do(id: &IssueId, said: &str) -> String {
    let close = format!("mala issue close {}", word(id.as_str()));
    format!(
        "nothing was committed, its agent says `{said}`, and nothing proves that: if it is so, close it (`{close}`)"
    )
}
