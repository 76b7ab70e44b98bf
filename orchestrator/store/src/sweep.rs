//! Leftovers: what the dead left behind, and putting it away.
//!
//! Nothing depends on sweeping. Whoever asks for a lock takes back what stands in the way; a sweep only tidies up what
//! nobody has asked for yet.

use std::fs;

use mala_core::{Life, Lock, Owner, Timestamp};
use rusqlite::params;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::rows;
use crate::view::{Standing, View};
use crate::waiters::Waiter;

/// What can be put away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Locks that nobody holds any more, and why.
    pub locks: Vec<(Lock, Standing)>,
    /// Ids and agents of waiters whose process has died.
    pub waiters: Vec<(String, String)>,
    /// Files of waiters that are gone.
    pub wake_files: Vec<String>,
    /// Events older than the caller wants to keep.
    pub old_events: u64,
}

impl Leftovers {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How far a sweep goes.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Older events are dropped, unless older work is still in the landing queue.
    pub keep_events_since: Timestamp,
    /// Free locks of other hosts as well, although nobody here can tell whether their owners live. A person decides that.
    pub foreign_locks: bool,
}

impl Store {
    /// What a sweep would put away in this scope. Changes nothing.
    pub fn leftovers(&mut self, extent: Extent) -> Result<Leftovers> {
        let wake_dir = self.wake_dir().to_path_buf();
        self.read(|view| view.leftovers(&wake_dir, extent))
    }

    /// Puts leftovers away, in all scopes that share this store, and serves whoever waited for them.
    pub fn sweep(&mut self, extent: Extent) -> Result<Leftovers> {
        self.write(|change| change.sweep(extent))
    }

    /// Since when things have been written that may belong to work that is not over, by the wall clock: that of agents that may live,
    /// of attempts that have no end yet, and of what is in the landing queue, in all scopes that share this store.
    pub fn working_since(&mut self) -> Result<Option<Timestamp>> {
        self.read(|view| view.working_since())
    }
}

impl View<'_> {
    fn leftovers(&self, wake_dir: &std::path::Path, extent: Extent) -> std::result::Result<Leftovers, Fault> {
        let mut locks = self.stored_locks()?;
        locks.retain(|lock| self.is_leftover(lock, extent));
        let old = "SELECT count(*) FROM event WHERE at < ?1 AND seq < (SELECT max(seq) FROM event)";
        Ok(Leftovers {
            locks: locks
                .into_iter()
                .map(|lock| {
                    let standing = self.standing(&lock);
                    (lock, standing)
                })
                .collect(),
            waiters: self
                .dead_waiters()?
                .iter()
                .map(|w| (w.id.clone(), w.request.party.agent.to_string()))
                .collect(),
            wake_files: self.stray_wake_files(wake_dir)?,
            old_events: self
                .sql
                .query_row(old, [self.kept_since(extent)?.as_millis()], |row| row.get::<_, i64>(0))?
                .cast_unsigned(),
        })
    }

    fn working_since(&self) -> std::result::Result<Option<Timestamp>, Fault> {
        let agents = "SELECT a.since, p.host, p.boot_id, p.pid, p.start_time, p.node
             FROM agent a LEFT JOIN process p ON p.id = a.root";
        let mut statement = self.sql.prepare_cached(agents)?;
        let agents = statement.query_map([], |row| Ok((rows::timestamp(row, 0)?, rows::owner(row, 1)?)))?;
        let agents: Vec<(Timestamp, Owner)> = agents.collect::<std::result::Result<_, _>>()?;
        let living = agents.into_iter().filter(|(_, owner)| self.life(owner) != Life::Dead);
        let attempts = self.attempts_where("a.ended_at IS NULL", [])?;
        let attempts = attempts.into_iter().map(|open| open.started_at);
        let oldest = living.map(|(since, _)| since).chain(attempts).chain(self.queued_since()?).min();
        oldest.map(|began| self.earliest_since(began)).transpose()
    }

    /// The earliest that the wall clock has shown since it showed `began`: it may have been set back meanwhile.
    fn earliest_since(&self, began: Timestamp) -> std::result::Result<Timestamp, Fault> {
        let sql = "SELECT min(at) FROM event WHERE seq >= (SELECT min(seq) FROM event WHERE at >= ?1)";
        let earliest: Option<i64> =
            self.sql.prepare_cached(sql)?.query_row([began.as_millis()], |row| row.get(0))?;
        Ok(earliest.map_or(began, |earliest| began.min(Timestamp::from_millis(earliest))))
    }

    /// From when on events and the like are kept: nothing goes that belongs to work in the landing queue, however long it waits or is
    /// said to have waited by a clock that was set.
    fn kept_since(&self, extent: Extent) -> std::result::Result<Timestamp, Fault> {
        let wanted = extent.keep_events_since;
        let queued = self.queued_since()?.map(|began| self.earliest_since(began)).transpose()?;
        Ok(queued.map_or(wanted, |queued| queued.min(wanted)))
    }

    fn is_leftover(&self, lock: &Lock, extent: Extent) -> bool {
        let is_foreign = extent.foreign_locks && self.life(&lock.owner) == Life::Unknown;
        is_foreign || self.standing(lock) != Standing::Held
    }

    fn dead_waiters(&self) -> std::result::Result<Vec<Waiter>, Fault> {
        let mut waiters = self.waiters()?;
        waiters.retain(|waiter| !self.is_there(waiter));
        Ok(waiters)
    }

    /// Pipes without a waiter. A waiter about to be stored holds the write turn, so a sweep never sees its pipe.
    fn stray_wake_files(&self, dir: &std::path::Path) -> std::result::Result<Vec<String>, Fault> {
        let mut stray = Vec::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !self.exists("SELECT 1 FROM waiter WHERE id = ?1", [&name])? {
                stray.push(name);
            }
        }
        stray.sort_unstable();
        Ok(stray)
    }
}

impl Change<'_> {
    fn sweep(&mut self, extent: Extent) -> std::result::Result<Leftovers, Fault> {
        let mut swept = Leftovers::default();
        let home = self.scope;
        for scope in self.all_scopes()? {
            self.enter_scope(scope);
            swept.locks.extend(self.sweep_locks(extent)?);
            for waiter in self.dead_waiters()? {
                self.abandon(&waiter)?;
                swept.waiters.push((waiter.id.clone(), waiter.request.party.agent.to_string()));
            }
            self.hand_over()?;
            self.settle_asks()?;
        }
        self.enter_scope(home);
        swept.wake_files = self.stray_wake_files(self.wake_dir())?;
        for name in &swept.wake_files {
            let _ = fs::remove_file(self.wake_dir().join(name));
        }
        swept.old_events = self.prune(self.kept_since(extent)?)?;
        Ok(swept)
    }

    fn sweep_locks(&mut self, extent: Extent) -> std::result::Result<Vec<(Lock, Standing)>, Fault> {
        let mut swept = Vec::new();
        for mut lock in self.stored_locks()? {
            let standing = self.standing(&lock);
            if self.is_leftover(&lock, extent) {
                let kind = EventKind::end_of(standing).unwrap_or(EventKind::LockReleased);
                self.remove_lock(&lock, kind)?;
                swept.push((lock, standing));
            } else if lock.lease.is_over(self.now) {
                // Its owner lives and is supervised: that is what a renewal means.
                lock.lease = mala_core::Lease::starting(self.now, lock.lease.ttl);
                self.update_lock(&lock)?;
            }
        }
        Ok(swept)
    }

    /// Drops old events, holds, asks, messages and ended agents of that time, and process rows that nothing refers to. The newest event always
    /// stays, because fences count on from it.
    fn prune(&mut self, keep_since: Timestamp) -> std::result::Result<u64, Fault> {
        let old = "DELETE FROM event WHERE at < ?1 AND seq < (SELECT max(seq) FROM event)";
        let events = self.sql.execute(old, params![keep_since.as_millis()])?;
        self.sql.execute("DELETE FROM tenure WHERE until < ?1", [keep_since.as_millis()])?;
        let old = "DELETE FROM entry_path WHERE entry IN
                 (SELECT id FROM entry WHERE landed_event < (SELECT min(seq) FROM event))";
        self.sql.execute(old, [])?;
        self.sql
            .execute("DELETE FROM ask WHERE state >= 2 AND answered_at < ?1", [keep_since.as_millis()])?;
        for old in [
            "DELETE FROM letter WHERE message IN (SELECT seq FROM message WHERE at < ?1)",
            // The newest stays, so that no number is given out twice.
            "DELETE FROM message WHERE at < ?1 AND seq < (SELECT max(seq) FROM message)
                 AND seq NOT IN (SELECT message FROM letter)",
        ] {
            self.sql.execute(old, [keep_since.as_millis()])?;
        }
        for agent in self.agents()? {
            if agent.life == Life::Dead && agent.since < keep_since {
                let sql = "DELETE FROM agent WHERE scope = ?1 AND name = ?2";
                self.sql.execute(sql, params![self.scope, agent.party.agent.as_str()])?;
            }
        }
        let unused =
            "DELETE FROM process WHERE id NOT IN (SELECT owner FROM lock UNION SELECT root FROM agent
             UNION SELECT owner FROM waiter UNION SELECT waiting FROM waiter UNION SELECT owner FROM run UNION SELECT owner FROM landing
             UNION SELECT supervisor FROM attempt WHERE supervisor IS NOT NULL)";
        self.sql.execute(unused, [])?;
        Ok(events as u64)
    }

    fn all_scopes(&self) -> std::result::Result<Vec<i64>, Fault> {
        let mut statement = self.sql.prepare("SELECT id FROM scope ORDER BY id")?;
        let scopes = statement.query_map([], |row| row.get(0))?;
        Ok(scopes.collect::<std::result::Result<_, _>>()?)
    }
}
