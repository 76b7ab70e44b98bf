//! The moment the commit becomes part of the branch.
//!
//! Git's own protocol: take the index lock, prepare the new index beside it, move the branch, put the index in its place,
//! give the lock back. Nobody can commit the old content of these files in between. The lock says whose it is, and the
//! journal what was intended, so that whoever comes after a kill can finish or undo it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::Owner;
use serde::{Deserialize, Serialize};

use super::error::CommitError;
use super::stage::{Draft, folder_of, index_info};
use crate::index_lock::{IndexLock, Mark};
use crate::owned_directory::OwnedDirectory;
use crate::{GitError, Head, Oid, Repo, RepoPath};

/// How often a moved branch is followed.
pub(super) const TRIES: usize = 100;

/// What is about to happen, for whoever finds it unfinished.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// Top of the checkout.
    pub(super) root: String,
    /// The branch, or `HEAD` when it is detached.
    pub(super) reference: String,
    pub(super) commit: Oid,
}

pub(super) fn journal_in(folder: &Path) -> PathBuf {
    folder.join("journal.json")
}

pub(super) fn next_index_in(folder: &Path) -> PathBuf {
    folder.join("next-index")
}

/// Makes the commit, and moves nothing.
pub(super) fn write(repo: &Repo, draft: &Draft, message: &str) -> Result<Oid, CommitError> {
    let path = draft.folder().join("message");
    fs::write(&path, message).map_err(CommitError::io(&path))?;
    write_commit(repo, draft, &path)
}

/// Makes the commit and moves the branch to it.
pub(super) fn land(repo: &Repo, draft: &mut Draft, message: &str) -> Result<Oid, CommitError> {
    let path = draft.folder().join("message");
    fs::write(&path, message).map_err(CommitError::io(&path))?;
    for _ in 0..TRIES {
        let commit = write_commit(repo, draft, &path)?;
        match advance(repo, draft, &commit, message)? {
            Advance::Done => return Ok(commit),
            Advance::Moved => follow(repo, draft)?,
        }
    }
    Err(CommitError::Restless(TRIES))
}

enum Advance {
    Done,
    /// The branch is not where the draft began.
    Moved,
}

fn write_commit(repo: &Repo, draft: &Draft, message: &Path) -> Result<Oid, CommitError> {
    let mut call = repo.plain_git("commit-tree").arg(draft.tree()?);
    if let Some(parent) = draft.head().at() {
        call = call.arg("-p").arg(parent);
    }
    if repo.signs_commits()? {
        call = call.arg("-S");
    }
    let id = call.arg("-F").arg(message).line().map_err(|error| why_not_written(repo, error))?;
    Ok(Oid::parse(&id).ok_or_else(|| GitError::answer("commit-tree", id.as_bytes()))?)
}

/// Says it in few words if git does not know who commits.
fn why_not_written(repo: &Repo, error: GitError) -> CommitError {
    let is_unknown = |who| repo.plain_git("var").arg(who).output().is_err();
    // Git answers nothing if it is not set.
    let is_unset = |name: &&str| {
        let value = repo.git("config").args(["--get", name]).finish();
        value.is_ok_and(|value| value.stdout.trim_ascii().is_empty())
    };
    let is_nobody = is_unknown("GIT_AUTHOR_IDENT") || is_unknown("GIT_COMMITTER_IDENT");
    let missing: Vec<&str> = ["user.name", "user.email"].into_iter().filter(is_unset).collect();
    if is_nobody && !missing.is_empty() { CommitError::NoIdentity(missing) } else { error.into() }
}

fn advance(repo: &Repo, draft: &Draft, commit: &Oid, message: &str) -> Result<Advance, CommitError> {
    let index = repo.git_dir()?.join("index");
    let lock = IndexLock::take(&index, &Mark::commit(draft.folder()))?;
    let next = next_index_in(draft.folder());
    draft.copy_index(&next)?;
    let update = repo.git("update-index").index(&next).args(["--add", "--replace", "-z", "--index-info"]);
    update.input(index_info(draft.changes())).output()?;
    // Exits with 1 if some file differs from the index, which is nobody's fault.
    repo.git("update-index").index(&next).args(["-q", "--refresh"]).finish()?;
    write_journal(repo, draft, commit)?;
    let subject = message.lines().next().unwrap_or_default();
    let kind = if draft.head().at().is_some() { "commit" } else { "commit (initial)" };
    if let Err(error) = repo.move_branch(draft.head(), commit, &format!("{kind}: {subject}")) {
        return if repo.head()? == *draft.head() { Err(error.into()) } else { Ok(Advance::Moved) };
    }
    fs::rename(&next, &index).map_err(CommitError::io(&index))?;
    drop(lock);
    Ok(Advance::Done)
}

fn write_journal(repo: &Repo, draft: &Draft, commit: &Oid) -> Result<(), CommitError> {
    let journal = Journal {
        root: RepoPath::from_bytes(repo.root().as_os_str().as_encoded_bytes()).to_text(),
        reference: draft.branch().unwrap_or("HEAD").to_owned(),
        commit: commit.clone(),
    };
    let path = journal_in(draft.folder());
    let beside = path.with_extension("new");
    let text = serde_json::to_vec(&journal).expect("text becomes JSON");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    written.map_err(CommitError::io(path))
}

/// The branch has moved: goes on from where it is now, unless the same files were changed.
pub(super) fn follow(repo: &Repo, draft: &mut Draft) -> Result<(), CommitError> {
    let now = repo.head()?;
    let same_branch = match (draft.head(), &now) {
        (Head::Branch { name: before, .. }, Head::Branch { name: after, .. }) => before == after,
        (Head::Detached { .. }, Head::Detached { .. }) => true,
        _ => false,
    };
    let Some(by) = now.at().filter(|_| same_branch) else { return Err(CommitError::Switched) };
    let before = match draft.head().at() {
        Some(commit) => commit.clone(),
        None => repo.empty_tree()?,
    };
    let theirs = repo.changes_between(&before, by)?;
    let collision = draft
        .concerned()
        .into_iter()
        .find(|mine| theirs.iter().any(|theirs| mine.is_within(&theirs.path) || theirs.path.is_within(mine)));
    match collision {
        Some(path) => Err(CommitError::Overtaken { path: path.clone(), by: by.clone() }),
        None => draft.move_to(now),
    }
}

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
    let lock = IndexLock::take(&index, &Mark::commit(folder.path())).map_err(CommitError::from)?;
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
