//! Which entries take part in a round, as one commit each on top of the branch.

use mala_core::{AgentId, CheckName, Entry, EntryState, Mode, Oid, Target, Want};
use mala_git::landing::{self, LandError, Stacked};
use mala_git::{GitError, RepoPath};
use mala_store::Store;

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
        for entry in entries {
            if layers.len() >= most {
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
                    let entry = self.advance(store, &entry, EntryState::Failed, Some(&why))?;
                    round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
                    continue;
                }
                held => held?,
            };
            if let Some(why) = held {
                round.waiting.push((entry, why));
                continue;
            }
            let entry = match entry.state {
                EntryState::Held => self.advance(store, &entry, EntryState::Waiting, None)?,
                _ => entry,
            };
            let stacked = match self.put_on(&top, &entry) {
                // An object of it was written over: that is nothing a later round could mend.
                Err(QueueError::Land(LandError::Git(error @ GitError::Forged { .. }))) => {
                    let why = error.to_string();
                    let entry = self.advance(store, &entry, EntryState::Failed, Some(&why))?;
                    round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
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

    /// Who holds a file that the entry changes, in words.
    pub(super) fn held_paths(&self, store: &mut Store, entry: &Entry) -> Result<Option<String>, QueueError> {
        let agent = entry.agent.clone().unwrap_or_else(AgentId::nobody);
        let changes = self.repo.changes_between(&entry.base, &entry.head)?;
        let want = |path: &RepoPath| Want {
            target: Target::File(self.repo.key(path)),
            aliases: Vec::new(),
            mode: Mode::Exclusive,
        };
        let wants: Vec<Want> = changes.iter().map(|change| want(&change.path)).collect();
        let conflicts = store.check(&agent, &wants)?;
        let names: Vec<String> = conflicts
            .iter()
            .map(|conflict| format!("`{}` of `{}`", conflict.contended(), conflict.holder.agent))
            .collect();
        Ok((!names.is_empty()).then(|| format!("it waits for {}", names.join(", "))))
    }
}
