//! Tying a program to this process where nothing is enforced: nothing that it started outlives a death of this process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::net::{self, RecvFlags, SendFlags};

use super::keeper::{self, Care};
use super::supervisor::control_pair;
use crate::Orphans;

/// The hold on a program that was tied. Letting go of it ends the program and all that descends from it.
#[derive(Debug)]
pub struct Leash {
    control: OwnedFd,
}

/// Arranges that `command`, once spawned, does not outlive this process, nor does anything that it started. What is spawned is a
/// keeper, which is deaf to signals and ends right after the program; `orphans` says what becomes of what the program left
/// running then.
pub fn tie(command: &mut Command, orphans: Orphans) -> io::Result<Option<Leash>> {
    let (control, keepers) = control_pair()?;
    let ours = control.as_raw_fd();
    let care = match orphans {
        Orphans::Stay => Care::Tied,
        Orphans::End => Care::Ended,
    };
    // SAFETY: `enter` allocates nothing, takes no lock and never unwinds into the parent's frames.
    unsafe { command.pre_exec(move || enter(ours, keepers.as_raw_fd(), care)) };
    Ok(Some(Leash { control }))
}

fn enter(ours: RawFd, keepers: RawFd, care: Care) -> io::Result<()> {
    // SAFETY: runs after `fork` in a process of its own; the mask is filled before it is used.
    unsafe {
        // If it stayed open here, nobody would notice the death of this process.
        libc::close(ours);
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        keeper::prepare();
        let keeper = libc::getpid();
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => {}
            program => keeper::keep(keepers, program, care),
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        if !keeper::die_with(keeper) {
            // An error without a number could not cross to the parent.
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

impl Leash {
    /// Sends the program a signal, unless it has got the same one with its whole group.
    pub fn signal(&self, number: u8) {
        let _gone = net::send(&self.control, &[keeper::SIGNAL, number], SendFlags::NOSIGNAL);
    }

    /// How the program ended. To be asked when the keeper has; nothing if that was killed.
    pub fn status(&self) -> Option<ExitStatus> {
        let mut message = [0_u8; 8];
        let (length, _) = net::recv(&self.control, &mut message, RecvFlags::DONTWAIT).ok()?;
        match &message[..length] {
            [keeper::ENDED, a, b, c, d] => Some(ExitStatus::from_raw(i32::from_ne_bytes([*a, *b, *c, *d]))),
            _ => None,
        }
    }
}
