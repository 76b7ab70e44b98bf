//! What the rules need from the world. Adapters live in other crates; tests bring their own.

use std::fmt;

use crate::{Life, Owner, Timestamp};

/// The time, as one source for everything that compares instants.
pub trait Clock: fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// Tells whether a process still runs.
///
/// Contract: `Dead` is said only when it is certain. An owner of another machine is always `Unknown`.
pub trait Liveness: fmt::Debug {
    fn of(&self, owner: &Owner) -> Life;
}

/// The wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
