//! What the rules need from the world. Adapters live in other crates; tests bring their own.

use std::fmt;
use std::time::Duration;

use crate::{Life, Owner, Timestamp, time};

/// The time, as one source for everything that compares instants.
pub trait Clock: fmt::Debug {
    /// What the wall clock shows: for people, and to be compared with the dates of files and commits.
    fn now(&self) -> Timestamp;

    /// How long the machine has been awake, for everything that has a length or an end.
    fn uptime(&self) -> Duration;
}

/// Tells whether a process still runs.
///
/// Contract: `Dead` is said only when it is certain. An owner of another machine is always `Unknown`.
pub trait Liveness: fmt::Debug {
    fn of(&self, owner: &Owner) -> Life;
}

/// The clocks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        time::uptime()
    }
}
