//! Agents that wait, each in a thread with a store of its own.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use mala_core::Lock;
use mala_store::{Outcome, Refusal, Request};

use crate::terse::{granted, refused};
use crate::{DEADLINE, World, ask};

/// Longer than any test waits: whoever is granted only because its time is over has slept through its turn.
pub const FOREVER: Duration = Duration::from_secs(3_600);

/// A wait that is under way.
#[derive(Debug)]
pub struct Waiter(Receiver<Outcome>);

impl Waiter {
    /// Waits for what somebody else holds; returns as soon as it stands in the queue.
    pub fn queue(world: &World, name: &str, texts: &[&str]) -> Self {
        Self::queue_for(world, ask(name, texts), FOREVER)
    }

    pub fn queue_for(world: &World, request: Request, patience: Duration) -> Self {
        let mut store = world.store();
        let (queued, is_queued) = mpsc::channel();
        let (done, outcome) = mpsc::channel();
        thread::spawn(move || {
            let outcome = store.reserve_or_wait(&request, patience, |_| {
                let _ = queued.send(());
            });
            let _ = done.send(outcome.expect("the store works"));
        });
        is_queued.recv_timeout(DEADLINE).expect("the request must wait in the queue");
        Self(outcome)
    }

    pub fn outcome(self) -> Outcome {
        self.0.recv_timeout(DEADLINE).expect("the wait ends")
    }

    pub fn granted(self) -> Vec<Lock> {
        granted(self.outcome())
    }

    pub fn refused(self) -> Refusal {
        refused(self.outcome())
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.0.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}
