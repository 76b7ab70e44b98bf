//! Commands that end with mala, however it ends.

use std::io;
use std::process::{Command, ExitStatus};

use mala_gate::runner::{Keeper, Tie};
use mala_sandbox::Leash;
use nix::sys::signal::Signal;

/// Ties commands to this process as far as the system can.
#[derive(Debug)]
pub(crate) struct Leashing;

impl Keeper for Leashing {
    fn tie(&self, command: &mut Command) -> io::Result<Option<Box<dyn Tie>>> {
        Ok(mala_sandbox::tie(command)?.map(|leash| Box::new(Leashed(leash)) as Box<dyn Tie>))
    }
}

struct Leashed(Leash);

impl Tie for Leashed {
    fn signal(&self, signal: Signal) {
        self.0.signal(signal as u8);
    }

    fn status(&self) -> Option<ExitStatus> {
        self.0.status()
    }
}
