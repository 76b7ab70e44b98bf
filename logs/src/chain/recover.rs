//! Finds the end of a log before something is appended, and clears up after a writer that was killed.

use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::error::{Broken, ChainError, Why};
use super::head::Head;
use super::line::{self, End};
use crate::disk::{self, Durability};
use crate::files::LogFiles;

/// The head of the log as its files are now. Whoever calls it is alone with the log.
///
/// Usually the head says how long the file is and it is, which costs two looks at the file system.
pub(super) fn recover(files: &LogFiles) -> Result<Head, ChainError> {
    let Some(mut head) = Head::read(files)? else { return begin(files) };
    let length = |path| disk::length(path).map_err(|error| ChainError::io(path, error));
    let bytes = length(files.active())?.unwrap_or(0);
    if bytes == head.bytes {
        return Ok(head);
    }
    if bytes < head.bytes {
        // The file may have become a full one just before its writer was killed.
        let full = files.numbered(head.finished + 1);
        if length(&full)? != Some(head.bytes) {
            return Err(truncated(files.active(), &head)?.into());
        }
        head = Head { finished: head.finished + 1, bytes: 0, ..head };
    }
    take_over(files, head)
}

/// The head and its folder are on the disk before the first line is.
fn begin(files: &LogFiles) -> Result<Head, ChainError> {
    let folder = files.folder();
    let failed = |error| ChainError::io(folder, error);
    fs::create_dir_all(folder).map_err(failed)?;
    Head::EMPTY.write(files, Durability::Synced)?;
    disk::sync_folder(folder).map_err(failed)?;
    Ok(Head::EMPTY)
}

/// Names the first line that is not there any more.
fn truncated(active: &Path, head: &Head) -> Result<Broken, ChainError> {
    let left = added(active, 0).map_err(|error| ChainError::io(active, error))?;
    let whole = &left[..memchr::memrchr(b'\n', &left).map_or(0, |at| at + 1)];
    let lines = memchr::memchr_iter(b'\n', whole).count() as u64;
    let begin = memchr::memrchr(b'\n', whole.trim_ascii_end()).map_or(0, |at| at + 1);
    let found = line::number(&whole[begin..]).unwrap_or(0);
    let why = Why::Truncated { found, expected: head.end.seq };
    Ok(Broken { file: active.to_owned(), line: lines + 1, why })
}

/// Adds the lines that the head does not know yet, and puts what is not a whole line aside.
fn take_over(files: &LogFiles, mut head: Head) -> Result<Head, ChainError> {
    let path = files.active();
    let failed = |error| ChainError::io(path, error);
    let added = added(path, head.bytes).map_err(failed)?;
    let mut rest = &added[..];
    while let Some(length) = memchr::memchr(b'\n', rest) {
        head.end = line::follow(head.end, &rest[..length]).map_err(|why| broken(path, head.bytes, why))?;
        head.bytes += length as u64 + 1;
        rest = &rest[length + 1..];
    }
    if !rest.is_empty() {
        set_aside(files, head.end, rest)?;
        let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(head.bytes).and_then(|()| file.sync_data()).map_err(failed)?;
    }
    head.write(files, Durability::Synced)?;
    Ok(head)
}

fn added(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut added = Vec::new();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(added),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut added)?;
    Ok(added)
}

/// Names the line that begins at `offset`.
fn broken(path: &Path, offset: u64, why: Why) -> ChainError {
    let mut before = Vec::new();
    let read = File::open(path).and_then(|file| file.take(offset).read_to_end(&mut before));
    match read {
        Ok(_) => {
            let line = memchr::memchr_iter(b'\n', &before).count() as u64 + 1;
            Broken { file: path.to_owned(), line, why }.into()
        }
        Err(error) => ChainError::io(path, error),
    }
}

/// Keeps what a killed writer wrote of the line after `end`. Doing it twice, because the first time was interrupted,
/// makes one file.
fn set_aside(files: &LogFiles, end: End, part: &[u8]) -> Result<(), ChainError> {
    for attempt in 0_u32.. {
        let path = torn_path(files, end.seq + 1, attempt);
        match fs::read(&path) {
            Ok(kept) if kept == part => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let kept = disk::replace(&path, part, Durability::Synced)
                    .and_then(|()| disk::sync_folder(files.folder()));
                return kept.map_err(|error| ChainError::io(&path, error));
            }
            Err(error) => return Err(ChainError::io(&path, error)),
        }
    }
    unreachable!("one of four billion names is free")
}

fn torn_path(files: &LogFiles, seq: u64, attempt: u32) -> PathBuf {
    match attempt {
        0 => files.beside(&format!("torn-{seq}.part")),
        again => files.beside(&format!("torn-{seq}-{again}.part")),
    }
}

/// The parts of lines that were put aside.
pub(super) fn torn_parts(files: &LogFiles) -> io::Result<Vec<PathBuf>> {
    let is_part = |name: &str| (name.starts_with("torn-") && name.ends_with(".part")).then_some(());
    let mut paths: Vec<PathBuf> = files.neighbours(is_part)?.into_iter().map(|(path, ())| path).collect();
    paths.sort();
    Ok(paths)
}
