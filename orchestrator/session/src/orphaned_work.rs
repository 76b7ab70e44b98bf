//! Work of a run that was killed, saved before anybody else writes over it.
//!
//! The next `mala run` hands such work over. Until then its files are free, as everything is that the dead held. So whoever is
//! the first to get one of them saves what is there, under the very ref that the note will name.

use std::collections::BTreeSet;

use mala_core::Attempt;
use mala_core::{Key, Scope};
use mala_gate::bases_of;
use mala_git::salvage::{Before, Unlike};
use mala_git::{Repo, RepoPath, salvage};
use mala_store::{Progress, Store};

use crate::SessionError;

/// Saves what attempts that nobody will end have left in the checkout, once for each.
pub(crate) fn save_orphaned_work(scope: &Scope, store: &mut Store) -> Result<(), SessionError> {
    let mut stranded = store.stranded()?;
    stranded.retain(|attempt| attempt.saved_ref.is_none());
    if stranded.is_empty() {
        return Ok(());
    }
    let repo = Repo::new(scope.clone());
    let mut dirty = salvage::dirty(&repo)?;
    // What cannot be read is named when the attempt is ended.
    salvage::unreadable(&repo, &dirty).iter().for_each(|left| _ = dirty.remove(&left.path));
    let dirty: Vec<RepoPath> = dirty.into_iter().collect();
    let keys: Vec<Key> = dirty.iter().map(|path| repo.key(path)).collect();
    for attempt in stranded {
        let Attempt { id, run, issue, number, agent, .. } = &attempt;
        let began = store.began(agent, Some(run))?;
        let owned = store.held_last(agent, &keys, began)?;
        let is_own = |(_, key): &(&RepoPath, &Key)| owned.contains(key);
        let own: BTreeSet<RepoPath> =
            dirty.iter().zip(&keys).filter(is_own).map(|(path, _)| path.clone()).collect();
        let bases = bases_of(&repo, store, &own)?;
        // What a person had there before the agent began, and still has, is no work of the agent's.
        let own = Unlike::of(&repo, &own, &Before::of(&repo, run, agent)?)?.files;
        let name = salvage::attempt_ref(issue, *number);
        let message = salvage::work_message(&attempt, "its run was killed");
        if let Some(saved) = salvage::save_since(&repo, &bases, &name, (&own, &message))? {
            store.keep(*id, &Progress { saved_ref: Some(saved.name), ..Progress::default() })?;
        }
    }
    Ok(())
}
