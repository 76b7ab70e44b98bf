//! Locks: who holds what, in which mode, since when and until when.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::{AgentId, Claim, IssueId, Key, Owner, RunId, Target, Timestamp, Want};

/// How much of a file a lock claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Others may read along under shared locks of their own, nobody may write.
    Shared,
    /// One agent alone.
    Exclusive,
}

impl Mode {
    /// Two agents may hold the same thing only if both merely share it.
    pub fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

/// A number that only grows: of two holders of one thing, the later one has the higher fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Short random name of a lock or a waiter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LockId(pub String);

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Until when a lock holds without being renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// What one renewal adds.
    pub ttl: Duration,
    pub expires_at: Timestamp,
}

impl Lease {
    pub fn starting(now: Timestamp, ttl: Duration) -> Self {
        Self { ttl, expires_at: now.plus(ttl) }
    }

    /// The one definition of "expired": at the very instant of expiry it already is.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

/// One held lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub id: LockId,
    pub target: Target,
    /// Other names of a hard-linked file; they are held with it.
    pub aliases: Vec<Key>,
    pub mode: Mode,
    pub agent: AgentId,
    pub issue: Option<IssueId>,
    pub run: Option<RunId>,
    pub owner: Owner,
    /// True if a supervisor keeps the lease alive, so that only the owner's death ends it.
    pub supervised: bool,
    pub fence: Fence,
    pub acquired_at: Timestamp,
    pub lease: Lease,
    pub reason: Option<String>,
}

impl Lock {
    pub fn claim(&self) -> Claim<'_> {
        Claim { target: &self.target, aliases: &self.aliases, mode: self.mode, agent: &self.agent }
    }

    /// True for a lock on a name, such as the test mutex.
    pub fn is_named(&self) -> bool {
        matches!(self.target, Target::Name(_))
    }
}

/// Why one wanted target was not granted: somebody else's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub want: Want,
    pub holder: Lock,
}

impl Conflict {
    /// The most specific name of what is contended: a file if either side names one.
    pub fn contended(&self) -> &Target {
        match (&self.want.target, &self.holder.target) {
            (Target::Pattern(_), file @ Target::File(_)) => file,
            (wanted, _) => wanted,
        }
    }
}
