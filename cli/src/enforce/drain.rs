//! Open files when a lock changes hands.
//!
//! A descriptor outlives the lock under which it was opened. So a file is handed on only when nobody has it open for
//! writing any more, and if a lock is lost in spite of that, it is said loudly.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{Key, Scope};
use mala_sandbox::{Writer, has_writers, writers};

use crate::error::CliError;
use crate::ui::plain;

/// How long a hand-over waits for writers to finish.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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

pub(crate) fn path_of(scope: &Scope, key: &Key) -> PathBuf {
    scope.root().join(key.as_path())
}

/// What cannot be found out counts as closed: without the kernel tier there is nothing to wait for.
fn is_open(path: &Path) -> bool {
    has_writers(path).unwrap_or(false)
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
