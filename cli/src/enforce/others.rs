//! What other agents hold, as of one version of the store.

use std::collections::HashSet;

use mala_core::{AgentId, Key, Lock, Target, Want};

#[derive(Debug)]
pub(super) struct Others {
    pub(super) version: i64,
    locks: Vec<Lock>,
    /// The files among them, to be found quickly.
    files: HashSet<Key>,
    /// Where the others are in `locks`.
    rest: Vec<usize>,
}

impl Others {
    pub(super) fn new(version: i64, locks: Vec<Lock>) -> Self {
        let (mut files, mut rest) = (HashSet::new(), Vec::new());
        for (index, lock) in locks.iter().enumerate() {
            match &lock.target {
                Target::File(key) => files.extend(lock.aliases.iter().chain([key]).cloned()),
                _ => rest.push(index),
            }
        }
        Self { version, locks, files, rest }
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
}
