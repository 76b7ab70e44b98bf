//! Issues that are not begun before some moment, and what health warnings change.

use mala_core::IssueId;
use tokio::time::Instant;

use super::{Dispatcher, WorkerEvent};
use crate::event::Event;
use crate::health::{Advice, Contention};

impl Dispatcher {
    /// The issue waits until then.
    pub(super) fn rest(&mut self, id: &IssueId, until: Instant, why: &str) {
        self.ready.rest(id);
        self.rests.insert(id.clone(), until);
        let span = until.saturating_duration_since(Instant::now());
        let until = self.ops.clock.now().plus(span);
        self.tell(&Event::Resting { issue: id.clone(), why: why.to_owned(), until });
    }

    pub(super) fn wake_rested(&mut self) {
        let now = Instant::now();
        self.forget_past_limits();
        let awake: Vec<IssueId> =
            self.rests.iter().filter(|(_, until)| **until <= now).map(|(id, _)| id.clone()).collect();
        for id in awake {
            self.rests.remove(&id);
            self.ready.wake(&id);
        }
    }

    /// Looks how much agents get in each other's way, if somebody wants that to change something.
    pub(super) fn ask_for_health(&mut self) {
        if self.ops.options.mitigate {
            let (ops, since) = (self.ops.clone(), self.started_at);
            self.background(move || ops.contention(since), WorkerEvent::Health);
        }
    }

    /// Does what the warnings advise, for the rest of the run.
    pub(super) fn mitigate(&mut self, contention: &Contention) {
        if contention.advice.contains(&Advice::Sequential) && self.max_agents > 1 {
            self.max_agents = 1;
            self.warn("agents wait for each other's files: from now on one at a time (`run.mitigate`)");
        }
        if contention.advice.contains(&Advice::IsolatedTests) && !self.isolates_tests {
            self.isolates_tests = true;
            self.warn("turns to test take long: new agents are told to test in snapshots (`run.mitigate`)");
        }
    }
}
