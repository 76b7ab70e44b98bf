//! Agents that have ended their turn because others hold what they need, or have not landed it yet.
//!
//! A parked agent has no process, so it holds no test turn, no limit counts, and another agent may work in its place. The
//! store stands in the queue for it, away from the loop. When everything it asked for is its own, it is due: its session
//! goes on as soon as there is a seat, before anything new begins. It does not wait for a seat whose agent waits for it.
//! An agent that waited in vain is judged like any other the next time it ends its turn.

use std::{io, mem};

use mala_core::{Ask, IssueId};
use mala_store::{IssueEnd, Progress, show_circle};
use tokio::time::Instant;

use super::events::JobEvent;
use super::job::{AfterWait, Due, Job, Phase, WaitHistory, Waiting};
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, causes};
use crate::blocking::{Cause, WaitOutcome};
use crate::error::Result;
use crate::event::{Event, Held};
use crate::{State, Step};

impl Dispatcher {
    /// A client whose call was put off is in the middle of its turn, so there is nothing to judge: it waits, or goes on if
    /// what it asked for has come meanwhile. False if neither leads anywhere.
    pub(super) async fn put_off(&mut self, id: &IssueId) -> bool {
        if self.park(id).await {
            return true;
        }
        let goes_on = |job: &&mut Job| job.last_turn.failure.is_none() && job.waits == WaitHistory::Fine;
        let Some(job) = self.jobs.get_mut(id).filter(goes_on) else { return false };
        // Once: twice in a row would go on for ever.
        job.waits = WaitHistory::PutOffForNothing;
        job.phase = due(Instant::now(), "the call that was put off can be made now".to_owned());
        true
    }

    /// Parks an agent that has asked for something and not got it yet. False if it waits for nothing.
    pub(super) async fn park(&mut self, id: &IssueId) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let is_over = job.last_turn.failure.is_some() || job.waits == WaitHistory::InVain;
        if is_over || self.stopping != Stopping::No {
            return false;
        }
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        let asked = tokio::task::spawn_blocking(move || ops.awaited(&attempt)).await;
        // If that cannot be found out, it goes on as if it waited for nothing.
        let awaited = asked.ok().and_then(Result::ok).unwrap_or_default();
        let now = Instant::now();
        let Some(job) = self.jobs.get_mut(id).filter(|_| !awaited.is_empty()) else { return false };
        job.waits = WaitHistory::Fine;
        let held =
            |ask: &Ask| Held { file: ask.want.target.to_string(), by: ask.holder.clone(), issue: None };
        let awaits = awaited.asks.iter().map(held).collect();
        let issues = awaited.issues.iter().map(|wait| wait.issue.clone()).collect();
        (job.awaited, job.parked_since) = (awaited, now);
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Parked { issue: id.clone(), agent, awaits, issues });
        self.begin_wait(id);
        true
    }

    /// Has the attempt wait for what it lacks, away from the loop.
    pub(super) fn begin_wait(&mut self, id: &IssueId) {
        self.skip_those_that_wait_for(id);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (hangup, writer) = match io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => return self.wait_ended(id, WaitOutcome::InVain(error.to_string()), None),
        };
        job.phase = Phase::Waiting(Waiting::Queued { _hangup: writer });
        job.wait_number += 1;
        let (ops, attempt, number) = (self.ops.clone(), job.attempt.clone(), job.wait_number);
        let (awaited, away) = (job.awaited.clone(), job.away.clone());
        let work = move || ops.wait(&attempt, (&awaited, away.as_ref()), &hangup);
        self.background_for(id, work, move |outcome| JobEvent::WaitOver(number, outcome));
    }

    pub(super) fn on_wait_over(&mut self, id: &IssueId, outcome: Result<WaitOutcome>) {
        let outcome = outcome.unwrap_or_else(|error| WaitOutcome::InVain(causes(&error)));
        match outcome {
            WaitOutcome::Circle(circle) => self.break_circle(id, &circle),
            outcome => self.take_back(id, outcome),
        }
    }

    /// The wait is over: the session goes on when there is a seat.
    pub(super) fn wait_ended(&mut self, id: &IssueId, outcome: WaitOutcome, work: Option<&str>) {
        let now = Instant::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let awaited = mem::take(&mut job.awaited);
        if work.is_some() || !awaited.issues.is_empty() || !job.news.is_empty() {
            // The store knows how long it stood in the queue for files, but of nothing else.
            job.meter.pause(now.saturating_duration_since(job.parked_since), now);
        }
        let files: Vec<String> = awaited.asks.iter().map(|ask| format!("`{}`", ask.want.target)).collect();
        let files = (!files.is_empty()).then(|| files.join(", "));
        let mut said = mem::take(&mut job.news);
        let in_vain = match outcome {
            WaitOutcome::Granted(ends) => {
                said.extend(ends.iter().map(|(issue, end)| ended(issue, end)));
                said.extend(
                    files.as_ref().map(|files| format!("you waited for {files}, which is yours now")),
                );
                None
            }
            WaitOutcome::InVain(why) => Some(why),
            WaitOutcome::Circle(circle) => Some(format!("waiting would never end: {}", show_circle(&circle))),
        };
        if let Some(why) = in_vain {
            job.waits = WaitHistory::InVain;
            let issues = awaited.issues.iter().map(|wait| wait.issue.to_string());
            let what = files.into_iter().chain(issues).collect::<Vec<_>>().join(", ");
            said.push(format!(
                "you waited for {what} in vain: {why}; do without it, or say why that cannot be"
            ));
        }
        said.extend(work.map(str::to_owned));
        job.phase = due(now, said.join(". "));
    }

    /// Lets those go on whose wait is over, first come first served.
    pub(super) async fn take_up(&mut self) {
        self.queue_those_aside();
        while let Some((id, since, next)) = self.next_due() {
            self.go_on(&id, since, next).await;
        }
    }

    /// The next job that may go on, with since when and why.
    fn next_due(&self) -> Option<(IssueId, Instant, AfterWait)> {
        let has_seat = self.has_seat();
        let due = self.jobs.iter().filter_map(|(id, job)| match &job.phase {
            Phase::Due(due) if has_seat || due.is_awaited => Some((id, due)),
            _ => None,
        });
        let (id, due) = due.min_by_key(|(_, due)| due.since)?;
        Some((id.clone(), due.since, due.next.clone()))
    }

    async fn go_on(&mut self, id: &IssueId, since: Instant, next: AfterWait) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::Starting;
        let now = Instant::now();
        // The store knows how long it stood in the queue, but not that it had to wait for a seat.
        job.meter.pause(now.saturating_duration_since(since), now);
        let (agent, was_judged) = (job.attempt.agent.clone(), job.state == State::Gating);
        if self.stopping != Stopping::No {
            // Its work was on the way into the checkout when the run was stopped.
            let reason = self.stopping.reason().to_owned();
            return self.hand_over(id, reason, Cause::Stopped);
        }
        self.tell(&Event::Resumed { issue: id.clone(), agent });
        if !was_judged || self.take_step(id, Step::Reject, Progress::default()).await {
            let purpose = match next {
                AfterWait::GoOn(why) => Purpose::GoOn { why },
                AfterWait::Retry => Purpose::Retry,
            };
            self.launch(id, purpose).await;
        }
    }

    /// An agent may wait in the middle of its work, in its seat, for another one that is due: then neither would go on.
    pub(super) async fn look_who_waits_for(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get(id) else { return };
        let (ops, agent) = (self.ops.clone(), job.attempt.agent.clone());
        let asked = tokio::task::spawn_blocking(move || ops.held_up_by(&agent)).await;
        let held_up = asked.ok().and_then(Result::ok).unwrap_or_default();
        let mut working = self.jobs.values().filter(|job| job.session().is_some());
        let is_awaited = working.any(|job| held_up.contains(&job.attempt.agent));
        if let Some(Phase::Due(due)) = self.jobs.get_mut(id).map(|job| &mut job.phase) {
            due.is_awaited = is_awaited;
        }
    }
}

/// How it has ended with an issue, as a sentence.
fn ended(issue: &IssueId, end: &IssueEnd) -> String {
    match end {
        IssueEnd::Landed(Some(commit)) => {
            format!("you waited for {issue}, which has landed as {}", commit.short())
        }
        IssueEnd::Landed(None) => format!("you waited for {issue}, which is closed"),
        IssueEnd::NotLanded(why) => format!("you waited for {issue}, which has not landed: {why}"),
    }
}

fn due(since: Instant, why: String) -> Phase {
    Phase::Due(Due { since, next: AfterWait::GoOn(why), is_awaited: false })
}
