//! Changes to git's index besides commits, under git's own lock.

use std::path::Path;
use std::{fs, io};

use mala_core::Owner;

use super::error::CommitError;
use super::land::{IndexLock, next_index_in};
use super::stage::folder_of;
use crate::Repo;
use crate::owned_directory::OwnedDirectory;

/// Lets `change` work on a copy of the index, named by its path, while nobody else can change the index, and puts it in its
/// place. If `change` fails, or `owner` is killed, the index is as it was; the lock says whose it is, so that
/// [`super::sweep`] removes what a killed owner left. A git that `change` starts and that is killed leaves nothing.
pub fn change_index<T, E: From<CommitError>>(
    repo: &Repo,
    owner: &Owner,
    change: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let parent = folder_of(repo);
    let folder = OwnedDirectory::create(&parent, owner).map_err(CommitError::io(parent))?;
    let index = repo.git_dir().map_err(CommitError::from)?.join("index");
    let lock = IndexLock::take(&index, folder.path())?;
    let next = next_index_in(folder.path());
    match fs::copy(&index, &next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CommitError::io(&index)(error))?,
        _ => {}
    }
    let done = change(&next)?;
    match fs::rename(&next, &index) {
        // Nothing was staged, then or now.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CommitError::io(&index)(error))?,
        _ => {}
    }
    drop(lock);
    Ok(done)
}
