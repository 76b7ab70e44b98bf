//! Agents that have ended their turn because others hold what they need.
//!
//! A parked agent has no process, so it holds no test turn and no limit counts. The ledger stands in the queue for it, away
//! from the loop; when everything it asked for is its own, its session goes on. An agent that waited in vain is judged
//! like any other the next time it ends its turn.

use std::io::{self, PipeWriter};

use mala_core::{IssueId, Timestamp};

use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, News, causes};
use crate::Step;
use crate::event::Event;
use crate::ports::{Detail, Held, PortError, Waited};

/// An agent that waits. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct Parked {
    _hangup: PipeWriter,
}

impl Dispatcher {
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
        job.parked = Some(Parked { _hangup: writer });
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

    /// The wait is over: the session goes on.
    pub(super) async fn on_unparked(
        &mut self,
        id: &IssueId,
        awaited: &[Held],
        waited: Result<Waited, PortError>,
    ) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.parked.take().is_none() {
            return;
        }
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
        job.meter.sign_of_life(Timestamp::now());
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Resumed { issue: id.clone(), agent });
        if self.step(id, Step::Reject, Detail::default()).await {
            self.launch(id, Purpose::GoOn { why }).await;
        }
    }
}
