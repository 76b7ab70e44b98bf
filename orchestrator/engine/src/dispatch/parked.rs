//! Agents that have ended their turn because others hold what they need.
//!
//! A parked agent has no process, so it holds no test turn, no limit counts, and another agent may work in its place. The
//! store stands in the queue for it, away from the loop. When everything it asked for is its own, it is due: its session
//! goes on as soon as there is a seat, before anything new begins. It does not wait for a seat whose agent waits for it.
//! An agent that waited in vain is judged like any other the next time it ends its turn.

use std::io;

use mala_core::{IssueId, Timestamp};
use mala_store::Progress;

use super::events::JobEvent;
use super::job::{AfterWait, Due, Job, Phase, WaitHistory};
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, causes};
use crate::blocking::WaitOutcome;
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
        job.phase = due(self.ops.clock.now(), "the call that was put off can be made now".to_owned());
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
        let Ok((hangup, writer)) = io::pipe() else { return false };
        let Some(job) = self.jobs.get_mut(id).filter(|_| !awaited.is_empty()) else { return false };
        job.waits = WaitHistory::Fine;
        job.phase = Phase::Waiting { _hangup: writer };
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        let agent = attempt.agent.clone();
        self.tell(&Event::Parked { issue: id.clone(), agent, awaits: awaited.clone() });
        self.background_for(
            id,
            move || ops.wait_for_asked(&attempt, &hangup),
            |result| JobEvent::WaitOver { awaited, result },
        );
        true
    }

    /// The wait is over: the session goes on when there is a seat.
    pub(super) fn on_wait_over(&mut self, id: &IssueId, awaited: &[Held], result: Result<WaitOutcome>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let files = awaited.iter().map(|held| format!("`{}`", held.file)).collect::<Vec<_>>().join(", ");
        let (why, waits) = match result {
            Ok(WaitOutcome::Granted) => (format!("you waited for {files}, which is yours now"), job.waits),
            Ok(WaitOutcome::InVain(why)) => (
                format!("you waited for {files} in vain: {why}; do without it, or say why that cannot be"),
                WaitHistory::InVain,
            ),
            Err(error) => (format!("waiting for {files} failed: {}", causes(&error)), WaitHistory::InVain),
        };
        job.waits = waits;
        job.phase = due(self.ops.clock.now(), why);
    }

    /// Lets those go on whose wait is over, first come first served.
    pub(super) async fn take_up(&mut self) {
        while let Some((id, since, next)) = self.next_due() {
            self.go_on(&id, since, next).await;
        }
    }

    /// The next job that may go on, with since when and why.
    fn next_due(&self) -> Option<(IssueId, Timestamp, AfterWait)> {
        let has_seat = self.has_seat();
        let due = self.jobs.iter().filter_map(|(id, job)| match &job.phase {
            Phase::Due(due) if has_seat || due.is_awaited => Some((id, due)),
            _ => None,
        });
        let (id, due) = due.min_by_key(|(_, due)| due.since)?;
        Some((id.clone(), due.since, due.next.clone()))
    }

    async fn go_on(&mut self, id: &IssueId, since: Timestamp, next: AfterWait) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::Starting;
        let now = self.ops.clock.now();
        // The store knows how long it stood in the queue, but not that it had to wait for a seat.
        job.meter.pause(now.since(since), now);
        let (agent, was_judged) = (job.attempt.agent.clone(), job.state == State::Gating);
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

fn due(since: Timestamp, why: String) -> Phase {
    Phase::Due(Due { since, next: AfterWait::GoOn(why), is_awaited: false })
}
