//! The kernel tier on Linux. The crate's documentation tells how the parts work together.

mod broker;
mod callers;
mod capture;
mod disguise;
mod drain;
mod filter;
mod folders;
mod gate;
mod handle;
mod identity;
mod keeper;
mod landlock;
mod launch;
mod links;
mod mounts;
mod notify;
mod probe;
mod process;
mod resolve;
mod signals;
mod spares;
mod sqlite;
mod supervisor;
mod task;
mod unprotected;
mod zones;

pub use capture::Capture;
pub use drain::{has_writers, writers};
pub use gate::Held;
pub use identity::identity_of;
pub use probe::probe;
pub use signals::{expect_children, take_signals};
pub use spares::sweep_spares;
pub use sqlite::keep_sqlite_locks;
pub use supervisor::run;
pub use unprotected::run_unprotected;
