//! Agents that have ended their turn because others hold what they need.
//!
//! A parked agent has no process, so it holds no test turn, no limit counts, and another agent may work in its place. The
//! ledger stands in the queue for it, away from the loop. When everything it asked for is its own, it is due: its session
//! goes on as soon as there is a seat, before anything new begins. It does not wait for a seat whose agent waits for it.
//! An agent that waited in vain is judged like any other the next time it ends its turn.

use std::io::{self, PipeWriter};

use mala_core::{IssueId, Timestamp};

use super::job::Job;
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, News, causes};
use crate::event::Event;
use crate::ports::{Detail, Held, PortError, Waited};
use crate::{State, Step};

/// An agent without a process.
#[derive(Debug)]
pub(super) enum Parked {
    /// It waits. Dropping it ends the wait.
    Waits { _hangup: PipeWriter },
    /// Its wait is over, and it is to be told so.
    Due(Due),
}

#[derive(Debug)]
pub(super) struct Due {
    since: Timestamp,
    why: String,
    /// Somebody who works waits for what it holds.
    is_awaited: bool,
}

impl Due {
    fn now(why: String) -> Parked {
        Parked::Due(Self { since: Timestamp::now(), why, is_awaited: false })
    }
}

impl Dispatcher {
    /// A client whose call was put off is in the middle of its turn, so there is nothing to judge: it waits, or goes on if
    /// what it asked for has come meanwhile. False if neither leads anywhere.
    pub(super) async fn put_off(&mut self, id: &IssueId) -> bool {
        if self.park(id).await {
            return true;
        }
        let goes_on = |job: &&mut Job| job.failure.is_none() && !job.waited_in_vain;
        let Some(job) = self.jobs.get_mut(id).filter(goes_on) else { return false };
        // Twice in a row is not our doing, and would go on for ever.
        if std::mem::replace(&mut job.is_put_off_for_nothing, true) {
            return false;
        }
        job.parked = Some(Due::now("the call that was put off can be made now".to_owned()));
        true
    }

    /// Parks an agent that has asked for something and not got it yet. False if it waits for nothing.
    pub(super) async fn park(&mut self, id: &IssueId) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let is_over = job.last_call.is_some() || job.failure.is_some() || job.waited_in_vain;
        if is_over || self.stopping != Stopping::No {
            return false;
        }
        let (ledger, attempt) = (self.clerk.ledger.clone(), job.attempt.clone());
        let asked = tokio::task::spawn_blocking(move || ledger.awaited(&attempt)).await;
        // Who cannot find out goes on as if nobody waited.
        let awaited = asked.ok().and_then(Result::ok).unwrap_or_default();
        let Ok((hangup, writer)) = io::pipe() else { return false };
        let Some(job) = self.jobs.get_mut(id).filter(|_| !awaited.is_empty()) else { return false };
        job.is_put_off_for_nothing = false;
        job.parked = Some(Parked::Waits { _hangup: writer });
        let (ledger, attempt) = (self.clerk.ledger.clone(), job.attempt.clone());
        let agent = attempt.agent.clone();
        self.tell(&Event::Parked { issue: id.clone(), agent, awaits: awaited.clone() });
        let id = id.clone();
        self.background(
            move || ledger.wait_for_asked(&attempt, hangup),
            |waited| News::Unparked(id, awaited, waited),
        );
        true
    }

    /// The wait is over: the session goes on when there is a seat.
    pub(super) fn on_unparked(&mut self, id: &IssueId, awaited: &[Held], waited: Result<Waited, PortError>) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.parked.is_some()) else { return };
        let files = awaited.iter().map(|held| format!("`{}`", held.file)).collect::<Vec<_>>().join(", ");
        let why = match waited {
            Ok(Waited::Granted) => format!("you waited for {files}, which is yours now"),
            Ok(Waited::InVain(why)) => {
                job.waited_in_vain = true;
                format!("you waited for {files} in vain: {why}; do without it, or say why that cannot be")
            }
            Err(error) => {
                job.waited_in_vain = true;
                format!("waiting for {files} failed: {}", causes(&*error))
            }
        };
        job.parked = Some(Due::now(why));
    }

    /// Lets those go on whose wait is over, first come first served.
    pub(super) async fn take_up(&mut self) {
        while let Some((id, due)) = self.next_due() {
            self.go_on(&id, due).await;
        }
    }

    fn next_due(&mut self) -> Option<(IssueId, Due)> {
        let has_seat = self.has_seat();
        let mut ready = self.due().filter(|(_, due)| has_seat || due.is_awaited).collect::<Vec<_>>();
        ready.sort_by_key(|(_, due)| due.since);
        let id = ready.first()?.0.clone();
        match self.jobs.get_mut(&id)?.parked.take() {
            Some(Parked::Due(due)) => Some((id, due)),
            _ => None,
        }
    }

    fn due(&self) -> impl Iterator<Item = (&IssueId, &Due)> {
        self.jobs.iter().filter_map(|(id, job)| match &job.parked {
            Some(Parked::Due(due)) => Some((id, due)),
            _ => None,
        })
    }

    async fn go_on(&mut self, id: &IssueId, due: Due) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let now = Timestamp::now();
        // The ledger knows how long it stood in the queue, but not that it had to wait for a seat.
        job.meter.pause(now.since(due.since), now);
        let (agent, was_judged) = (job.attempt.agent.clone(), job.state == State::Gating);
        self.tell(&Event::Resumed { issue: id.clone(), agent });
        if !was_judged || self.step(id, Step::Reject, Detail::default()).await {
            self.launch(id, Purpose::GoOn { why: due.why }).await;
        }
    }

    /// An agent may wait in the middle of its work, in its seat, for another one that is due: then neither would go on.
    pub(super) async fn look_who_waits_for_due(&mut self) {
        let due: Vec<IssueId> = self.due().map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(job) = self.jobs.get(&id) else { continue };
            let (ledger, agent) = (self.clerk.ledger.clone(), job.attempt.agent.clone());
            let asked = tokio::task::spawn_blocking(move || ledger.held_up_by(&agent)).await;
            let held_up = asked.ok().and_then(Result::ok).unwrap_or_default();
            let mut working = self.jobs.values().filter(|job| job.session.is_some());
            let is_awaited = working.any(|job| held_up.contains(&job.attempt.agent));
            if let Some(Parked::Due(due)) = self.jobs.get_mut(&id).and_then(|job| job.parked.as_mut()) {
                due.is_awaited = is_awaited;
            }
        }
    }
}
