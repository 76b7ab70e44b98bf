//! Plain logs of events, such as everything a run did: one JSON object a line, without a chain.
//!
//! Several processes may write to one journal; each line is written whole, in turn. Lines are not synced to the disk one by
//! one: a killed process loses nothing that it wrote, a power cut may take the last lines. A full file
//! becomes `NAME.0001.jsonl`, as with [`crate::chain`]. If a writer was killed within a line, the next one begins a new
//! line, and the reader reports the damaged one as an error and goes on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::files::LogFiles;
use crate::lines::{Lines, LinesError, OpenFile};
use crate::turn::{self, Hold, Turn, TurnError};

pub use crate::lines::Order;

/// A file that has grown to this is full.
const FULL: u64 = 16 * 1024 * 1024;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("`{}` is not the name of a journal: it must end in `.jsonl`", .path.display())]
    Name { path: PathBuf },
    #[error("an event cannot be written to `{}`", .path.display())]
    Event {
        path: PathBuf,
        #[source]
        source: jsonl::WriteError,
    },
    #[error("a line of `{}`, at byte {offset}, cannot be read as an event", .path.display())]
    Decode {
        path: PathBuf,
        offset: u64,
        #[source]
        source: jsonl::ReadError,
    },
    #[error("another process has kept the journal `{}` for {seconds} s", .path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("cannot use the journal `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

impl From<LinesError> for JournalError {
    fn from(error: LinesError) -> Self {
        Self::Io { path: error.path, source: error.source }
    }
}

fn files_of(path: &Path) -> Result<LogFiles, JournalError> {
    LogFiles::new(path).ok_or_else(|| JournalError::Name { path: path.to_owned() })
}

fn take_turn(files: &LogFiles, hold: Hold) -> Result<Turn, JournalError> {
    let path = files.beside("lock");
    turn::take(&path, hold).map_err(|error| match error {
        TurnError::Busy { path, seconds } => JournalError::Busy { path, seconds },
        TurnError::Io(source) => JournalError::Io { path, source },
    })
}

/// Appends events to a journal.
#[derive(Debug)]
pub struct JournalWriter {
    files: LogFiles,
    full: u64,
}

impl JournalWriter {
    /// Opens the journal `NAME.jsonl`, and makes its folder if it is not there.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with(path, FULL)
    }

    /// As [`JournalWriter::open`], with files that are full as soon as they have `full` bytes or more.
    pub fn open_with(path: &Path, full: u64) -> Result<Self, JournalError> {
        let files = files_of(path)?;
        fs::create_dir_all(files.folder()).map_err(JournalError::io(files.folder()))?;
        Ok(Self { files, full })
    }

    /// Appends one event.
    pub fn write<T: Serialize>(&mut self, event: &T) -> Result<(), JournalError> {
        let path = self.files.active();
        let mut line = Vec::with_capacity(256);
        jsonl::write(&mut line, event)
            .map_err(|source| JournalError::Event { path: path.to_owned(), source })?;
        let _turn = take_turn(&self.files, Hold::Alone)?;
        self.append(line).map_err(JournalError::io(path))
    }

    fn append(&self, mut line: Vec<u8>) -> io::Result<()> {
        let mut file = self.open_active()?;
        let mut length = file.metadata()?.len();
        if length >= self.full {
            self.rotate()?;
            file = self.open_active()?;
            length = 0;
        }
        if !ends_with_a_line(&file, length)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)
    }

    fn open_active(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).read(true).open(self.files.active())
    }

    fn rotate(&self) -> io::Result<()> {
        let number = self.files.finished()?.last().map_or(0, |file| file.number) + 1;
        fs::rename(self.files.active(), self.files.numbered(number))
    }
}

/// True if the next line can begin where the file ends.
fn ends_with_a_line(file: &File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

/// A journal as it was at one moment.
#[derive(Debug)]
pub struct JournalReader {
    files: Vec<OpenFile>,
}

impl JournalReader {
    /// Opens the journal `NAME.jsonl`; one that is not there is empty.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let files = files_of(path)?;
        let _turn = match take_turn(&files, Hold::Shared) {
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            turn => Some(turn?),
        };
        let full = files.finished().map_err(JournalError::io(files.folder()))?;
        let paths = full.into_iter().map(|file| file.path).chain([files.active().to_owned()]);
        let open = |path: PathBuf| OpenFile::open(&path).map_err(JournalError::io(&path)).transpose();
        Ok(Self { files: paths.filter_map(open).collect::<Result<_, _>>()? })
    }

    /// The events, in either order. One that cannot be read is an error; the next one may be read all the same.
    pub fn events<T: DeserializeOwned>(self, order: Order) -> Events<T> {
        Events { lines: Lines::new(self.files, order), kind: PhantomData }
    }
}

/// The events of a journal.
#[derive(Debug)]
pub struct Events<T> {
    lines: Lines,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Events<T> {
    type Item = Result<T, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next() {
            Ok(line) => line?,
            Err(error) => return Some(Err(error.into())),
        };
        Some(jsonl::read(line.bytes).map_err(|source| JournalError::Decode {
            path: line.path.to_owned(),
            offset: line.offset,
            source,
        }))
    }
}
