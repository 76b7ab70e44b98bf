//! Systems without a kernel tier.

use std::process::Command;
use std::sync::Arc;

use crate::{Exit, Guard, Jail, SandboxError, Support, Unsupported};

pub fn probe() -> Result<Support, Unsupported> {
    Err(Unsupported::NotLinux)
}

#[expect(clippy::needless_pass_by_value, reason = "the same signature as on Linux")]
pub fn run(_jail: &Jail, _guard: Arc<dyn Guard>, _command: Command) -> Result<Exit, SandboxError> {
    Err(Unsupported::NotLinux.into())
}
