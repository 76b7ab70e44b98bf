//! Asks: requests to a holder to give a lock up.
//!
//! An ask is about one lock, as it was when somebody asked: its id and its fence. It waits for an answer (open, or
//! deferred by the holder) or is over. Nothing but the holder, the asker or the lock's own end changes it; time only
//! makes it overdue, which is worked out from the due time and never stored.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::{AgentId, Fence, LockId, Timestamp, Want};

/// How far into the future a holder may put an ask off.
pub const MAX_DEFERRAL: Duration = Duration::from_secs(60 * 60);
/// How often it may do so.
pub const MAX_DEFERRALS: u32 = 1;
/// The longest reason, in bytes. It is shown to the holder among other things.
pub const MAX_WHY: usize = 4 * 1024;

/// Short random name of an ask.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AskId(pub String);

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    Normal,
    Urgent,
}

/// Where an ask stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AskState {
    /// Nobody has answered.
    Open,
    /// The holder has said until when it needs the lock.
    Deferred,
    /// The holder gave the lock up for the asker, or the asker has got it.
    Released,
    /// The lock was taken from its holder.
    Taken,
    /// The lock went away, or the asker did.
    Moot,
    /// The asker does not need it any more.
    Cancelled,
}

impl AskState {
    pub const ALL: &[Self] =
        &[Self::Open, Self::Deferred, Self::Released, Self::Taken, Self::Moot, Self::Cancelled];

    /// True while an answer is still expected.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Open | Self::Deferred)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Deferred => "deferred",
            Self::Released => "released",
            Self::Taken => "taken",
            Self::Moot => "moot",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for AskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub id: AskId,
    /// What the asker wants to hold. The lock in its way may cover more.
    pub want: Want,
    /// The lease it wants to have.
    pub ttl: Duration,
    /// The lock in the way, as it was when somebody asked for it.
    pub lock: LockId,
    pub fence: Fence,
    pub asker: AgentId,
    pub holder: AgentId,
    pub why: String,
    pub urgency: Urgency,
    pub state: AskState,
    pub created_at: Timestamp,
    pub due_at: Timestamp,
    /// When the holder expects to be done, if it has said so.
    pub eta: Option<Timestamp>,
    pub deferrals: u32,
    /// When the state last changed.
    pub answered_at: Option<Timestamp>,
    /// When everybody concerned was told that it is overdue.
    pub escalated_at: Option<Timestamp>,
    /// Who ended it, if somebody did.
    pub ended_by: Option<AgentId>,
}

impl Ask {
    /// The one definition of "overdue": at the very instant it is due, it already is.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.state.is_pending() && self.due_at <= now
    }
}
