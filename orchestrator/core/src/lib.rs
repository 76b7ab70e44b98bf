//! The language of mala as types, and the rules that decide between agents.
//!
//! Everything here is plain data and pure functions, with one exception: [`scope`] and [`key`] ask the
//! file system how a path resolves. Storage, processes and time reach the rules through the ports in
//! [`ports`]; nothing in this crate prints, spawns or remembers.

pub mod claim;
pub mod key;
pub mod lock;
pub mod name;
pub mod owner;
pub mod pattern;
pub mod ports;
pub mod scope;
pub mod time;

pub use claim::{Claim, Target, Want};
pub use key::Key;
pub use lock::{Conflict, Fence, Lease, Lock, LockId, Mode};
pub use name::{AgentId, IssueId, LockName, NameError, RunId};
pub use owner::{Life, Owner};
pub use pattern::{Pattern, PatternError};
pub use scope::Scope;
pub use time::Timestamp;
