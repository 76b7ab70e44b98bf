//! What can go wrong with the store, in words for the person who has to act on it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use mala_core::sharing::GuestRoot;
use mala_core::{AgentId, Owner, Target};
use rusqlite::ErrorCode;
use thiserror::Error;

use crate::asks::types::AskError;
use crate::issues::types::IssueError;
use crate::journal::types::JournalError;
use crate::landing::types::LandingError;
use crate::messages::MessageError;

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("the store `{}` is damaged: {detail}", .path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("the store `{}` has a row that makes no sense: {detail}", .path.display())]
    BadRow { path: PathBuf, detail: String },
    #[error("the store `{}` was made by a newer mala (schema {found}, this mala knows {known})", .path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is a database, but not one of mala's", .path.display())]
    Foreign { path: PathBuf },
    #[error("cannot read the store `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write to the store `{}`", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    GuestRoot(#[from] GuestRoot),
    #[error("no space left for the store `{}`", .path.display())]
    Full { path: PathBuf },
    #[error("another process has been writing to the store `{}` for {seconds} s", .path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("no agent called `{agent}` is known in this checkout")]
    UnknownAgent { agent: AgentId },
    #[error("an agent called `{agent}` is running already ({owner})")]
    AgentRuns { agent: AgentId, owner: Box<Owner> },
    #[error("the agent `{agent}` is not running any more")]
    AgentGone { agent: AgentId },
    #[error("`{agent}` keeps `{kept}`, which overlaps `{moved}`: hand over both or neither")]
    StillHeld { agent: AgentId, kept: Box<Target>, moved: Box<Target> },
    #[error("`{kind}` cannot be told to the store: it says so itself when it makes it so")]
    NotAFact { kind: &'static str },
    #[error("no process with pid {pid} is running")]
    NoProcess { pid: u32 },
    #[error("this would make agents wait for each other: {}", show_circle(.circle))]
    Deadlock { circle: Vec<AgentId> },
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Landing(#[from] LandingError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("the store `{}` failed", .path.display())]
    Sql {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// `a -> b -> a`: each waits for the next.
pub fn show_circle(circle: &[AgentId]) -> String {
    let names: Vec<&str> = circle.iter().chain(circle.first()).map(AgentId::as_str).collect();
    names.join(" -> ")
}

impl StoreError {
    /// Gives SQLite's error the words of this store.
    pub(crate) fn from_sql(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, detail: source.to_string() }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                match File::open(&path) {
                    // SQLite does not say what it was not allowed to do.
                    Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                        Self::Unreadable { path, source }
                    }
                    _ => Self::Unwritable { path, source: io::Error::other(source) },
                }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, seconds: crate::turn::PATIENCE.as_secs() }
            }
            _ => match source {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..) => {
                    Self::BadRow { path, detail: source.to_string() }
                }
                source => Self::Sql { path, source },
            },
        }
    }

    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull => Self::Full { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Unwritable { path, source }
            }
            _ => Self::Io { path, source },
        }
    }
}

/// What a transaction ends with if it fails. The store adds its path at the edge.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
    /// The change would close this circle of agents that wait for each other.
    Circle(Vec<AgentId>),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What a caller is refused, as the end of a transaction.
macro_rules! faults {
    ($($error:ty),*) => {$(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::Store(error.into())
            }
        }
    )*};
}

faults!(AskError, IssueError, JournalError, LandingError, MessageError);

impl Fault {
    pub(crate) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => StoreError::from_sql(path, error),
            Self::Store(error) => error,
            Self::Circle(circle) => StoreError::Deadlock { circle },
        }
    }
}
