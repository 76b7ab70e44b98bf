//! The broker: receives calls and answers them.

mod call;
mod exec;
mod handovers;
mod inode;
mod names;
mod open;
mod pipes;
mod pool;
mod priority;
mod rename;
mod seat;
mod session;
mod wake;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use self::pipes::Pipe;
use self::pool::Pool;
use super::callers::Callers;
use super::folders::Folders;
use super::gate::Gate;
use super::links::Links;
use super::memory::Memory;
use super::notify::Listener;
use super::spares::Spares;
use super::task::Umasks;
use super::zones::Zones;
use crate::Guard;

/// What every answer needs.
pub(crate) struct Rules {
    pub(crate) zones: Zones,
    pub(crate) spares: Spares,
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) links: Links,
    pub(crate) umasks: Umasks,
    pub(crate) callers: Callers,
    pub(crate) memory: Memory,
    pub(crate) folders: Folders,
    pub(crate) gate: Arc<Gate>,
}

/// How a call is answered when it is not an error.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The kernel runs it.
    Proceed,
    /// The broker has done it.
    Done,
    /// The broker has opened a file for the caller.
    Opened(Opened),
    /// The caller waits until somebody opens the other end.
    Awaits(Pipe),
}

/// A file to hand over. The caller may have no room for one more, and then nothing must have happened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) cloexec: bool,
    pub(crate) effect: Effect,
}

/// What opening it does to the file.
#[derive(Debug)]
pub(crate) enum Effect {
    None,
    /// It was made, with this name.
    Created(PathBuf),
    /// It is to be emptied when the caller has it.
    Truncated,
}

pub(crate) struct Broker {
    rules: Arc<Rules>,
    pool: Mutex<Option<Arc<Pool>>>,
}

impl Broker {
    pub(crate) fn new(zones: Zones, spares: Spares, guard: Arc<dyn Guard>) -> Self {
        let rules = Rules {
            zones,
            spares,
            guard,
            links: Links::default(),
            umasks: Umasks::new(),
            callers: Callers::default(),
            memory: Memory::default(),
            folders: Folders::default(),
            gate: Arc::default(),
        };
        Self { rules: Arc::new(rules), pool: Mutex::default() }
    }

    /// Starts to answer.
    pub(crate) fn serve(&self, listener: Listener) {
        let rules = Arc::clone(&self.rules);
        // Without this thread, nothing is ever left to the kernel: slower, and as safe.
        let _looking = thread::Builder::new()
            .name("mala-links".to_owned())
            .spawn(move || rules.links.look(&rules.zones, &*rules.guard));
        *lock(&self.pool) = Some(Pool::start(Arc::clone(&self.rules), listener));
    }

    /// Ends everything that still waits or answers.
    pub(crate) fn stop(&self) {
        let Some(pool) = lock(&self.pool).take() else { return };
        self.rules.links.end();
        pool.stop();
        // No thread is left that could stop another program.
        self.rules.gate.stop();
        // A thread that is about to end may keep the rules until the process has: nothing waits for their drop.
        self.rules.spares.end();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread that panicked left nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
