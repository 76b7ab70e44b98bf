//! Reading: one consistent picture of the store, and the verdict on who still holds what.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mala_core::pattern::{may_match, may_name_directory};
use mala_core::ports::Liveness;
use mala_core::{
    AgentId, Conflict, Key, Life, Lock, LockId, Owner, Pattern, SteadyTime, Target, Timestamp, Want,
};
use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::Fault;
use crate::rows::{self, LOCK_COLUMNS, kind_of};
use crate::steady::Now;

/// What a stored lock is worth at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Held,
    /// Its lease is over and nobody vouches for its owner.
    Expired,
    /// Its owner has ended.
    Orphaned,
}

/// A snapshot of one scope. All that is read through it belongs together.
#[derive(Debug)]
pub(crate) struct View<'s> {
    pub(crate) sql: Transaction<'s>,
    pub(crate) store: &'s Path,
    pub(crate) scope: i64,
    /// For people, and to be compared with dates of others. Ends are read by the same clock, see [`Now::wall_end`].
    pub(crate) now: Timestamp,
    /// For how long something took.
    pub(crate) steady: SteadyTime,
    liveness: &'s dyn Liveness,
    judged: RefCell<HashMap<Owner, Life>>,
}

impl<'s> View<'s> {
    pub(crate) fn new(
        sql: Transaction<'s>,
        store: &'s Path,
        scope: i64,
        now: Now,
        liveness: &'s dyn Liveness,
    ) -> Self {
        let Now { wall: now, steady } = now;
        Self { sql, store, scope, now, steady, liveness, judged: RefCell::default() }
    }

    pub(crate) fn clocks(&self) -> Now {
        Now { wall: self.now, steady: self.steady }
    }

    /// Asks the system once per owner; within a transaction the answer stays the same.
    pub(crate) fn life(&self, owner: &Owner) -> Life {
        if let Some(life) = self.judged.borrow().get(owner) {
            return *life;
        }
        let life = self.liveness.of(owner);
        self.judged.borrow_mut().insert(owner.clone(), life);
        life
    }

    pub(crate) fn standing(&self, lock: &Lock) -> Standing {
        match self.life(&lock.owner) {
            Life::Dead => Standing::Orphaned,
            Life::Alive if lock.supervised => Standing::Held,
            Life::Alive | Life::Unknown if lock.lease.is_over(self.now) => Standing::Expired,
            Life::Alive | Life::Unknown => Standing::Held,
        }
    }

    /// All stored locks of this scope in path order, whatever they are worth.
    pub(crate) fn stored_locks(&self) -> Result<Vec<Lock>, Fault> {
        self.locks_where("l.scope = ?1 ORDER BY l.path, l.kind, l.fence", params![self.scope])
    }

    /// The locks that are really held.
    pub(crate) fn held_locks(&self) -> Result<Vec<Lock>, Fault> {
        let mut locks = self.stored_locks()?;
        locks.retain(|lock| self.standing(lock) == Standing::Held);
        Ok(locks)
    }

    pub(crate) fn locks_of(&self, agent: &AgentId) -> Result<Vec<Lock>, Fault> {
        self.locks_where(
            "l.scope = ?1 AND l.agent = ?2 ORDER BY l.kind, l.path",
            params![self.scope, agent.as_str()],
        )
    }

    pub(crate) fn lock_by_id(&self, id: &str) -> Result<Option<Lock>, Fault> {
        Ok(self.locks_where("l.id = ?1", params![id])?.pop())
    }

    /// The lock that `agent` has on exactly this target, under any of the file's names.
    pub(crate) fn own_lock(&self, agent: &AgentId, want: &Want) -> Result<Option<Lock>, Fault> {
        let by_path = |kind: i64, path: &[u8]| {
            let sql = "l.scope = ?1 AND l.kind = ?2 AND l.path = ?3 AND l.agent = ?4";
            self.locks_where(sql, params![self.scope, kind, path, agent.as_str()])
        };
        if let Some(lock) = by_path(kind_of(&want.target), want.target.as_bytes())?.pop() {
            return Ok(Some(lock));
        }
        for alias in &want.aliases {
            if let Some(lock) = by_path(kind_of(&want.target), alias.as_bytes())?.pop() {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// Locks of other agents that the want cannot stand beside, whatever they are worth.
    pub(crate) fn rivals(&self, agent: &AgentId, want: &Want) -> Result<Vec<Lock>, Fault> {
        let mut rivals = self.locks_over(want)?;
        rivals.retain(|lock| want.claim(agent).excludes(&lock.claim()));
        Ok(rivals)
    }

    /// The locks that are really held on something that overlaps the want, in path order.
    pub(crate) fn holders(&self, want: &Want) -> Result<Vec<Lock>, Fault> {
        let mut holders = self.locks_over(want)?;
        holders.retain(|lock| {
            self.standing(lock) == Standing::Held && lock.claim().overlaps(&want.claim(&lock.agent))
        });
        holders.sort_by(|one, other| one.target.as_bytes().cmp(other.target.as_bytes()));
        Ok(holders)
    }

    /// Stored locks that may overlap the want, or [displace](Target::displaces) it.
    fn locks_over(&self, want: &Want) -> Result<Vec<Lock>, Fault> {
        let mut ids = Vec::new();
        match &want.target {
            Target::Name(name) => self.ids_at(&mut ids, 2, name.as_str().as_bytes())?,
            Target::File(key) => {
                for key in std::iter::once(key).chain(&want.aliases) {
                    self.ids_over(&mut ids, key)?;
                    self.ids_of_displaced(&mut ids, key)?;
                    self.ids_above(&mut ids, key.as_path())?;
                }
            }
            Target::Pattern(pattern) => {
                self.ids_of_patterns(&mut ids, |_| true, |held| held.overlaps(pattern))?;
                self.ids_below(&mut ids, pattern)?;
                let prefix = pattern.literal_prefix();
                self.ids_above(&mut ids, &Path::new(OsStr::from_bytes(&prefix)).join("x"))?;
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let mut locks = Vec::new();
        for id in ids {
            locks.extend(self.lock_by_id(&id)?);
        }
        Ok(locks)
    }

    /// The conflicts that stand in the way of `wants`, without touching anything.
    pub(crate) fn conflicts(&self, agent: &AgentId, wants: &[Want]) -> Result<Vec<Conflict>, Fault> {
        let mut conflicts = Vec::new();
        for want in wants {
            for holder in self.rivals(agent, want)? {
                if self.standing(&holder) == Standing::Held {
                    conflicts.push(Conflict { want: want.clone(), holder });
                }
            }
        }
        Ok(conflicts)
    }

    fn locks_where(&self, condition: &str, params: impl rusqlite::Params) -> Result<Vec<Lock>, Fault> {
        let sql = format!(
            "SELECT {LOCK_COLUMNS} FROM lock l LEFT JOIN process p ON p.id = l.owner WHERE {condition}"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        let now = self.clocks();
        let locks = statement.query_map(params, |row| rows::lock(row, now))?;
        let mut locks = locks.collect::<Result<Vec<_>, _>>()?;
        if self.has_aliases()? {
            for lock in &mut locks {
                lock.aliases = self.aliases_of(&lock.id)?;
            }
        }
        Ok(locks)
    }

    fn has_aliases(&self) -> Result<bool, Fault> {
        let mut statement = self.sql.prepare_cached("SELECT EXISTS (SELECT 1 FROM alias)")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    fn aliases_of(&self, lock: &LockId) -> Result<Vec<Key>, Fault> {
        let mut statement =
            self.sql.prepare_cached("SELECT path FROM alias WHERE lock = ?1 ORDER BY path")?;
        let keys = statement.query_map([&lock.0], |row| row.get(0).map(Key::from_stored))?;
        Ok(keys.collect::<Result<_, _>>()?)
    }

    /// Stored locks that cover this name of a file: on the file, on another name of it, or on a pattern.
    pub(crate) fn ids_over(&self, ids: &mut Vec<String>, key: &Key) -> Result<(), Fault> {
        let name = key.as_bytes();
        self.ids_at(ids, 0, name)?;
        self.ids_of_alias(ids, key)?;
        self.ids_of_patterns(ids, |text| may_match(text, name), |held| held.matches(name))
    }

    /// Stored locks on what would lie below this name if it were a directory.
    fn ids_of_displaced(&self, ids: &mut Vec<String>, key: &Key) -> Result<(), Fault> {
        let name = key.as_bytes();
        self.ids_between(ids, &[name, b"/"].concat(), &[name, b"0"].concat(), |_| true)?;
        self.ids_of_patterns(ids, |text| may_name_directory(text, name), |held| held.names_directory(name))
    }

    /// Stored locks on files in whose place the path needs a directory.
    fn ids_above(&self, ids: &mut Vec<String>, path: &Path) -> Result<(), Fault> {
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            let above = Key::from_stored(above.as_os_str().as_bytes().to_vec());
            self.ids_at(ids, 0, above.as_bytes())?;
            self.ids_of_alias(ids, &above)?;
        }
        Ok(())
    }

    fn ids_at(&self, ids: &mut Vec<String>, kind: i64, path: &[u8]) -> Result<(), Fault> {
        let sql = "SELECT id FROM lock WHERE scope = ?1 AND kind = ?2 AND path = ?3";
        let mut statement = self.sql.prepare_cached(sql)?;
        for id in statement.query_map(params![self.scope, kind, path], |row| row.get(0))? {
            ids.push(id?);
        }
        Ok(())
    }

    fn ids_of_alias(&self, ids: &mut Vec<String>, key: &Key) -> Result<(), Fault> {
        let mut statement =
            self.sql.prepare_cached("SELECT lock FROM alias WHERE scope = ?1 AND path = ?2")?;
        for id in statement.query_map(params![self.scope, key.as_bytes()], |row| row.get(0))? {
            ids.push(id?);
        }
        Ok(())
    }

    /// Held patterns that `hit`, asked only for those whose text `may` hit.
    fn ids_of_patterns(
        &self,
        ids: &mut Vec<String>,
        may: impl Fn(&[u8]) -> bool,
        hit: impl Fn(&Pattern) -> bool,
    ) -> Result<(), Fault> {
        let sql = "SELECT kind, path, id FROM lock WHERE scope = ?1 AND kind = 1";
        let mut statement = self.sql.prepare_cached(sql)?;
        let mut rows = statement.query([self.scope])?;
        while let Some(row) = rows.next()? {
            if may(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)
                && let Target::Pattern(pattern) = rows::target(row, 0)?
                && hit(&pattern)
            {
                ids.push(row.get(2)?);
            }
        }
        Ok(())
    }

    /// Files that match the pattern, or that it names as directories, by their own name or by another hard link's. Only paths
    /// below the pattern's literal beginning are looked at.
    fn ids_below(&self, ids: &mut Vec<String>, pattern: &Pattern) -> Result<(), Fault> {
        let mut from = pattern.literal_prefix();
        let mut to = from.clone();
        if pattern.is_literal() {
            to.push(0);
        } else if !from.is_empty() {
            from.push(b'/');
            to.push(b'/' + 1);
        }
        let is_meant = |path: &[u8]| pattern.matches(path) || pattern.names_directory(path);
        self.ids_between(ids, &from, &to, is_meant)
    }

    /// Files of which a name is at or behind `from`, before `to` unless that is empty, and meant.
    fn ids_between(
        &self,
        ids: &mut Vec<String>,
        from: &[u8],
        to: &[u8],
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let ranges = [
            "SELECT path, id FROM lock WHERE scope = ?1 AND kind = 0 AND path >= ?2 AND (?3 = x'' OR path < ?3)",
            "SELECT path, lock FROM alias WHERE scope = ?1 AND path >= ?2 AND (?3 = x'' OR path < ?3)",
        ];
        for sql in ranges {
            let mut statement = self.sql.prepare_cached(sql)?;
            let mut rows = statement.query(params![self.scope, from, to])?;
            while let Some(row) = rows.next()? {
                if is_meant(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?) {
                    ids.push(row.get(1)?);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn exists(&self, sql: &str, params: impl rusqlite::Params) -> Result<bool, Fault> {
        Ok(self.sql.prepare_cached(sql)?.query_row(params, |_| Ok(())).optional()?.is_some())
    }
}
