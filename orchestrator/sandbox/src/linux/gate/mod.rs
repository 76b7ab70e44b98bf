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

use std::collections::HashMap;
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

#[derive(Default)]
pub(crate) struct Gate {
    /// By process.
    matched: Mutex<HashMap<u32, Matched>>,
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
    /// `task` is about to become a program that `hold` is for.
    pub(crate) fn matched(&self, task: Task, hold: Box<dyn Hold>) -> Result<(), Errno> {
        let pid = task.process()?;
        if self.lineage.covers(pid) {
            self.unmatched(task);
            return Ok(());
        }
        let process = Process::open(pid)?;
        let entry = Matched { process, caller: task.tid, before: Image::of(pid), hold };
        self.change(|matched| {
            matched.retain(|_, old| !old.process.is_dead());
            matched.insert(pid, entry);
        });
        Ok(())
    }

    /// `task` is about to become a program that need not wait.
    pub(crate) fn unmatched(&self, task: Task) {
        if self.expects()
            && let Ok(pid) = task.process()
        {
            self.change(|matched| drop(matched.remove(&pid)));
        }
    }

    /// True if a program is on its way to be stopped.
    pub(crate) fn expects(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// The hold for a program that makes its first call, if it has one.
    fn arrived(&self, tid: u32) -> Option<Matched> {
        self.change(|matched| {
            let pid = owner_of(tid, matched)?;
            let entry = matched.get(&pid)?;
            if entry.process.is_dead() {
                matched.remove(&pid);
                return None;
            }
            if Image::of(pid) != entry.before {
                return matched.remove(&pid);
            }
            // Still the old program. If the thread that wanted to leave it is here, it could not.
            if entry.caller == tid {
                matched.remove(&pid);
            }
            None
        })
    }

    /// Waits until what ended programs have printed was passed on, so that the next program's output comes after it.
    pub(crate) fn settle(&self) {
        self.taps.settle();
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<u32, Matched>) -> T) -> T {
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

/// Which of `processes` a thread belongs to.
fn owner_of<T>(tid: u32, processes: &HashMap<u32, T>) -> Option<u32> {
    if processes.contains_key(&tid) {
        return Some(tid);
    }
    processes.keys().copied().find(|pid| Path::new(&format!("/proc/{pid}/task/{tid}")).exists())
}
