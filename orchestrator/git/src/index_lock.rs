//! Git's lock of a checkout's index, with mala's mark in it.
//!
//! While it is there, no git command changes the index. The mark names the directory of what is under way, so that after a
//! kill the lock is told from one of git's own, or of another process, and can be removed or taken over.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use mala_core::file::{SETTINGS, read_small};
use thiserror::Error;

use crate::Repo;

/// How long another git command is waited for.
const LOCK_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the lock was not taken.
#[derive(Debug, Error)]
pub enum IndexLockError {
    #[error("another git command has held `{}` for {seconds} s: if none is running, remove it", .path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> IndexLockError {
    let path = path.to_owned();
    move |source| IndexLockError::Io { path, source }
}

/// What a lock contains while mala holds it.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    bytes: Vec<u8>,
    /// Belongs to what is under way.
    directory: PathBuf,
}

impl Mark {
    /// Of a commit in the making, whose directory has a name that no other one has.
    pub(crate) fn commit(directory: &Path) -> Self {
        Self::new("commit", directory.file_name().unwrap_or_default(), directory)
    }

    /// Of a landing, by the whole path of its directory.
    pub(crate) fn landing(directory: &Path) -> Self {
        Self::new("landing", directory.as_os_str(), directory)
    }

    fn new(kind: &str, name: &OsStr, directory: &Path) -> Self {
        let bytes = [b"mala ", kind.as_bytes(), b" ", name.as_encoded_bytes(), b"\n"].concat();
        Self { bytes, directory: directory.to_owned() }
    }

    /// True if the lock of this index carries the mark.
    pub(crate) fn is_on(&self, index: &Path) -> bool {
        read_small(&lock_of(index), SETTINGS).is_ok_and(|found| found == self.bytes)
    }

    /// Removes the lock of this index if it carries the mark, and what taking it may have left.
    pub(crate) fn unlock(&self, index: &Path) -> Result<(), IndexLockError> {
        if self.is_on(index) {
            let lock = lock_of(index);
            fs::remove_file(&lock).map_err(at(&lock))?;
        }
        let beside = self.beside(index);
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&beside)(error)),
            _ => Ok(()),
        }
    }

    /// Where the mark is written if the directory is on another file system than the index.
    fn beside(&self, index: &Path) -> PathBuf {
        let mut name = OsStr::new("mala-lock-").to_owned();
        name.push(self.directory.file_name().unwrap_or_default());
        index.with_file_name(name)
    }

    /// Gives the complete mark the lock's name, so a lock of ours is never taken for a foreign one.
    fn link(&self, index: &Path) -> io::Result<()> {
        let written = self.directory.join("lock-mark");
        fs::write(&written, &self.bytes)?;
        match fs::hard_link(&written, lock_of(index)) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let beside = self.beside(index);
                fs::write(&beside, &self.bytes)?;
                let linked = fs::hard_link(&beside, lock_of(index));
                fs::remove_file(&beside)?;
                linked
            }
            done => done,
        }
    }
}

fn lock_of(index: &Path) -> PathBuf {
    index.with_extension("lock")
}

/// Git's index lock, held. Given back when dropped.
#[derive(Debug)]
pub(crate) struct IndexLock {
    path: PathBuf,
}

impl IndexLock {
    /// Takes it; waits for another git command that has it.
    pub(crate) fn take(index: &Path, mark: &Mark) -> Result<Self, IndexLockError> {
        let path = lock_of(index);
        let deadline = Instant::now() + LOCK_WAIT_TIMEOUT;
        loop {
            match mark.link(index) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if Instant::now() >= deadline {
                        return Err(IndexLockError::Busy { path, seconds: LOCK_WAIT_TIMEOUT.as_secs() });
                    }
                    thread::sleep(Duration::from_millis(fastrand::u64(2..12)));
                }
                Err(error) => return Err(at(&path)(error)),
            }
        }
    }

    /// The same for whoever repairs: a lock that a killed process left with this mark is taken over.
    pub(crate) fn take_or_adopt(index: &Path, mark: &Mark) -> Result<Self, IndexLockError> {
        if mark.is_on(index) { Ok(Self { path: lock_of(index) }) } else { Self::take(index, mark) }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // If it cannot be removed, the mark in it tells the next repair whose it is.
        fs::remove_file(&self.path).ok();
    }
}

/// The indexes of all checkouts of this repository.
pub(crate) fn indexes(repo: &Repo) -> Vec<PathBuf> {
    let common = repo.scope().git_dir();
    let mut indexes = vec![common.join("index")];
    if let Ok(worktrees) = fs::read_dir(common.join("worktrees")) {
        indexes.extend(worktrees.flatten().map(|worktree| worktree.path().join("index")));
    }
    indexes
}

/// Copies an index, if there is one.
///
/// The copy has the age of the original: by it git tells which files may have changed in the very moment the index was
/// written, and looks at them again.
pub(crate) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let copy = || {
        let mut original = File::open(from)?;
        let age = original.metadata()?.modified()?;
        let mut copy = File::create(to)?;
        io::copy(&mut original, &mut copy)?;
        copy.set_modified(age)
    };
    match copy() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
