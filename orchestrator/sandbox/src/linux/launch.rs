//! Starting the first process: everything between `fork` and `exec`.
//!
//! The forked process forks once more: the parent becomes the [keeper](super::keeper), the child puts the rules on
//! itself, sends the listener to the supervisor and becomes the program. All of it runs in a copy of a process that
//! may have had threads, so it only makes system calls on memory that was prepared before.

use std::ffi::OsStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use libc::{c_int, c_long, sock_filter};
use rustix::process::Rlimit;

use super::filter;
use super::keeper::{self, Care};
use super::limits;

/// First byte of the message that carries the listener.
pub(crate) const LISTENER: u8 = b'L';
/// The child gives up: this byte, then the [`Step`] that failed.
pub(crate) const FAILED: u8 = b'E';

/// Where the child gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Input = 0,
    Output = 1,
    Error = 2,
    Keeper,
    Landlock,
    Seccomp,
}

impl Step {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Input, Self::Output, Self::Error, Self::Keeper, Self::Landlock, Self::Seccomp]
            .into_iter()
            .find(|step| *step as u8 == byte)
    }
}

/// The socket between the child and the supervisor.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) childs: OwnedFd,
    /// If the child had this end open, too, nobody would notice the supervisor's death before the program has started.
    pub(crate) supervisors: RawFd,
}

/// What the child needs, made before the fork.
#[derive(Debug)]
struct Kit {
    control: Control,
    ruleset: OwnedFd,
    program: Vec<sock_filter>,
    root: Vec<u8>,
    /// The signals that the program starts with blocked.
    mask: libc::sigset_t,
    /// How many files the program may have open.
    open_files: Rlimit,
}

/// Arranges that `command`, once spawned, runs under the rules and reports on `control`, and that this process may have as many
/// files open as possible.
pub(crate) fn arrange(
    command: &mut Command,
    control: Control,
    ruleset: OwnedFd,
    root: &Path,
    mask: libc::sigset_t,
) {
    let root = OsStr::as_bytes(root.as_os_str()).to_vec();
    let open_files = limits::raise_open_files();
    let kit = Kit { control, ruleset, program: filter::program(filter::User::own()), root, mask, open_files };
    // SAFETY: `enter` allocates nothing, takes no lock and never unwinds into the parent's frames.
    unsafe { command.pre_exec(move || enter(&kit)) };
}

fn enter(kit: &Kit) -> io::Result<()> {
    // SAFETY: runs after `fork` in a process of its own, see above.
    unsafe {
        libc::close(kit.control.supervisors);
        keeper::prepare();
        let keeper = libc::getpid();
        match libc::fork() {
            -1 => return give_up(kit, Step::Keeper),
            0 => {}
            child => keeper::keep(kit.control.childs.as_raw_fd(), child, Care::Supervised),
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const kit.mask, std::ptr::null_mut());
        if !keeper::die_with(keeper) {
            return give_up(kit, Step::Keeper);
        }
    }
    limits::set_open_files(kit.open_files);
    for (stream, step) in [(0, Step::Input), (1, Step::Output), (2, Step::Error)] {
        if writes_into(stream, &kit.root) {
            return give_up(kit, step);
        }
    }
    confine(kit)
}

/// Puts the rules on this process. From here on its calls are answered by the broker.
fn confine(kit: &Kit) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(kit.program.len()).unwrap_or(u16::MAX),
        filter: kit.program.as_ptr().cast_mut(),
    };
    // SAFETY: plain numbers, and `program` points to instructions that outlive the call. Descriptors are only marked
    // to be closed by `exec`: the standard library still needs one to report a failed start.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
            || libc::syscall(libc::SYS_landlock_restrict_self, kit.ruleset.as_raw_fd(), 0) < 0
        {
            return give_up(kit, Step::Landlock);
        }
        let listener = install(&program);
        if listener < 0 {
            return give_up(kit, Step::Seccomp);
        }
        let sent = send_listener(kit.control.childs.as_raw_fd(), listener);
        libc::close(listener);
        sent
    }
}

/// The listener's descriptor, or -1.
///
/// # Safety
/// `program` must point to valid instructions.
pub(crate) unsafe fn install(program: &libc::sock_fprog) -> c_int {
    // Programs trust themselves: on older kernels, a filter would switch off speculation and slow all of them down.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
        | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
        | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: as the caller promises.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            c_long::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            std::ptr::from_ref(program),
        )
    };
    c_int::try_from(fd).unwrap_or(-1)
}

/// True if `stream` could write to a file at or below `root`.
fn writes_into(stream: RawFd, root: &[u8]) -> bool {
    let link = match stream {
        0 => c"/proc/self/fd/0",
        1 => c"/proc/self/fd/1",
        _ => c"/proc/self/fd/2",
    };
    let mut target = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has the length that is passed, the path is a constant string.
    let (flags, length) = unsafe {
        let flags = libc::fcntl(stream, libc::F_GETFL);
        (flags, libc::readlink(link.as_ptr(), target.as_mut_ptr().cast(), target.len()))
    };
    let target = &target[..usize::try_from(length).unwrap_or(0)];
    let writes = flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY;
    writes && target.strip_prefix(root).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Tells the supervisor which step failed, and the caller why.
fn give_up(kit: &Kit, step: Step) -> io::Result<()> {
    let error = io::Error::last_os_error();
    let message = [FAILED, step as u8];
    // SAFETY: the buffer has the length that is passed.
    unsafe {
        let control = kit.control.childs.as_raw_fd();
        libc::send(control, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL);
    }
    // An error without a number could not cross to the parent.
    Err(if error.raw_os_error().is_some_and(|errno| errno != 0) {
        error
    } else {
        io::Error::from_raw_os_error(libc::EPERM)
    })
}

/// Sends a descriptor, without allocating.
unsafe fn send_listener(control: RawFd, listener: RawFd) -> io::Result<()> {
    /// Room for one descriptor, aligned as the kernel wants it.
    #[repr(C)]
    struct Ancillary {
        header: libc::cmsghdr,
        fd: c_int,
        _padding: c_int,
    }
    let mut byte = LISTENER;
    let mut payload = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: both are plain C structures for which zero is a value.
    let (mut ancillary, mut message) = unsafe { (mem::zeroed::<Ancillary>(), mem::zeroed::<libc::msghdr>()) };
    ancillary.header.cmsg_len = (mem::size_of::<libc::cmsghdr>() + mem::size_of::<c_int>()) as _;
    ancillary.header.cmsg_level = libc::SOL_SOCKET;
    ancillary.header.cmsg_type = libc::SCM_RIGHTS;
    ancillary.fd = listener;
    message.msg_iov = &raw mut payload;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut ancillary).cast();
    message.msg_controllen = mem::size_of::<Ancillary>() as _;
    // SAFETY: `message` points to the structures above, which live until the call is over.
    if unsafe { libc::sendmsg(control, &raw const message, libc::MSG_NOSIGNAL) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
