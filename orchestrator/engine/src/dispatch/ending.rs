//! What the gate said, and how attempts end.

use std::time::Duration;

use mala_core::{IssueId, Timestamp};
use tokio::time::Instant;

use super::job::{Ending, Job};
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, News, causes};
use crate::Step;
use crate::clerk::{Cause, Fingerprint, Given, Handed};
use crate::event::Event;
use crate::ports::{Detail, Judgement, PortError};
use crate::queue::Candidate;
use crate::summary::{AttemptResult, AttemptSummary};

/// How often an ending is tried before it is left to the next start.
const ENDING_TRIES: u32 = 3;
/// How often the gate is asked when it fails itself.
const GATE_TRIES: u32 = 3;
/// The longest pause before an issue is tried again.
const LONGEST_REST: Duration = Duration::from_secs(5 * 60);

impl Dispatcher {
    pub(super) async fn on_judged(
        &mut self,
        id: &IssueId,
        judged: Result<Box<(Judgement, Fingerprint)>, PortError>,
    ) {
        let (judgement, fingerprint) = match judged {
            Ok(judged) => *judged,
            Err(error) => return self.on_gate_error(id, &error),
        };
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.judgement = judgement;
        let is_same = job.fingerprint.as_ref() == Some(&fingerprint);
        job.fingerprint = Some(fingerprint);
        if job.judgement.accepted {
            return self.end(id, Ending::Accept);
        }
        if self.park(id).await {
            return;
        }
        let Some(job) = self.jobs.get(id) else { return };
        let (round, rounds) = (job.rounds + 1, self.options.gate_attempts);
        let (agent, failed) = (job.attempt.agent.clone(), job.judgement.failed.clone());
        let verdict = self.no_further_round(id, is_same);
        if let Some(question) = self.question_of(id) {
            return self.on_question(id, question, verdict).await;
        }
        let is_sent_back = verdict.is_none();
        self.tell(&Event::Rejected { issue: id.clone(), agent, round, rounds, is_sent_back, failed });
        if let Some(reason) = verdict {
            let cause = self.cause();
            return self.hand_over(id, &reason, cause);
        }
        if self.step(id, Step::Reject, Detail::default()).await {
            if let Some(job) = self.jobs.get_mut(id) {
                job.rounds = round;
            }
            self.launch(id, Purpose::Retry).await;
        }
    }

    /// Somebody may have killed what the gate started, or the disk may have been full for a moment.
    fn on_gate_error(&mut self, id: &IssueId, error: &PortError) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.gate_errors += 1;
        let text = causes(&**error);
        if job.gate_errors < GATE_TRIES {
            self.warn(&format!("{id}: the gate failed and is asked again: {text}"));
            return self.judge(id);
        }
        let cause = self.cause();
        self.hand_over(id, &format!("the gate itself failed: {text}"), cause);
    }

    /// What ends attempts now: a stop of the run is no failure of theirs.
    pub(super) fn cause(&self) -> Cause {
        if self.stopping == Stopping::No { Cause::Failed } else { Cause::Stopped }
    }

    /// Why the agent is not sent back, if it is not.
    fn no_further_round(&self, id: &IssueId, is_same: bool) -> Option<String> {
        let job = self.jobs.get(id)?;
        if let Some(reason) = &job.last_call {
            return Some(reason.clone());
        }
        if self.stopping != Stopping::No {
            return Some(self.stopping.reason().to_owned());
        }
        if let Some(how) = &job.failure {
            return Some(how.clone());
        }
        if is_same {
            return Some("nothing has changed since the gate last said what is missing".to_owned());
        }
        let rounds = self.options.gate_attempts;
        (job.rounds >= rounds).then(|| match rounds {
            0 => "the gate did not pass".to_owned(),
            1 => "the gate did not pass after it was told once what is missing".to_owned(),
            _ => format!("the gate did not pass after it was told {rounds} times what is missing"),
        })
    }

    pub(super) fn hand_over(&mut self, id: &IssueId, reason: &str, cause: Cause) {
        self.end(id, Ending::HandOver { reason: reason.to_owned(), cause });
    }

    /// Ends the attempt, away from the loop.
    pub(super) fn end(&mut self, id: &IssueId, ending: Ending) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.pause = None;
        job.parked = None;
        job.question = None;
        job.ending = Some(ending.clone());
        job.ending_tries += 1;
        let (reason, cause) = match &ending {
            Ending::Accept => (String::new(), Cause::Failed),
            Ending::HandOver { reason, cause } => (reason.clone(), *cause),
        };
        let given = Given {
            attempt: job.attempt.clone(),
            from: job.state,
            reason,
            cause,
            judgement: job.judgement.clone(),
            last_message: job.message.clone(),
            log: Some(job.log.display().to_string()),
            cost: job.meter.usage().cost,
            tokens: job.tokens(),
        };
        let (clerk, id, is_torn) = (self.clerk.clone(), id.clone(), job.is_torn);
        let work = move || {
            if is_torn {
                clerk.launcher.reap(&given.attempt)?;
            }
            match ending {
                Ending::Accept => clerk.accept(&given),
                Ending::HandOver { .. } => clerk.hand_over(&given),
            }
        };
        self.background(work, |ended| News::Ended(id, ended));
    }

    pub(super) fn on_ended_attempt(&mut self, id: &IssueId, ended: Result<Handed, PortError>) {
        match ended {
            Ok(handed) => self.conclude(id, &handed),
            Err(error) => self.try_ending_again(id, error),
        }
    }

    fn try_ending_again(&mut self, id: &IssueId, error: PortError) {
        let Some(job) = self.jobs.get(id) else { return };
        match &job.ending {
            Some(ending) if job.ending_tries < ENDING_TRIES => {
                let ending = ending.clone();
                self.warn(&format!("{id}: its end could not be written down: {}", causes(&*error)));
                self.end(id, ending);
            }
            _ => self.fail("end an attempt", error),
        }
    }

    fn conclude(&mut self, id: &IssueId, handed: &Handed) {
        let Some(mut job) = self.jobs.remove(id) else { return };
        let ending = job.ending.take().unwrap_or(Ending::Accept);
        let agent = job.attempt.agent.clone();
        let (result, reason) = match ending {
            Ending::Accept => (AttemptResult::Done, None),
            Ending::HandOver { reason, .. } if handed.is_blocked => (AttemptResult::Blocked, Some(reason)),
            Ending::HandOver { reason, .. } => (AttemptResult::HandedOver, Some(reason)),
        };
        let event = match &reason {
            None => Event::Done {
                issue: id.clone(),
                agent,
                commits: job.judgement.commits.clone(),
                outcome: job.judgement.outcome.clone(),
            },
            Some(reason) => Event::HandedOver {
                issue: id.clone(),
                agent,
                reason: reason.clone(),
                saved_ref: handed.saved_ref.clone(),
                files: handed.files.clone(),
                is_blocked: handed.is_blocked,
            },
        };
        self.attempts.push(summary_of(&job, result, reason, handed));
        self.tell(&event);
        match result {
            AttemptResult::Done => self.queue.settle(id, true),
            AttemptResult::Blocked => self.queue.settle(id, false),
            AttemptResult::HandedOver => self.try_again(&job),
        }
        self.ask_for_issues();
        self.ask_for_health();
    }

    /// An agent whose process failed is not the issue's fault, nor likely to do better at once.
    fn try_again(&mut self, job: &Job) {
        let id = &job.issue.id;
        self.queue.try_again(self.candidate_again(job));
        if let Some(why) = job.failure.clone().filter(|_| self.stopping == Stopping::No) {
            let tried = self.queue.tried(id).saturating_sub(1).min(10);
            let span = self.options.retry_pause.saturating_mul(4_u32.saturating_pow(tried)).min(LONGEST_REST);
            self.rest(id, Instant::now() + span, &why);
        }
    }

    fn candidate_again(&self, job: &Job) -> Candidate {
        let issue = job.issue.clone();
        let files = self.clerk.hints(&issue).0.into_iter().map(|want| want.target).collect();
        Candidate { issue, files, waits_for: std::collections::BTreeSet::new() }
    }
}

fn summary_of(job: &Job, result: AttemptResult, reason: Option<String>, handed: &Handed) -> AttemptSummary {
    AttemptSummary {
        issue: job.issue.id.clone(),
        title: job.issue.title.clone(),
        agent: job.attempt.agent.clone(),
        attempt: job.attempt.number,
        result,
        commits: handed.commits.clone(),
        outcome: job.judgement.outcome.clone(),
        reason,
        saved_ref: handed.saved_ref.clone(),
        files: handed.files.clone(),
        gates: job.gates,
        took: Timestamp::now().since(job.started),
        cost: job.meter.usage().cost,
        tokens: job.tokens(),
    }
}
