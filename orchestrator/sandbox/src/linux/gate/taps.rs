//! Programs whose output is being copied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use crate::linux::capture::Tap;
use crate::linux::process::Process;

/// How long a program's start waits for what an ended one has printed: a reader may be slow, or asleep.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Tapped {
    process: Arc<Process>,
    tap: Arc<Tap>,
    /// Somebody has waited for it after its program's end.
    is_awaited: bool,
}

#[derive(Debug, Default)]
pub(super) struct Taps {
    /// Kept until all of the output was passed on, which may be after the process's end.
    known: Mutex<Vec<Tapped>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

impl Taps {
    pub(super) fn add(&self, process: &Arc<Process>, tap: &Arc<Tap>) {
        let mut known = lock(&self.known);
        known.retain(|tapped| !tapped.tap.is_over());
        known.push(Tapped { process: Arc::clone(process), tap: Arc::clone(tap), is_awaited: false });
        self.count.store(known.len(), Ordering::SeqCst);
    }

    /// Waits until what ended programs have printed was passed on. Once for each of them.
    pub(super) fn settle(&self) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut ended = Vec::new();
        let mut known = lock(&self.known);
        known.retain(|tapped| !tapped.tap.is_over());
        self.count.store(known.len(), Ordering::SeqCst);
        for tapped in known.iter_mut().filter(|tapped| !tapped.is_awaited && tapped.process.is_dead()) {
            tapped.is_awaited = true;
            ended.push(Arc::clone(&tapped.tap));
        }
        drop(known);
        drain(&ended, PATIENCE);
    }

    /// Waits until everything was passed on, for a while.
    pub(super) fn drain(&self, limit: Duration) {
        let all: Vec<_> = lock(&self.known).drain(..).map(|tapped| tapped.tap).collect();
        drain(&all, limit);
    }
}

fn drain(taps: &[Arc<Tap>], limit: Duration) {
    let deadline = Instant::now() + limit;
    for tap in taps {
        let (told, drained) = channel::<()>();
        tap.when_drained(move || drop(told));
        let _late = drained.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}
