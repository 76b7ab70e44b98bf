//! Who is to blame for a red stack: nobody, unless the tree before was green, the tree with the entry is red, and is red once
//! more in a slot that was emptied.

use std::io;

use mala_core::{CheckName, EntryState, Oid};
use mala_gate::runner::Tee;
use mala_git::landing::Stacked;
use mala_store::Store;

use super::search::Search;
use super::{Layer, Outcome, Queue, QueueError, Rejection, Round, Settled};
use crate::validation::Validation;

/// What was found out about the first red entry.
pub(super) enum Confirmed {
    /// So many entries, from the bottom, are green.
    Green(usize),
    /// The branch itself is red, in words: nobody is to blame.
    RedBase(String),
}

impl Queue<'_> {
    /// Settles the first red entry above the green ones, if there is one.
    pub(super) fn confirm(
        &self,
        store: &mut Store,
        tip: &Oid,
        (layers, found, last_red): (&[Layer], Search, Option<(usize, Validation)>),
        round: &mut Round,
    ) -> Result<Confirmed, QueueError> {
        let Some(suspect) = layers.get(found.green).filter(|_| found.is_next_red) else {
            return Ok(Confirmed::Green(found.green));
        };
        if found.green == 0
            && let Some(why) = self.red_base(tip)?
        {
            return Ok(Confirmed::RedBase(why));
        }
        let (mut out, mut err) = (io::sink(), io::sink());
        let mut tee = Tee { out: &mut out, err: &mut err };
        let again = self.validation().commit_cold(&suspect.commit, &mut tee)?;
        if again.has_passed() {
            let first = last_red.filter(|(count, _)| *count == found.green + 1);
            let command = first.and_then(|(_, red)| Some(red.failure()?.command.clone()));
            round.flaky.extend(command);
            return Ok(Confirmed::Green(found.green + 1));
        }
        let failure =
            again.failure().map(|failure| format!("`{}` failed ({})", failure.command, failure.ending()));
        let why = failure.unwrap_or_else(|| "its validation failed".to_owned());
        let entry = self.advance(store, &suspect.entry, EntryState::Red, Some(&why))?;
        self.record(store, &entry, &suspect.commit, &[CheckName::Command])?;
        let below = layers[..found.green].iter().filter_map(|layer| layer.entry.issue.clone()).collect();
        let rejection = Rejection { validation: again, below };
        round.settled.push(Settled { entry, outcome: Outcome::Red(Box::new(rejection)) });
        Ok(Confirmed::Green(found.green))
    }

    /// The first entry that makes a red branch green by itself.
    pub(super) fn what_mends(&self, tip: &Oid, layers: &[Layer]) -> Result<Option<Layer>, QueueError> {
        for layer in layers {
            let Stacked::Commit(commit) = self.put_on(tip, &layer.entry)? else { continue };
            if self.validate(&commit)?.is_none_or(|validation| validation.has_passed()) {
                return Ok(Some(Layer { commit, ..layer.clone() }));
            }
        }
        Ok(None)
    }

    /// Lets all but the one that mends the branch wait, with the reason.
    pub(super) fn wait_for_green(
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

    /// Why the branch itself is red, if it is.
    fn red_base(&self, tip: &Oid) -> Result<Option<String>, QueueError> {
        let Some(validation) = self.validate(tip)? else { return Ok(None) };
        Ok(validation.failure().map(|failure| {
            let (command, ending) = (&failure.command, failure.ending());
            format!("the branch itself is red: `{command}` failed on {} ({ending})", tip.short())
        }))
    }
}
