//! Work that was proven elsewhere becomes part of a branch, together with the checkout that has the branch checked out.
//!
//! # How it works
//! [`stack()`] puts what a candidate changes on top of a commit, as one commit, and proves that it changes nothing else.
//! [`land()`] moves the branch to such a commit. If a checkout has the branch checked out, it goes along: under git's index
//! lock everything that would have to change is looked at; the next index and the new files are prepared in a directory of
//! mala's own; the branch moves by compare-and-swap; each file is renamed to its place; the next index takes the index's place.
//!
//! # What it promises
//! Until the branch moves, nothing of the checkout is touched. Only files that differ between the two commits are, and only if
//! index and file hold what the branch held: staged, changed, untracked and ignored files of a person are never written over.
//! After a kill at any moment [`repair()`] finishes or undoes it; what somebody has written since is left alone and named.
//!
//! It does not decide what may land, and it keeps no record: the caller remembers the [`BranchMove`] before it calls
//! [`land()`], and sees to it that one process at a time lands on a branch.

mod checkout;
mod index;
mod land;
mod look;
mod place;
mod proof;
mod repair;
mod stack;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use mala_core::scope::ScopeError;
use thiserror::Error;

use crate::salvage::SalvageError;
use crate::{FileChange, GitError, IndexLockError, Oid, RepoPath};

pub use checkout::checkout_of;
pub use land::{land, look_ahead};
pub use proof::already_there;
pub use repair::repair;
pub use stack::{Candidate, Stacked, recommit, stack};

/// The mode of a submodule. Its files are another repository's.
const SUBMODULE: &str = "160000";
/// The mode of a symlink.
pub(crate) const SYMLINK: &str = "120000";

/// One move of a branch.
#[derive(Debug, Clone, Copy)]
pub struct BranchMove<'a> {
    /// Full name, such as `refs/heads/main`.
    pub branch: &'a str,
    pub from: &'a Oid,
    /// Has `from` among its ancestors.
    pub to: &'a Oid,
    /// For the reflog.
    pub reason: &'a str,
    /// Exists, is mala's own for this landing alone, out of agents' reach, and normally on the file system of the checkout.
    /// After a kill, [`repair()`] has to be given the same one.
    pub directory: &'a Path,
    /// Held by agents at work: their index entries go along, their files stay.
    pub spared: &'a BTreeSet<RepoPath>,
}

/// What a landing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landed {
    /// The branch is there, and so is its checkout.
    Done {
        /// Files that somebody wrote in the very moment; they were left alone.
        left: Vec<RepoPath>,
    },
    /// Somebody moved the branch, to this commit, or removed it. Nothing was changed.
    Moved(Option<Oid>),
    /// The checkout of the branch cannot go along. Nothing was changed.
    Held(Vec<Obstacle>),
}

/// Why a checkout cannot go along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The file, if it is about one.
    pub path: Option<RepoPath>,
    /// In words, with what to do about it.
    pub why: String,
}

/// What the repair of a killed landing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// The branch had moved, and its checkout is there now.
    Finished {
        /// Files that somebody wrote since, which were left alone.
        left: Vec<RepoPath>,
    },
    /// The branch had not moved; nothing is left of it.
    Undone,
}

/// A landing could not be carried out or judged. Never a verdict on the work.
#[derive(Debug, Error)]
pub enum LandError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    IndexLock(#[from] IndexLockError),
    #[error("a worktree of the repository is no checkout")]
    Scope(#[from] ScopeError),
    #[error("putting the work on top of the branch gave `{path}` {what}: nothing was landed")]
    Unproven { path: RepoPath, what: &'static str },
    #[error("commit {commit} is not what was asked for: nothing was landed")]
    OtherCommit { commit: Oid },
    #[error("{to} does not have {from} among its ancestors: a branch only moves forward")]
    NotForward { from: Oid, to: Oid },
    #[error("what the files started from could not be made a commit")]
    Base(#[source] Box<SalvageError>),
    #[error("the checkout kept changing branches: try again")]
    Restless,
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl LandError {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// The blobs that these changes bring.
fn new_blobs(changes: &[FileChange]) -> Vec<Oid> {
    let entries = changes.iter().filter_map(|change| change.after.as_ref());
    entries.filter(|entry| entry.mode != SUBMODULE).map(|entry| entry.oid.clone()).collect()
}

/// True if one of the sides is a submodule.
fn is_submodule(change: &FileChange) -> bool {
    change.before.iter().chain(&change.after).any(|entry| entry.mode == SUBMODULE)
}

#[cfg(test)]
mod tests;
