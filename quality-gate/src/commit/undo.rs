//! Taking back the last commit of a branch.

use mala_core::Owner;

use super::error::CommitError;
use super::index::change_index;
use super::land::move_branch;
use super::select::refuse_unfinished;
use super::stage::index_info;
use crate::git::{Commit, FileChange};
use crate::{Oid, Repo, RepoPath};

/// Takes `commit` off its branch, if it is still the last one there, and gives the files that it had. No file of the checkout
/// changes: what was committed is as uncommitted as before. What was staged since stays staged.
pub fn undo(repo: &Repo, owner: &Owner, commit: &Commit) -> Result<Vec<RepoPath>, CommitError> {
    refuse_unfinished(repo)?;
    let [parent] = commit.parents.as_slice() else {
        return Err(CommitError::NoOneBefore(commit.id.clone()));
    };
    let changes = repo.changes_of(commit)?;
    change_index(repo, owner, |index| {
        let head = repo.head()?;
        if head.at() != Some(&commit.id) {
            return Err(CommitError::NotLast(commit.id.clone()));
        }
        let staged: Vec<RepoPath> = repo.staged(Some(index))?.into_iter().map(|change| change.path).collect();
        let back: Vec<FileChange> = changes
            .iter()
            .filter(|change| !staged.contains(&change.path))
            .map(|FileChange { path, before, after }| FileChange {
                path: path.clone(),
                before: after.clone(),
                after: before.clone(),
            })
            .collect();
        let update = repo.git("update-index").index(index).args(["--add", "--replace", "-z", "--index-info"]);
        update.input(index_info(&back)).output()?;
        // Exits with 1 if some file differs from the index, as it does now.
        repo.git("update-index").index(index).args(["-q", "--refresh"]).finish()?;
        move_branch(repo, &head, parent, &format!("undo: {}", subject(commit))).map_err(|error| {
            if is_at(repo, &commit.id) { error.into() } else { CommitError::NotLast(commit.id.clone()) }
        })
    })?;
    Ok(changes.into_iter().map(|change| change.path).collect())
}

fn is_at(repo: &Repo, commit: &Oid) -> bool {
    repo.head().is_ok_and(|head| head.at() == Some(commit))
}

fn subject(commit: &Commit) -> &str {
    commit.message.lines().next().unwrap_or_default()
}
