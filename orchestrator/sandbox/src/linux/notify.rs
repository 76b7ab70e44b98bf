//! The listener: receiving the kernel's notifications and answering them.
//!
//! Owns the ioctls and nothing else. Every answer may find that its process is gone; that is no error, there is
//! nobody left to tell.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_ulong, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: run the broker on the caller's core, since the caller waits anyway.
const SYNC_WAKE_UP: c_ulong = 1;

/// One call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) tid: u32,
    pub(crate) call: i64,
    pub(crate) args: [u64; 6],
}

#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        // SAFETY: the request takes its flags by value. Older kernels refuse it, and then it is only slower.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Self(fd)
    }

    /// The next request. `Interrupted` and `NotFound` mean: that caller went away, ask again.
    pub(crate) fn receive(&self) -> io::Result<Request> {
        // SAFETY: plain integers, for which zero is a value; the kernel wants the memory zeroed.
        let mut raw: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is the structure this request fills and lives through the call.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Request { id: raw.id, tid: raw.pid, call: i64::from(raw.data.nr), args: raw.data.args })
    }

    /// True while the caller still waits. What was read through its pid before belongs to it.
    pub(crate) fn is_waiting(&self, request: &Request) -> bool {
        // SAFETY: the request reads eight bytes, which `id` has.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const request.id) == 0
        }
    }

    /// Lets the kernel run the call as it was made.
    pub(crate) fn proceed(&self, request: &Request) {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).expect("the flag is one bit");
        self.send(&seccomp_notif_resp { id: request.id, val: 0, error: 0, flags });
    }

    /// Answers with a result or an error number.
    pub(crate) fn finish(&self, request: &Request, result: Result<i32, i32>) {
        let (value, error) = match result {
            Ok(value) => (value, 0),
            Err(errno) => (0, -errno),
        };
        self.send(&seccomp_notif_resp { id: request.id, val: value.into(), error, flags: 0 });
    }

    /// Installs `fd` in the caller and makes its number the call's result, in one step.
    pub(crate) fn hand_over(&self, request: &Request, fd: BorrowedFd<'_>, cloexec: bool) -> Result<(), i32> {
        self.add(request, fd, cloexec, libc::SECCOMP_ADDFD_FLAG_SEND).map(|_number| ())
    }

    /// Installs `fd` in the caller. Its number there; the caller goes on waiting.
    pub(crate) fn install(&self, request: &Request, fd: BorrowedFd<'_>, cloexec: bool) -> Result<i32, i32> {
        self.add(request, fd, cloexec, 0)
    }

    fn add(&self, request: &Request, fd: BorrowedFd<'_>, cloexec: bool, flags: c_ulong) -> Result<i32, i32> {
        let mut answer = seccomp_notif_addfd {
            id: request.id,
            flags: u32::try_from(flags).expect("a flag is one bit"),
            srcfd: u32::try_from(fd.as_raw_fd()).expect("an open descriptor is not negative"),
            newfd: 0,
            newfd_flags: if cloexec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        };
        // SAFETY: `answer` is the structure this request reads.
        let number =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut answer) };
        if number < 0 {
            Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
        } else {
            Ok(number)
        }
    }

    /// Puts `fd` in place of the caller's descriptor `number`. The caller goes on waiting.
    pub(crate) fn replace(&self, request: &Request, fd: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        let mut wanted = seccomp_notif_addfd {
            id: request.id,
            flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).expect("the flag is one bit"),
            srcfd: u32::try_from(fd.as_raw_fd()).expect("an open descriptor is not negative"),
            newfd: number,
            newfd_flags: 0,
        };
        // SAFETY: `wanted` is the structure this request reads.
        let done =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut wanted) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn send(&self, response: &seccomp_notif_resp) {
        let mut response = *response;
        // SAFETY: `response` is the structure this request reads. A failure means that the caller is gone.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
