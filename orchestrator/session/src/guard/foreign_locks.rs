//! What other agents hold, as of one version of the store.

use std::collections::BTreeSet;

use mala_core::{AgentId, Key, Lock, Target, Want};

use crate::wants::{all_in, want_of};

#[derive(Debug)]
pub(super) struct ForeignLocks {
    pub(super) version: i64,
    locks: Vec<Lock>,
    /// The files among them, to be found quickly.
    files: BTreeSet<Key>,
    /// Where the others are in `locks`.
    rest: Vec<usize>,
}

impl ForeignLocks {
    pub(super) fn new(version: i64, locks: Vec<Lock>) -> Self {
        let (mut files, mut rest) = (BTreeSet::new(), Vec::new());
        for (index, lock) in locks.iter().enumerate() {
            match &lock.target {
                Target::File(key) => files.extend(lock.aliases.iter().chain([key]).cloned()),
                _ => rest.push(index),
            }
        }
        Self { version, locks, files, rest }
    }

    /// True if they hold no file and no pattern.
    pub(super) fn are_none(&self) -> bool {
        self.files.is_empty() && self.rest.iter().all(|index| self.locks[*index].is_named())
    }

    pub(super) fn hold(&self, agent: &AgentId, want: &Want) -> bool {
        let overlaps = |lock: &Lock| lock.claim().overlaps(&want.claim(agent));
        match &want.target {
            Target::File(key) => {
                self.files.contains(key) || self.rest.iter().any(|index| overlaps(&self.locks[*index]))
            }
            _ => self.locks.iter().any(overlaps),
        }
    }

    /// True if they hold something below this folder.
    pub(super) fn hold_below(&self, agent: &AgentId, folder: &Key) -> bool {
        let below = [folder.as_bytes(), b"/"].concat();
        let next = self.files.range(Key::from_stored(below.clone())..).next();
        if next.is_some_and(|key| key.as_bytes().starts_with(&below)) {
            return true;
        }
        // What is too long for a pattern is not compared with any.
        let Some(all) = all_in(folder.as_bytes()) else { return !self.rest.is_empty() };
        let want = Want { target: Target::Pattern(all), ..want_of(folder) };
        self.rest.iter().any(|index| self.locks[*index].claim().overlaps(&want.claim(agent)))
    }
}
