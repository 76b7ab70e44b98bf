//! The seccomp program: which calls run, which are refused, which are sent to the broker.
//!
//! Plain reads never leave the kernel. `open` and `openat` carry their flags in a register, so only calls that
//! can write, create or truncate are notified. What a program does with a descriptor is not looked at: the open
//! that made it was judged.
//!
//! The table is one list of [`Rule`]s; [`program`] turns it into BPF. What differs between machines is in one small
//! module per architecture.

use libc::{c_long, sock_filter};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

/// The highest call number this table was checked against. Later calls are answered ENOSYS, so that a program falls
/// back to one that is known here: a new way to write must not be a way around.
const LAST_AUDITED: u32 = 469;

// Calls newer than the `libc` crate's tables. Since Linux 5.1 numbers are the same on every architecture.
pub(crate) const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_FILE_SETATTR: c_long = 469;

/// Any of these bits makes an open more than a read. `O_RDONLY | O_TRUNC` truncates.
const WRITE_INTENT: u32 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32;

/// Every namespace that `clone` and `unshare` can make. A process in a namespace of its own could mount the tree under
/// another name.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Requests that change an inode through a descriptor opened for reading: FS_IOC_SETFLAGS, its 32-bit form,
/// FS_IOC_FSSETXATTR and FS_IOC_ENABLE_VERITY.
const INODE_REQUESTS: &[u32] = &[0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4080_6685];

/// Requests that make, remove or change a whole subvolume through a descriptor of a folder that was opened for reading. Landlock
/// does not see them. Of Btrfs: SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY and their second versions, and SUBVOL_SETFLAGS.
const SUBVOLUME_REQUESTS: &[u32] =
    &[0x5000_9401, 0x5000_940e, 0x5000_940f, 0x5000_9417, 0x5000_9418, 0x5000_943f, 0x4008_941a];

/// Whoever opens a file with a lease waits for its owner, and a descriptor for reading is enough to have one.
const LEASES: &[u32] = &[libc::F_SETLEASE as u32];

/// `RLIMIT_LOCKS`, which has another type in every C library: the limit by which the gate knows who descends from whom. It is of
/// no other use.
pub(crate) const MARK: u32 = 10;

/// Requests that type into the terminal, where a shell outside the tree would read it.
const TYPING_REQUESTS: &[u32] = &[0x5412, 0x541c];

/// What happens to a call that a rule is about.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Notify,
    Errno(i32),
}

impl Verdict {
    fn code(self) -> u32 {
        match self {
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
        }
    }
}

/// When a rule applies. Only the lower half of an argument is looked at: the kernel takes these as 32-bit values.
#[derive(Debug, Clone, Copy)]
enum When {
    Always,
    AnyBit { argument: u32, bits: u32 },
    OneOf { argument: u32, values: &'static [u32] },
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    call: c_long,
    cases: &'static [(When, Verdict)],
}

const fn notify(call: c_long) -> Rule {
    Rule { call, cases: &[(When::Always, Verdict::Notify)] }
}

const fn absent(call: c_long) -> Rule {
    Rule { call, cases: &[(When::Always, Verdict::Errno(libc::ENOSYS))] }
}

const fn forbidden(call: c_long) -> Rule {
    Rule { call, cases: &[(When::Always, Verdict::Errno(libc::EPERM))] }
}

const fn unsupported(call: c_long) -> Rule {
    Rule { call, cases: &[(When::Always, Verdict::Errno(libc::EOPNOTSUPP))] }
}

/// For a call whose first argument is a process, 0 the caller itself.
const fn about_another(call: c_long) -> Rule {
    Rule { call, cases: &[(When::AnyBit { argument: 0, bits: u32::MAX }, Verdict::Notify)] }
}

/// The rules that are the same on every architecture. The supervisor listens before the first program starts.
const COMMON: &[Rule] = &[
    Rule {
        call: libc::SYS_openat,
        cases: &[(When::AnyBit { argument: 2, bits: WRITE_INTENT }, Verdict::Notify)],
    },
    notify(libc::SYS_openat2),
    notify(libc::SYS_renameat),
    notify(libc::SYS_renameat2),
    notify(libc::SYS_unlinkat),
    notify(libc::SYS_linkat),
    notify(libc::SYS_symlinkat),
    notify(libc::SYS_mkdirat),
    notify(libc::SYS_mknodat),
    notify(libc::SYS_truncate),
    notify(libc::SYS_fchmod),
    notify(libc::SYS_fchmodat),
    notify(SYS_FCHMODAT2),
    // Access lists are modes, and more.
    notify(libc::SYS_setxattr),
    notify(libc::SYS_lsetxattr),
    notify(libc::SYS_fsetxattr),
    notify(libc::SYS_removexattr),
    notify(libc::SYS_lremovexattr),
    notify(libc::SYS_fremovexattr),
    absent(SYS_SETXATTRAT),
    absent(SYS_REMOVEXATTRAT),
    // Makes a name for a socket.
    notify(libc::SYS_bind),
    notify(libc::SYS_umask),
    // Where relative names begin.
    notify(libc::SYS_chdir),
    notify(libc::SYS_fchdir),
    // Whose rights the broker needs to act with.
    notify(libc::SYS_setuid),
    notify(libc::SYS_setgid),
    notify(libc::SYS_setreuid),
    notify(libc::SYS_setregid),
    notify(libc::SYS_setresuid),
    notify(libc::SYS_setresgid),
    notify(libc::SYS_setfsuid),
    notify(libc::SYS_setfsgid),
    notify(libc::SYS_setgroups),
    notify(libc::SYS_execve),
    notify(libc::SYS_execveat),
    // Programs fall back to ordinary calls, which are seen.
    absent(libc::SYS_io_uring_setup),
    absent(libc::SYS_io_uring_enter),
    absent(libc::SYS_io_uring_register),
    // Its flags are behind a pointer; libc falls back to `clone`.
    absent(libc::SYS_clone3),
    Rule {
        call: libc::SYS_clone,
        cases: &[(When::AnyBit { argument: 0, bits: NAMESPACES }, Verdict::Errno(libc::EPERM))],
    },
    Rule {
        call: libc::SYS_unshare,
        cases: &[(
            When::AnyBit { argument: 0, bits: NAMESPACES | libc::CLONE_NEWTIME as u32 },
            Verdict::Errno(libc::EPERM),
        )],
    },
    forbidden(libc::SYS_setns),
    forbidden(libc::SYS_chroot),
    forbidden(libc::SYS_pivot_root),
    forbidden(libc::SYS_mount),
    forbidden(libc::SYS_umount2),
    forbidden(libc::SYS_open_tree),
    forbidden(SYS_OPEN_TREE_ATTR),
    forbidden(libc::SYS_move_mount),
    forbidden(libc::SYS_fsopen),
    forbidden(libc::SYS_fsconfig),
    forbidden(libc::SYS_fsmount),
    forbidden(libc::SYS_fspick),
    forbidden(libc::SYS_mount_setattr),
    forbidden(libc::SYS_open_by_handle_at),
    // Would let a program stop the broker's reads of its memory half-way.
    forbidden(libc::SYS_userfaultfd),
    // The kernel itself would write to a file it is given.
    forbidden(libc::SYS_acct),
    forbidden(libc::SYS_swapon),
    // Code in the kernel obeys nobody.
    forbidden(libc::SYS_init_module),
    forbidden(libc::SYS_finit_module),
    forbidden(libc::SYS_delete_module),
    forbidden(libc::SYS_kexec_load),
    forbidden(libc::SYS_kexec_file_load),
    forbidden(libc::SYS_bpf),
    // A program under rules of its own would still write through the broker: better that it knows.
    unsupported(libc::SYS_landlock_create_ruleset),
    unsupported(libc::SYS_landlock_add_rule),
    unsupported(libc::SYS_landlock_restrict_self),
    unsupported(SYS_FILE_SETATTR),
    Rule {
        call: libc::SYS_ioctl,
        cases: &[
            (When::OneOf { argument: 1, values: INODE_REQUESTS }, Verdict::Errno(libc::EOPNOTSUPP)),
            (When::OneOf { argument: 1, values: SUBVOLUME_REQUESTS }, Verdict::Errno(libc::EOPNOTSUPP)),
            (When::OneOf { argument: 1, values: TYPING_REQUESTS }, Verdict::Errno(libc::EIO)),
        ],
    },
    Rule {
        call: libc::SYS_fcntl,
        cases: &[(When::OneOf { argument: 1, values: LEASES }, Verdict::Errno(libc::EINVAL))],
    },
    // The limits of another process can be its end.
    Rule {
        call: libc::SYS_prlimit64,
        cases: &[
            (When::AnyBit { argument: 0, bits: u32::MAX }, Verdict::Notify),
            (When::OneOf { argument: 1, values: &[MARK] }, Verdict::Notify),
        ],
    },
    Rule {
        call: libc::SYS_setrlimit,
        cases: &[(When::OneOf { argument: 0, values: &[MARK] }, Verdict::Errno(libc::EPERM))],
    },
    // So can a place far behind all others, if it is a supervisor that others wait for.
    about_another(libc::SYS_sched_setaffinity),
    about_another(libc::SYS_sched_setscheduler),
    about_another(libc::SYS_sched_setparam),
    about_another(libc::SYS_sched_setattr),
    Rule {
        call: libc::SYS_setpriority,
        // Groups and users, or one process that is not the caller.
        cases: &[
            (When::AnyBit { argument: 0, bits: u32::MAX }, Verdict::Notify),
            (When::AnyBit { argument: 1, bits: u32::MAX }, Verdict::Notify),
        ],
    },
    Rule {
        call: libc::SYS_ioprio_set,
        // As above. A process is 1 here, not 0.
        cases: &[
            (When::AnyBit { argument: 0, bits: !1 }, Verdict::Notify),
            (When::AnyBit { argument: 1, bits: u32::MAX }, Verdict::Notify),
        ],
    },
    // Pretended: a process that cannot be dumped cannot be read by an ordinary user's supervisor either.
    Rule {
        call: libc::SYS_prctl,
        cases: &[(When::OneOf { argument: 0, values: &[libc::PR_SET_DUMPABLE as u32] }, Verdict::Errno(0))],
    },
];

/// More for root, to whom the kernel lets all of it: probes of `perf_event_open` write into the memory of other programs, and what
/// it is asked for is behind a pointer.
const ROOT: &[Rule] = &[forbidden(libc::SYS_perf_event_open)];

/// Who the program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

impl User {
    pub(crate) fn own() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::Ordinary }
    }
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// The whole program, ready for `seccomp(2)`.
pub(crate) fn program(user: User) -> Vec<sock_filter> {
    let mut code = vec![
        load(ARCHITECTURE),
        jump(libc::BPF_JEQ, arch::AUDIT, 1, 0),
        ret(Verdict::Errno(libc::ENOSYS).code()),
        load(NUMBER),
        // Also every x32 call, whose numbers have a high bit set.
        jump(libc::BPF_JGT, LAST_AUDITED, 0, 1),
        ret(Verdict::Errno(libc::ENOSYS).code()),
    ];
    let more = if user == User::Root { ROOT } else { &[] };
    for rule in COMMON.iter().chain(arch::RULES).chain(more) {
        let body = body(rule.cases);
        let number = u32::try_from(rule.call).expect("call numbers are small and positive");
        let length = u8::try_from(body.len()).expect("a rule is a few instructions");
        code.push(jump(libc::BPF_JEQ, number, 0, length));
        code.extend(body);
    }
    code.push(ret(libc::SECCOMP_RET_ALLOW));
    code
}

/// What runs once the call number matched. Always ends in a return.
fn body(cases: &[(When, Verdict)]) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for &(when, verdict) in cases {
        match when {
            When::Always => {}
            When::AnyBit { argument: index, bits } => {
                code.push(load(argument(index)));
                code.push(jump(libc::BPF_JSET, bits, 0, 1));
            }
            When::OneOf { argument: index, values } => {
                code.push(load(argument(index)));
                let mut left = u8::try_from(values.len()).expect("a handful of values");
                for &value in values {
                    left -= 1;
                    code.push(jump(libc::BPF_JEQ, value, left, u8::from(left == 0)));
                }
            }
        }
        code.push(ret(verdict.code()));
        if matches!(when, When::Always) {
            return code;
        }
    }
    code.push(ret(libc::SECCOMP_RET_ALLOW));
    code
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump(test: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    instruction(libc::BPF_JMP | test | libc::BPF_K, value, if_true, if_false)
}

fn ret(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, value, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).expect("BPF opcodes have 16 bits"), jt, jf, k }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_call_has_one_rule() {
        let calls: Vec<_> = COMMON.iter().chain(arch::RULES).chain(ROOT).map(|rule| rule.call).collect();
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), calls.len());
    }

    /// Runs the program the way the kernel does, for the few instructions it uses.
    fn answer(number: c_long, arguments: [u32; 6]) -> u32 {
        answer_to(User::Ordinary, number, arguments)
    }

    fn answer_to(user: User, number: c_long, arguments: [u32; 6]) -> u32 {
        let program = program(user);
        let (mut at, mut accumulator) = (0, 0_u32);
        loop {
            let step = program[at];
            at += 1;
            let matched = match u32::from(step.code) & 0xf7 {
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match step.k {
                        NUMBER => number as u32,
                        ARCHITECTURE => arch::AUDIT,
                        k => arguments[(k as usize - 16) / 8],
                    };
                    continue;
                }
                c if c == libc::BPF_RET => return step.k,
                c if c == libc::BPF_JMP | libc::BPF_JEQ => accumulator == step.k,
                c if c == libc::BPF_JMP | libc::BPF_JGT => accumulator > step.k,
                c if c == libc::BPF_JMP | libc::BPF_JSET => accumulator & step.k != 0,
                other => panic!("unexpected opcode {other:#x}"),
            };
            at += usize::from(if matched { step.jt } else { step.jf });
        }
    }

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

    #[test]
    fn only_opens_that_may_write_are_notified() {
        let openat = |flags: i32| answer(libc::SYS_openat, [0, 0, flags as u32, 0, 0, 0]);
        for flags in [0, libc::O_CLOEXEC, libc::O_DIRECTORY | libc::O_NONBLOCK, libc::O_PATH] {
            assert_eq!(openat(flags), ALLOW, "{flags:#o}");
        }
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC, libc::O_ACCMODE] {
            assert_eq!(openat(flags | libc::O_CLOEXEC), NOTIFY, "{flags:#o}");
        }
    }

    #[test]
    fn refusals_carry_the_error_that_makes_programs_fall_back() {
        let errno = |value: i32| libc::SECCOMP_RET_ERRNO | value as u32;
        let first = |value: u32| [value, 0, 0, 0, 0, 0];
        assert_eq!(answer(libc::SYS_io_uring_setup, first(0)), errno(libc::ENOSYS));
        assert_eq!(answer(c_long::from(LAST_AUDITED) + 1, first(0)), errno(libc::ENOSYS));
        assert_eq!(answer(0x4000_0000 | libc::SYS_openat, first(0)), errno(libc::ENOSYS));
        assert_eq!(answer(libc::SYS_clone, first(libc::SIGCHLD as u32)), ALLOW);
        assert_eq!(answer(libc::SYS_clone, first(libc::CLONE_NEWUSER as u32)), errno(libc::EPERM));
        assert_eq!(answer(libc::SYS_prctl, first(libc::PR_SET_DUMPABLE as u32)), errno(0));
        assert_eq!(answer(libc::SYS_prctl, first(libc::PR_SET_NAME as u32)), ALLOW);
        for request in INODE_REQUESTS.iter().chain(SUBVOLUME_REQUESTS) {
            assert_eq!(answer(libc::SYS_ioctl, [3, *request, 0, 0, 0, 0]), errno(libc::EOPNOTSUPP));
        }
        for request in TYPING_REQUESTS {
            assert_eq!(answer(libc::SYS_ioctl, [3, *request, 0, 0, 0, 0]), errno(libc::EIO));
        }
        assert_eq!(answer(libc::SYS_fcntl, [3, LEASES[0], 0, 0, 0, 0]), errno(libc::EINVAL));
        assert_eq!(answer(libc::SYS_fcntl, [3, libc::F_SETFL as u32, 0, 0, 0, 0]), ALLOW);
        assert_eq!(answer(libc::SYS_ioctl, [3, libc::TIOCGWINSZ as u32, 0, 0, 0, 0]), ALLOW);
        assert_eq!(answer(libc::SYS_write, first(1)), ALLOW);
    }

    #[test]
    fn nobody_puts_code_into_the_kernel_and_root_none_into_other_programs() {
        let forbidden = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        for call in [libc::SYS_bpf, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_kexec_load] {
            assert_eq!(
                [User::Root, User::Ordinary].map(|user| answer_to(user, call, [0; 6])),
                [forbidden; 2]
            );
        }
        let perf =
            [User::Root, User::Ordinary].map(|user| answer_to(user, libc::SYS_perf_event_open, [0; 6]));
        assert_eq!(perf, [forbidden, ALLOW]);
    }

    #[test]
    fn only_the_caller_itself_is_its_own_business() {
        let answers = |call, which: u32, who: u32| answer(call, [which, who, 0, 0, 0, 0]);
        for call in [libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_sched_setattr] {
            assert_eq!((answers(call, 0, 7), answers(call, 1, 7)), (ALLOW, NOTIFY));
        }
        assert_eq!(answers(libc::SYS_prlimit64, 0, MARK), NOTIFY);
        for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
            assert_eq!((answers(call, process, 0), answers(call, process, 1)), (ALLOW, NOTIFY));
            for others in [1, 2] {
                assert_eq!(answers(call, process + others, 0), NOTIFY);
            }
        }
    }
}
