//! Taking what was asked for from a holder that does not answer.

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::{AgentId, Ask, AskId, Key, Lock, Mode, Scope, Target, Want};
use mala_gate::bases_of;
use mala_git::salvage::{self, SavedRef};
use mala_git::{Repo, RepoPath};
use mala_store::{Answered, Authority, Changes, Guard, Store};

use crate::acquire::wait_for_writers;
use crate::error::SessionError;

/// Takes what `by` has asked for, if the rules allow it or a person forces it. The holder's uncommitted changes are saved to a
/// ref first.
pub fn take(
    scope: &Scope,
    store: &mut Store,
    (by, id): (&AgentId, &AskId),
    idle: Duration,
    authority: Authority,
) -> Result<(Answered, Option<SavedRef>), SessionError> {
    let ask = store.find_ask(id)?;
    let repo = Repo::new(scope.clone());
    let lock = store.locks()?.into_iter().find(|lock| lock.id == ask.lock);
    let dirty = dirty(&repo, lock.as_ref(), &ask)?;
    let mut guard = Guard {
        lock: ask.lock.clone(),
        fence: ask.fence,
        idle,
        changes: if dirty.is_empty() { Changes::None } else { Changes::Uncommitted },
        authority,
        saved: None,
    };
    store.may_take(by, &ask.id, &guard)?;
    // A descriptor outlives its lock: nothing is taken while somebody still writes through one.
    let keys: Vec<Key> =
        dirty.iter().map(|path| repo.key(path)).chain(ask.want.target.file().cloned()).collect();
    wait_for_writers(scope, &keys)?;
    let saved = save(&repo, store, &ask, &dirty)?;
    guard.saved = saved.as_ref().map(|saved| saved.name.clone());
    Ok((store.take_asked(by, &ask.id, &guard)?, saved))
}

/// Files with uncommitted changes that the lock, or else the ask, covers.
fn dirty(repo: &Repo, lock: Option<&Lock>, ask: &Ask) -> Result<BTreeSet<RepoPath>, SessionError> {
    let wanted = match lock {
        Some(lock) => {
            Want { target: lock.target.clone(), aliases: lock.aliases.clone(), mode: Mode::Exclusive }
        }
        None => ask.want.clone(),
    };
    let covers = |path: &RepoPath| {
        let target = Target::File(repo.key(path));
        let file = Want { target, aliases: Vec::new(), mode: Mode::Exclusive };
        wanted.claim(&ask.holder).overlaps(&file.claim(&ask.holder))
    };
    let all = salvage::dirty(repo)?;
    Ok(all.into_iter().filter(covers).collect())
}

fn save(
    repo: &Repo,
    store: &mut Store,
    ask: &Ask,
    files: &BTreeSet<RepoPath>,
) -> Result<Option<SavedRef>, SessionError> {
    let name = format!("refs/mala/taken/{}", ask.id);
    let message = format!("uncommitted work of {} before {} took it\n\n{}\n", ask.holder, ask.asker, ask.why);
    Ok(salvage::save_since(repo, &bases_of(repo, store, files)?, &name, (files, &message))?)
}
