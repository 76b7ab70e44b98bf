//! Whose turn it is to write.
//!
//! SQLite lets writers collide and sleep; with many of them, some starve. Here each writer first takes an advisory
//! lock on a file beside the database, where the kernel lets it sleep until it is woken. SQLite then never sees two
//! writers at once. A process that dies gives its turn back, because the kernel closes its files.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::error::{Result, StoreError};

/// How long a writer may make others wait. A transaction takes well under a millisecond, so this is reached only
/// when a writer was stopped in the middle of one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct TurnFile {
    /// Opened for the first change: whoever only reads need not have the right to write.
    file: OnceCell<File>,
    path: PathBuf,
    pub(crate) patience: Duration,
}

/// Held while writing; dropping it lets the next writer in.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    AtOnce(&'a File),
    Waited(File),
}

impl TurnFile {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { file: OnceCell::new(), path, patience: PATIENCE }
    }

    pub(crate) fn take(&self) -> Result<Turn<'_>> {
        let failed = |error| StoreError::from_io(&self.path, error);
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = open(&self.path).map_err(failed)?;
                self.file.get_or_init(|| file)
            }
        };
        match file.try_lock() {
            Ok(()) => return Ok(Turn::AtOnce(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // A thread waits, because a blocking lock has no deadline. It has a file of its own: a turn that comes too late
        // is given back by closing that, and nothing else is.
        let file = open(&self.path).map_err(failed)?;
        let (granted, wait) = mpsc::sync_channel(0);
        let waiting = thread::Builder::new().spawn(move || {
            let _ = granted.send(file.lock().map(|()| file));
        });
        waiting.map_err(failed)?;
        match wait.recv_timeout(self.patience) {
            Ok(outcome) => outcome.map(Turn::Waited).map_err(failed),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(StoreError::Busy { path: self.path.clone(), seconds: self.patience.as_secs() })
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let file: &File = match self {
            Self::AtOnce(file) => file,
            Self::Waited(file) => file,
        };
        // It can only fail for a file that is not locked.
        let _ = file.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
}
