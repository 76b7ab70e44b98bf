//! The kernel tier on Linux. The crate's documentation tells how the parts work together.

mod broker;
mod disguise;
mod filter;
mod keeper;
mod landlock;
mod launch;
mod links;
mod mounts;
mod notify;
mod probe;
mod resolve;
mod signals;
mod supervisor;
mod task;
mod zones;

pub use probe::probe;
pub use supervisor::run;
