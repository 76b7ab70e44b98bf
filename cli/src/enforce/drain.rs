//! Open files when a lock changes hands.
//!
//! A descriptor outlives the lock under which it was opened. So a file is handed on only when nobody has it open for
//! writing any more, and if a lock is lost in spite of that, it is said loudly.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{AgentId, Key, Lock, Scope, Target, Timestamp};
use mala_sandbox::{Writer, has_writers, writers};
use mala_store::process::Process;
use mala_store::{Agent, EventFilter, EventKind, Store, StoreError};

use super::rescue::rescue;
use crate::error::CliError;
use crate::ui::plain;

/// How long a hand-over waits for writers to finish.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Events that can have been written since a lock was taken from the dead.
const RECENT: i64 = 1_000;

/// Waits until nobody has these files open for writing. After a while it is an error that names who has.
pub(crate) fn drain(scope: &Scope, keys: &[Key]) -> Result<(), CliError> {
    match not_closed(scope, keys).first() {
        Some(key) => Err(still_open(key, &writers(&path_of(scope, key)))
            .hint("let the program finish or end it, then release again")),
        None => Ok(()),
    }
}

/// Waits in the same way, and returns the files that are still open.
pub(crate) fn not_closed<'k>(scope: &Scope, keys: &'k [Key]) -> Vec<&'k Key> {
    let started = Instant::now();
    let mut open: Vec<&Key> = keys.iter().collect();
    loop {
        open.retain(|key| is_open(&path_of(scope, key)));
        if open.is_empty() || started.elapsed() >= PATIENCE {
            return open;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whoever has just got these locks, at `since` or later, has the files for itself: waits for what the dead have left and for
/// programs of other agents that still write. If those do not end, the locks are given back.
pub(crate) fn take_over(
    scope: &Scope,
    store: &mut Store,
    locks: &[Lock],
    since: Timestamp,
) -> Result<(), CliError> {
    outlive_the_dead(scope, store, locks)?;
    let is_new = |lock: &&Lock| lock.acquired_at >= since;
    let Some(agent) = locks.first().map(|lock| lock.agent.clone()) else { return Ok(()) };
    let keys: Vec<Key> = locks.iter().filter(is_new).flat_map(keys_of).collect();
    let started = Instant::now();
    while let Some(error) = open_elsewhere(scope, store, &agent, &keys)? {
        if started.elapsed() >= PATIENCE {
            give_back(store, locks, since);
            return Err(error.hint("let the program finish or end it, then ask again"));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Gives those of the locks back that were not held before.
pub(super) fn give_back(store: &mut Store, locks: &[Lock], since: Timestamp) {
    for lock in locks.iter().filter(|lock| lock.acquired_at >= since) {
        // One that stays is the agent's, and the refusal stands all the same.
        let _ = store.release_one(lock);
    }
}

fn keys_of(lock: &Lock) -> Vec<Key> {
    lock.target.file().into_iter().chain(&lock.aliases).cloned().collect()
}

/// Which of these files a program of another agent has open for writing, as an error that names it. What programs of no
/// agent do is nobody's business.
pub(super) fn open_elsewhere(
    scope: &Scope,
    store: &mut Store,
    agent: &AgentId,
    keys: &[Key],
) -> Result<Option<CliError>, StoreError> {
    for key in keys {
        let path = path_of(scope, key);
        // Looking for the writer means looking at every process there is, so only if there is one.
        if !is_open(&path) {
            continue;
        }
        let agents = store.agents()?;
        let is_elsewhere = |writer: &Writer| is_of_another(writer.pid, agent, &agents);
        let elsewhere: Vec<Writer> = writers(&path).into_iter().filter(is_elsewhere).collect();
        if !elsewhere.is_empty() {
            return Ok(Some(still_open(key, &elsewhere)));
        }
    }
    Ok(None)
}

/// True if the nearest process above this one, or itself, that is an agent's is another one's.
fn is_of_another(pid: u32, agent: &AgentId, agents: &[Agent]) -> bool {
    let Some(process) = Process::find(pid) else { return false };
    let owners = std::iter::once(process.owner()).chain(process.ancestors().map(|above| above.owner()));
    for owner in owners {
        let mut here = agents.iter().filter(|known| known.party.owner == owner).peekable();
        if here.peek().is_some() {
            return here.all(|known| known.party.agent != *agent);
        }
    }
    false
}

/// Waits for what is left of agents that were killed, as far as these locks are concerned: a lock is free when its
/// supervisor is dead, and the programs that it kept die a moment later. Whoever still writes after that is not theirs.
/// Then saves what they had written and not committed.
pub(super) fn outlive_the_dead(scope: &Scope, store: &mut Store, locks: &[Lock]) -> Result<(), CliError> {
    let Some(newest) = locks.iter().map(|lock| lock.fence).max() else { return Ok(()) };
    let orphaned = EventFilter {
        after: Some(newest.0 - RECENT),
        since: Some(Timestamp::now().minus(PATIENCE)),
        kind: Some(EventKind::LockOrphaned.as_str().to_owned()),
        limit: Some(1),
        ..EventFilter::default()
    };
    if !store.events(&orphaned)?.is_empty() {
        let file = |lock: &Lock| if let Target::File(key) = &lock.target { Some(key.clone()) } else { None };
        let _somebody_else = drain(scope, &locks.iter().filter_map(file).collect::<Vec<_>>());
        rescue(scope, store)?;
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

fn still_open(key: &Key, writers: &[Writer]) -> CliError {
    let names: Vec<String> =
        writers.iter().map(|writer| format!("{} (pid {})", plain(&writer.program), writer.pid)).collect();
    let by = if names.is_empty() { String::new() } else { format!(" by {}", names.join(", ")) };
    CliError::refused(format!(
        "`{}` is still open for writing{by}; it would be written on after the hand-over",
        plain(key)
    ))
}
