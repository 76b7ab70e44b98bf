//! Signals that ask mala to stop, as something to wait for.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Watches for as long as it lives.
#[derive(Debug)]
pub(super) struct Signals {
    bell: UnixStream,
    seen: Vec<(Signal, Arc<AtomicBool>)>,
    registered: Vec<SigId>,
}

impl Signals {
    /// With `stops`, for what asks this process to stop; in any case for the end of a command.
    pub(super) fn watch(stops: bool) -> io::Result<Self> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let mut signals = Self { bell, seen: Vec::new(), registered: Vec::new() };
        let asked = [(SIGHUP, Signal::SIGHUP), (SIGINT, Signal::SIGINT), (SIGTERM, Signal::SIGTERM)];
        for (number, signal) in asked.into_iter().filter(|_| stops) {
            let flag = Arc::new(AtomicBool::new(false));
            signals.registered.push(signal_hook::flag::register(number, Arc::clone(&flag))?);
            signals.registered.push(pipe::register(number, rope.try_clone()?)?);
            signals.seen.push((signal, flag));
        }
        // The end of the command rings, too.
        signals.registered.push(pipe::register(SIGCHLD, rope)?);
        Ok(signals)
    }

    /// What has come since the last time.
    pub(super) fn take(&mut self) -> Vec<Signal> {
        let mut rings = [0; 64];
        while self.bell.read(&mut rings).is_ok_and(|count| count > 0) {}
        self.seen
            .iter()
            .filter(|(_, flag)| flag.swap(false, Ordering::SeqCst))
            .map(|(signal, _)| *signal)
            .collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

/// Sends a signal to the process group that a process leads.
pub(super) fn send_to_group(leader: u32, signal: Signal) {
    if let Ok(group) = i32::try_from(leader) {
        killpg(Pid::from_raw(group), signal).ok();
    }
}

/// Sends a signal to one process; that it has ended meanwhile is no error.
pub(super) fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        kill(Pid::from_raw(pid), signal).ok();
    }
}
