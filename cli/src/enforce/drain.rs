//! Open files when a lock changes hands.
//!
//! A descriptor outlives the lock under which it was opened. So a file is handed on only when nobody has it open for
//! writing any more, and if a lock is lost in spite of that, it is said loudly.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{Key, Lock, Scope, Target, Timestamp};
use mala_sandbox::{Writer, has_writers, writers};
use mala_store::{EventFilter, EventKind, Store};

use super::rescue::rescue;
use crate::error::CliError;
use crate::ui::plain;

/// How long a hand-over waits for writers to finish.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Events that can have been written since a lock was taken from the dead.
const RECENT: i64 = 1_000;

/// Waits until nobody has these files open for writing. After a while it is an error that names who has.
pub(crate) fn drain(scope: &Scope, keys: &[Key]) -> Result<(), CliError> {
    let started = Instant::now();
    for key in keys {
        let path = path_of(scope, key);
        while is_open(&path) {
            if started.elapsed() >= PATIENCE {
                return Err(still_open(key, &writers(&path)));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
    Ok(())
}

/// Waits for what is left of agents that were killed, as far as these locks are concerned: a lock is free when its
/// supervisor is dead, and the programs that it kept die a moment later. Whoever still writes after that is not theirs.
/// Then saves what they had written and not committed.
pub(crate) fn outlive_the_dead(scope: &Scope, store: &mut Store, locks: &[Lock]) -> Result<(), CliError> {
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
    .hint("let the program finish or end it, then release again")
}
