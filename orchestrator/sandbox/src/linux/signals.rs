//! Signals to the supervisor while a tree runs.
//!
//! They are meant for the program, so the supervisor passes them on. A signal for a process is delivered to any thread that
//! does not block it: all threads must, or one of them would end the supervisor instead.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};

/// What people and programs send each other, besides the real-time signals. The others tell a process about itself, or
/// cannot be caught.
const PASSED_ON: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// What a terminal sends to a process that is not in front. The program may put itself there, and the supervisor still tells
/// it what was refused: it must not be stopped for that, since the program waits for its answers.
const NOT_IN_FRONT: [i32; 2] = [libc::SIGTTOU, libc::SIGTTIN];

/// What the kernel sends if a terminal goes away, and only to the leader of its session.
const HANG_UP: [i32; 2] = [libc::SIGHUP, libc::SIGCONT];

/// The mask of this process before [`take_signals`].
static AT_FIRST: OnceLock<libc::sigset_t> = OnceLock::new();

/// Blocks the signals that [`run`](crate::run) passes on, in this thread and in those that it starts. A process that has
/// other threads calls it before it makes the first: a thread that does not block them would be ended by them. What
/// arrives before the program runs reaches it when it does.
pub fn take_signals() {
    AT_FIRST.get_or_init(block);
}

/// Makes sure that this process learns of the end of those it starts: it may have been started by one that does not want to
/// know of its own.
pub fn expect_children() {
    // SAFETY: the structures are initialised before use; the default takes no handler.
    unsafe {
        let mut current: libc::sigaction = mem::zeroed();
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut current);
        if current.sa_sigaction == libc::SIG_IGN || current.sa_flags & libc::SA_NOCLDWAIT != 0 {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Signals of this process, blocked in this thread and read as data until dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u8,
    pub(crate) sender: Sender,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Somebody who may have meant only us.
    Process,
    /// A terminal, which has sent it to the program as well.
    Kernel,
}

impl Signals {
    pub(crate) fn take() -> io::Result<Self> {
        let taken = set_of(passed_on());
        // SAFETY: the set is initialised and outlives the call; a new descriptor has no other owner.
        let fd = unsafe {
            let fd = libc::signalfd(-1, &raw const taken, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { fd, before: block() })
    }

    /// The mask that the program would have without us.
    pub(crate) fn for_program(&self) -> libc::sigset_t {
        *AT_FIRST.get().unwrap_or(&self.before)
    }

    /// The signals that came since the last call.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        loop {
            // SAFETY: a plain C structure for which zero is a value.
            let mut information: libc::signalfd_siginfo = unsafe { mem::zeroed() };
            let size = mem::size_of_val(&information);
            // SAFETY: the buffer has the length that is passed.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut information).cast(), size) };
            if usize::try_from(read) != Ok(size) {
                return arrivals;
            }
            let Ok(number) = u8::try_from(information.ssi_signo) else { continue };
            arrivals.push(Arrival { number, sender: sender(i32::from(number), information.ssi_code) });
        }
    }
}

/// Who has sent the signal `number`, by the code that came with it.
fn sender(number: i32, code: i32) -> Sender {
    let hangs_up = HANG_UP.contains(&number) && leads_session();
    if code == libc::SI_KERNEL && !hangs_up { Sender::Kernel } else { Sender::Process }
}

fn leads_session() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::getsid(0) == libc::getpid() }
}

fn passed_on() -> impl Iterator<Item = i32> {
    PASSED_ON.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

fn set_of(signals: impl Iterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Blocks all that would end or stop the supervisor in place of the program, in this thread. What was blocked before.
fn block() -> libc::sigset_t {
    let blocked = set_of(passed_on().chain(NOT_IN_FRONT));
    // SAFETY: both sets are initialised and outlive the call.
    unsafe {
        let mut before: libc::sigset_t = mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
        before
    }
}

/// Stops this process because the program was stopped by the signal `by`: a shell that waits for us would not notice
/// otherwise. Only if we are what the terminal shows, or it was stopped because we are not; the shell then continues us
/// together.
pub(crate) fn stop_with_job(by: i32) {
    let Ok(terminal) = rustix::fs::open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    // SAFETY: a descriptor that is open and plain numbers.
    unsafe {
        if NOT_IN_FRONT.contains(&by) || libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() {
            libc::kill(libc::getpid(), libc::SIGSTOP);
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `before` is what this thread's mask was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
