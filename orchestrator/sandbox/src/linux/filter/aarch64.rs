//! aarch64: there is no `open`, `rename` or `unlink`; every call takes a folder descriptor.

use super::{Rule, notify};

/// `AUDIT_ARCH_AARCH64`: any other value is a 32-bit call.
pub(super) const AUDIT: u32 = 0xc000_00b7;

pub(super) const RULES: &[Rule] = &[
    // Every program's first steps: here it can be held. Go's make the second of these.
    notify(libc::SYS_set_tid_address),
    notify(libc::SYS_sched_getaffinity),
];
