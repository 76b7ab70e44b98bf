//! The keeper: a small process between the supervisor and the tree, for its life and death.
//!
//! It is forked, never started: it shares the supervisor's memory image and runs only what is safe between `fork` and
//! `exec` of a program with threads, that is system calls on memory it already has. Being the tree's subreaper, it
//! inherits every orphan, so a daemon that forked twice cannot leave. When the first process ends, or the
//! supervisor does, it kills what is left until nothing is.

use std::os::fd::RawFd;

use libc::{c_int, pid_t};

/// The keeper tells how the first process ended: this byte, then the wait status.
pub(crate) const ENDED: u8 = b'X';
/// The first process was stopped, as by Ctrl-Z: this byte, then the signal that did it.
pub(crate) const STOPPED: u8 = b'T';
/// The supervisor passes a signal on: this byte, then its number.
pub(crate) const SIGNAL: u8 = b's';
/// The supervisor has got a signal that the program has got as well: this byte, then its number.
pub(crate) const KNOWN: u8 = b'k';

/// What the process is called.
pub(crate) const NAME: &std::ffi::CStr = c"mala-keeper";

const CHILDREN: &std::ffi::CStr = c"/proc/thread-self/children";

/// What a tree has its keeper for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// The supervisor listens all the time, and the tree ends with its first process.
    Supervised,
    /// What is left when the first process has ended goes on. Nobody listens before: whatever was said until then would fill the
    /// socket, and hold the keeper up for ever.
    Tied,
    /// The same, except that the tree ends with its first process.
    Ended,
}

/// Makes the calling process the one that inherits the tree's orphans, and deaf to signals.
///
/// # Safety
/// Only in a process that will become a keeper: after `fork`, before anything else.
pub(crate) unsafe fn prepare() {
    // SAFETY: the set is filled before it is used; the other calls take plain numbers and a constant string.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
    }
}

/// Lets the calling process die with its parent, the keeper. False if that is not to be had.
///
/// # Safety
/// Only in a process that will become a program: after `fork`.
pub(crate) unsafe fn die_with(keeper: pid_t) -> bool {
    // SAFETY: both calls take plain numbers. If the keeper is gone already, the signal would never come.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) >= 0 && libc::getppid() == keeper }
}

/// Watches `root` until it ends or the supervisor does, then ends the whole tree, or leaves it if it was only tied and the
/// supervisor lives. Never returns.
///
/// # Safety
/// Only in a process that called [`prepare`]; it closes every descriptor but `control`.
pub(crate) unsafe fn keep(control: RawFd, root: pid_t, care: Care) -> ! {
    // SAFETY: nothing in this process uses a descriptor besides `control` from here on. All buffers are on the
    // stack and outlive the calls they are given to.
    unsafe {
        close_all_but(control);
        let mut wanted: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut wanted);
        libc::sigaddset(&raw mut wanted, libc::SIGCHLD);
        let deaths = libc::signalfd(-1, &raw const wanted, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        // A death before the signal was watched for.
        let mut ended = reap(control, root, care);
        while ended.is_none() {
            let mut polled = [pollfd(control), pollfd(deaths)];
            libc::poll(polled.as_mut_ptr(), 2, -1);
            if polled[0].revents != 0 && !obey(control, root) {
                end_tree();
                libc::_exit(1);
            }
            let mut information = [0_u8; 128];
            libc::read(deaths, information.as_mut_ptr().cast(), information.len());
            ended = reap(control, root, care);
        }
        if care != Care::Tied {
            end_tree();
        }
        let status = ended.unwrap_or(0).to_ne_bytes();
        let message = [ENDED, status[0], status[1], status[2], status[3]];
        libc::send(control, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL);
        libc::_exit(0);
    }
}

fn pollfd(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Does what the supervisor says; false if there is none any more.
unsafe fn obey(control: RawFd, root: pid_t) -> bool {
    let mut message = [0_u8; 2];
    // SAFETY: the buffer has the length that is passed. `root` is a child that was not waited for.
    unsafe {
        let length = libc::recv(control, message.as_mut_ptr().cast(), message.len(), 0);
        let [what, number] = message;
        if length == 2 && (what == SIGNAL || what == KNOWN) {
            let to_all = was_sent_here(c_int::from(number)) && libc::getpgid(root) == libc::getpgrp();
            if what == SIGNAL && !to_all {
                libc::kill(root, c_int::from(number));
            }
        }
        length > 0
    }
}

/// True if this process has got the signal, too, and forgets it. Nobody sends the keeper anything: it was sent to the
/// whole group, and a program that is in it must not get it twice.
unsafe fn was_sent_here(number: c_int) -> bool {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is filled before it is used, and both live through the call.
    unsafe {
        let mut wanted: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut wanted);
        libc::sigaddset(&raw mut wanted, number);
        libc::sigtimedwait(&raw const wanted, std::ptr::null_mut(), &raw const at_once) == number
    }
}

/// Collects the dead, and tells a supervisor if `root` was stopped. The status of `root`, if it is among the dead.
unsafe fn reap(control: RawFd, root: pid_t, care: Care) -> Option<c_int> {
    let stops = if care == Care::Supervised { libc::WUNTRACED } else { 0 };
    let mut ended = None;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a place for an integer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | stops) };
        if pid <= 0 {
            return ended;
        }
        if pid == root && libc::WIFSTOPPED(status) {
            let by = u8::try_from(libc::WSTOPSIG(status)).unwrap_or(0);
            // SAFETY: the buffer has the length that is passed.
            unsafe { libc::send(control, [STOPPED, by].as_ptr().cast(), 2, libc::MSG_NOSIGNAL) };
        } else if pid == root {
            ended = Some(status);
        }
    }
}

/// Kills children until there are none. A killed process's own children become ours, so this reaches all.
unsafe fn end_tree() {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
    loop {
        // SAFETY: children that were not waited for keep their pid. `pause` is on the stack.
        unsafe {
            kill_children();
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            if libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) < 0 {
                return;
            }
            libc::nanosleep(&raw const pause, std::ptr::null_mut());
        }
    }
}

unsafe fn kill_children() {
    let mut listed = [0_u8; 4096];
    // SAFETY: the path is a constant string and the buffer has the length that is passed.
    let length = unsafe {
        let file = libc::open(CHILDREN.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(file, listed.as_mut_ptr().cast(), listed.len());
        libc::close(file);
        usize::try_from(length).unwrap_or(0)
    };
    let mut pid: pid_t = 0;
    // A number cut off at the buffer's end has no space after it; the next round sees it whole.
    for byte in &listed[..length] {
        if byte.is_ascii_digit() {
            pid = pid.wrapping_mul(10).wrapping_add(pid_t::from(byte - b'0'));
        } else {
            if pid > 1 {
                // SAFETY: a child of this process that nobody else can wait for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            pid = 0;
        }
    }
}

unsafe fn close_all_but(keep: RawFd) {
    let keep = keep.unsigned_abs();
    // SAFETY: the caller gave up every other descriptor.
    unsafe {
        if keep > 0 {
            libc::syscall(libc::SYS_close_range, 0, keep - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0);
    }
}
