//! The kernel tier of mala.

mod guard;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

pub use guard::{Action, Attempt, Exit, Guard, Jail, Ruling, SandboxError, Support, Unsupported};
#[cfg(target_os = "linux")]
pub use linux::{probe, run};
#[cfg(not(target_os = "linux"))]
pub use other::{probe, run};
