//! Reads a chained log, without judging it: [`super::verify`] does that.

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{Broken, ChainError, Why};
use super::head::Head;
use super::line::{self, End, LineHash};
use crate::files::LogFiles;
use crate::lines::{Lines, OpenFile, Order};
use crate::turn::{self, Hold, Turn, TurnError};

/// A log as it was at one moment. Appends and rotation after that do not change what is read.
#[derive(Debug)]
pub struct ChainReader {
    files: Vec<OpenFile>,
}

impl ChainReader {
    /// Opens the log `NAME.jsonl`; a log that is not there is empty.
    pub fn open(path: &Path) -> Result<Self, ChainError> {
        let files = LogFiles::new(path).ok_or_else(|| ChainError::Name { path: path.to_owned() })?;
        let _turn = take_turn(&files)?;
        let first = Head::read(&files)?.map_or(1, |head| head.start.file);
        Ok(Self { files: open_files(&files, first)? })
    }

    /// The lines, one at a time, in a buffer that is used again.
    pub fn lines(self, order: Order) -> ChainLines {
        ChainLines { lines: Lines::new(self.files, order) }
    }

    /// The lines as records of one type.
    pub fn records<T: DeserializeOwned>(self, order: Order) -> Records<T> {
        Records { lines: self.lines(order), kind: PhantomData }
    }
}

/// Keeps writers away; nobody has written yet if there is nothing to take.
pub(super) fn take_turn(files: &LogFiles) -> Result<Option<Turn>, ChainError> {
    let path = files.beside("lock");
    match turn::take(&path, Hold::Shared) {
        Ok(turn) => Ok(Some(turn)),
        Err(TurnError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ChainError::turn(&path, error)),
    }
}

/// All files of a log from the one with the number `first`, the oldest first.
pub(super) fn open_files(files: &LogFiles, first: u32) -> Result<Vec<OpenFile>, ChainError> {
    let finished = files.finished().map_err(|error| ChainError::io(files.folder(), error))?;
    let mut paths: Vec<PathBuf> =
        finished.into_iter().filter(|file| file.number >= first).map(|file| file.path).collect();
    paths.push(files.active().to_owned());
    let open =
        |path: PathBuf| OpenFile::open(&path).map_err(|error| ChainError::io(&path, error)).transpose();
    paths.into_iter().filter_map(open).collect()
}

/// Lends one line after the other.
#[derive(Debug)]
pub struct ChainLines {
    lines: Lines,
}

impl ChainLines {
    /// The next line; nothing after the last one. A part of a line that a killed writer left is not shown.
    pub fn next_line(&mut self) -> Result<Option<ChainLine<'_>>, ChainError> {
        let Some(raw) = self.lines.next()? else { return Ok(None) };
        match line::end_of(raw.bytes) {
            Some(end) => Ok(Some(ChainLine { bytes: raw.bytes, path: raw.path, offset: raw.offset, end })),
            None => Err(Broken { file: raw.path.to_owned(), line: 0, why: Why::Malformed }.into()),
        }
    }
}

/// One line of a log, whose hash has not been checked.
#[derive(Debug, Clone, Copy)]
pub struct ChainLine<'a> {
    bytes: &'a [u8],
    path: &'a Path,
    offset: u64,
    end: End,
}

impl<'a> ChainLine<'a> {
    /// The line as it is written, without its line break: to look for something before it is decoded.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn seq(&self) -> u64 {
        self.end.seq
    }

    pub fn hash(&self) -> LineHash {
        self.end.hash
    }

    /// The record, whose type may borrow from the line. The chain's own fields are there too; a type that refuses unknown
    /// fields must know them.
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T, ChainError> {
        serde_json::from_slice(self.bytes).map_err(|source| ChainError::Decode {
            path: self.path.to_owned(),
            offset: self.offset,
            source,
        })
    }
}

/// The records of a log.
#[derive(Debug)]
pub struct Records<T> {
    lines: ChainLines,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Records<T> {
    type Item = Result<T, ChainError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next_line().transpose()?;
        Some(line.and_then(|line| line.decode()))
    }
}
