//! A process by a handle that no other process can inherit with its number.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use procfs::process::Stat;
use procfs::{FromRead, ProcError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::keeper;
use crate::Exit;

/// How long a process that ended may stay uncollected before its status counts as unknown.
const COLLECTED: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    handle: OwnedFd,
    start_time: u64,
}

impl Process {
    /// The process that has the number `pid` now.
    pub(crate) fn open(pid: u32) -> Result<Self, Errno> {
        let handle = pidfd_open(raw_pid(pid)?, PidfdFlags::empty())?;
        let start_time = stat(pid).map_err(|_gone| Errno::SRCH)?.starttime;
        Ok(Self { pid, handle, start_time })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Clock ticks from the machine's start to the process's.
    pub(crate) fn start_time(&self) -> u64 {
        self.start_time
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.wait(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _gone = pidfd_send_signal(&self.handle, signal);
    }

    /// Sends a signal that has only a number, as real-time signals do.
    pub(crate) fn send(&self, number: i32) {
        // SAFETY: an open handle and plain numbers; no information goes with the signal.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.handle.as_raw_fd(),
                number,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
    }

    /// Waits until it has ended, all of its threads. False if the time was over before.
    pub(crate) fn wait(&self, limit: Option<&Timespec>) -> bool {
        self.poll(PollFlags::IN, limit)
    }

    /// How it ended. For a process that has.
    ///
    /// Until someone collects it, /proc shows its status; from then on newer kernels tell it through the handle.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit_of_zombie().or_else(|| {
            // A hang-up, which needs not be asked for, says that it was collected.
            self.poll(PollFlags::empty(), Some(&COLLECTED));
            exit_by_handle(self.handle.as_fd())
        })
    }

    fn exit_of_zombie(&self) -> Option<Exit> {
        let stat = stat(self.pid).ok()?;
        if stat.starttime != self.start_time || !matches!(stat.state, 'Z' | 'X') {
            return None;
        }
        stat.exit_code.map(exit)
    }

    fn poll(&self, events: PollFlags, limit: Option<&Timespec>) -> bool {
        loop {
            match poll(&mut [PollFd::new(&self.handle, events)], limit) {
                Err(Errno::INTR) => {}
                ready => return ready.is_ok_and(|count| count > 0),
            }
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

pub(crate) fn raw_pid(pid: u32) -> Result<Pid, Errno> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

pub(crate) fn stat(pid: u32) -> Result<Stat, ProcError> {
    // Longer than any: the kernel makes it anew for every piece that is read.
    let mut line = [0; 4096];
    let length = fs::File::open(format!("/proc/{pid}/stat"))?.read(&mut line)?;
    Stat::from_read(&line[..length])
}

/// The numbers of all processes that can be seen here.
pub(crate) fn all() -> Result<impl Iterator<Item = u32>, Errno> {
    let listed = fs::read_dir("/proc").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// True for a process below the keeper. The supervisor has other children, which it works with.
pub(crate) fn is_in_tree(pid: u32) -> bool {
    let own = std::process::id();
    let mut above = pid;
    // As many steps as anybody's tree is deep.
    for _ in 0..1000 {
        match stat(above).map(|stat| (u32::try_from(stat.ppid), stat.comm)) {
            Ok((Ok(parent), comm)) if parent == own => {
                return above != pid && comm.as_bytes() == keeper::NAME.to_bytes();
            }
            Ok((Ok(parent), _)) if parent > 1 => above = parent,
            _ => return false,
        }
    }
    false
}

/// From a wait status.
pub(crate) fn exit(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit { code: None, signal: Some(libc::WTERMSIG(status)) }
    } else {
        Exit { code: Some(libc::WEXITSTATUS(status)), signal: None }
    }
}

fn exit_by_handle(handle: BorrowedFd<'_>) -> Option<Exit> {
    information(handle, libc::PIDFD_INFO_EXIT).map(|told| exit(told.exit_code))
}

/// The user that decides what the thread with this handle may do to files.
pub(crate) fn user_for_files(handle: BorrowedFd<'_>) -> Option<libc::uid_t> {
    information(handle, libc::PIDFD_INFO_CREDS).map(|told| told.fsuid)
}

/// What newer kernels tell through a handle, if they tell `what`.
fn information(handle: BorrowedFd<'_>, what: libc::c_uint) -> Option<libc::pidfd_info> {
    // SAFETY: plain integers, for which zero is a value.
    let mut information: libc::pidfd_info = unsafe { std::mem::zeroed() };
    information.mask = u64::from(what);
    // SAFETY: `information` is the structure this request fills and lives through the call.
    let asked = unsafe { libc::ioctl(handle.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut information) };
    (asked == 0 && information.mask & u64::from(what) != 0).then_some(information)
}
