//! The language of mala as types, and the rules that decide between agents.
//!
//! Everything here is plain data and pure functions, with one exception: [`scope`] and [`key`] ask the
//! file system how a path resolves, [`file`] reads, and [`sharing`] gives files the permissions that git gives. Storage, processes and time reach the rules through the ports in
//! [`ports`]; nothing in this crate prints, spawns or remembers. A test may have the process killed at a [`crash_point()`].

pub mod ask;
pub mod attempt;
pub mod check;
pub mod claim;
mod crash_point;
pub mod entry;
pub mod evidence;
pub mod excerpt;
pub mod file;
pub mod guarded;
pub mod issue;
pub mod key;
pub mod lock;
mod lock_group;
pub mod message;
pub mod name;
pub mod oid;
pub mod owner;
pub mod pattern;
pub mod ports;
pub mod scope;
pub mod sharing;
pub mod shell;
pub mod text;
pub mod time;

pub use ask::{Ask, AskId, AskState, Urgency};
pub use attempt::{Attempt, AttemptId, AttemptState, Interruption, Spend, Step};
pub use check::{CheckName, CheckSubject};
pub use claim::{Claim, Target, Want};
pub use crash_point::crash_point;
pub use entry::{Entry, EntryId, EntryState, EntryStep};
pub use evidence::{Actor, EvidenceId};
pub use excerpt::Excerpt;
pub use guarded::{CommandPattern, CommandPatternError};
pub use issue::{Issue, Note, Priority, Run};
pub use key::Key;
pub use lock::{Conflict, Fence, Lease, Lock, LockId, Mode};
pub use lock_group::LockGroups;
pub use message::{Message, MessageId, Who};
pub use name::{AgentId, IssueId, IssueWord, LockName, NameError, PersonId, RunId, ThreadId};
pub use oid::Oid;
pub use owner::{Life, Owner};
pub use pattern::{Pattern, PatternError};
pub use scope::Scope;
pub use time::{SteadyTime, Timestamp};
