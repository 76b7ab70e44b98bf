//! Which process a lock lives and dies with.

use std::fmt;

use serde::Serialize;

/// One process, named so that a recycled pid, a reboot or another machine is never mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Owner {
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// When the process started, in the kernel's own unit. Only ever compared for equality.
    pub start_time: u64,
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
    /// It runs on another host, so a pid says nothing. Only its lease can end its locks.
    Unknown,
}
