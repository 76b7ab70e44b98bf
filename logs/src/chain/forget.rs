//! Removes the oldest files of a log, so that it does not grow for ever and what is left can still be verified.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::{Broken, ChainError, Why};
use super::head::{Head, Start};
use super::line::{self, End};
use crate::disk::{self, Durability};
use crate::files::{Finished, LogFiles};
use crate::lines::{Lines, OpenFile, Order};

/// Removes full files that were last written to before `before`, the oldest first, and says which.
///
/// The head says where the log begins from now on before anything is removed: whoever is killed in between leaves files
/// that no longer belong to the log, and the next time takes them away.
pub(super) fn forget(files: &LogFiles, head: Head, before: SystemTime) -> Result<Vec<PathBuf>, ChainError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| ChainError::io(&path, error)
    };
    let full = files.finished().map_err(failed(files.folder()))?;
    let mut head = head;
    let first = head.start.file;
    for file in full.iter().filter(|file| file.number >= first) {
        if !is_older(&file.path, before).map_err(failed(&file.path))? {
            break;
        }
        head.start = Start { file: file.number + 1, after: last_line(file)? };
    }
    head.write(files, Durability::Synced)?;
    disk::sync_folder(files.folder()).map_err(failed(files.folder()))?;
    let gone = full.into_iter().filter(|file| file.number < head.start.file).map(|file| file.path);
    gone.map(|path| fs::remove_file(&path).map_err(failed(&path)).map(|()| path)).collect()
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
