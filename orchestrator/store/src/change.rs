//! Writing: a transaction that holds the write turn, and the elementary changes made in it.
//!
//! Everything a transaction does becomes visible at once, by [`Change::commit`], or not at all. Waiters that a change
//! concerns are woken *before* the commit: they then queue for the turn and see the result. A process that dies in
//! between has woken somebody for nothing; it can never have left somebody asleep.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;

use mala_core::{AgentId, Conflict, Key, Lease, Lock, LockId, Mode, Owner, Target, Want};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::json;

use crate::error::Fault;
use crate::events::EventKind;
use crate::ids::fresh_id;
use crate::request::{Party, Request};
use crate::rows::{kind_of, mode_number};
use crate::turn::Turn;
use crate::view::View;
use crate::wake;

#[derive(Debug)]
pub(crate) struct Change<'s> {
    view: View<'s>,
    wake_dir: &'s Path,
    to_wake: BTreeSet<String>,
    /// Locks that ended or moved, and whose asks are not settled yet.
    pub(crate) ended_locks: Vec<String>,
    // Declared last: the turn passes on only after the transaction has ended.
    _turn: Turn<'s>,
}

impl<'s> Deref for Change<'s> {
    type Target = View<'s>;

    fn deref(&self) -> &Self::Target {
        &self.view
    }
}

impl<'s> Change<'s> {
    pub(crate) fn new(view: View<'s>, wake_dir: &'s Path, turn: Turn<'s>) -> Self {
        Self { view, wake_dir, to_wake: BTreeSet::new(), ended_locks: Vec::new(), _turn: turn }
    }

    pub(crate) fn wake_dir(&self) -> &'s Path {
        self.wake_dir
    }

    pub(crate) fn commit(mut self) -> Result<(), Fault> {
        self.settle_asks()?;
        for waiter in &self.to_wake {
            wake::ring(self.wake_dir, waiter);
        }
        self.view.sql.commit()?;
        Ok(())
    }

    pub(crate) fn wake(&mut self, waiter: &str) {
        self.to_wake.insert(waiter.to_owned());
    }

    /// Wakes everybody whose next step depends on the lock or waiter called `id`.
    pub(crate) fn wake_watchers_of(&mut self, id: &str) -> Result<(), Fault> {
        let watchers: Vec<String> = {
            let mut statement = self.sql.prepare_cached("SELECT id FROM waiter WHERE watches = ?1")?;
            statement.query_map([id], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        self.to_wake.extend(watchers);
        Ok(())
    }

    /// Works on another scope of the same store from here on.
    pub(crate) fn enter_scope(&mut self, scope: i64) {
        self.view.scope = scope;
    }

    pub(crate) fn fresh_id(&self) -> Result<String, Fault> {
        let sql = "SELECT 1 FROM lock WHERE id = ?1 UNION ALL SELECT 1 FROM waiter WHERE id = ?1";
        fresh_id(|| fastrand::usize(..), |id| self.exists(sql, [id]))
    }

    pub(crate) fn process_row(&mut self, owner: &Owner) -> Result<i64, Fault> {
        let start_time = i64::from_ne_bytes(owner.start_time.to_ne_bytes());
        let row = params![owner.pid, start_time, owner.boot_id, owner.host, owner.node];
        let find = "SELECT id, node IS NULL AND ?5 IS NOT NULL FROM process
             WHERE pid = ?1 AND start_time = ?2 AND boot_id = ?3 AND host = ?4";
        let known = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        if let Some((id, is_news)) = self.sql.prepare_cached(find)?.query_row(row, known).optional()? {
            if is_news {
                self.sql.execute("UPDATE process SET node = ?2 WHERE id = ?1", params![id, owner.node])?;
            }
            return Ok(id);
        }
        let insert = "INSERT INTO process (pid, start_time, boot_id, host, node) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.sql.prepare_cached(insert)?.execute(row)?;
        Ok(self.sql.last_insert_rowid())
    }

    /// Takes everything the request wants. The caller has made sure that nothing stands in the way.
    pub(crate) fn grant(&mut self, request: &Request, waited_ms: Option<u128>) -> Result<Vec<Lock>, Fault> {
        let process = self.process_row(&request.party.owner)?;
        let mut locks = Vec::with_capacity(request.wants.len());
        for want in request.sorted_wants() {
            locks.push(match self.own_lock(&request.party.agent, &want)? {
                Some(lock) => self.renew_by_request(lock, &want, request)?,
                None => self.insert_lock(request, want, process, waited_ms)?,
            });
        }
        Ok(locks)
    }

    fn insert_lock(
        &mut self,
        request: &Request,
        want: Want,
        process: i64,
        waited_ms: Option<u128>,
    ) -> Result<Lock, Fault> {
        let Party { agent, owner, supervised, issue, run } = request.party.clone();
        let mut lock = Lock {
            id: LockId(self.fresh_id()?),
            target: want.target,
            aliases: want.aliases,
            mode: want.mode,
            agent,
            issue,
            run,
            owner,
            supervised,
            fence: mala_core::Fence(0),
            acquired_at: self.now,
            lease: Lease::starting(self.now, request.ttl),
            reason: request.reason.clone(),
        };
        let detail = json!({ "mode": lock.mode, "expires_at": lock.lease.expires_at, "waited_ms": waited_ms, "reason": lock.reason });
        lock.fence = mala_core::Fence(self.record_lock(EventKind::LockAcquired, &lock, &detail)?);
        let sql =
            "INSERT INTO lock (scope, kind, path, agent, id, mode, issue, run, owner, supervised, fence,
                 acquired_at, ttl_ms, expires_at, reason, expires_steady)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.scope,
            kind_of(&lock.target),
            lock.target.as_bytes(),
            lock.agent.as_str(),
            lock.id.0,
            mode_number(lock.mode),
            lock.issue.as_ref().map(mala_core::IssueId::as_str),
            lock.run.as_ref().map(mala_core::RunId::as_str),
            process,
            lock.supervised,
            lock.fence.0,
            lock.acquired_at.as_millis(),
            millis(lock.lease.ttl),
            lock.lease.expires_at.as_millis(),
            lock.reason,
            self.clocks().steady_end(lock.lease.expires_at).as_millis(),
        ])?;
        self.insert_aliases(&lock.id, &lock.aliases)?;
        Ok(lock)
    }

    fn insert_aliases(&mut self, lock: &LockId, aliases: &[Key]) -> Result<(), Fault> {
        let sql = "INSERT INTO alias (scope, path, lock) VALUES (?1, ?2, ?3)";
        for key in aliases {
            self.sql.prepare_cached(sql)?.execute(params![self.scope, key.as_bytes(), lock.0])?;
        }
        Ok(())
    }

    /// Asking again for what one holds renews it: never for less, neither in mode nor in time.
    fn renew_by_request(&mut self, mut lock: Lock, want: &Want, request: &Request) -> Result<Lock, Fault> {
        lock.lease.ttl = lock.lease.ttl.max(request.ttl);
        lock.lease.expires_at = lock.lease.expires_at.max(self.now.plus(request.ttl));
        lock.issue = request.party.issue.clone().or(lock.issue);
        lock.reason = request.reason.clone().or(lock.reason);
        let links = new_links(&lock, want);
        self.insert_aliases(&lock.id, &links)?;
        lock.aliases.extend(links);
        if want.mode > lock.mode {
            lock.mode = Mode::Exclusive;
            let detail = json!({ "expires_at": lock.lease.expires_at });
            lock.fence = mala_core::Fence(self.record_lock(EventKind::LockUpgraded, &lock, &detail)?);
        }
        self.update_lock(&lock)?;
        Ok(lock)
    }

    /// Stores what may change about a lock that stays with its holder.
    pub(crate) fn update_lock(&mut self, lock: &Lock) -> Result<(), Fault> {
        let sql =
            "UPDATE lock SET mode = ?2, issue = ?3, fence = ?4, ttl_ms = ?5, expires_at = ?6, reason = ?7,
                 expires_steady = ?8
             WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![
            lock.id.0,
            mode_number(lock.mode),
            lock.issue.as_ref().map(mala_core::IssueId::as_str),
            lock.fence.0,
            millis(lock.lease.ttl),
            lock.lease.expires_at.as_millis(),
            lock.reason,
            self.clocks().steady_end(lock.lease.expires_at).as_millis(),
        ])?;
        Ok(())
    }

    /// Removes a lock and says so. Waiters are not served yet: that is [`Change::hand_over`], once for all removals.
    pub(crate) fn remove_lock(&mut self, lock: &Lock, kind: EventKind) -> Result<(), Fault> {
        self.end_hold(lock)?;
        self.delete_lock_row(lock)?;
        self.record_end(kind, lock)?;
        self.ended_locks.push(lock.id.0.clone());
        self.wake_watchers_of(&lock.id.0)
    }

    pub(crate) fn delete_lock_row(&mut self, lock: &Lock) -> Result<(), Fault> {
        self.sql.prepare_cached("DELETE FROM lock WHERE id = ?1")?.execute([&lock.id.0])?;
        if !lock.aliases.is_empty() {
            self.sql.prepare_cached("DELETE FROM alias WHERE lock = ?1")?.execute([&lock.id.0])?;
        }
        Ok(())
    }

    /// Takes back a lock that is not worth anything any more. True if it was so.
    pub(crate) fn reclaim(&mut self, lock: &Lock) -> Result<bool, Fault> {
        let Some(kind) = EventKind::end_of(self.standing(lock)) else { return Ok(false) };
        self.remove_lock(lock, kind)?;
        Ok(true)
    }

    /// What stands in the way of the wants. Locks there that are worth nothing any more are taken back on the way, also
    /// those that an earlier session of the same name has left.
    pub(crate) fn obstructions(&mut self, agent: &AgentId, wants: &[Want]) -> Result<Obstructions, Fault> {
        let mut found = Obstructions::default();
        for want in wants {
            for holder in self.rivals(agent, want)? {
                if self.reclaim(&holder)? {
                    found.any_reclaimed = true;
                } else {
                    found.conflicts.push(Conflict { want: want.clone(), holder });
                }
            }
            while let Some(own) = self.own_lock(agent, want)?
                && self.reclaim(&own)?
            {
                found.any_reclaimed = true;
            }
        }
        Ok(found)
    }
}

/// See [`Change::obstructions`].
#[derive(Debug, Default)]
pub(crate) struct Obstructions {
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) any_reclaimed: bool,
}

/// Names that the file has got since it was locked.
fn new_links(lock: &Lock, want: &Want) -> Vec<Key> {
    let Target::File(wanted) = &want.target else { return Vec::new() };
    let names = std::iter::once(wanted).chain(&want.aliases);
    let is_new = |name: &&Key| lock.target.as_bytes() != name.as_bytes() && !lock.aliases.contains(name);
    names.filter(is_new).cloned().collect()
}

pub(crate) fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
