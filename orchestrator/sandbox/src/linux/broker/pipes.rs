//! Opens that wait for the other end of a pipe, which may be opened much later or never.
//!
//! The threads that answer calls are few, and must not be used up by those who wait for each other. So one more thread tries all
//! of these again and again, at growing intervals, for as long as their callers wait. It is there while there are any.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Effect, Opened, lock};
use crate::linux::handle;
use crate::linux::notify::Request;
use crate::linux::task::Task;

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Thousands that wait for nothing must not keep a core busy: a pause may take so many times as long as a look at all of them.
const REST: u32 = 8;
/// `ERESTARTSYS`: when a call ends in this way because of a signal, the kernel makes it again or lets it fail with `EINTR`, as the
/// program has asked for.
const RESTART: Errno = Errno::from_raw_os_error(512);

/// A pipe that nobody reads from yet, and how the caller wants to open it.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(super) fd: OwnedFd,
    pub(super) flags: OFlags,
}

impl Pipe {
    /// Opens it for a caller, or fails with `NXIO`: it never waits.
    pub(super) fn open(fd: &OwnedFd, flags: OFlags) -> Result<Opened, Errno> {
        let not_again = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let patient = flags.difference(not_again) | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = handle::reopen(fd, patient, Mode::empty())?;
        rustix::fs::fcntl_setfl(&opened, flags & (OFlags::NONBLOCK | OFlags::APPEND))?;
        Ok(Opened { fd: opened, cloexec: flags.contains(OFlags::CLOEXEC), effect: Effect::None })
    }
}

/// A call that waits for the other end of a pipe.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) request: Request,
    pub(super) pipe: Pipe,
}

impl Wait {
    /// How the call ends; none if it goes on waiting.
    pub(super) fn try_again(&self) -> Option<Result<Opened, Errno>> {
        match Pipe::open(&self.pipe.fd, self.pipe.flags) {
            Err(Errno::NXIO) if (Task { tid: self.request.tid }).has_signal() => Some(Err(RESTART)),
            Err(Errno::NXIO) => None,
            opened => Some(opened),
        }
    }
}

/// Those who wait.
#[derive(Debug)]
pub(super) struct Line<T> {
    new: Mutex<New<T>>,
}

#[derive(Debug)]
struct New<T> {
    waits: Vec<T>,
    is_watched: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { new: Mutex::new(New { waits: Vec::new(), is_watched: false }) }
    }
}

impl<T> Line<T> {
    /// True if nobody watches the line: then that is for whoever joins.
    pub(super) fn join(&self, wait: T) -> bool {
        let mut new = lock(&self.new);
        new.waits.push(wait);
        !mem::replace(&mut new.is_watched, true)
    }

    /// Those who joined, when there is nobody to watch them.
    pub(super) fn dissolve(&self) -> Vec<T> {
        let mut new = lock(&self.new);
        new.is_watched = false;
        mem::take(&mut new.waits)
    }

    /// Looks at all at intervals until none is left; `is_over` says that one leaves.
    pub(super) fn watch(&self, is_over: impl Fn(&T) -> bool) {
        let mut waits = Vec::new();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let mut new = lock(&self.new);
            if waits.is_empty() && new.waits.is_empty() {
                new.is_watched = false;
                return;
            }
            let has_new = !new.waits.is_empty();
            waits.append(&mut new.waits);
            drop(new);
            pause = if has_new { SHORTEST_PAUSE } else { pause };
            thread::sleep(pause);
            let (before, began) = (waits.len(), Instant::now());
            waits.retain(|wait| !is_over(wait));
            let longest = LONGEST_PAUSE.max(REST * began.elapsed());
            pause = if waits.len() < before { SHORTEST_PAUSE } else { longest.min(2 * pause) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_line_is_watched_once_until_nobody_is_left() {
        let line = Line::default();
        assert!(line.join(1));
        assert!(!line.join(2), "somebody watches already");
        let looks = Cell::new(0);
        line.watch(|number| {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                assert!(!line.join(3), "it is still watched");
            }
            looks.get() > 4 * number
        });
        assert!(looks.get() > 12, "the one that came later was looked at too");
        assert!(line.join(4));
        assert_eq!(line.dissolve(), [4]);
        assert!(line.join(5));
    }
}
