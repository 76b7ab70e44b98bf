//! Answers about paths that are kept for good, in little room however long the paths are.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// Agents choose the names, also of files that do not exist: without a limit they could fill the memory.
const MAX_PATHS: usize = 1 << 20;

/// By two hashes whose keys nobody outside knows: no two paths have the same.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    keys: [RandomState; 2],
    answers: HashMap<[u64; 2], bool>,
}

impl PathCache {
    /// None if nothing is known. When there is no room for more answers, it is no: that path needs a lock.
    pub(super) fn get(&self, path: &Path) -> Option<bool> {
        let known = self.answers.get(&self.key(path)).copied();
        known.or_else(|| (self.answers.len() >= MAX_PATHS).then_some(false))
    }

    pub(super) fn insert(&mut self, path: &Path, answer: bool) {
        self.answers.insert(self.key(path), answer);
    }

    fn key(&self, path: &Path) -> [u64; 2] {
        self.keys.each_ref().map(|key| key.hash_one(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_kept_and_all_else_is_no_when_there_is_no_room() {
        let mut known = PathCache::default();
        known.insert(Path::new("a"), true);
        assert_eq!((known.get(Path::new("a")), known.get(Path::new("b"))), (Some(true), None));
        known.answers.extend((0..MAX_PATHS as u64).map(|n| ([n, 0], true)));
        assert_eq!((known.get(Path::new("a")), known.get(Path::new("b"))), (Some(true), Some(false)));
    }
}
