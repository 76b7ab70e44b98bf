//! Who may touch a log now: an advisory lock on a file beside it.
//!
//! The kernel lets those who wait sleep, and takes the lock back from a process that dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// An append takes milliseconds, so this is reached only when a process was stopped in the middle of one.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    /// For writing.
    Alone,
    /// For reading, together with other readers.
    Shared,
}

#[derive(Debug, Error)]
pub(crate) enum TurnError {
    #[error("`{}` has been held for {seconds} s", .path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "closing the file gives the turn back")] File);

/// Waits for the turn, and makes its file if it is missing.
pub(crate) fn take(path: &Path, hold: Hold) -> Result<Turn, TurnError> {
    // A reader may have no right to write here, and needs none.
    let file = match hold {
        Hold::Alone => OpenOptions::new().create(true).truncate(false).write(true).open(path)?,
        Hold::Shared => File::open(path)?,
    };
    let tried = match hold {
        Hold::Alone => file.try_lock(),
        Hold::Shared => file.try_lock_shared(),
    };
    match tried {
        Ok(()) => Ok(Turn(file)),
        Err(TryLockError::WouldBlock) => wait(path, file, hold),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// A thread waits, because a blocking lock has no deadline. A turn that comes too late is given back with its file.
fn wait(path: &Path, file: File, hold: Hold) -> Result<Turn, TurnError> {
    let (granted, turn) = mpsc::sync_channel(0);
    thread::spawn(move || {
        let outcome = match hold {
            Hold::Alone => file.lock(),
            Hold::Shared => file.lock_shared(),
        };
        let _ = granted.send(outcome.map(|()| Turn(file)));
    });
    match turn.recv_timeout(PATIENCE) {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(TurnError::Busy { path: path.to_owned(), seconds: PATIENCE.as_secs() }),
    }
}
