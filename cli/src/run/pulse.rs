//! Who holds and who waits, in a line.

use mala_core::Scope;
use mala_store::{Status, Store};

use super::report::Pulse;

/// Looks into the store each time it is asked.
pub(super) fn pulse(scope: &Scope) -> Pulse {
    let mut store = Store::open(scope).ok();
    Box::new(move || store.as_mut()?.status().ok().map(|status| line(&status)))
}

fn line(status: &Status) -> String {
    let held = status.locks.iter().filter(|lock| !lock.is_named()).count();
    let mut parts = vec![format!("{held} {} held", if held == 1 { "file" } else { "files" })];
    if !status.waiting.is_empty() {
        parts.push(format!("{} waiting", status.waiting.len()));
    }
    for mutex in &status.mutexes {
        if let Some((holder, _)) = &mutex.holder {
            let queue = match mutex.queue.len() {
                0 => String::new(),
                waiting => format!(", {waiting} behind it"),
            };
            parts.push(format!("{}: `{holder}`{queue}", mutex.name));
        }
    }
    parts.join("; ")
}
