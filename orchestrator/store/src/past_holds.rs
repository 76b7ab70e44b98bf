//! Who has held what alone, also after the lock is gone.
//!
//! A commit is judged after its files were released, so the end of every exclusive hold on a file or a pattern is kept
//! under each name of the file: one row for an agent and a name, however often it was held. Rows go with the events
//! of their time.

use mala_core::pattern::may_match;
use mala_core::{AgentId, Fence, Key, Lock, Mode, Target, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::rows::{self, kind_of};
use crate::view::{Standing, View};

impl Store {
    /// The fence under which the agent holds this file alone, or last did at some time since: by the file's name, by
    /// another hard link's, or by a pattern.
    pub fn owned(&mut self, agent: &AgentId, key: &Key, since: Option<Timestamp>) -> Result<Option<Fence>> {
        self.read(|view| view.owned(agent, key, since))
    }

    /// The same for many files, as of one moment.
    pub fn owned_each(
        &mut self,
        agent: &AgentId,
        keys: &[Key],
        since: Option<Timestamp>,
    ) -> Result<Vec<Option<Fence>>> {
        self.read(|view| keys.iter().map(|key| view.owned(agent, key, since)).collect())
    }
}

impl View<'_> {
    fn owned(
        &self,
        agent: &AgentId,
        key: &Key,
        since: Option<Timestamp>,
    ) -> std::result::Result<Option<Fence>, Fault> {
        let since = since.unwrap_or(Timestamp::from_millis(i64::MIN));
        let mut ids = Vec::new();
        self.ids_over(&mut ids, key)?;
        let mut best = self.past_hold(agent, key, since)?;
        for id in ids {
            let lock = self.lock_by_id(&id)?.filter(|lock| lock.agent == *agent);
            let lock = lock.filter(|lock| lock.mode == Mode::Exclusive && self.held_until(lock) >= since);
            best = best.max(lock.map(|lock| lock.fence));
        }
        Ok(best)
    }

    /// When a stored lock ended; now, if it has not.
    fn held_until(&self, lock: &Lock) -> Timestamp {
        match self.standing(lock) {
            Standing::Expired => lock.lease.expires_at.min(self.now),
            // When the owner died, nobody knows; nobody else has had the lock since.
            Standing::Held | Standing::Orphaned => self.now,
        }
    }

    fn past_hold(
        &self,
        agent: &AgentId,
        key: &Key,
        since: Timestamp,
    ) -> std::result::Result<Option<Fence>, Fault> {
        let (agent, since, name) = (agent.as_str(), since.as_millis(), key.as_bytes());
        let of_file = "SELECT fence FROM tenure
             WHERE scope = ?1 AND agent = ?2 AND kind = 0 AND path = ?3 AND until >= ?4";
        let mut statement = self.sql.prepare_cached(of_file)?;
        let file =
            statement.query_row(params![self.scope, agent, name, since], |row| row.get(0)).optional()?;
        let mut best = file.map(Fence);
        let of_patterns = "SELECT kind, path, fence FROM tenure
             WHERE scope = ?1 AND agent = ?2 AND kind = 1 AND until >= ?3";
        let mut statement = self.sql.prepare_cached(of_patterns)?;
        let mut rows = statement.query(params![self.scope, agent, since])?;
        while let Some(row) = rows.next()? {
            if may_match(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, name)
                && let Target::Pattern(pattern) = rows::target(row, 0)?
                && pattern.matches(name)
            {
                best = best.max(Some(Fence(row.get(2)?)));
            }
        }
        Ok(best)
    }
}

impl Change<'_> {
    /// Notes that the lock's holder is about to lose it.
    pub(crate) fn end_hold(&mut self, lock: &Lock) -> std::result::Result<(), Fault> {
        if lock.mode != Mode::Exclusive || lock.is_named() {
            return Ok(());
        }
        let until = self.held_until(lock);
        // Fences only grow, and so does time: the newest hold is the one to keep.
        let sql = "INSERT INTO tenure (scope, agent, kind, path, fence, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET fence = max(fence, excluded.fence), until = max(until, excluded.until)";
        let kind = kind_of(&lock.target);
        let names = lock.aliases.iter().map(Key::as_bytes);
        for path in std::iter::once(lock.target.as_bytes()).chain(names) {
            let row = params![self.scope, lock.agent.as_str(), kind, path, lock.fence.0, until.as_millis()];
            self.sql.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }
}
