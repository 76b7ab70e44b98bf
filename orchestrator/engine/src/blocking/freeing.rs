//! Files that are free from the offer on: when that is so, and what becomes of those that the branch has moved on below.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use mala_config::Hold;
use mala_core::{Attempt, Entry, Key};
use mala_gate::bases_of;
use mala_git::salvage::{self, Bases};
use mala_git::{RepoPath, TreeEntry};
use mala_landing::median_validation;
use mala_session::{SessionError, release};
use mala_store::{FileBase, FileBlob, Which};
use serde_json::{Value, json};

use super::BlockingOps;
use crate::error::Result;

/// So many of the last attempts tell how long one takes.
const MAX_OFFER_TIMES: usize = 20;
/// How often is looked whether a landing is still under way.
const LANDING_POLL: Duration = Duration::from_millis(20);
/// One that takes longer was killed, or will not end by itself.
const LANDING_TIMEOUT: Duration = Duration::from_secs(30);

impl BlockingOps {
    /// Why the files of an offer are free while it waits, for the log. Nothing if its agent holds on to them.
    pub(super) fn why_free(&self, entry: &Entry, files: &[Key]) -> Result<Option<Value>> {
        if self.options.hold == Hold::Offer {
            return Ok(Some(json!({ "hold": "offer" })));
        }
        if let Some(agent) = &entry.agent
            && self.store()?.is_freed(&entry.branch, agent, files)?
        {
            // Otherwise the two would wait for each other: that one for its file, and this one to land after it.
            return Ok(Some(json!({ "hold": "shared" })));
        }
        if self.options.hold == Hold::Landing {
            return Ok(None);
        }
        let mut attempts = self.store()?.offer_times(&entry.branch, MAX_OFFER_TIMES)?;
        attempts.sort_unstable();
        let attempt = attempts.get(attempts.len() / 2).copied();
        let (Some(validation), Some(attempt)) = (median_validation(&self.repo)?, attempt) else {
            return Ok(None);
        };
        let why = json!({
            "hold": "auto", "validation_ms": millis(validation), "attempt_ms": millis(attempt),
        });
        Ok(is_worth_it(validation, attempt).then_some(why))
    }

    /// The files that an entry changes.
    pub(super) fn keys_of(&self, entry: &Entry) -> Result<Vec<Key>> {
        let changes = self.repo.changes_between(&entry.base, &entry.head)?;
        Ok(changes.iter().map(|change| self.repo.key(&change.path)).collect())
    }

    /// Frees what the attempt holds. Its work is out of the checkout.
    pub(super) fn free_files(&self, attempt: &Attempt) -> Result<()> {
        let holds = self.store()?.locks()?.iter().any(|lock| lock.agent == attempt.agent);
        if holds {
            match release(self.repo.scope(), &mut *self.store()?, None, &attempt.agent, &Which::All) {
                // Something of it still writes there: it stays the agent's until it has landed.
                Err(SessionError::StillOpen { .. }) => {}
                released => _ = released?,
            }
        }
        Ok(self.store()?.end_leaving(attempt.id)?)
    }

    /// Says that the attempt's files are about to be made what the branch has, and waits for the landing that goes past one of them.
    pub(super) fn leave(&self, attempt: &Attempt) -> Result<()> {
        let started = Instant::now();
        while !self.store()?.begin_leaving(attempt.id)? {
            if started.elapsed() >= LANDING_TIMEOUT {
                self.queue.repair()?;
            }
            thread::sleep(LANDING_POLL);
        }
        Ok(())
    }

    /// Brings those of the attempt's files up to the branch that it has moved on below and that its agent has not changed.
    pub(super) fn catch_up(&self, attempt: &Attempt) -> Result<()> {
        let bases = self.own_bases(attempt)?;
        let (files, Some(head)) = (bases.unchanged(&self.repo)?, self.repo.resolve("HEAD")?) else {
            return Ok(());
        };
        if files.is_empty() {
            return Ok(());
        }
        salvage::bring_up(&self.repo, &head, &files)?;
        let there = self.repo.tree_entries(&head, &files)?;
        let blob = |TreeEntry { mode, oid }: TreeEntry| FileBlob { mode, oid };
        let base =
            |path: &RepoPath| FileBase { key: self.repo.key(path), blob: there.get(path).cloned().map(blob) };
        let bases: Vec<FileBase> = files.iter().map(base).collect();
        Ok(self.store()?.set_file_bases(&bases)?)
    }

    /// What the attempt's changed files started from, where the branch has moved on below them.
    fn own_bases(&self, attempt: &Attempt) -> Result<Bases> {
        if self.store()?.file_bases()?.is_empty() {
            return Ok(Bases::default());
        }
        let own: BTreeSet<RepoPath> = self.own_dirty_files(attempt)?;
        Ok(bases_of(&self.repo, &mut *self.store()?, &own)?)
    }
}

/// True if files are better free while validations take so long, and attempts so long until they offer: merging costs something, too.
fn is_worth_it(validation: Duration, attempt: Duration) -> bool {
    validation > attempt / 2
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_free_only_if_validating_takes_longer_than_half_an_attempt() {
        let seconds = Duration::from_secs;
        for (validation, attempt, is_free) in
            [(1, 600, false), (300, 600, false), (301, 600, true), (900, 600, true), (1, 0, true)]
        {
            assert_eq!(is_worth_it(seconds(validation), seconds(attempt)), is_free, "{validation} {attempt}");
        }
    }
}
