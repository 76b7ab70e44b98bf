//! From a call number and six registers to what the caller wants.

use libc::c_long;

use crate::linux::filter::{MARK, SYS_FCHMODAT2};
use crate::linux::notify::Request;

/// A path argument: where it starts, and the address of its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) dirfd: i32,
    pub(crate) path: u64,
}

impl At {
    /// True if nobody can change where the path starts without the broker's knowledge.
    pub(crate) fn is_known(self, path: &[u8]) -> bool {
        self.dirfd == libc::AT_FDCWD || path.starts_with(b"/")
    }
}

/// Whose attribute it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner {
    Named(At),
    /// A link itself, if it is one.
    NamedLink(At),
    Open(i32),
}

/// Whose place among others is changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whom {
    /// A process or a thread, 0 the caller.
    Process(u32),
    /// A process group, 0 that of the caller.
    Group(u32),
    /// All processes of a user, or something that is not known here.
    Others,
}

impl Whom {
    /// From the arguments of a call that counts its kinds from `process`.
    fn of(process: u32, which: u64, who: u64) -> Self {
        match uint(which).wrapping_sub(process) {
            0 => Self::Process(uint(who)),
            1 => Self::Group(uint(who)),
            _ => Self::Others,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum AttributeChange {
    Set { value: u64, size: u64, flags: u32 },
    Remove,
}

/// A notified call. Old calls and their newer forms are one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Open {
        at: At,
        flags: i32,
        mode: u32,
    },
    /// `openat2`: flags, mode and restrictions are behind a pointer.
    OpenHow {
        at: At,
        how: u64,
        size: u64,
    },
    Rename {
        from: At,
        to: At,
        flags: u32,
    },
    Unlink {
        at: At,
        flags: i32,
    },
    Link {
        from: At,
        to: At,
        flags: i32,
    },
    Symlink {
        text: u64,
        at: At,
    },
    Mkdir {
        at: At,
        mode: u32,
    },
    Mknod {
        at: At,
        mode: u32,
        device: u64,
    },
    Truncate {
        at: At,
        length: i64,
    },
    Chmod {
        at: At,
        mode: u32,
        flags: i32,
    },
    Fchmod {
        fd: i32,
        mode: u32,
    },
    /// An extended attribute, set or removed.
    Attribute {
        of: Owner,
        name: u64,
        change: AttributeChange,
    },
    /// A socket gets a name.
    Bind {
        socket: i32,
        address: u64,
        length: u64,
    },
    Umask {
        mask: u32,
    },
    /// Another current folder.
    Folder,
    /// Another user, group or list of groups.
    Rights,
    /// Limits of a process, new ones if `new` is not null.
    Limits {
        pid: u32,
        new: u64,
    },
    /// The limit that the gate marks programs with.
    Mark,
    /// When processors and disks serve whom.
    Priority {
        of: Whom,
    },
    /// A program was loaded and takes its first steps.
    Begin,
    /// A program starts. All are addresses.
    Exec {
        path: u64,
        args: u64,
        env: u64,
    },
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel takes the lower half of these registers")]
fn int(register: u64) -> i32 {
    register as i32
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel takes the lower half of these registers")]
fn uint(register: u64) -> u32 {
    register as u32
}

impl Call {
    /// None for a call that the filter does not notify.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let a = request.args;
        let at = |index: usize| At { dirfd: int(a[index]), path: a[index + 1] };
        let here = |index: usize| At { dirfd: libc::AT_FDCWD, path: a[index] };
        Some(match c_long::try_from(request.call).ok()? {
            libc::SYS_openat => Self::Open { at: at(0), flags: int(a[2]), mode: uint(a[3]) },
            libc::SYS_openat2 => Self::OpenHow { at: at(0), how: a[2], size: a[3] },
            libc::SYS_renameat => Self::Rename { from: at(0), to: at(2), flags: 0 },
            libc::SYS_renameat2 => Self::Rename { from: at(0), to: at(2), flags: uint(a[4]) },
            libc::SYS_unlinkat => Self::Unlink { at: at(0), flags: int(a[2]) },
            libc::SYS_linkat => Self::Link { from: at(0), to: at(2), flags: int(a[4]) },
            libc::SYS_symlinkat => Self::Symlink { text: a[0], at: at(1) },
            libc::SYS_mkdirat => Self::Mkdir { at: at(0), mode: uint(a[2]) },
            libc::SYS_mknodat => Self::Mknod { at: at(0), mode: uint(a[2]), device: a[3] },
            libc::SYS_truncate => Self::Truncate { at: here(0), length: a[1].cast_signed() },
            libc::SYS_fchmod => Self::Fchmod { fd: int(a[0]), mode: uint(a[1]) },
            libc::SYS_fchmodat => Self::Chmod { at: at(0), mode: uint(a[2]), flags: 0 },
            SYS_FCHMODAT2 => Self::Chmod { at: at(0), mode: uint(a[2]), flags: int(a[3]) },
            libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_fsetxattr => {
                let change = AttributeChange::Set { value: a[2], size: a[3], flags: uint(a[4]) };
                Self::Attribute { of: Self::owner(request), name: a[1], change }
            }
            libc::SYS_removexattr | libc::SYS_lremovexattr | libc::SYS_fremovexattr => {
                let change = AttributeChange::Remove;
                Self::Attribute { of: Self::owner(request), name: a[1], change }
            }
            libc::SYS_bind => Self::Bind { socket: int(a[0]), address: a[1], length: a[2] },
            libc::SYS_umask => Self::Umask { mask: uint(a[0]) },
            libc::SYS_chdir | libc::SYS_fchdir => Self::Folder,
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_setgroups => Self::Rights,
            libc::SYS_prlimit64 if uint(a[1]) == MARK && a[2] != 0 => Self::Mark,
            libc::SYS_prlimit64 => Self::Limits { pid: uint(a[0]), new: a[2] },
            libc::SYS_sched_setaffinity
            | libc::SYS_sched_setscheduler
            | libc::SYS_sched_setparam
            | libc::SYS_sched_setattr => Self::Priority { of: Whom::Process(uint(a[0])) },
            libc::SYS_setpriority => Self::Priority { of: Whom::of(0, a[0], a[1]) },
            libc::SYS_ioprio_set => Self::Priority { of: Whom::of(1, a[0], a[1]) },
            libc::SYS_execve => Self::Exec { path: a[0], args: a[1], env: a[2] },
            libc::SYS_execveat => Self::Exec { path: a[1], args: a[2], env: a[3] },
            #[cfg(target_arch = "aarch64")]
            libc::SYS_set_tid_address | libc::SYS_sched_getaffinity => Self::Begin,
            #[cfg(target_arch = "x86_64")]
            number => return Self::older(number, a),
            #[cfg(not(target_arch = "x86_64"))]
            _ => return None,
        })
    }

    fn owner(request: &Request) -> Owner {
        let at = At { dirfd: libc::AT_FDCWD, path: request.args[0] };
        match request.call {
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => Owner::Open(int(request.args[0])),
            libc::SYS_lsetxattr | libc::SYS_lremovexattr => Owner::NamedLink(at),
            _ => Owner::Named(at),
        }
    }

    /// The calls from before every path had a folder descriptor.
    #[cfg(target_arch = "x86_64")]
    fn older(number: c_long, a: [u64; 6]) -> Option<Self> {
        let here = |index: usize| At { dirfd: libc::AT_FDCWD, path: a[index] };
        let create = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        Some(match number {
            libc::SYS_open => Self::Open { at: here(0), flags: int(a[1]), mode: uint(a[2]) },
            libc::SYS_creat => Self::Open { at: here(0), flags: create, mode: uint(a[1]) },
            libc::SYS_rename => Self::Rename { from: here(0), to: here(1), flags: 0 },
            libc::SYS_unlink => Self::Unlink { at: here(0), flags: 0 },
            libc::SYS_rmdir => Self::Unlink { at: here(0), flags: libc::AT_REMOVEDIR },
            libc::SYS_link => Self::Link { from: here(0), to: here(1), flags: 0 },
            libc::SYS_symlink => Self::Symlink { text: a[0], at: here(1) },
            libc::SYS_mkdir => Self::Mkdir { at: here(0), mode: uint(a[1]) },
            libc::SYS_mknod => Self::Mknod { at: here(0), mode: uint(a[1]), device: a[2] },
            libc::SYS_chmod => Self::Chmod { at: here(0), mode: uint(a[1]), flags: 0 },
            libc::SYS_arch_prctl => Self::Begin,
            _ => return None,
        })
    }
}
