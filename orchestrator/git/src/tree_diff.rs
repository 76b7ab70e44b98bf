//! What differs between two trees, by their content.
//!
//! `git diff-tree` believes a tree object for its name. What lands is decided by this comparison, so every directory that it
//! reads is hashed. Directories that are the same are not read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::objects::{TREE, read_tree};
use crate::{FileChange, GitError, Oid, Repo, RepoPath, TreeEntry};

/// What git once wrote for a file that its group may write; an index has the usual one instead.
const GROUP_WRITABLE: &str = "100664";

/// A directory by the path that what is in it begins with, on both sides.
struct Pair {
    prefix: Vec<u8>,
    before: Option<Oid>,
    after: Option<Oid>,
}

/// What a directory holds, by whole paths.
#[derive(Default)]
struct Listing {
    files: Vec<(RepoPath, TreeEntry)>,
    directories: VecDeque<(Vec<u8>, Oid)>,
}

impl Repo {
    /// What differs between two trees, in the order of paths.
    pub fn tree_changes(&self, before: &Oid, after: &Oid) -> Result<Vec<FileChange>, GitError> {
        self.changes_since(Some(before), after)
    }

    /// The same, against a tree or against nothing.
    pub(crate) fn changes_since(
        &self,
        before: Option<&Oid>,
        after: &Oid,
    ) -> Result<Vec<FileChange>, GitError> {
        let mut changes = Vec::new();
        let top = Pair { prefix: Vec::new(), before: before.cloned(), after: Some(after.clone()) };
        let mut level = vec![top];
        level.retain(|pair| pair.before != pair.after);
        while !level.is_empty() {
            let trees = self.trees(&level)?;
            let mut below = Vec::new();
            for pair in &level {
                compare(pair, &trees, &mut changes, &mut below)?;
            }
            level = below;
        }
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    /// Every tree that a level is about, each read once.
    fn trees(&self, level: &[Pair]) -> Result<BTreeMap<Oid, Vec<u8>>, GitError> {
        let ids: BTreeSet<&Oid> =
            level.iter().flat_map(|pair| pair.before.iter().chain(&pair.after)).collect();
        ids.into_iter().map(|id| Ok((id.clone(), self.object_of(TREE, id)?))).collect()
    }
}

fn listing(prefix: &[u8], id: Option<&Oid>, trees: &BTreeMap<Oid, Vec<u8>>) -> Result<Listing, GitError> {
    let mut listing = Listing::default();
    let Some((id, bytes)) = id.and_then(|id| trees.get_key_value(id)) else { return Ok(listing) };
    read_tree(bytes, prefix, id.as_str().len() / 2, &mut listing.files, &mut listing.directories)
        .ok_or_else(|| GitError::answer("cat-file tree", id.as_str().as_bytes()))?;
    for (_, entry) in listing.files.iter_mut().filter(|(_, entry)| entry.mode == GROUP_WRITABLE) {
        entry.mode = "100644".to_owned();
    }
    Ok(listing)
}

fn compare(
    pair: &Pair,
    trees: &BTreeMap<Oid, Vec<u8>>,
    changes: &mut Vec<FileChange>,
    below: &mut Vec<Pair>,
) -> Result<(), GitError> {
    let before = listing(&pair.prefix, pair.before.as_ref(), trees)?;
    let after = listing(&pair.prefix, pair.after.as_ref(), trees)?;
    let both = joined(before.files, after.files).into_iter();
    changes.extend(both.map(|(path, (before, after))| FileChange { path, before, after }));
    let both = joined(before.directories, after.directories).into_iter();
    below.extend(both.map(|(prefix, (before, after))| Pair { prefix, before, after }));
    Ok(())
}

/// What the two sides have under each name, where that differs.
fn joined<K: Ord, V: PartialEq>(
    before: impl IntoIterator<Item = (K, V)>,
    after: impl IntoIterator<Item = (K, V)>,
) -> BTreeMap<K, (Option<V>, Option<V>)> {
    let mut both: BTreeMap<K, (Option<V>, Option<V>)> =
        before.into_iter().map(|(name, value)| (name, (Some(value), None))).collect();
    for (name, value) in after {
        both.entry(name).or_default().1 = Some(value);
    }
    both.retain(|_, (before, after)| before != after);
    both
}
