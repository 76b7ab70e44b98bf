//! Programs whose output is being copied.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{lock, owner_of};
use crate::linux::capture::Tap;

#[derive(Debug, Default)]
pub(super) struct Taps {
    /// By process. Kept until all of the output was passed on, which may be after the process's end.
    known: Mutex<HashMap<u32, Arc<Tap>>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

impl Taps {
    pub(super) fn add(&self, pid: u32, tap: &Arc<Tap>) {
        let mut known = lock(&self.known);
        known.retain(|_, tap| !tap.is_over());
        known.insert(pid, Arc::clone(tap));
        self.count.store(known.len(), Ordering::SeqCst);
    }

    /// The one for the process that a thread belongs to.
    pub(super) fn of(&self, tid: u32) -> Option<Arc<Tap>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut known = lock(&self.known);
        known.retain(|_, tap| !tap.is_over());
        self.count.store(known.len(), Ordering::SeqCst);
        owner_of(tid, &known).and_then(|pid| known.get(&pid).cloned())
    }

    /// Waits until everything was passed on, for a while.
    pub(super) fn drain(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for tap in lock(&self.known).values() {
            let (told, drained) = channel::<()>();
            tap.when_drained(move || drop(told));
            let _late = drained.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}
