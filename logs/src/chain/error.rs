//! What can go wrong with a chained log, in words for the person who has to act on it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::lines::LinesError;
use crate::turn::TurnError;

#[derive(Debug, Error)]
pub enum ChainError {
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error("`{}` is not the name of a log: it must end in `.jsonl`", .path.display())]
    Name { path: PathBuf },
    #[error("a record for the log `{}` is not a JSON object", .path.display())]
    Record {
        path: PathBuf,
        #[source]
        source: jsonl::WriteError,
    },
    #[error(
        "a record for the log `{}` has a field `seq`, `prev` or `hash`, which are the chain's own",
        .path.display()
    )]
    Reserved {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("a line of `{}`, at byte {offset}, cannot be read as a record", .path.display())]
    Decode {
        path: PathBuf,
        offset: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error("another process has kept the log `{}` for {seconds} s", .path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("no space left for the log `{}`: nothing was recorded", .path.display())]
    Full { path: PathBuf },
    #[error("cannot use the log `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl ChainError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    pub(super) fn turn(path: &Path, error: TurnError) -> Self {
        match error {
            TurnError::Busy { path, seconds } => Self::Busy { path, seconds },
            TurnError::Io(source) => Self::io(path, source),
        }
    }
}

impl From<LinesError> for ChainError {
    fn from(error: LinesError) -> Self {
        Self::io(&error.path, error.source)
    }
}

/// The first place where a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Broken {
    pub file: PathBuf,
    /// The line in that file, counted from 1; 0 if it is about the file as a whole.
    pub line: u64,
    pub why: Why,
}

impl Broken {
    pub(super) fn file(file: &Path, why: Why) -> Self {
        Self { file: file.to_owned(), line: 0, why }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "`{}` {}", self.file.display(), self.why),
            line => write!(f, "line {line} of `{}` {}", self.file.display(), self.why),
        }
    }
}

/// How a log is broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
    #[error("is not a line of this log")]
    Malformed,
    #[error("was changed: its hash does not fit")]
    Changed,
    #[error("is number {found}, but number {expected} should be here: lines were removed, added or moved")]
    Number { found: u64, expected: u64 },
    #[error("does not follow from the line before it")]
    Unlinked,
    #[error("is missing: the log ended with number {expected}, now it ends with number {found}")]
    Truncated { found: u64, expected: u64 },
    #[error(
        "no longer has the line that was written as number {seq}: the chain was written anew, or lines were taken out"
    )]
    Rewritten { seq: u64 },
    #[error("begins with number {found}, but nobody has removed number {expected} for its age")]
    Beginning { found: u64, expected: u64 },
    #[error("is gone, with its {} {}", .records, if *.records == 1 { "record" } else { "records" })]
    Gone { records: u64 },
    #[error("ends in the middle of a line")]
    Unfinished,
    #[error("is missing")]
    FileMissing,
    #[error("is not the line that was written last: it and perhaps others were replaced")]
    Replaced,
    #[error("does not end where the head of the log says")]
    HeadDiffers,
    #[error("cannot be understood")]
    HeadUnreadable,
}
