//! Which process a lock lives and dies with.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::Serialize;

/// One process, named so that a recycled pid, a reboot or another machine is never mistaken for it.
#[derive(Debug, Clone, Serialize)]
pub struct Owner {
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// When the process started, in the kernel's own unit. Only ever compared for equality.
    pub start_time: u64,
    /// The machine or container by a random id of its own, as far as it has one. Host names are not unique: of two containers
    /// with one name, none may take the other for itself before a reboot. It is no part of what the process is, because a
    /// command without a home does not know it.
    pub node: Option<String>,
}

impl Owner {
    fn identity(&self) -> (&str, &str, u32, u64) {
        (&self.host, &self.boot_id, self.pid, self.start_time)
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Owner {}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} on {}", self.pid, self.host)
    }
}

/// What this machine can tell about an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// That very process is running.
    Alive,
    /// It has ended, or the machine has been restarted since.
    Dead,
    /// It runs on another machine, as far as can be told here, so a pid says nothing. Only its lease can end its locks.
    Unknown,
}
