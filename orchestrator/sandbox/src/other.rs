//! Systems without a kernel tier.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::{Exit, FileIdentity, Guard, Jail, Orphans, SandboxError, Support, Unsupported, Writer};

/// What may be enforced here: nothing.
pub fn probe() -> Result<Support, Unsupported> {
    Err(if cfg!(target_os = "linux") { Unsupported::Architecture } else { Unsupported::NotLinux })
}

/// Starts nothing: a program that is not watched must not run as if it were.
pub fn run(_jail: &Jail, _guard: Arc<dyn Guard>, _command: Command) -> Result<Exit, SandboxError> {
    probe().map_err(SandboxError::from).map(|_never| Exit { code: None, signal: None })
}

/// Runs `command` with nobody watching.
pub fn run_unprotected(mut command: Command) -> Result<Exit, SandboxError> {
    use std::os::unix::process::ExitStatusExt;
    let status = command.status().map_err(SandboxError::Start)?;
    Ok(Exit { code: status.code(), signal: status.signal() })
}

/// The hold on a program that was tied: there is none.
#[derive(Debug)]
pub struct Leash(Infallible);

impl Leash {
    /// Sends the program a signal.
    pub fn signal(&self, _number: u8) {
        match self.0 {}
    }

    /// How the program ended.
    pub fn status(&self) -> Option<std::process::ExitStatus> {
        match self.0 {}
    }
}

/// Ties nothing: what a program starts can leave it here.
pub fn tie(_command: &mut Command, _orphans: Orphans) -> io::Result<Option<Leash>> {
    Ok(None)
}

/// Confines nothing.
pub fn confine(_command: &mut Command, _writable: &[PathBuf]) -> io::Result<bool> {
    Ok(false)
}

/// There are none here.
pub fn left_spares(_parent: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(Vec::new())
}

/// There are none here.
pub fn sweep_spares(_parent: &Path) -> io::Result<()> {
    Ok(())
}

/// Nothing is passed on here, so nothing is taken.
pub fn take_signals() {}

/// Left as it is where nothing is enforced.
pub fn expect_children() {}

/// Nobody opens files for others here.
pub fn keep_sqlite_locks() {}

/// Nobody can be found who writes to `path`.
pub fn has_writers(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Nobody can be found who writes to `path`.
pub fn writers(_path: &Path) -> Vec<Writer> {
    Vec::new()
}

/// Files are not told apart where nobody asks for it.
pub fn identity_of(_path: &Path) -> Option<FileIdentity> {
    None
}

/// Nor when they are open.
pub fn identity_of_open(_file: impl std::os::fd::AsFd) -> Option<FileIdentity> {
    None
}

/// Nothing is removed: no file is known by its identity.
pub fn remove_name(_path: &Path, _file: FileIdentity) -> bool {
    false
}

/// A program that waits: there is none.
#[derive(Debug)]
pub struct Held(Infallible);

impl Held {
    /// The process's number.
    pub fn pid(&self) -> u32 {
        match self.0 {}
    }

    /// When the process began, in clock ticks after the machine's start.
    pub fn start_time(&self) -> u64 {
        match self.0 {}
    }

    /// A handle that becomes readable when the process ends.
    pub fn process(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    /// Begins to copy what the program prints into `log`.
    pub fn capture(&self, _log: File) -> io::Result<Option<Capture>> {
        match self.0 {}
    }

    /// Writes one line to the program's standard error.
    pub fn tell(&self, _message: &str) {
        match self.0 {}
    }
}

/// A program's output, on its way into a file: there is none.
#[derive(Debug)]
pub struct Capture(Infallible);

impl Capture {
    /// Ends the log.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {}
    }
}
