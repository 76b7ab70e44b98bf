//! What the tests share: a world of their own to run in.
//!
//! Every test makes its own [`World`], a git checkout in a temporary folder with its own HOME, so tests run in
//! any order and side by side. Nothing here mocks the store: tests talk to a real one, from this process or from
//! real helper programs ([`program`]), and look behind its back with a connection of their own.

pub mod ask;
pub mod clients;
pub mod collector;
pub mod fakes;
pub mod hook_managers;
pub mod invariants;
pub mod mcp;
pub mod model;
pub mod official;
pub mod program;
pub mod registry;
pub mod table;
pub mod terse;
pub mod tools;
pub mod waiter;
pub mod world;

use std::io::Write;
use std::time::{Duration, Instant};

pub use ask::{ONLY_THE_DEAD, agent, ask, ask_as, key, party, want, wants};
pub use mcp::Mcp;
pub use program::{Program, children, copy_program, keeper_of, write_script};
pub use table::Table;
pub use terse::Terse;
pub use waiter::{FOREVER, Waiter};
pub use world::World;

/// How long a test waits for what must happen. Far more than it takes even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, and fails the test if it never does.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Command lines of running processes that mention `text`.
pub fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("processes can be listed").flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(line);
        }
    }
    found
}

/// Says, past the test runner, that a test did not run. On CI nothing is skipped: there it fails.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI skips nothing: {what}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
