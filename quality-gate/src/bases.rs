//! What files started from, as the lock store has it.

use std::collections::BTreeSet;

use mala_git::salvage::Bases;
use mala_git::{Repo, RepoPath, TreeEntry};
use mala_store::{FileBase, FileBlob, Store, StoreError};

/// What those of these files started from that the branch has moved on below.
pub fn bases_of<'a>(
    repo: &Repo,
    store: &mut Store,
    files: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<Bases, StoreError> {
    let known = store.file_bases()?;
    if known.is_empty() {
        return Ok(Bases::default());
    }
    let files: BTreeSet<&RepoPath> = files.into_iter().collect();
    let base = |path: &RepoPath| {
        let key = repo.key(path);
        let FileBase { blob, .. } = known.iter().find(|base| base.key == key)?.clone();
        Some((path.clone(), blob.map(|FileBlob { mode, oid }| TreeEntry { mode, oid })))
    };
    Ok(Bases::new(files.into_iter().filter_map(base)))
}
