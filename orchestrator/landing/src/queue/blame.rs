//! Who is to blame for a red stack: nobody, unless the tree before was green, the tree with the entry is red, and is red once
//! more in a slot that was emptied. That last validation holds up only its own entry.

use mala_core::{CheckName, EntryState, Oid};
use mala_git::landing::Stacked;
use mala_store::Store;

use super::crew::Task;
use super::work::Worker;
use super::{Layer, Outcome, Queue, QueueError, Rejection, Round, Settled};
use crate::validation::Validation;

/// An entry that is red on a green branch, once.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) layer: Layer,
    tree: Oid,
    /// What was below it in the stack, and has landed.
    below: Vec<mala_core::IssueId>,
}

impl Worker<'_, '_, '_> {
    /// Has the first red entry validated once more. The others go on without it.
    pub(super) fn suspect(&mut self, layer: Layer, tree: Oid) -> Result<(), QueueError> {
        self.crew.start(Task::Again(tree.clone()), &layer.commit)?;
        let below = std::mem::take(&mut self.below);
        self.suspects.push(Suspect { layer, tree, below });
        Ok(())
    }

    /// Settles a suspect: what is red again is rejected; what is green now was flaky, and waits for the next round.
    pub(super) fn convict(
        &mut self,
        tree: &Oid,
        again: Validation,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let first = self.red.remove(tree);
        let Some(place) = self.suspects.iter().position(|suspect| suspect.tree == *tree) else {
            return Ok(());
        };
        let Suspect { layer, below, .. } = self.suspects.swap_remove(place);
        if again.has_passed() {
            let command = first.and_then(|first| Some(first.failure()?.command.clone()));
            round.flaky.extend(command);
            round.was_overtaken = true;
            return Ok(());
        }
        let is_open = self.store.entry(layer.entry.id)?.is_some_and(|entry| !entry.state.is_over());
        if !is_open {
            return Ok(());
        }
        let failure =
            again.failure().map(|failure| format!("`{}` failed ({})", failure.command, failure.ending()));
        let why = failure.unwrap_or_else(|| "its validation failed".to_owned());
        let entry = self.queue.advance(self.store, &layer.entry, EntryState::Red, Some(&why))?;
        self.queue.record(self.store, &entry, &layer.commit, &[CheckName::Command])?;
        let rejection = Rejection { validation: again, below };
        round.settled.push(Settled { entry, outcome: Outcome::Red(Box::new(rejection)) });
        Ok(())
    }

    /// The branch itself is red: nobody is to blame, and what makes it green lands.
    pub(super) fn mend(
        &mut self,
        tip: &Oid,
        tree: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<(), QueueError> {
        self.crew.cancel_trees(|_| true);
        let Some(why) = self.red.remove(tree).as_ref().and_then(|red| words(tip, red)) else { return Ok(()) };
        // The first one is red on the branch, which is how it is known that the branch is.
        let mended = self.what_mends(tip, &layers[1..], round)?;
        self.queue.wait_for_green(self.store, (layers, mended.as_ref()), &why, round)?;
        if let Some(mended) = mended {
            self.queue.land(self.store, tip, &[mended], round)?;
        }
        Ok(())
    }

    /// The first entry that makes a red branch green by itself.
    fn what_mends(
        &mut self,
        tip: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<Option<Layer>, QueueError> {
        for layer in layers {
            let Stacked::Commit(commit) = self.queue.put_on(tip, &layer.entry)? else { continue };
            if self.ask(&commit, round)?.has_passed() {
                return Ok(Some(Layer { commit, ..layer.clone() }));
            }
        }
        Ok(None)
    }
}

fn words(tip: &Oid, red: &Validation) -> Option<String> {
    let failure = red.failure()?;
    let (command, ending) = (&failure.command, failure.ending());
    Some(format!("the branch itself is red: `{command}` failed on {} ({ending})", tip.short()))
}

impl Queue<'_> {
    /// Lets all but the one that mends the branch wait, with the reason.
    fn wait_for_green(
        &self,
        store: &mut Store,
        (layers, mends): (&[Layer], Option<&Layer>),
        why: &str,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let waits = format!("{why}; only work that makes it green lands");
        for layer in layers.iter().filter(|layer| mends.is_none_or(|mends| mends.entry.id != layer.entry.id))
        {
            let entry = self.advance(store, &layer.entry, EntryState::Waiting, Some(&waits))?;
            round.waiting.push((entry, waits.clone()));
        }
        round.red_base = Some(why.to_owned());
        Ok(())
    }
}
