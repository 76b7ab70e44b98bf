//! Waking a waiting process: each has a named pipe that others write one byte to.
//!
//! A pipe rather than a socket, because a socket's path may have only a hundred characters; a file rather than a
//! signal, because a recycled pid must never receive it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mala_core::ports::Liveness;
use mala_core::{Life, Owner, sharing};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::process::ProcessTable;

/// Where the system cannot announce a process's end, it is looked for this often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The waiter's end. The pipe's file goes away with it.
#[derive(Debug)]
pub(crate) struct Bell {
    pipe: File,
    path: PathBuf,
}

impl Bell {
    pub(crate) fn hang(dir: &Path, waiter: &str) -> io::Result<Self> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = dir.join(waiter);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Others of the group must be able to ring it. Where they cannot, the waiter looks by itself, later.
        let _ = dir.parent().and_then(Path::parent).map(|git_dir| sharing::share(&path, git_dir));
        // Open for writing too, so that the pipe never reports an end of file between two rings.
        let options =
            OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path);
        match options {
            Ok(pipe) => Ok(Self { pipe, path }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Sleeps until the bell rings, `process` ends, `asker` ends, or the time is over. May return early.
    pub(crate) fn sleep(
        &mut self,
        process: Option<&Owner>,
        asker: Option<BorrowedFd<'_>>,
        longest: Duration,
    ) -> io::Result<Asker> {
        let ended = match process.map(end_of) {
            Some(Ok(handle)) => handle,
            // It ended before it could be watched.
            Some(Err(_)) => return Ok(Asker::Waits),
            None => None,
        };
        // The asker comes first, where its answer is looked for.
        let fds = asker.into_iter().chain([self.pipe.as_fd()]).chain(ended.as_ref().map(AsFd::as_fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let is_unseen = process.is_some() && ended.is_none();
        let longest = if is_unseen { longest.min(LOOK_AGAIN) } else { longest };
        // Rounded up: waking a moment before a deadline would only mean to sleep again.
        let millis = longest.as_nanos().div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_gone = asker.is_some() && fds[0].any().unwrap_or(false);
        let mut rung = [0; 64];
        while matches!(self.pipe.read(&mut rung), Ok(count) if count > 0) {}
        Ok(if is_gone { Asker::Gone } else { Asker::Waits })
    }
}

/// Whether anybody still wants what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Waits,
    Gone,
}

/// Sleeps until the process has ended, or until there is something to read from `asker`: then nobody wants to know any more.
pub(crate) fn sleep_until_end_of(owner: &Owner, asker: Option<BorrowedFd<'_>>) -> Asker {
    while ProcessTable.of(owner) != Life::Dead {
        let Ok(ended) = end_of(owner) else { break };
        let fds = asker.into_iter().chain(ended.as_ref().map(AsFd::as_fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let look_again = PollTimeout::try_from(LOOK_AGAIN).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut fds, if ended.is_some() { PollTimeout::NONE } else { look_again });
        if asker.is_some() && fds[0].any().unwrap_or(false) {
            return Asker::Gone;
        }
    }
    Asker::Waits
}

/// A handle that becomes readable when the process ends, where there is such a thing. An error means that it has ended
/// already.
#[cfg(target_os = "linux")]
pub(crate) fn end_of(owner: &Owner) -> Result<Option<OwnedFd>, ()> {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw).ok_or(())?;
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Err(()),
        // An old kernel, or a container that does not allow it.
        Err(_) => return Ok(None),
    };
    // Looked at only now that the handle is there, so it cannot belong to a later process of the same pid.
    match ProcessTable.of(owner) {
        Life::Dead => Err(()),
        Life::Alive | Life::Unknown => Ok(Some(handle)),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the Linux twin can fail")]
pub(crate) fn end_of(_owner: &Owner) -> Result<Option<OwnedFd>, ()> {
    Ok(None)
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Rings a waiter's bell. A waiter that has gone away has nothing to hear.
pub(crate) fn ring(dir: &Path, waiter: &str) {
    let pipe = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(dir.join(waiter));
    if let Ok(mut pipe) = pipe {
        // A full pipe has enough rings in it.
        let _ = pipe.write(&[1]);
    }
}
