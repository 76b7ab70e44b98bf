//! Who has held what alone, also after the lock is gone.
//!
//! A commit is judged after its files were released, so the end of every exclusive hold on a file or a pattern is kept
//! under each name of the file: one row for an agent and a name, however often it was held. Rows go with the events
//! of their time. What came first is a matter of event numbers: a clock can be set back.

use mala_core::pattern::may_match;
use mala_core::{AgentId, Fence, Key, Lock, Mode, Target, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::foreign_changes::EndedHold;
use crate::landing::freed::is_of_landing;
use crate::rows::{self, kind_of};
use crate::view::{Standing, View};

impl Store {
    /// The fence under which the agent holds this file alone, or last did after the event `since`: by the file's name, by
    /// another hard link's, or by a pattern.
    pub fn owned(&mut self, agent: &AgentId, key: &Key, since: Option<Fence>) -> Result<Option<Fence>> {
        self.read(|view| view.owned(agent, key, since))
    }

    /// Those of these files that the agent held alone after the event `since`, and nobody else after it, besides whoever holds them
    /// now and may have just got them: what lies there is the agent's. As of one moment.
    pub fn held_last(&mut self, agent: &AgentId, keys: &[Key], since: Option<Fence>) -> Result<Vec<Key>> {
        self.read(|view| {
            let mut held = Vec::new();
            for key in keys {
                if let Some(fence) = view.owned(agent, key, since)?
                    && !view.is_held_after(agent, key, fence)?
                {
                    held.push(key.clone());
                }
            }
            Ok(held)
        })
    }

    /// The newest event; the next one has a higher number.
    pub fn newest_event(&mut self) -> Result<Fence> {
        self.read(|view| view.newest_event())
    }
}

impl View<'_> {
    pub(crate) fn newest_event(&self) -> std::result::Result<Fence, Fault> {
        let sql = "SELECT coalesce(max(seq), 0) FROM event";
        Ok(Fence(self.sql.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
    }

    fn owned(
        &self,
        agent: &AgentId,
        key: &Key,
        since: Option<Fence>,
    ) -> std::result::Result<Option<Fence>, Fault> {
        let since = since.unwrap_or(Fence(i64::MIN));
        let past = self.past_hold(agent, key, since)?.map(|hold| hold.fence);
        Ok(past.max(self.current_hold(agent, key)?))
    }

    /// The fence of the agent's lock on the file. A lock that is still stored has not ended, whatever it is worth: nobody else
    /// has had the file since.
    pub(crate) fn current_hold(
        &self,
        agent: &AgentId,
        key: &Key,
    ) -> std::result::Result<Option<Fence>, Fault> {
        let mut ids = Vec::new();
        self.ids_over(&mut ids, key)?;
        let mut best = None;
        for id in ids {
            let lock = self.lock_by_id(&id)?.filter(|lock| lock.agent == *agent);
            let lock = lock.filter(|lock| lock.mode == Mode::Exclusive && !is_of_landing(lock));
            best = best.max(lock.map(|lock| lock.fence));
        }
        Ok(best)
    }

    /// True if another agent has held the file alone under a later fence, and does no more.
    fn is_held_after(&self, agent: &AgentId, key: &Key, fence: Fence) -> std::result::Result<bool, Fault> {
        let mut ids = Vec::new();
        self.ids_over(&mut ids, key)?;
        for id in ids {
            let lock = self.lock_by_id(&id)?;
            let lock = lock.filter(|lock| lock.mode == Mode::Exclusive && !is_of_landing(lock));
            let is_later = |lock: &Lock| lock.agent != *agent && lock.fence > fence;
            if lock.is_some_and(|lock| is_later(&lock) && self.standing(&lock) != Standing::Held) {
                return Ok(true);
            }
        }
        let sql =
            "SELECT 1 FROM tenure WHERE scope = ?1 AND path = ?2 AND kind = 0 AND agent <> ?3 AND fence > ?4";
        self.exists(sql, params![self.scope, key.as_bytes(), agent.as_str(), fence.0])
    }

    /// When a lock ended that is about to go, for people.
    fn held_until(&self, lock: &Lock) -> Timestamp {
        match self.standing(lock) {
            Standing::Expired => lock.lease.expires_at.min(self.now),
            Standing::Held | Standing::Orphaned => self.now,
        }
    }

    /// The last hold of the file by the agent that ended after the event `since`.
    pub(crate) fn past_hold(
        &self,
        agent: &AgentId,
        key: &Key,
        since: Fence,
    ) -> std::result::Result<Option<PastHold>, Fault> {
        let (agent, since, name) = (agent.as_str(), since.0, key.as_bytes());
        let of_file = "SELECT fence, ended, until FROM tenure
             WHERE scope = ?1 AND agent = ?2 AND kind = 0 AND path = ?3 AND ended > ?4";
        let hold = |row: &Row<'_>, at| {
            let end = EndedHold { event: Fence(row.get(at + 1)?), at: rows::timestamp(row, at + 2)? };
            Ok::<_, rusqlite::Error>(PastHold { fence: Fence(row.get(at)?), end })
        };
        let mut statement = self.sql.prepare_cached(of_file)?;
        let row = params![self.scope, agent, name, since];
        let mut best = statement.query_row(row, |row| hold(row, 0)).optional()?;
        let of_patterns = "SELECT kind, path, fence, ended, until FROM tenure
             WHERE scope = ?1 AND agent = ?2 AND kind = 1 AND ended > ?3";
        let mut statement = self.sql.prepare_cached(of_patterns)?;
        let mut rows = statement.query(params![self.scope, agent, since])?;
        while let Some(row) = rows.next()? {
            if may_match(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, name)
                && let Target::Pattern(pattern) = rows::target(row, 0)?
                && pattern.matches(name)
            {
                best = best.max(Some(hold(row, 2)?));
            }
        }
        Ok(best)
    }
}

/// A hold that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PastHold {
    pub(crate) fence: Fence,
    pub(crate) end: EndedHold,
}

impl Change<'_> {
    /// Notes that the lock's holder is about to lose it.
    pub(crate) fn end_hold(&mut self, lock: &Lock) -> std::result::Result<(), Fault> {
        if lock.mode != Mode::Exclusive || lock.is_named() || is_of_landing(lock) {
            return Ok(());
        }
        // The event that says so is the next one.
        let (until, ended) = (self.held_until(lock), self.newest_event()?.0 + 1);
        // Numbers only grow: the newest hold is the one to keep.
        let sql = "INSERT INTO tenure (scope, agent, kind, path, fence, until, ended) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET fence = max(fence, excluded.fence), until = excluded.until, ended = excluded.ended";
        let kind = kind_of(&lock.target);
        let names = lock.aliases.iter().map(Key::as_bytes);
        for path in std::iter::once(lock.target.as_bytes()).chain(names) {
            let (agent, until) = (lock.agent.as_str(), until.as_millis());
            let row = params![self.scope, agent, kind, path, lock.fence.0, until, ended];
            self.sql.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }
}
