//! How attempts end, and what becomes of their issues.

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::IssueId;
use tokio::time::Instant;

use super::events::JobEvent;
use super::job::{Job, Phase};
use super::stop::Stopping;
use super::{Dispatcher, causes};
use crate::blocking::{AttemptEnd, Cause, EndKind, EndResult};
use crate::error::Result;
use crate::event::Event;
use crate::ready::ReadyIssue;
use crate::summary::{AttemptResult, AttemptSummary};

/// How often an ending is tried before it is left to the next start.
const MAX_ENDING_TRIES: u32 = 3;
/// The longest backoff before an issue is tried again.
const MAX_RETRY_BACKOFF: Duration = Duration::from_secs(5 * 60);

impl Dispatcher {
    pub(super) fn hand_over(&mut self, id: &IssueId, reason: String, cause: Cause) {
        self.end(id, EndKind::HandOver { reason, cause });
    }

    /// Ends the attempt, away from the loop.
    pub(super) fn end(&mut self, id: &IssueId, kind: EndKind) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let end = AttemptEnd {
            attempt: job.attempt.clone(),
            kind,
            judgement: job.judgement.clone(),
            last_message: job.last_turn.message.clone(),
            log: Some(job.log.display().to_string()),
            cost: job.meter.cost(),
            tokens: job.tokens(),
            checkout: job.checkout,
        };
        job.phase = Phase::Ending { end: Box::new(end), tries: 0 };
        self.try_to_end(id);
    }

    fn try_to_end(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Ending { end, tries } = &mut job.phase else { return };
        *tries += 1;
        let is_first = *tries == 1;
        let (ops, end, is_torn) = (self.ops.clone(), end.clone(), job.last_turn.is_torn);
        let around = self.jobs.get(id).filter(|_| is_first).and_then(|job| self.around(job).ok());
        let work = move || {
            if is_torn {
                ops.sessions.reap(&end.attempt)?;
            }
            // What it has left behind is no reason not to end.
            let failed = around.and_then(|around| around.after().err()).map(|error| error.to_string());
            let mut result = ops.end(&end)?;
            result.notices.extend(failed);
            Ok(result)
        };
        self.background_for(id, work, JobEvent::Ended);
    }

    pub(super) fn on_attempt_end(&mut self, id: &IssueId, ended: Result<EndResult>) {
        let Some(Phase::Ending { end, tries }) = self.jobs.get(id).map(|job| &job.phase) else { return };
        match ended {
            Ok(result) => {
                let kind = end.kind.clone();
                self.conclude(id, kind, result);
            }
            Err(error) if *tries < MAX_ENDING_TRIES => {
                self.warn(&format!("{id}: its end could not be written down: {}", causes(&error)));
                self.try_to_end(id);
            }
            Err(error) => self.fail("end an attempt", error),
        }
    }

    fn conclude(&mut self, id: &IssueId, kind: EndKind, end: EndResult) {
        let Some(job) = self.jobs.remove(id) else { return };
        let (result, reason) = match kind {
            EndKind::Accept => (AttemptResult::Done, None),
            EndKind::HandOver { reason, .. } if end.is_blocked => (AttemptResult::Blocked, Some(reason)),
            EndKind::HandOver { reason, .. } => (AttemptResult::HandedOver, Some(reason)),
        };
        for notice in &end.notices {
            self.warn(&format!("{id}: {notice}"));
        }
        let mut summary = summary_of(&job, result, reason, end);
        summary.took = job.started.elapsed();
        self.tell(&event_of(&summary));
        self.attempts.push(summary);
        match result {
            AttemptResult::Done => self.ready.settle(id, true),
            AttemptResult::Blocked => self.ready.settle(id, false),
            AttemptResult::HandedOver => self.try_again(&job),
        }
        self.ask_for_issues();
        // Its files are free now.
        self.work_queue();
    }

    /// An agent whose process failed is not the issue's fault, nor likely to do better at once.
    fn try_again(&mut self, job: &Job) {
        let id = &job.issue.id;
        self.ready.try_again(self.ready_again(job));
        if let Some(why) = job.last_turn.failure.clone().filter(|_| self.stopping == Stopping::No) {
            let tried = self.ready.tried(id).saturating_sub(1).min(10);
            let span = self.ops.options.retry_pause.saturating_mul(4_u32.saturating_pow(tried));
            self.rest(id, Instant::now() + span.min(MAX_RETRY_BACKOFF), &why);
        }
    }

    fn ready_again(&self, job: &Job) -> ReadyIssue {
        let issue = job.issue.clone();
        let files = self.ops.hints(&issue).0.into_iter().map(|want| want.target).collect();
        ReadyIssue { issue, files, waits_for: BTreeSet::new() }
    }
}

fn summary_of(job: &Job, result: AttemptResult, reason: Option<String>, end: EndResult) -> AttemptSummary {
    AttemptSummary {
        issue: job.issue.id.clone(),
        title: job.issue.title.clone(),
        agent: job.attempt.agent.clone(),
        attempt: job.attempt.number,
        result,
        commits: end.commits,
        outcome: job.judgement.outcome.clone(),
        reason,
        saved_ref: end.saved_ref,
        files: end.files,
        gates: job.gates,
        took: Duration::ZERO,
        cost: job.meter.cost(),
        tokens: job.tokens(),
        is_unhooked: job.is_unhooked,
    }
}

fn event_of(summary: &AttemptSummary) -> Event {
    let AttemptSummary { issue, agent, .. } = summary;
    match &summary.reason {
        None => Event::Done {
            issue: issue.clone(),
            agent: agent.clone(),
            commits: summary.commits.clone(),
            outcome: summary.outcome.clone(),
        },
        Some(reason) => Event::HandedOver {
            issue: issue.clone(),
            agent: agent.clone(),
            attempt: summary.attempt,
            reason: reason.clone(),
            saved_ref: summary.saved_ref.clone(),
            files: summary.files.clone(),
            is_blocked: summary.result == AttemptResult::Blocked,
        },
    }
}
