//! x86_64: the calls that newer architectures never had.

use super::{Rule, Verdict, WRITE_INTENT, When, notify};

/// `AUDIT_ARCH_X86_64`: any other value is a 32-bit call.
pub(super) const AUDIT: u32 = 0xc000_003e;

/// Sets the base of thread-local storage.
const ARCH_SET_FS: u32 = 0x1002;

pub(super) const RULES: &[Rule] = &[
    Rule {
        call: libc::SYS_open,
        cases: &[(When::AnyBit { argument: 1, bits: WRITE_INTENT }, Verdict::Notify)],
    },
    notify(libc::SYS_creat),
    notify(libc::SYS_rename),
    notify(libc::SYS_unlink),
    notify(libc::SYS_rmdir),
    notify(libc::SYS_link),
    notify(libc::SYS_symlink),
    notify(libc::SYS_mkdir),
    notify(libc::SYS_mknod),
    notify(libc::SYS_chmod),
    // Every program's first steps: here it can be held.
    Rule {
        call: libc::SYS_arch_prctl,
        cases: &[(When::OneOf { argument: 0, values: &[ARCH_SET_FS] }, Verdict::Notify)],
    },
];
