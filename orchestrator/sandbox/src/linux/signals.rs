//! Signals to the supervisor while a tree runs.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

const TAKEN: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals of this thread, blocked and read as data until dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    pub(crate) fn take() -> io::Result<Self> {
        // SAFETY: the sets are initialised before use and outlive the calls; a new descriptor has no other owner.
        unsafe {
            let mut taken: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut taken);
            for signal in TAKEN {
                libc::sigaddset(&raw mut taken, signal);
            }
            let fd = libc::signalfd(-1, &raw const taken, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const taken, &raw mut before);
            Ok(Self { fd, before })
        }
    }

    /// The signals that came since the last call and that the terminal did not send to the whole group.
    pub(crate) fn sent_to_us(&self) -> Vec<u8> {
        let mut numbers = Vec::new();
        loop {
            // SAFETY: a plain C structure for which zero is a value.
            let mut information: libc::signalfd_siginfo = unsafe { mem::zeroed() };
            let size = mem::size_of_val(&information);
            // SAFETY: the buffer has the length that is passed.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut information).cast(), size) };
            if usize::try_from(read) != Ok(size) {
                return numbers;
            }
            if information.ssi_code != libc::SI_KERNEL {
                numbers.extend(u8::try_from(information.ssi_signo));
            }
        }
    }
}

/// Stops this process because the program stopped itself: a shell that waits for us would not notice otherwise. Only if
/// we are what the terminal shows; the shell then continues us together.
pub(crate) fn stop_with_job() {
    let Ok(terminal) = rustix::fs::open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    // SAFETY: a descriptor that is open and plain numbers.
    unsafe {
        if libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() {
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
