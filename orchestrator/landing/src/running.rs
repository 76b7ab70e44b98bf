//! What runs in slots at this moment, for who looks from another process.
//!
//! Whoever validates leaves a note for each command while it runs, where agents cannot write. A note counts as long as its
//! process lives. It decides nothing.

use std::fs;
use std::path::{Path, PathBuf};

use mala_core::file::{SETTINGS, read_small_text};
use mala_core::{Oid, Scope, Timestamp};
use mala_store::process::{self, Process};
use serde::{Deserialize, Serialize};

use crate::validation::time;

/// A required command that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCommand {
    pub command: String,
    pub tree: Oid,
    /// The name of its slot: `v1` proves what is to land, `t1` is what an agent tries.
    pub slot: String,
    #[serde(deserialize_with = "time")]
    pub since: Timestamp,
    boot_id: String,
    pid: u32,
    start_time: u64,
}

impl RunningCommand {
    fn is_live(&self) -> bool {
        let owner = Process::find(self.pid).map(|process| process.owner());
        owner.is_some_and(|owner| owner.start_time == self.start_time && owner.boot_id == self.boot_id)
    }
}

/// What the required commands of this repository do now, the oldest first.
pub fn running(scope: &Scope) -> Vec<RunningCommand> {
    let mut running: Vec<RunningCommand> = notes(scope).filter_map(|path| read(&path)).collect();
    running.retain(RunningCommand::is_live);
    running.sort_by_key(|command| command.since);
    running
}

fn directory(scope: &Scope) -> PathBuf {
    scope.state_dir().join("validating")
}

fn notes(scope: &Scope) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory(scope)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn read(path: &Path) -> Option<RunningCommand> {
    serde_json::from_str(&read_small_text(path, SETTINGS).ok()?).ok()
}

/// Says, while it lives, that a command runs.
#[derive(Debug)]
pub(crate) struct RunningNote(PathBuf);

impl RunningNote {
    /// Without a word if that is impossible: whoever looks sees less.
    pub(crate) fn leave(scope: &Scope, slot: &Path, tree: &Oid, command: &str) -> Self {
        for stale in notes(scope).filter(|path| read(path).is_some_and(|note| !note.is_live())) {
            let _ = fs::remove_file(stale);
        }
        let owner = process::current();
        let slot = slot.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = directory(scope).join(format!("{slot}-{}", owner.pid));
        let note = RunningCommand {
            command: command.to_owned(),
            tree: tree.clone(),
            slot,
            since: Timestamp::now(),
            boot_id: owner.boot_id,
            pid: owner.pid,
            start_time: owner.start_time,
        };
        let text = serde_json::to_string(&note).unwrap_or_default();
        // Whoever reads it sees all of it, or none.
        let beside = path.with_extension("new");
        let _ = fs::create_dir_all(directory(scope))
            .and_then(|()| fs::write(&beside, text))
            .and_then(|()| fs::rename(&beside, &path));
        Self(path)
    }
}

impl Drop for RunningNote {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
