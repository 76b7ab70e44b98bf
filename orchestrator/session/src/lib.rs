//! An agent in a checkout: how it gets files, what holds it to them, and what its hooks are told.
//!
//! # Theory of operation
//!
//! [`acquire()`] is the one way to a file. It reserves in the store, saves the work of a killed agent that the file had before,
//! waits for programs that still have it open for writing, or gives the lock back. The command line, hooks, the kernel tier
//! and runs all come through here.
//!
//! Under `mala exec` the kernel asks before a program changes anything ([`StoreGuard`]); inside the tree `mala` turns to its
//! supervisor ([`supervisor_socket`]), because nothing in there may touch the store. Elsewhere the client's hooks ask
//! ([`hook`]).
//!
//! Nothing here prints, parses arguments or picks exit codes: `cli` does.

mod acquire;
mod asks;
pub mod background;
mod caller;
mod error;
#[cfg(target_os = "linux")]
mod frozen;
pub mod git_guard;
mod guard;
pub mod hook;
mod ignored;
pub mod jail;
mod orphaned_work;
mod other_checkouts;
mod reads;
pub mod refusal;
mod release;
mod reserved_refs;
pub mod supervise;
mod supervisor_ownership;
pub mod supervisor_socket;
mod take;
mod turns;
mod wants;

pub use acquire::{acquire, acquire_or_wait, settle, wait_for_mutex, wait_for_writers};
pub use asks::{AskResult, FileHandedOn, ask, hand_on, wait_for_asked};
pub use caller::{Supervised, ancestors, session_name, sessions_above};
pub use error::{Handover, SessionError};
pub use guard::{LostLock, RefusedWrite, StoreGuard};
pub use ignored::{Ignored, IgnoredAhead};
pub use release::{answer_release, release, transfer};
pub use reserved_refs::run_agent;
pub use supervisor_ownership::{OtherHolder, SupervisorOwnership, Tenure};
pub use take::take;
pub use turns::{Announcement, HeldMutexes, TurnRules, Turns, take_turn, want};
pub use wants::with_groups;
