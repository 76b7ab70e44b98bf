//! What files of the checkout started from, where the branch has moved on below them.
//!
//! A landing leaves the files alone that agents hold. Compared with the branch they seem to take back what has landed; compared with
//! the branch as it was when they were taken, they are exactly what their holder has done.

use std::collections::{BTreeMap, BTreeSet};

use super::{SalvageError, commit_tree, restore, tree_of, tree_with};
use crate::landing::{self, LandError};
use crate::{FileChange, Oid, Repo, RepoPath, TreeEntry};

/// By file; nothing for one that was not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bases(BTreeMap<RepoPath, Option<TreeEntry>>);

impl Bases {
    pub fn new(bases: impl IntoIterator<Item = (RepoPath, Option<TreeEntry>)>) -> Self {
        Self(bases.into_iter().collect())
    }

    pub fn files(&self) -> BTreeSet<RepoPath> {
        self.0.keys().cloned().collect()
    }

    /// A commit on top of `tip` that holds these files as they were; `tip` itself if it does.
    pub fn below(&self, repo: &Repo, tip: &Oid) -> Result<Oid, SalvageError> {
        if self.0.is_empty() {
            return Ok(tip.clone());
        }
        let there = repo.tree_entries(tip, self.0.keys())?;
        let differs = |(path, base): &(&RepoPath, &Option<TreeEntry>)| there.get(*path) != base.as_ref();
        let change = |(path, base): (&RepoPath, &Option<TreeEntry>)| FileChange {
            path: path.clone(),
            before: there.get(path).cloned(),
            after: base.clone(),
        };
        let changes: Vec<FileChange> = self.0.iter().filter(differs).map(change).collect();
        if changes.is_empty() {
            return Ok(tip.clone());
        }
        let tree = tree_with(repo, Some(tip), &changes)?;
        commit_tree(repo, std::slice::from_ref(tip), &tree, "what the files started from\n")
    }

    /// The same content and message as `commit`, whose parent is on the branch, as a change of what its files started from.
    pub fn rebased(&self, repo: &Repo, commit: &Oid) -> Result<Oid, LandError> {
        let Some(parent) = repo.commit(commit)?.parents.into_iter().next() else { return Ok(commit.clone()) };
        let base = self.below(repo, &parent).map_err(|error| LandError::Base(Box::new(error)))?;
        if base == parent { Ok(commit.clone()) } else { landing::recommit(repo, &base, commit) }
    }

    /// Those that the checkout holds as they were: nobody has changed them.
    pub fn unchanged(&self, repo: &Repo) -> Result<BTreeSet<RepoPath>, SalvageError> {
        let files = self.files();
        if files.is_empty() {
            return Ok(files);
        }
        let tree = tree_of(repo, repo.resolve("HEAD")?.as_ref(), &files)?;
        let now = repo.tree_entries(&tree, &files)?;
        Ok(files.into_iter().filter(|path| now.get(path) == self.0[path].as_ref()).collect())
    }
}

/// Makes these files of the checkout what `commit` holds, whatever they are. The index stays as it is.
pub fn bring_up(repo: &Repo, commit: &Oid, files: &BTreeSet<RepoPath>) -> Result<(), SalvageError> {
    restore::checkout_only(repo, commit, files)
}
