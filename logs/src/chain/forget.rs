//! Removes the oldest files of a log, so that it does not grow for ever and what is left can still be verified.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::{Broken, ChainError, Why};
use super::head::{Head, Start};
use super::line::{self, End};
use super::reader::take_turn;
use crate::disk::{self, Durability};
use crate::files::{Finished, LogFiles};
use crate::lines::{Lines, OpenFile, Order};

/// What of a log is old.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forgettable {
    pub files: Vec<PathBuf>,
    /// The number of the last line in them, and of all that went before.
    pub last: u64,
}

/// Full files that were last written to before `before`, and all that were left when forgetting was interrupted.
pub fn forgettable(path: &Path, before: SystemTime) -> Result<Forgettable, ChainError> {
    let files = LogFiles::new(path).ok_or_else(|| ChainError::Name { path: path.to_owned() })?;
    let _turn = take_turn(&files)?;
    let Some(head) = Head::read(&files)? else { return Ok(Forgettable::default()) };
    let (head, gone) = without_old(&files, head, before)?;
    Ok(Forgettable { files: gone, last: head.start.after.seq })
}

/// Removes what is [`forgettable`], the oldest first, and says which.
///
/// The head says where the log begins from now on before anything is removed: whoever is killed in between leaves files
/// that no longer belong to the log, and the next time takes them away.
pub(super) fn forget(files: &LogFiles, head: Head, before: SystemTime) -> Result<Vec<PathBuf>, ChainError> {
    let (head, gone) = without_old(files, head, before)?;
    head.write(files, Durability::Synced)?;
    disk::sync_folder(files.folder()).map_err(|error| ChainError::io(files.folder(), error))?;
    for path in &gone {
        fs::remove_file(path).map_err(|error| ChainError::io(path, error))?;
    }
    Ok(gone)
}

/// The head of the log without its old files, and the files that do not belong to it then.
fn without_old(
    files: &LogFiles,
    mut head: Head,
    before: SystemTime,
) -> Result<(Head, Vec<PathBuf>), ChainError> {
    let full = files.finished().map_err(|error| ChainError::io(files.folder(), error))?;
    let first = head.start.file;
    for file in full.iter().filter(|file| file.number >= first) {
        if !is_older(&file.path, before).map_err(|error| ChainError::io(&file.path, error))? {
            break;
        }
        head.start = Start { file: file.number + 1, after: last_line(file)? };
    }
    let gone = full.into_iter().filter(|file| file.number < head.start.file).map(|file| file.path);
    Ok((head, gone.collect()))
}

fn is_older(path: &Path, before: SystemTime) -> io::Result<bool> {
    Ok(fs::metadata(path)?.modified()? < before)
}

/// What the first line of the next file follows.
fn last_line(file: &Finished) -> Result<End, ChainError> {
    let open = OpenFile::open(&file.path).map_err(|error| ChainError::io(&file.path, error))?;
    let mut lines = Lines::new(open.into_iter().collect(), Order::NewestFirst);
    let end = lines.next()?.and_then(|line| line::end_of(line.bytes));
    end.ok_or_else(|| Broken::file(&file.path, Why::Malformed).into())
}
