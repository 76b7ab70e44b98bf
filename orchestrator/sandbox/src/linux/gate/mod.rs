//! The gate: programs that the guard wants to wait for their turn.
//!
//! A program is matched when it is about to start and held when it has been loaded, at its first notified call. In
//! between, the kernel answers whoever started it: a parent that sleeps in `vfork` until its child has become another
//! program is not held up. On x86_64 every program's first notified call is setting up its thread-local storage, on
//! aarch64 it is `set_tid_address`; a program that makes neither is held at whichever notified call it makes first.
//!
//! A process that has passed, and all that descend from it, are not held again while it lives.

mod held;
mod image;
mod lineage;
mod taps;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;

pub use self::held::Held;
pub(crate) use self::held::Stop;
use self::image::Image;
use self::lineage::Lineage;
use self::taps::Taps;
use super::process::Process;
use super::task::Task;
use crate::Hold;

/// How long `stop` waits for holds to notice that their programs are gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A program that was about to start.
struct Matched {
    process: Process,
    /// The thread that made the call.
    caller: u32,
    /// What ran in the process before.
    before: Image,
    hold: Box<dyn Hold>,
}

impl Matched {
    /// True if it has started or could not, now that `task` of the process `pid` makes another call. What other threads do
    /// says nothing about it.
    fn is_over(&self, pid: u32, task: Task, image: &Image) -> bool {
        self.process.pid() == pid && (self.caller == task.tid || self.before != *image)
    }
}

#[derive(Default)]
pub(crate) struct Gate {
    /// In order. Several threads of one process may be about to start something, and only one can.
    matched: Mutex<Vec<Matched>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    lineage: Lineage,
    taps: Taps,
    /// Programs that a hold is responsible for, from `wait` to `ended`.
    kept: Mutex<Vec<Arc<Process>>>,
    let_go: Condvar,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("matched", &self.count)
            .field("lineage", &self.lineage)
            .finish_non_exhaustive()
    }
}

/// A thread that panicked left nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// `task`, if it `is_waiting` for the answer, is about to become a program that `hold` is for.
    pub(crate) fn matched(
        &self,
        task: Task,
        hold: Box<dyn Hold>,
        is_waiting: impl FnOnce() -> bool,
    ) -> Result<(), Errno> {
        let pid = task.process()?;
        if self.lineage.covers(pid) {
            self.unmatched(task, is_waiting);
            return Ok(());
        }
        let entry = Matched { process: Process::open(pid)?, caller: task.tid, before: Image::of(pid), hold };
        if !is_waiting() {
            return Err(Errno::SRCH);
        }
        self.change(|matched| {
            matched.retain(|old| !old.process.is_dead() && !old.is_over(pid, task, &entry.before));
            matched.push(entry);
        });
        Ok(())
    }

    /// `task`, if it `is_waiting` for the answer, is about to become a program that need not wait.
    pub(crate) fn unmatched(&self, task: Task, is_waiting: impl FnOnce() -> bool) {
        if !self.expects() {
            return;
        }
        let Ok(pid) = task.process() else { return };
        self.change(|matched| {
            if matched.iter().any(|entry| entry.process.pid() == pid) {
                let image = Image::of(pid);
                // A thread that is gone may have been ended by another one's start, and the image is that one's.
                if is_waiting() {
                    matched.retain(|entry| !entry.is_over(pid, task, &image));
                }
            }
        });
    }

    /// True if a program is on its way to be stopped.
    pub(crate) fn expects(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The hold for a program that makes its first call, if it has one.
    fn arrived(&self, stop: &Stop) -> Option<Matched> {
        let tid = stop.request.tid;
        self.change(|matched| {
            let pid = owner_of(tid, matched)?;
            matched.retain(|entry| entry.process.pid() != pid || !entry.process.is_dead());
            let image = Image::of(pid);
            // As above.
            if !stop.listener.is_waiting(&stop.request) {
                return None;
            }
            let is_loaded = |entry: &Matched| entry.process.pid() == pid && entry.before != image;
            // The last: those before it could not start.
            let found = matched.iter().rposition(is_loaded).map(|at| matched.remove(at));
            // Where it is still the old program, a thread that wanted to leave it and is here could not.
            matched.retain(|entry| !entry.is_over(pid, Task { tid }, &image));
            found
        })
    }

    /// Waits until what ended programs have printed was passed on, so that the next program's output comes after it.
    pub(crate) fn settle(&self) {
        self.taps.settle();
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Matched>) -> T) -> T {
        let mut matched = lock(&self.matched);
        let result = change(&mut matched);
        self.count.store(matched.len(), Ordering::SeqCst);
        result
    }

    fn keep(&self, process: &Arc<Process>) {
        lock(&self.kept).push(Arc::clone(process));
    }

    fn let_go(&self, process: &Arc<Process>) {
        lock(&self.kept).retain(|kept| !Arc::ptr_eq(kept, process));
        self.let_go.notify_all();
    }

    /// Ends what is held or has passed, and waits until every hold was told.
    pub(crate) fn stop(&self) {
        let kept = lock(&self.kept);
        for process in kept.iter() {
            process.signal(Signal::KILL);
        }
        let waited = self.let_go.wait_timeout_while(kept, PATIENCE, |kept| !kept.is_empty());
        drop(waited);
        self.taps.drain(PATIENCE);
    }
}

/// Which of the processes a thread belongs to.
fn owner_of(tid: u32, matched: &[Matched]) -> Option<u32> {
    let mut pids = matched.iter().map(|entry| entry.process.pid());
    if pids.clone().any(|pid| pid == tid) {
        return Some(tid);
    }
    pids.find(|pid| Path::new(&format!("/proc/{pid}/task/{tid}")).exists())
}
