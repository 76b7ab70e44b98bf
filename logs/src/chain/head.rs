//! The head: what the chain's end was when the last append returned.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::error::{Broken, ChainError, Why};
use super::line::End;
use crate::disk::{self, Durability};
use crate::files::LogFiles;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// The last line.
    pub(super) end: End,
    /// The number of the last full file; 0 if there is none yet.
    pub(super) finished: u32,
    /// The length of the file that is written to.
    pub(super) bytes: u64,
    /// Where the log begins, now that older files may have been removed.
    pub(super) start: Start,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// The number of the first file.
    pub(super) file: u32,
    /// What its first line follows.
    pub(super) after: End,
}

impl Head {
    pub(super) const EMPTY: Self =
        Self { end: End::EMPTY, finished: 0, bytes: 0, start: Start { file: 1, after: End::EMPTY } };

    pub(super) fn path(files: &LogFiles) -> std::path::PathBuf {
        files.beside("head")
    }

    /// Nothing if the log is not there yet.
    pub(super) fn read(files: &LogFiles) -> Result<Option<Self>, ChainError> {
        let path = Self::path(files);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::missing(files, &path),
            Err(error) => return Err(ChainError::io(&path, error)),
        };
        let head: Option<Self> = serde_json::from_slice(&text).ok();
        // There is one way to write it, so that a changed byte is noticed even where JSON would not care.
        match head.filter(|head| head.text() == text) {
            Some(head) => Ok(Some(head)),
            None => Err(Broken::file(&path, Why::HeadUnreadable).into()),
        }
    }

    /// The head is written before the first line, so lines without a head are lines whose head was removed.
    fn missing(files: &LogFiles, path: &Path) -> Result<Option<Self>, ChainError> {
        let folder = |error| ChainError::io(files.folder(), error);
        let length = disk::length(files.active()).map_err(folder)?.unwrap_or(0);
        if length == 0 && files.finished().map_err(folder)?.is_empty() {
            return Ok(None);
        }
        Err(Broken::file(path, Why::FileMissing).into())
    }

    pub(super) fn write(&self, files: &LogFiles, durability: Durability) -> Result<(), ChainError> {
        let path = Self::path(files);
        disk::replace(&path, &self.text(), durability).map_err(|error| ChainError::io(&path, error))
    }

    fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("numbers and text become JSON");
        text.push(b'\n');
        text
    }
}
