//! Appends to a chained log.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::error::ChainError;
use super::forget::forget;
use super::head::Head;
use super::line::{self, ComposeError, LineHash};
use super::recover::recover;
use crate::disk::Durability;
use crate::files::LogFiles;
use crate::turn::{self, Hold};

/// A file that has grown to this is full.
const FULL: u64 = 32 * 1024 * 1024;

/// Appends records to a log, in turn with other processes that do.
///
/// It remembers nothing between two appends, so what others append meanwhile is never in the way.
#[derive(Debug)]
pub struct ChainWriter {
    files: LogFiles,
    turn: PathBuf,
    full: u64,
    durability: Durability,
    /// The permissions of the files with lines, as far as the umask leaves them.
    mode: u32,
}

/// A line that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its number, from 1.
    pub seq: u64,
    pub hash: LineHash,
}

impl ChainWriter {
    /// Opens the log `NAME.jsonl`, and makes it if it is not there. What a killed writer left is cleared up.
    pub fn open(path: &Path) -> Result<Self, ChainError> {
        Self::open_with(path, FULL)
    }

    /// As [`ChainWriter::open`], with files that are full as soon as they have `full` bytes or more.
    pub fn open_with(path: &Path, full: u64) -> Result<Self, ChainError> {
        let files = LogFiles::new(path).ok_or_else(|| ChainError::Name { path: path.to_owned() })?;
        fs::create_dir_all(files.folder()).map_err(|error| ChainError::io(files.folder(), error))?;
        let writer =
            Self { turn: files.beside("lock"), files, full, durability: Durability::Synced, mode: 0o666 };
        let _turn = writer.take_turn()?;
        recover(&writer.files)?;
        Ok(writer)
    }

    /// From now on nothing is synced to the disk: for events that come faster than disks answer. No process's death loses
    /// one; after a power cut the log may be found cut off.
    #[must_use]
    pub fn unsynced(mut self) -> Self {
        self.durability = Durability::Unsynced;
        self
    }

    /// From now on, files with lines are made for their owner alone.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.mode = 0o600;
        self
    }

    /// Appends a record, which must be a JSON object without the fields `seq`, `prev` and `hash`. It is on the disk when
    /// this returns. If it fails, the log is as before, or has a part of a line that the next append puts aside.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<Link, ChainError> {
        let _turn = self.take_turn()?;
        let mut head = recover(&self.files)?;
        let (line, end) = line::compose(head.end, record).map_err(|error| self.refused(error))?;
        if head.bytes >= self.full {
            head = self.rotate(head)?;
        }
        let written = self.write(&line, head.bytes).and_then(|()| {
            let head = Head { end, bytes: head.bytes + line.len() as u64, ..head };
            head.write(&self.files, self.durability)
        });
        if let Err(error) = written {
            self.undo(head.bytes);
            return Err(error);
        }
        Ok(Link { seq: end.seq, hash: end.hash })
    }

    /// Removes full files that were last written to before `before`, and says which. The log begins later then; what is
    /// left of it can be verified as before.
    pub fn forget(&mut self, before: SystemTime) -> Result<Vec<PathBuf>, ChainError> {
        let _turn = self.take_turn()?;
        forget(&self.files, recover(&self.files)?, before)
    }

    fn take_turn(&self) -> Result<turn::Turn, ChainError> {
        turn::take(&self.turn, Hold::Alone).map_err(|error| ChainError::turn(&self.turn, error))
    }

    fn refused(&self, error: ComposeError) -> ChainError {
        let path = self.files.active().to_owned();
        match error {
            ComposeError::NotAnObject(source) => ChainError::Record { path, source },
            ComposeError::Reserved(source) => ChainError::Reserved { path, source },
        }
    }

    fn write(&self, line: &[u8], at: u64) -> Result<(), ChainError> {
        let path = self.files.active();
        let written =
            OpenOptions::new().create(true).append(true).mode(self.mode).open(path).and_then(|mut file| {
                file.write_all(line)?;
                self.durability.sync(&file)
            });
        // A new file needs its name on the disk too.
        let named = written
            .and_then(|()| if at == 0 { self.durability.sync_folder(self.files.folder()) } else { Ok(()) });
        named.map_err(|error| ChainError::io(path, error))
    }

    /// Takes a line back that could not be finished. If that fails too, the next append clears it up.
    fn undo(&self, bytes: u64) {
        let path = self.files.active();
        let cut = |file: fs::File| file.set_len(bytes).and_then(|()| file.sync_data());
        let _: io::Result<()> = OpenOptions::new().write(true).open(path).and_then(cut);
    }

    /// The file becomes a full one first; if the head is not written any more, that is seen by its length.
    fn rotate(&self, head: Head) -> Result<Head, ChainError> {
        let number = head.finished + 1;
        let full = self.files.numbered(number);
        fs::rename(self.files.active(), &full).map_err(|error| ChainError::io(&full, error))?;
        self.durability
            .sync_folder(self.files.folder())
            .map_err(|error| ChainError::io(self.files.folder(), error))?;
        let head = Head { finished: number, bytes: 0, ..head };
        head.write(&self.files, self.durability)?;
        Ok(head)
    }
}
