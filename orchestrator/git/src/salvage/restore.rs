//! The single moves of a restore. Where the index changes, it is a private copy that takes the index's place in the end,
//! so a git that is killed meanwhile leaves no lock behind. What fails for one file is done for the others all the same, and
//! the first failure is the error.

use std::collections::BTreeSet;
use std::path::Path;

use super::{SalvageError, remove_file};
use crate::call::nul_separated;
use crate::retry::Git;
use crate::{GitError, Oid, Repo, RepoPath};

const FROM_STDIN: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

/// Index and checkout, to what `commit` holds.
pub(super) fn to_commit(
    repo: &Repo,
    index: &Path,
    commit: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<(), SalvageError> {
    let (there, new) = split(repo, commit, files)?;
    // New files first: one of them may stand where a folder has to be, or the other way round.
    let removed = remove(repo, index, &new);
    removed.and(restore_from(repo, Some(index), commit, &["--staged", "--worktree"], &there))
}

/// The checkout alone, to what `commit` holds.
pub(super) fn checkout_only(
    repo: &Repo,
    commit: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<(), SalvageError> {
    let (there, new) = split(repo, commit, files)?;
    new.iter().try_for_each(|path| remove_file(repo.root(), path))?;
    restore_from(repo, None, commit, &["--worktree"], &there)
}

/// The index alone, to what `commit` holds.
pub(super) fn index_only(
    repo: &Repo,
    index: &Path,
    commit: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<(), SalvageError> {
    let (there, new) = split(repo, commit, files)?;
    drop_from_index(repo, index, &new)?;
    restore_from(repo, Some(index), commit, &["--staged"], &there)
}

/// Out of the index and out of the checkout.
pub(super) fn remove(repo: &Repo, index: &Path, files: &BTreeSet<RepoPath>) -> Result<(), SalvageError> {
    let mut all = drop_from_index(repo, index, files);
    for path in files {
        all = all.and(remove_file(repo.root(), path));
    }
    all
}

/// One file that git cannot write keeps no other one from being restored: of many, each half is tried for itself.
fn restore_from(
    repo: &Repo,
    index: Option<&Path>,
    commit: &Oid,
    what: &[&str],
    files: &BTreeSet<RepoPath>,
) -> Result<(), SalvageError> {
    if files.is_empty() {
        return Ok(());
    }
    let source = format!("--source={commit}");
    // Also files that git was told not to look at.
    let mut args = vec!["restore", "--ignore-skip-worktree-bits", &source];
    args.extend(what);
    args.extend(FROM_STDIN);
    let git = index.map_or_else(|| Git::at(repo.root()), |index| Git::with_index(repo.root(), index));
    match git.run(&args, &nul_separated(files)) {
        Err(GitError::Failed { .. }) if files.len() > 1 => {
            let mut first = files.clone();
            let second = first.split_off(files.iter().nth(files.len() / 2).expect("it has as many"));
            let restored = restore_from(repo, index, commit, what, &first);
            restored.and(restore_from(repo, index, commit, what, &second))
        }
        done => Ok(done.map(|_| ())?),
    }
}

pub(super) fn drop_from_index(
    repo: &Repo,
    index: &Path,
    files: &BTreeSet<RepoPath>,
) -> Result<(), SalvageError> {
    if files.is_empty() {
        return Ok(());
    }
    Git::with_index(repo.root(), index)
        .run(&["update-index", "--force-remove", "-z", "--stdin"], &nul_separated(files))?;
    Ok(())
}

/// The files that `commit` holds, and those that it does not.
fn split(
    repo: &Repo,
    commit: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<(BTreeSet<RepoPath>, BTreeSet<RepoPath>), SalvageError> {
    let held = repo.entries_in(commit, files)?;
    Ok(files.iter().cloned().partition(|path| held.contains_key(path)))
}
