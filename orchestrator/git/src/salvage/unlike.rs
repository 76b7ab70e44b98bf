//! What is not as it will be given back.
//!
//! An agent may hold files that it never touches, and an ending may be tried again when half of it is done. So what is
//! already as [`restore`](super::restore) would make it is nobody's work to save, and is not touched.

use std::collections::{BTreeMap, BTreeSet};

use super::before::Untouched;
use super::raw::{self, Taken};
use super::staged::unmerged;
use super::{Before, SalvageError, held_at};
use crate::{FileChange, Oid, Repo, RepoPath, TreeEntry};

/// Files that are not as they will be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlike {
    /// In the checkout: what they hold is to be saved.
    pub files: BTreeSet<RepoPath>,
    /// In the index, likewise.
    pub staged: BTreeSet<RepoPath>,
    /// In permissions that git does not keep.
    permissions: BTreeSet<RepoPath>,
}

impl Unlike {
    /// Those of `files`, each of which differs from the last commit or was a person's `before`.
    pub fn of(repo: &Repo, files: &BTreeSet<RepoPath>, before: &Before) -> Result<Self, SalvageError> {
        let (all, none) = (files.clone(), BTreeSet::new());
        let mut unlike = Self { files: all.clone(), staged: all, permissions: none };
        if let Some(mut theirs) = before.untouched(repo)? {
            theirs.files.retain(|path| files.contains(path));
            let head = repo.resolve("HEAD")?;
            unlike.leave_out_contents(repo, head.as_ref(), &theirs)?;
            unlike.leave_out_entries(repo, head.as_ref(), &theirs)?;
        }
        Ok(unlike)
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// All that is to be given back.
    pub fn all(&self) -> BTreeSet<RepoPath> {
        self.files.iter().chain(&self.staged).chain(&self.permissions).cloned().collect()
    }

    /// Leaves out what a person had in the checkout and still has there.
    fn leave_out_contents(
        &mut self,
        repo: &Repo,
        head: Option<&Oid>,
        theirs: &Untouched,
    ) -> Result<(), SalvageError> {
        let Taken { changes, permissions, left_out } = raw::take(repo, head, &theirs.files)?;
        let then = repo.tree_entries(&theirs.commit, &theirs.files)?;
        let mut now = held_at(repo, head, &theirs.files)?;
        apply(&mut now, changes);
        for path in theirs.files.iter().filter(|path| now.get(path) == then.get(path)) {
            if left_out.iter().any(|left| left.path == *path) {
                continue;
            }
            self.files.remove(path);
            let (told, found) = (theirs.told.permissions.get(path), permissions.get(path));
            if told.is_some() && told != found {
                self.permissions.insert(path.clone());
            }
        }
        Ok(())
    }

    /// Leaves out what a person had in the index and still has there.
    fn leave_out_entries(
        &mut self,
        repo: &Repo,
        head: Option<&Oid>,
        theirs: &Untouched,
    ) -> Result<(), SalvageError> {
        let then = held_at(repo, theirs.staged.as_ref().or(head), &theirs.files)?;
        let mut now = held_at(repo, head, &theirs.files)?;
        apply(&mut now, repo.staged(None)?);
        let unmerged = unmerged(repo)?;
        let is_same = |path: &RepoPath| match (theirs.told.unmerged.get(path), unmerged.get(path)) {
            (None, None) => now.get(path) == then.get(path),
            (then, now) => now == then,
        };
        self.staged.retain(|path| !theirs.files.contains(path) || !is_same(path));
        Ok(())
    }
}

fn apply(entries: &mut BTreeMap<RepoPath, TreeEntry>, changes: Vec<FileChange>) {
    for FileChange { path, after, .. } in changes {
        match after {
            Some(entry) => _ = entries.insert(path, entry),
            None => _ = entries.remove(&path),
        }
    }
}
