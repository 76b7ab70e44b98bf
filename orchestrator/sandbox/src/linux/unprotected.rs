//! Running a command where the kernel cannot enforce anything: it still gets its signals.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};

use super::process::Process;
use super::signals::{Arrival, Sender, Signals};
use crate::{Exit, SandboxError};

/// Runs `command` with nobody watching. Signals to this process are passed on, as by [`run`](crate::run); one that was
/// sent to the whole group reaches the program twice.
pub fn run_unprotected(mut command: Command) -> Result<Exit, SandboxError> {
    let signals =
        Signals::take().map_err(|source| SandboxError::Prepare { what: "taking over signals", source })?;
    let mask = signals.for_program();
    // SAFETY: one system call on memory that was copied with the process.
    unsafe {
        command.pre_exec(move || {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(SandboxError::Start)?;
    // Old kernels have no handles on processes. What arrives then waits until the program has ended.
    if let Ok(process) = Process::open(child.id()) {
        pass_on(&signals, &process);
    }
    let status = child.wait().map_err(SandboxError::Wait)?;
    Ok(Exit { code: status.code(), signal: status.signal() })
}

/// Returns when the program has ended.
fn pass_on(signals: &Signals, process: &Process) {
    loop {
        let mut polled = [PollFd::new(process, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let _interrupted = poll(&mut polled, None);
        let (ended, signalled) = (!polled[0].revents().is_empty(), !polled[1].revents().is_empty());
        if ended {
            return;
        }
        if signalled {
            for Arrival { number, sender } in signals.arrivals() {
                if sender == Sender::Process {
                    process.send(i32::from(number));
                }
            }
        }
    }
}
