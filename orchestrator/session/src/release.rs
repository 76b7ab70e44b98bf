//! Giving files up: nobody of the tree opens them any more, nobody has them open for writing, and then they change hands.

use mala_core::{AgentId, AskId, Key, Lock, Scope, Target, Want};
use mala_store::{Answered, Released, Renewed, Store, Which};

use crate::acquire::{settle, wait_for_writers};
use crate::{SessionError, Supervised};

/// Gives locks back.
pub fn release(
    scope: &Scope,
    store: &mut Store,
    supervised: Option<&Supervised>,
    agent: &AgentId,
    which: &Which,
) -> Result<Released, SessionError> {
    let files = files_to_close(store, supervised, agent, which)?;
    let _closed = supervised.map(|supervised| supervised.guard.leave(&files)).transpose()?;
    wait_for_writers(scope, &files)?;
    Ok(store.release(agent, which)?)
}

/// Hands what was asked for to the asker.
pub fn answer_release(
    scope: &Scope,
    store: &mut Store,
    supervised: Option<&Supervised>,
    holder: &AgentId,
    id: &AskId,
) -> Result<Answered, SessionError> {
    let ask = store.find_ask(id)?;
    let lock = store.locks()?.into_iter().find(|lock| lock.id == ask.lock && lock.agent == *holder);
    let wants = lock.map(want_of_lock).into_iter().collect();
    let files = files_to_close(store, supervised, holder, &Which::These(wants))?;
    let _closed = supervised.map(|supervised| supervised.guard.leave(&files)).transpose()?;
    wait_for_writers(scope, &files)?;
    Ok(store.answer_release(holder, id)?)
}

/// Hands locks from one agent to another.
pub fn transfer(
    scope: &Scope,
    store: &mut Store,
    supervised: Option<&Supervised>,
    (from, to): (&AgentId, &AgentId),
    which: &Which,
) -> Result<Renewed, SessionError> {
    let files = files_to_close(store, supervised, from, which)?;
    let _closed = supervised.map(|supervised| supervised.guard.leave(&files)).transpose()?;
    wait_for_writers(scope, &files)?;
    let since = store.newest_event()?;
    let moved = store.transfer(from, to, which)?;
    if let Renewed::Done(locks) = &moved {
        settle(scope, store, locks, since)?;
    }
    Ok(moved)
}

fn want_of_lock(lock: Lock) -> Want {
    Want { target: lock.target, aliases: lock.aliases, mode: lock.mode }
}

/// The files that are about to be released and may still be open: what is locked by name, and what a supervisor has seen
/// being opened under a pattern.
fn files_to_close(
    store: &mut Store,
    supervised: Option<&Supervised>,
    agent: &AgentId,
    which: &Which,
) -> Result<Vec<Key>, SessionError> {
    let held = store.locks()?.into_iter().filter(|lock| lock.agent == *agent && !lock.is_named());
    let held = held.map(want_of_lock);
    let wants: Vec<Want> = match which {
        Which::All => held.collect(),
        Which::These(wants) => {
            held.filter(|want| wants.iter().any(|wanted| wanted.target == want.target)).collect()
        }
    };
    let named = wants.iter().filter_map(|want| match &want.target {
        Target::File(key) => Some(key.clone()),
        Target::Pattern(_) | Target::Name(_) => None,
    });
    let mut keys: Vec<Key> = named.collect();
    if let Some(supervised) = supervised {
        keys.extend(supervised.guard.opened(&wants));
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}
