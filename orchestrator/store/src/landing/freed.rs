//! Files that are free although the work that changes them has not landed.
//!
//! Who takes such a file next starts from the branch, and the branch may move on below it. Then its holder's copy in the checkout
//! stays as it is, and what it started from, its *base*, is written down here, in the transaction that begins the landing: from there
//! the holder's work is merged. Nobody can take a file between that transaction and the end of the landing, because a landing
//! holds the files that nobody else holds. Without a base a file started from what the branch has.
//!
//! Whoever gives files back restores them first, and a landing must not go past them then: an attempt says that it is leaving, which
//! waits for the landing under way, and the next one waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::{
    AgentId, AttemptId, AttemptState, Conflict, Entry, EntryId, Key, Lock, Mode, Oid, Owner, Target, Want,
};
use rusqlite::params;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::landing::rows::OPEN_STATES;
use crate::landing::types::LandingRow;
use crate::request::{Party, Request};
use crate::rows;
use crate::view::View;

/// Why the files of a landing are held while it is under way. No other lock has this reason.
const LANDING: &str = "landing";
/// A backstop: the process that lands stands behind its locks.
const LANDING_TTL: Duration = Duration::from_secs(60 * 60);

/// A file that an entry changes whose files are free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedFile {
    pub entry: EntryId,
    pub key: Key,
    /// What the branch holds there before the landing; nothing if there is no such file.
    pub base: Option<FileBlob>,
}

/// A file as git knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBlob {
    pub mode: String,
    pub oid: Oid,
}

/// What a file that an agent holds started from, where the branch has moved on below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBase {
    pub key: Key,
    /// Nothing if there was no such file.
    pub blob: Option<FileBlob>,
}

/// Who holds files of an entry.
#[derive(Debug, Default)]
pub struct InTheWay {
    /// The entry waits for these.
    pub blocking: Vec<Conflict>,
    /// Agents of a run at work. The branch moves on below them.
    pub spared: Vec<Key>,
}

impl Store {
    /// The work of an entry, which changes these files, is out of the checkout, and its files are about to be free. `why` is for
    /// the log.
    pub fn free_entry(&mut self, id: EntryId, files: &[Key], why: &Value) -> Result<Entry> {
        self.write(|change| {
            let mut entry = change.must_find_entry(id)?;
            if entry.is_ready && entry.frees_files {
                return Ok(entry);
            }
            (entry.is_ready, entry.frees_files) = (true, true);
            change.update_entry(&entry)?;
            for key in files {
                change.insert_change(id, key)?;
            }
            change.record_entry(EventKind::EntryFreed, &entry, json!({ "why": why }))?;
            Ok(entry)
        })
    }

    /// Who holds these files of an entry, besides its own agent.
    pub fn in_the_way(&mut self, entry: &Entry, keys: &[Key]) -> Result<InTheWay> {
        // What is free is so in the checkout that has offered it.
        let home = match entry.frees_files {
            true => Some(self.read(|view| view.scope_of_entry(entry.id))?),
            false => None,
        };
        self.read_in(home, |view| {
            let agent = entry.agent.clone().unwrap_or_else(AgentId::nobody);
            let wants: Vec<Want> = keys.iter().map(want).collect();
            let mut found = InTheWay::default();
            for conflict in view.conflicts(&agent, &wants)? {
                if entry.frees_files && view.is_spared(&conflict.holder)? {
                    found.spared.extend(conflict.want.target.file().cloned());
                } else {
                    found.blocking.push(conflict);
                }
            }
            Ok(found)
        })
    }

    /// Holds the files of a landing for the process that repairs it, as far as they are free. Gives those that agents of a run hold.
    pub fn hold_files(&mut self, owner: &Owner, freed: &[FreedFile]) -> Result<Vec<Key>> {
        self.write(|change| Ok(change.hold_freed(owner, freed)?.spared))
    }

    /// The bases of files of this checkout, where the branch has moved on below them.
    pub fn file_bases(&mut self) -> Result<Vec<FileBase>> {
        self.read(|view| view.file_bases())
    }

    /// These files start from something later now. Files without a base stay so.
    pub fn set_file_bases(&mut self, bases: &[FileBase]) -> Result<()> {
        self.write(|change| {
            let sql = "UPDATE file_base SET mode = ?3, oid = ?4 WHERE scope = ?1 AND path = ?2";
            for FileBase { key, blob } in bases {
                let (mode, oid) = columns(blob.as_ref());
                let row = params![change.scope, key.as_bytes(), mode, oid];
                change.sql.prepare_cached(sql)?.execute(row)?;
            }
            Ok(())
        })
    }

    /// These files, which an entry changes that is landing, are what the branch has.
    pub fn forget_file_bases(&mut self, entry: EntryId, keys: &[Key]) -> Result<()> {
        self.write(|change| {
            let scope = change.scope_of_entry(entry)?;
            let sql = "DELETE FROM file_base WHERE scope = ?1 AND path = ?2";
            for key in keys {
                change.sql.prepare_cached(sql)?.execute(params![scope, key.as_bytes()])?;
            }
            Ok(())
        })
    }

    /// The files of an attempt are about to be made what the branch has. False while a landing is going past one of them: ask again.
    pub fn begin_leaving(&mut self, id: AttemptId) -> Result<bool> {
        self.write(|change| {
            let attempt = change.must_find_attempt(id)?;
            if change.is_gone_past(&attempt.agent)? {
                return Ok(false);
            }
            change.set_leaving(id, true)?;
            Ok(true)
        })
    }

    /// The files that an attempt holds are what the branch has, so they have no other base; it goes on, and may be gone past again.
    pub fn end_leaving(&mut self, id: AttemptId) -> Result<()> {
        self.write(|change| {
            let attempt = change.must_find_attempt(id)?;
            if change.is_leaving(&attempt.agent)? {
                let mut locks = change.locks_of(&attempt.agent)?;
                change.settle_bases(&attempt.agent, &mut locks)?;
                change.set_leaving(id, false)?;
            }
            Ok(())
        })
    }

    /// The files of an attempt could not be made what the branch has after all.
    pub fn stop_leaving(&mut self, id: AttemptId) -> Result<()> {
        self.write(|change| change.set_leaving(id, false))
    }

    /// True if an entry of this branch waits whose files are free and that changes one of these.
    pub fn is_freed(&mut self, branch: &str, agent: &AgentId, keys: &[Key]) -> Result<bool> {
        self.read(|view| {
            let sql = format!(
                "SELECT 1 FROM entry_path p JOIN entry e ON e.id = p.entry
                 WHERE p.path = ?1 AND e.branch = ?2 AND e.agent IS NOT ?3 AND e.frees_files AND e.state IN {OPEN_STATES}"
            );
            for key in keys {
                if view.exists(&sql, params![key.as_bytes(), branch, agent.as_str()])? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

fn want(key: &Key) -> Want {
    Want { target: Target::File(key.clone()), aliases: Vec::new(), mode: Mode::Exclusive }
}

fn columns(blob: Option<&FileBlob>) -> (Option<&str>, Option<&str>) {
    blob.map(|FileBlob { mode, oid }| (mode.as_str(), oid.as_str())).unzip()
}

/// True for a lock of a landing: whoever has it changes nothing of its own.
pub(crate) fn is_of_landing(lock: &Lock) -> bool {
    lock.reason.as_deref() == Some(LANDING)
}

fn covers(lock: &Lock, key: &Key) -> bool {
    match &lock.target {
        Target::File(file) => file == key || lock.aliases.contains(key),
        Target::Pattern(pattern) => pattern.matches(key.as_bytes()),
        Target::Name(_) => false,
    }
}

impl View<'_> {
    /// True if the branch may move on below this holder: an agent of a run that is at work and offers what it does.
    fn is_spared(&self, holder: &Lock) -> std::result::Result<bool, Fault> {
        let Some(run) = &holder.run else { return Ok(false) };
        let sql = "SELECT 1 FROM attempt WHERE scope = ?1 AND agent = ?2 AND run = ?3 AND ended_at IS NULL
             AND NOT is_leaving AND state <> ?4";
        let offered = AttemptState::Offered.as_str();
        self.exists(sql, params![self.scope, holder.agent.as_str(), run.as_str(), offered])
    }

    fn file_bases(&self) -> std::result::Result<Vec<FileBase>, Fault> {
        let mut statement = self
            .sql
            .prepare_cached("SELECT path, mode, oid FROM file_base WHERE scope = ?1 ORDER BY path")?;
        let base = |row: &rusqlite::Row<'_>| {
            let blob = match (row.get(1)?, rows::word(row, 2, Oid::parse)?) {
                (Some(mode), Some(oid)) => Some(FileBlob { mode, oid }),
                _ => None,
            };
            Ok(FileBase { key: Key::from_stored(row.get(0)?), blob })
        };
        let bases = statement.query_map([self.scope], base)?;
        Ok(bases.collect::<std::result::Result<_, _>>()?)
    }

    /// True if a landing that is under way goes past a file of the agent.
    fn is_gone_past(&self, agent: &AgentId) -> std::result::Result<bool, Fault> {
        let sql = "SELECT 1 FROM landing_entry l JOIN entry_path p ON p.entry = l.entry WHERE p.path = ?1";
        for base in self.file_bases()? {
            let is_landing = self.exists(sql, [base.key.as_bytes()])?;
            if is_landing && self.current_hold(agent, &base.key)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_leaving(&self, agent: &AgentId) -> std::result::Result<bool, Fault> {
        let sql = "SELECT 1 FROM attempt WHERE scope = ?1 AND agent = ?2 AND ended_at IS NULL AND is_leaving";
        self.exists(sql, params![self.scope, agent.as_str()])
    }
}

/// What holding the files of a landing came to.
#[derive(Debug, Default)]
pub(super) struct FilesHeld {
    pub(super) spared: Vec<Key>,
    /// By others than agents of a run.
    pub(super) blocking: Vec<Conflict>,
}

impl Change<'_> {
    /// Takes the files of these entries that are free, and notes the bases of those that agents of a run hold. May be repeated.
    pub(super) fn hold_freed(
        &mut self,
        owner: &Owner,
        freed: &[FreedFile],
    ) -> std::result::Result<FilesHeld, Fault> {
        let home = self.scope;
        let (mut held, mut known) = (FilesHeld::default(), BTreeSet::new());
        for files in freed.chunk_by(|one, other| one.entry == other.entry) {
            let entry = self.must_find_entry(files[0].entry)?;
            let Some(agent) = entry.agent.clone() else { continue };
            self.enter_scope(self.scope_of_entry(entry.id)?);
            // Two entries of one landing may change the same file.
            let files: Vec<&FreedFile> = files.iter().filter(|file| known.insert(file.key.clone())).collect();
            let party = Party {
                agent,
                owner: owner.clone(),
                supervised: true,
                issue: entry.issue.clone(),
                run: entry.run.clone(),
            };
            let wants = files.iter().map(|file| want(&file.key)).collect();
            let mut request = Request { party, wants, ttl: LANDING_TTL, reason: Some(LANDING.to_owned()) };
            let conflicts = self.clear_the_way(&request)?;
            for conflict in conflicts {
                request.wants.retain(|want| want.target != conflict.want.target);
                match conflict.want.target.file() {
                    Some(key) if self.is_spared(&conflict.holder)? => {
                        let file = files.iter().find(|file| file.key == *key);
                        self.note_base(key, file.and_then(|file| file.base.as_ref()))?;
                        held.spared.push(key.clone());
                    }
                    _ => held.blocking.push(conflict),
                }
            }
            self.grant(&request, None)?;
            self.settle_asks()?;
            self.enter_scope(home);
        }
        Ok(held)
    }

    /// The first one stands: the holder has not seen what landed since.
    fn note_base(&mut self, key: &Key, base: Option<&FileBlob>) -> std::result::Result<(), Fault> {
        let sql = "INSERT OR IGNORE INTO file_base (scope, path, mode, oid) VALUES (?1, ?2, ?3, ?4)";
        let (mode, oid) = columns(base);
        self.sql.prepare_cached(sql)?.execute(params![self.scope, key.as_bytes(), mode, oid])?;
        Ok(())
    }

    /// Frees what was held for a landing that is over.
    pub(super) fn free_landed_files(&mut self, landing: &LandingRow) -> std::result::Result<(), Fault> {
        let home = self.scope;
        for (id, _) in &landing.entries {
            let entry = self.must_find_entry(*id)?;
            let Some(agent) = entry.agent.filter(|_| entry.frees_files) else { continue };
            self.enter_scope(self.scope_of_entry(*id)?);
            let mut locks = self.locks_of(&agent)?;
            locks.retain(is_of_landing);
            for lock in &locks {
                self.remove_lock(lock, EventKind::LockReleased)?;
            }
            self.hand_over()?;
            self.settle_asks()?;
            self.enter_scope(home);
        }
        Ok(())
    }

    /// The agent is about to give these locks up. If it is leaving, their files are what the branch has. Otherwise it keeps those
    /// whose files are not, because the branch has moved on below them.
    pub(crate) fn settle_bases(
        &mut self,
        agent: &AgentId,
        locks: &mut Vec<Lock>,
    ) -> std::result::Result<(), Fault> {
        let bases = self.file_bases()?;
        if bases.is_empty() {
            return Ok(());
        }
        if self.is_leaving(agent)? {
            return self.forget_bases(locks);
        }
        locks.retain(|lock| !bases.iter().any(|base| covers(lock, &base.key)));
        Ok(())
    }

    /// The files of these locks are what the branch has.
    pub(crate) fn forget_bases(&mut self, locks: &[Lock]) -> std::result::Result<(), Fault> {
        let sql = "DELETE FROM file_base WHERE scope = ?1 AND path = ?2";
        for base in self.file_bases()? {
            if locks.iter().any(|lock| covers(lock, &base.key)) {
                self.sql.prepare_cached(sql)?.execute(params![self.scope, base.key.as_bytes()])?;
            }
        }
        Ok(())
    }

    fn set_leaving(&mut self, id: AttemptId, is_leaving: bool) -> std::result::Result<(), Fault> {
        let sql = "UPDATE attempt SET is_leaving = ?2 WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![id.0, is_leaving])?;
        Ok(())
    }
}
