//! The settings as the rest of mala sees them: plain typed values, already checked.
//!
//! What each one may hold is in `table.rs`, what it is unless somebody says otherwise in `defaults.toml`.

use std::time::Duration;

/// Every setting, resolved over all layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// `[lock]`
    pub lock: LockSettings,
    /// `[enforcement]`
    pub enforcement: EnforcementSettings,
    /// `[status]`
    pub status: StatusSettings,
    /// `[health]`
    pub health: HealthSettings,
    /// `[logs]`
    pub logs: LogSettings,
}

/// `[lock]`: leases and waiting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockSettings {
    /// Lease of a lock taken without `--ttl`; never longer than `max_ttl`.
    pub ttl: Duration,
    /// Longest lease anybody may ask for.
    pub max_ttl: Duration,
    /// Longest `--wait`.
    pub max_wait: Duration,
}

/// `[enforcement]`: what `mala exec` does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnforcementSettings {
    /// What happens to a write on a file that nobody holds.
    pub unlocked: Unlocked,
    /// Refuse to run an agent where the kernel cannot enforce.
    pub require_kernel: bool,
}

/// What happens to a write on a file that nobody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// The writer takes the lock.
    Acquire,
    /// It is refused: locks have to be taken beforehand. New files are still the writer's.
    Deny,
}

impl Unlocked {
    pub(crate) const NAMES: &[(&str, Self)] = &[("acquire", Self::Acquire), ("deny", Self::Deny)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Deny => "deny",
        }
    }
}

/// `[status]`: the live view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatusSettings {
    /// Redraw interval of `mala status --watch`.
    pub refresh: Duration,
}

/// `[health]`: when contention is worth a warning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HealthSettings {
    /// Share of lock tries, 0 to 1, that may wait before it is a warning.
    pub wait_rate: f64,
    /// Lock waits in 24 hours before it is a warning.
    pub waits_per_day: u64,
}

/// `[logs]`: the event log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSettings {
    /// `mala clean` drops events older than this.
    pub keep: Duration,
}

impl Settings {
    /// What the default layer is written into. Not a `Default`: these are no settings, and a test proves that the
    /// default layer replaces every one of them.
    pub(crate) const BLANK: Self = Self {
        lock: LockSettings { ttl: Duration::ZERO, max_ttl: Duration::ZERO, max_wait: Duration::ZERO },
        enforcement: EnforcementSettings { unlocked: Unlocked::Deny, require_kernel: true },
        status: StatusSettings { refresh: Duration::ZERO },
        health: HealthSettings { wait_rate: 0.0, waits_per_day: 0 },
        logs: LogSettings { keep: Duration::ZERO },
    };
}
