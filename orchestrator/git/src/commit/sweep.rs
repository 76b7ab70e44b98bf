//! Finishes or undoes commits whose process was killed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small};
use mala_core::ports::Liveness;

use super::error::CommitError;
use super::land::{Journal, journal_in, next_index_in};
use super::stage::folder_of;
use crate::index_lock::{Mark, indexes};
use crate::{Repo, RepoPath, owned_directory};

/// What was done about one killed commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swept {
    /// The branch had moved already, so the index was brought up to it.
    Finished(PathBuf),
    /// Nothing had happened yet; what was prepared is gone.
    Undone(PathBuf),
}

/// Clears up after killed commits. Safe at any time, also while others commit: only folders of dead processes are
/// touched, and only an index lock that carries their mark.
pub fn sweep(repo: &Repo, liveness: &dyn Liveness) -> Result<Vec<Swept>, CommitError> {
    let parent = folder_of(repo);
    let folders = owned_directory::abandoned(&parent, liveness).map_err(CommitError::io(parent))?;
    folders.into_iter().map(|folder| sweep_one(repo, folder)).collect()
}

fn sweep_one(repo: &Repo, folder: PathBuf) -> Result<Swept, CommitError> {
    let swept = match read_journal(&folder) {
        Some(journal) => by_journal(repo, &folder, &journal)?,
        None => {
            // Killed before it knew its commit; at most the lock of some checkout of this repository is left.
            let mark = Mark::commit(&folder);
            indexes(repo).iter().try_for_each(|index| mark.unlock(index))?;
            Swept::Undone(folder.clone())
        }
    };
    owned_directory::remove(&folder).map_err(CommitError::io(folder))?;
    Ok(swept)
}

fn read_journal(folder: &Path) -> Option<Journal> {
    serde_json::from_slice(&read_small(&journal_in(folder), SETTINGS).ok()?).ok()
}

fn by_journal(repo: &Repo, folder: &Path, journal: &Journal) -> Result<Swept, CommitError> {
    let root = RepoPath::from_text(&journal.root).map(|root| root.as_path().to_owned());
    // Agents can write here: a journal moves nobody to another repository.
    let is_ours = |scope: &Scope| scope.git_dir() == repo.scope().git_dir();
    let Some(scope) = root.and_then(|root| Scope::discover(&root).ok()).filter(is_ours) else {
        return Ok(Swept::Undone(folder.to_owned()));
    };
    let repo = repo.beside(scope);
    let index = repo.git_dir()?.join("index");
    let has_landed = match repo.resolve(&journal.reference)? {
        Some(tip) => repo.is_ancestor(&journal.commit, &tip)?,
        None => false,
    };
    let mark = Mark::commit(folder);
    if has_landed && mark.is_on(&index) {
        // Built under the lock that is still there, so nobody has changed the index since.
        match fs::rename(next_index_in(folder), &index) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CommitError::io(index)(error));
            }
            _ => {}
        }
    }
    mark.unlock(&index)?;
    Ok(if has_landed { Swept::Finished(folder.to_owned()) } else { Swept::Undone(folder.to_owned()) })
}
