//! Issues that are not begun before some moment.

use mala_core::IssueId;
use tokio::time::Instant;

use super::Dispatcher;
use crate::event::Event;

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
}
