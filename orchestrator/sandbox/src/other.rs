//! Systems without a kernel tier.

use std::process::Command;
use std::sync::Arc;

use crate::{Exit, Guard, Jail, SandboxError, Support, Unsupported};

/// What may be enforced here: nothing.
pub fn probe() -> Result<Support, Unsupported> {
    Err(if cfg!(target_os = "linux") { Unsupported::Architecture } else { Unsupported::NotLinux })
}

/// Starts nothing: a program that is not watched must not run as if it were.
pub fn run(_jail: &Jail, _guard: Arc<dyn Guard>, _command: Command) -> Result<Exit, SandboxError> {
    probe().map_err(SandboxError::from).map(|_never| Exit { code: None, signal: None })
}
