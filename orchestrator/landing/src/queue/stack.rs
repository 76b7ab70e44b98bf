//! Which entries take part in a round, as one commit each on top of the branch.

use std::collections::HashSet;

use mala_core::{CheckName, Entry, EntryState, Key, Oid};
use mala_git::FileChange;
use mala_git::landing::{self, LandError, Stacked};
use mala_store::Store;

use super::land::waits_for;
use super::search::{HISTORY, window};
use super::{Layer, Outcome, Queue, QueueError, Round, Settled, list};

impl Queue<'_> {
    /// The first `most` of these entries that can take part, one commit each on top of the tip.
    pub(super) fn stack(
        &self,
        store: &mut Store,
        tip: &Oid,
        (entries, most): (Vec<Entry>, usize),
        round: &mut Round,
    ) -> Result<Vec<Layer>, QueueError> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut top = tip.clone();
        for entry in self.take_part(store, (entries, most), round)? {
            let stacked = match self.put_on(&top, &entry) {
                Err(QueueError::Land(LandError::Git(error))) if error.is_about_object() => {
                    self.fail(store, &entry, error.to_string(), round)?;
                    continue;
                }
                stacked => stacked?,
            };
            match stacked {
                Stacked::Commit(commit) => {
                    top = commit.clone();
                    layers.push(Layer { entry, commit });
                }
                // By the others of this round, perhaps, which may be red; then it is the next one's.
                Stacked::Nothing if top != *tip && !matches!(self.put_on(tip, &entry)?, Stacked::Nothing) => {
                }
                Stacked::Nothing => self.already_there(store, &entry, tip, round)?,
                // The same holds for a conflict.
                Stacked::Conflict(_)
                    if top != *tip && !matches!(self.put_on(tip, &entry)?, Stacked::Conflict(_)) => {}
                Stacked::Conflict(files) => {
                    let why = format!("the branch has changed {} since", list(&files));
                    let entry = self.advance(store, &entry, EntryState::Conflict, Some(&why))?;
                    self.record(store, &entry, &entry.head, &[CheckName::Outcome])?;
                    round.settled.push(Settled { entry, outcome: Outcome::Conflict(files) });
                }
            }
        }
        Ok(layers)
    }

    /// The first `most` of these entries whose files nobody else holds, in the order of the stack.
    fn take_part(
        &self,
        store: &mut Store,
        (entries, most): (Vec<Entry>, usize),
        round: &mut Round,
    ) -> Result<Vec<Entry>, QueueError> {
        let mut free = Vec::new();
        for entry in entries {
            if free.len() >= most {
                break;
            }
            let held = match self.held_paths(store, &entry) {
                // No later round would find it either.
                Err(QueueError::Git(_)) if self.repo.resolve(entry.head.as_str())?.is_none() => {
                    let why = format!(
                        "its commit {} is not in the repository any more, nor is {}: offer it again",
                        entry.head.short(),
                        entry.pin
                    );
                    self.fail(store, &entry, why, round)?;
                    continue;
                }
                Err(QueueError::Git(error)) if error.is_about_object() => {
                    self.fail(store, &entry, error.to_string(), round)?;
                    continue;
                }
                held => held?,
            };
            match (held, entry.state) {
                (Some(why), _) => round.waiting.push((entry, why)),
                (None, EntryState::Held) => {
                    free.push(self.advance(store, &entry, EntryState::Waiting, None)?);
                }
                (None, _) => free.push(entry),
            }
        }
        self.lock_files_last(free)
    }

    /// An entry that changes which dependencies there are makes everything above it wait for them to be installed. Whoever came later
    /// and changes the same files stays above: a conflict is the later one's.
    pub(super) fn lock_files_last(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, QueueError> {
        let (mut first, mut last, mut last_paths) = (Vec::new(), Vec::new(), HashSet::new());
        for entry in entries {
            let changes = match self.repo.changes_between(&entry.base, &entry.head) {
                // Whoever puts it on the stack finds out, and says so.
                Err(error) if error.is_about_object() => Vec::new(),
                changes => changes?,
            };
            let goes_last = |change: &FileChange| {
                self.requirements.is_lock_file(&change.path) || last_paths.contains(&change.path)
            };
            if changes.iter().any(goes_last) {
                last_paths.extend(changes.into_iter().map(|change| change.path));
                last.push(entry);
            } else {
                first.push(entry);
            }
        }
        first.extend(last);
        Ok(first)
    }

    /// An entry that no later round could do anything about.
    fn fail(
        &self,
        store: &mut Store,
        entry: &Entry,
        why: String,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let entry = self.advance(store, entry, EntryState::Failed, Some(&why))?;
        round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
        Ok(())
    }

    pub(super) fn put_on(&self, onto: &Oid, entry: &Entry) -> Result<Stacked, QueueError> {
        let candidate =
            landing::Candidate { base: entry.base.clone(), head: entry.head.clone(), message: None };
        Ok(landing::stack(self.repo, onto, &candidate)?)
    }

    /// The branch has all of it: that is as good as landed.
    fn already_there(
        &self,
        store: &mut Store,
        entry: &Entry,
        tip: &Oid,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let why = "the branch had all of it already";
        let green = self.advance(store, entry, EntryState::Green, Some(why))?;
        self.record_landing(store, tip, tip, &[(green.clone(), tip.clone())])?;
        round.settled.push(Settled { entry: green, outcome: Outcome::Landed(tip.clone()) });
        Ok(())
    }

    /// How many entries a round takes.
    pub(super) fn size(&self, store: &mut Store) -> Result<usize, QueueError> {
        let settled = store.last_verdicts(self.branch, HISTORY)?;
        let red = settled.iter().filter(|state| **state == EntryState::Red).count();
        Ok(window(settled.len(), red, self.window))
    }

    /// Who holds a file that the entry changes and has to be waited for, in words.
    pub(super) fn held_paths(&self, store: &mut Store, entry: &Entry) -> Result<Option<String>, QueueError> {
        let changes = self.repo.changes_between(&entry.base, &entry.head)?;
        let keys: Vec<Key> = changes.iter().map(|change| self.repo.key(&change.path)).collect();
        let conflicts = store.in_the_way(entry, &keys)?.blocking;
        Ok((!conflicts.is_empty()).then(|| waits_for(&conflicts)))
    }
}
