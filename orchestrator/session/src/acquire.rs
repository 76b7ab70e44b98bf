//! The one way to files, and what has to be true of a file when it changes hands.
//!
//! A descriptor outlives the lock under which it was opened, and the work of a killed agent outlives its agent. So a grant is
//! more than a row in the store: whoever gets a file has the dead's work saved first, and waits for programs of others that
//! still write to it. If those do not end, the lock is given back. `Store::reserve` is used nowhere else (clippy.toml).

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{AgentId, Conflict, Fence, Key, Lock, Scope, Target};
use mala_sandbox::{has_writers, writers};
use mala_store::process::Process;
use mala_store::{Agent, EventFilter, EventKind, Outcome, Request, Store, StoreError, Wait};

use crate::error::{Handover, SessionError};
use crate::orphaned_work::save_orphaned_work;

/// How long a hand-over waits for writers to finish.
pub(crate) const WRITERS_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const WRITERS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Events that can have been written since a lock was taken from the dead.
const RECENT_EVENTS: i64 = 1_000;
/// Among so many, one is recent however long it took to get here.
const NEWEST_EVENTS: i64 = 100;

/// Takes files for an agent, all or none, without waiting for other holders.
///
/// # Errors
///
/// [`SessionError::StillOpen`] if another agent's program goes on writing: then nothing is held that was not held before.
pub fn acquire(scope: &Scope, store: &mut Store, request: &Request) -> Result<Outcome, SessionError> {
    let since = store.newest_event()?;
    let outcome = reserve(store, request)?;
    if let Outcome::Granted(locks) = &outcome {
        settle(scope, store, locks, since)?;
    }
    Ok(outcome)
}

/// The same, and waits in the queue for what others hold.
pub fn acquire_or_wait(
    scope: &Scope,
    store: &mut Store,
    request: &Request,
    wait: Wait<'_>,
    remind: impl FnMut(&[Conflict]),
) -> Result<Outcome, SessionError> {
    let since = store.newest_event()?;
    #[expect(clippy::disallowed_methods, reason = "this is the one way to files")]
    let outcome = store.reserve_or_wait(request, wait, remind)?;
    if let Outcome::Granted(locks) = &outcome {
        settle(scope, store, locks, since)?;
    }
    Ok(outcome)
}

/// Waits for a mutex. A name is no file: nobody has it open, and nothing was left under it.
#[expect(clippy::disallowed_methods, reason = "this is the one way to names, too")]
pub fn wait_for_mutex(
    store: &mut Store,
    request: &Request,
    wait: Wait<'_>,
    remind: impl FnMut(&[Conflict]),
) -> Result<Outcome, StoreError> {
    store.reserve_or_wait(request, wait, remind)
}

/// One reservation, for callers that settle it themselves.
#[expect(clippy::disallowed_methods, reason = "this is the one way to files")]
pub(crate) fn reserve(store: &mut Store, request: &Request) -> Result<Outcome, StoreError> {
    store.reserve(request)
}

/// Makes sure that whoever has just got these locks, by events after `since`, has the files for itself: saves what the dead have
/// left, and waits for programs of other agents that still write. If those do not end, the locks are given back.
pub fn settle(scope: &Scope, store: &mut Store, locks: &[Lock], since: Fence) -> Result<(), SessionError> {
    wait_for_dead_writers(scope, store, locks)?;
    let is_new = |lock: &&Lock| lock.fence > since;
    let Some(agent) = locks.first().map(|lock| lock.agent.clone()) else { return Ok(()) };
    let keys: Vec<Key> = locks.iter().filter(is_new).flat_map(keys_of).collect();
    let started = Instant::now();
    while let Some(error) = open_elsewhere(scope, store, &agent, &keys)? {
        if started.elapsed() >= WRITERS_TIMEOUT {
            give_back(store, locks, since);
            return Err(error);
        }
        thread::sleep(WRITERS_POLL_INTERVAL);
    }
    Ok(())
}

/// Waits until nobody has these files open for writing. After a while it is an error that names who has.
pub fn wait_for_writers(scope: &Scope, keys: &[Key]) -> Result<(), SessionError> {
    match not_closed(scope, keys).first() {
        Some(key) => Err(SessionError::StillOpen {
            key: (*key).clone(),
            writers: writers(&path_of(scope, key)),
            side: Handover::Release,
        }),
        None => Ok(()),
    }
}

/// Waits in the same way, and returns the files that are still open.
pub(crate) fn not_closed<'k>(scope: &Scope, keys: &'k [Key]) -> Vec<&'k Key> {
    let started = Instant::now();
    let mut open: Vec<&Key> = keys.iter().collect();
    loop {
        open.retain(|key| is_open(&path_of(scope, key)));
        if open.is_empty() || started.elapsed() >= WRITERS_TIMEOUT {
            return open;
        }
        thread::sleep(WRITERS_POLL_INTERVAL);
    }
}

/// Gives those of the locks back that were not held before, or not alone.
pub(crate) fn give_back(store: &mut Store, locks: &[Lock], since: Fence) {
    for lock in locks.iter().filter(|lock| lock.fence > since) {
        // One that stays is the agent's, and the refusal stands all the same.
        let _ = store.release_one(lock);
    }
}

fn keys_of(lock: &Lock) -> Vec<Key> {
    lock.target.file().into_iter().chain(&lock.aliases).cloned().collect()
}

/// Which of these files a program of another agent has open for writing, as an error that names it. What programs of no
/// agent do is nobody's business.
pub(crate) fn open_elsewhere(
    scope: &Scope,
    store: &mut Store,
    agent: &AgentId,
    keys: &[Key],
) -> Result<Option<SessionError>, StoreError> {
    for key in keys {
        let path = path_of(scope, key);
        // Looking for the writer means looking at every process there is, so only if there is one.
        if !is_open(&path) {
            continue;
        }
        let agents = store.agents()?;
        let mut elsewhere = writers(&path);
        elsewhere.retain(|writer| other_agent(writer.pid, agent, &agents).is_some());
        if !elsewhere.is_empty() {
            let (key, side) = (key.clone(), Handover::Acquire);
            return Ok(Some(SessionError::StillOpen { key, writers: elsewhere, side }));
        }
    }
    Ok(None)
}

/// The agent of the nearest process above this one, or of itself, that is an agent's; nothing if that is `agent`.
fn other_agent<'a>(pid: u32, agent: &AgentId, agents: &'a [Agent]) -> Option<&'a AgentId> {
    let process = Process::find(pid)?;
    let owners = std::iter::once(process.owner()).chain(process.ancestors().map(|above| above.owner()));
    for owner in owners {
        let mut here = agents.iter().filter(|known| known.party.owner == owner).peekable();
        if let Some(first) = here.peek().map(|known| &known.party.agent) {
            return here.all(|known| known.party.agent != *agent).then_some(first);
        }
    }
    None
}

/// Waits for what is left of agents that were killed, as far as these locks are concerned: a lock is free when its
/// supervisor is dead, and the programs that it kept die a moment later. Whoever still writes after that is not theirs.
/// Then saves what they had written and not committed.
pub(crate) fn wait_for_dead_writers(
    scope: &Scope,
    store: &mut Store,
    locks: &[Lock],
) -> Result<(), SessionError> {
    let Some(newest) = locks.iter().map(|lock| lock.fence).max() else { return Ok(()) };
    let orphaned = |events, within| EventFilter {
        after: Some(newest.0 - events),
        within,
        kind: Some(EventKind::LockOrphaned.as_str().to_owned()),
        limit: Some(1),
        ..EventFilter::default()
    };
    if !store.events(&orphaned(RECENT_EVENTS, Some(WRITERS_TIMEOUT)))?.is_empty()
        || !store.events(&orphaned(NEWEST_EVENTS, None))?.is_empty()
    {
        let file = |lock: &Lock| if let Target::File(key) = &lock.target { Some(key.clone()) } else { None };
        let files: Vec<Key> = locks.iter().filter_map(file).collect();
        let _still_open = not_closed(scope, &files);
        save_orphaned_work(scope, store)?;
    }
    Ok(())
}

pub(crate) fn path_of(scope: &Scope, key: &Key) -> PathBuf {
    scope.root().join(key.as_path())
}

/// What cannot be found out counts as open.
fn is_open(path: &Path) -> bool {
    has_writers(path).unwrap_or(true)
}
