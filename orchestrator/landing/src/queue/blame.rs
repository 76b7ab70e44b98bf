//! Who is to blame for a red stack: nobody, unless the tree before was green, the tree with the entry is red, and is red once
//! more in a slot that was emptied.

use std::io;

use mala_core::{EntryState, Oid};
use mala_gate::runner::Tee;
use mala_store::Store;

use super::search::Search;
use super::{Layer, Outcome, Queue, QueueError, Rejection, Round, Settled};
use crate::validation::Validation;

impl Queue<'_> {
    /// Settles the first red entry above the green ones, if there is one. Gives what is green in the end.
    pub(super) fn confirm(
        &self,
        store: &mut Store,
        tip: &Oid,
        (layers, found): (&[Layer], Search),
        last_red: Option<(usize, Validation)>,
        round: &mut Round,
    ) -> Result<Search, QueueError> {
        let Some(suspect) = layers.get(found.green).filter(|_| found.is_next_red) else { return Ok(found) };
        if found.green == 0
            && let Some(why) = self.red_base(tip)?
        {
            let waits = format!("{why}; only work that makes it green lands");
            round.red_base = Some(why);
            self.advance(store, &suspect.entry, EntryState::Waiting, Some(&waits))?;
            round.waiting.push((suspect.entry.clone(), waits));
            return Ok(found);
        }
        let first = last_red.filter(|(count, _)| *count == found.green + 1).map(|(_, validation)| validation);
        let (mut out, mut err) = (io::sink(), io::sink());
        let mut tee = Tee { out: &mut out, err: &mut err };
        let again = self.validation().commit_cold(&suspect.commit, &mut tee)?;
        if again.has_passed() {
            let flaky = first.as_ref().and_then(Validation::failure);
            round.flaky.extend(flaky.map(|failure| failure.command.clone()));
            return Ok(Search { green: found.green + 1, ..found });
        }
        let failure =
            again.failure().map(|failure| format!("`{}` failed ({})", failure.command, failure.ending()));
        let why = failure.unwrap_or_else(|| "its validation failed".to_owned());
        let entry = self.advance(store, &suspect.entry, EntryState::Red, Some(&why))?;
        let below = layers[..found.green].iter().filter_map(|layer| layer.entry.issue.clone()).collect();
        let rejection = Rejection { validation: again, below };
        round.settled.push(Settled { entry, outcome: Outcome::Red(Box::new(rejection)) });
        Ok(found)
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
