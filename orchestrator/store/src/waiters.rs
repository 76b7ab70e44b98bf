//! The queue: who waits for what, in order of arrival.
//!
//! A waiter holds nothing while it waits. When something becomes free, the first waiter whose whole wish can be granted
//! gets it within the same transaction, unless an earlier waiter wants part of the same. Each waiter watches one
//! obstacle, the nearest that stands in its way; whoever removes that obstacle wakes it, so nobody polls and nobody
//! is woken for a place further back in the queue.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mala_core::{
    AgentId, Conflict, Fence, IssueId, Key, Life, Lock, Owner, RunId, SteadyTime, Target, Timestamp, Want,
};
use rusqlite::params;
use serde_json::json;

use crate::change::{Change, millis};
use crate::error::Fault;
use crate::events::EventKind;
use crate::request::{Party, Request};
use crate::rows::{self, kind_of, mode_number};
use crate::view::View;

/// A waiter on another host cannot be seen to die. It counts as gone this long after its patience has ended.
const GRACE: Duration = Duration::from_secs(10);

/// One stored waiter.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) request: Request,
    /// What it does not hold already. Only that is a reason to stand behind somebody.
    lacking: Vec<Want>,
    /// The process that sleeps. Not the owner of the locks to come, which may outlive it.
    pub(crate) waiting: Owner,
    /// For people.
    pub(crate) since: Timestamp,
    pub(crate) since_steady: SteadyTime,
    deadline: SteadyTime,
    pub(crate) granted_at: Option<Timestamp>,
}

impl Waiter {
    pub(crate) fn agent(&self) -> &AgentId {
        &self.request.party.agent
    }

    /// Whether this waiter, if it came first, keeps the other one waiting.
    pub(crate) fn holds_up(&self, other: &Self) -> bool {
        self.excludes_any(other.agent(), &other.lacking)
    }

    /// The same, but for names.
    fn holds_up_on_files(&self, other: &Self) -> bool {
        let files: Vec<Want> = other.lacking.iter().filter(|want| !is_name(&want.target)).cloned().collect();
        self.excludes_any(other.agent(), &files)
    }

    /// Whether it stands against any of these wants of `agent`.
    pub(crate) fn excludes_any(&self, agent: &AgentId, wants: &[Want]) -> bool {
        let mine = || self.request.wants.iter();
        wants.iter().any(|their| mine().any(|my| my.claim(self.agent()).excludes(&their.claim(agent))))
    }
}

/// What somebody waits for.
#[derive(Debug, Default)]
struct Wants {
    all: Vec<Want>,
    /// Without what its agent holds already.
    lacking: Vec<Want>,
}

/// What a waiter waits for next.
#[derive(Debug, Clone)]
pub(crate) struct Obstacle {
    /// Lock or waiter.
    pub(crate) id: String,
    /// A lock that moves to somebody else keeps its id, not its fence.
    pub(crate) fence: Option<Fence>,
    /// Its end removes the obstacle.
    pub(crate) process: Option<Owner>,
    /// So does the end of this span.
    pub(crate) rest: Option<Duration>,
}

impl View<'_> {
    /// Everybody who waits in this scope or was granted without having noticed yet, first come first.
    pub(crate) fn waiters(&self) -> Result<Vec<Waiter>, Fault> {
        if !self.exists("SELECT 1 FROM waiter WHERE scope = ?1", [self.scope])? {
            return Ok(Vec::new());
        }
        let sql = "SELECT w.seq, w.id, w.agent, w.issue, w.run, w.supervised, w.since, w.ttl_ms, w.reason,
                 w.granted_at, o.host, o.boot_id, o.pid, o.start_time, o.node, p.host, p.boot_id, p.pid, p.start_time, p.node,
                 w.deadline, coalesce(w.since_steady, w.since)
             FROM waiter w LEFT JOIN process o ON o.id = w.owner LEFT JOIN process p ON p.id = w.waiting
             WHERE w.scope = ?1 ORDER BY w.seq";
        let mut statement = self.sql.prepare_cached(sql)?;
        let mut waiters = statement.query_map([self.scope], waiter)?.collect::<Result<Vec<_>, _>>()?;
        let mut wants = self.wants_by_waiter()?;
        for waiter in &mut waiters {
            let wants = wants.remove(&waiter.seq).unwrap_or_default();
            (waiter.request.wants, waiter.lacking) = (wants.all, wants.lacking);
        }
        Ok(waiters)
    }

    /// For how long it has waited.
    pub(crate) fn waited(&self, waiter: &Waiter) -> Duration {
        self.steady.since(waiter.since_steady)
    }

    /// Not granted yet, and with somebody asleep.
    pub(crate) fn is_waiting(&self, waiter: &Waiter) -> bool {
        waiter.granted_at.is_none() && self.is_there(waiter)
    }

    /// Whether the process that sleeps is still there, as far as one can tell.
    pub(crate) fn is_there(&self, waiter: &Waiter) -> bool {
        match self.life(&waiter.waiting) {
            Life::Alive => true,
            Life::Dead => false,
            Life::Unknown => self.steady < waiter.deadline.plus(GRACE),
        }
    }

    fn wants_by_waiter(&self) -> Result<HashMap<i64, Wants>, Fault> {
        let sql = "SELECT w.kind, w.path, w.mode, w.alias_of, w.waiter, l.mode
             FROM waiter q JOIN wanted w ON w.waiter = q.seq
             LEFT JOIN lock l ON l.scope = q.scope AND l.kind = w.kind AND l.path = w.path AND l.agent = q.agent
             WHERE q.scope = ?1 ORDER BY w.alias_of IS NOT NULL, w.kind, w.path";
        let mut statement = self.sql.prepare_cached(sql)?;
        let mut rows = statement.query([self.scope])?;
        let mut by_waiter: HashMap<i64, Wants> = HashMap::new();
        while let Some(row) = rows.next()? {
            let Wants { all, lacking } = by_waiter.entry(row.get(4)?).or_default();
            match row.get::<_, Option<Vec<u8>>>(3)? {
                None => {
                    let (target, mode) = (rows::target(row, 0)?, rows::mode(row, 2)?);
                    let want = Want { target, aliases: Vec::new(), mode };
                    let own = row.get::<_, Option<i64>>(5)?.filter(|_| !is_name(&want.target));
                    if own.is_none_or(|own| own < mode_number(mode)) {
                        lacking.push(want.clone());
                    }
                    all.push(want);
                }
                Some(name) => {
                    let main = Target::File(Key::from_stored(name));
                    for want in all.iter_mut().chain(lacking).filter(|want| want.target == main) {
                        want.aliases.push(Key::from_stored(row.get(1)?));
                    }
                }
            }
        }
        Ok(by_waiter)
    }

    /// The circle that `agent` is in, if any: each one waits for the next, the last for the first.
    pub(crate) fn circle_through(&self, agent: &AgentId) -> Result<Option<Vec<AgentId>>, Fault> {
        self.chain(&self.waiters()?, agent, agent)
    }

    /// How `from` waits for `to`, if it does: each one waits for the next, the last for `to`.
    pub(crate) fn chain(
        &self,
        queue: &[Waiter],
        from: &AgentId,
        to: &AgentId,
    ) -> Result<Option<Vec<AgentId>>, Fault> {
        let mut seen = HashSet::new();
        let mut path = vec![from.clone()];
        let mut branches = vec![self.waits_for(queue, from)?];
        while let Some(branch) = branches.last_mut() {
            match branch.pop() {
                None => {
                    branches.pop();
                    path.pop();
                }
                Some(next) if next == *to => return Ok(Some(path)),
                Some(next) if seen.insert(next.clone()) => {
                    branches.push(self.waits_for(queue, &next)?);
                    path.push(next);
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// Everybody who waits, directly or behind others, for something that `agent` holds.
    pub(crate) fn held_up_by(&self, agent: &AgentId) -> Result<Vec<AgentId>, Fault> {
        let queue = self.waiters()?;
        let mut held_up = Vec::new();
        for waiter in queue.iter().filter(|waiter| self.is_waiting(waiter)) {
            if !held_up.contains(waiter.agent()) && self.chain(&queue, waiter.agent(), agent)?.is_some() {
                held_up.push(waiter.agent().clone());
            }
        }
        Ok(held_up)
    }

    /// Everybody who must act before all of this agent's waits can end, for files and for issues. Whoever holds a name never waits for anything, so
    /// waits for names end by themselves and are no part of a circle.
    fn waits_for(&self, queue: &[Waiter], agent: &AgentId) -> Result<Vec<AgentId>, Fault> {
        let mut others = self.awaited_workers(agent)?;
        for (place, waiter) in queue.iter().enumerate() {
            if waiter.agent() != agent || !self.is_waiting(waiter) {
                continue;
            }
            let is_file = |want: &&Want| !is_name(&want.target);
            let files: Vec<Want> = waiter.request.wants.iter().filter(is_file).cloned().collect();
            let holders = self.conflicts(agent, &files)?;
            others.extend(holders.into_iter().map(|conflict| conflict.holder.agent));
            let is_ahead = |earlier: &&Waiter| earlier.holds_up_on_files(waiter) && self.is_waiting(earlier);
            let ahead = queue[..place].iter().filter(is_ahead);
            others.extend(ahead.map(|earlier| earlier.agent().clone()));
        }
        others.sort_unstable();
        others.dedup();
        Ok(others)
    }

    /// What stands nearest in the waiter's way; nothing if its turn has come.
    pub(crate) fn obstacle(&self, waiter: &Waiter) -> Result<Option<Obstacle>, Fault> {
        let queue = self.waiters()?;
        let is_ahead =
            |other: &&Waiter| other.seq < waiter.seq && other.holds_up(waiter) && self.is_waiting(other);
        if let Some(ahead) = queue.iter().rev().find(is_ahead) {
            return Ok(Some(self.waiter_as_obstacle(ahead)));
        }
        let conflicts = self.conflicts(waiter.agent(), &waiter.request.wants)?;
        Ok(conflicts.into_iter().next().map(|Conflict { holder, .. }| self.lock_as_obstacle(&holder)))
    }

    fn waiter_as_obstacle(&self, waiter: &Waiter) -> Obstacle {
        let is_local = self.life(&waiter.waiting) == Life::Alive;
        Obstacle {
            id: waiter.id.clone(),
            fence: None,
            process: is_local.then(|| waiter.waiting.clone()),
            rest: (!is_local).then(|| waiter.deadline.plus(GRACE).since(self.steady)),
        }
    }

    fn lock_as_obstacle(&self, lock: &Lock) -> Obstacle {
        let is_local = self.life(&lock.owner) == Life::Alive;
        Obstacle {
            id: lock.id.0.clone(),
            fence: Some(lock.fence),
            process: is_local.then(|| lock.owner.clone()),
            rest: (!is_local || !lock.supervised).then(|| lock.lease.expires_at.since(self.now)),
        }
    }
}

fn is_name(target: &Target) -> bool {
    matches!(target, Target::Name(_))
}

fn waiter(row: &rusqlite::Row<'_>) -> rusqlite::Result<Waiter> {
    let party = Party {
        agent: rows::name(row, 2, AgentId::new)?,
        issue: rows::optional_name(row, 3, IssueId::new)?,
        run: rows::optional_name(row, 4, RunId::new)?,
        supervised: row.get(5)?,
        owner: rows::owner(row, 10)?,
    };
    Ok(Waiter {
        seq: row.get(0)?,
        id: row.get(1)?,
        since: rows::timestamp(row, 6)?,
        request: Request { party, wants: Vec::new(), ttl: rows::duration(row, 7)?, reason: row.get(8)? },
        lacking: Vec::new(),
        granted_at: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
        waiting: rows::owner(row, 15)?,
        deadline: SteadyTime::from_millis(row.get(20)?),
        since_steady: SteadyTime::from_millis(row.get(21)?),
    })
}

impl Change<'_> {
    /// Puts a request at the end of the queue.
    pub(crate) fn enqueue(
        &mut self,
        id: &str,
        request: &Request,
        patience: Duration,
    ) -> Result<Waiter, Fault> {
        let owner = self.process_row(&request.party.owner)?;
        let me = crate::process::current();
        let waiting = self.process_row(&me)?;
        let (party, deadline) = (&request.party, self.steady.plus(patience));
        let sql =
            "INSERT INTO waiter (id, scope, agent, issue, run, owner, supervised, waiting, since, deadline,
                 ttl_ms, reason, since_steady)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        self.sql.prepare_cached(sql)?.execute(params![
            id,
            self.scope,
            party.agent.as_str(),
            party.issue.as_ref().map(IssueId::as_str),
            party.run.as_ref().map(RunId::as_str),
            owner,
            party.supervised,
            waiting,
            self.now.as_millis(),
            deadline.as_millis(),
            millis(request.ttl),
            request.reason,
            self.steady.as_millis(),
        ])?;
        let seq = self.sql.last_insert_rowid();
        let wants = request.sorted_wants();
        let insert = "INSERT INTO wanted (waiter, kind, path, mode, alias_of) VALUES (?1, ?2, ?3, ?4, ?5)";
        for want in &wants {
            let (kind, path, mode) = (kind_of(&want.target), want.target.as_bytes(), mode_number(want.mode));
            self.sql.prepare_cached(insert)?.execute(params![seq, kind, path, mode, None::<Vec<u8>>])?;
            for alias in &want.aliases {
                self.sql.prepare_cached(insert)?.execute(params![seq, kind, alias.as_bytes(), mode, path])?;
            }
        }
        let mut lacking = Vec::new();
        for want in &wants {
            if !self.holds(&party.agent, want)? {
                lacking.push(want.clone());
            }
        }
        let request = Request { wants, ..request.clone() };
        Ok(Waiter {
            seq,
            id: id.to_owned(),
            request,
            lacking,
            waiting: me,
            since: self.now,
            since_steady: self.steady,
            deadline,
            granted_at: None,
        })
    }

    pub(crate) fn remove_waiter(&mut self, waiter: &Waiter) -> Result<(), Fault> {
        self.sql.prepare_cached("DELETE FROM wanted WHERE waiter = ?1")?.execute([waiter.seq])?;
        self.sql.prepare_cached("DELETE FROM waiter WHERE seq = ?1")?.execute([waiter.seq])?;
        self.wake_watchers_of(&waiter.id)
    }

    pub(crate) fn watch(&mut self, waiter: &Waiter, obstacle: &Obstacle) -> Result<(), Fault> {
        let sql = "UPDATE waiter SET watches = ?2 WHERE seq = ?1";
        self.sql.prepare_cached(sql)?.execute(params![waiter.seq, obstacle.id])?;
        Ok(())
    }

    /// Serves the queue after something became free.
    pub(crate) fn hand_over(&mut self) -> Result<(), Fault> {
        let mut still_waiting: Vec<Waiter> = Vec::new();
        for waiter in self.waiters()? {
            if waiter.granted_at.is_some() {
                continue;
            }
            if !self.is_there(&waiter) {
                self.abandon(&waiter)?;
            } else if still_waiting.iter().any(|ahead| ahead.holds_up(&waiter))
                || !self.grant_waiter(&waiter)?
            {
                still_waiting.push(waiter);
            }
        }
        Ok(())
    }

    /// Serves the agent's waits for what it was just handed, past those ahead: it would otherwise stand behind others who
    /// now wait for it.
    pub(crate) fn serve_first(&mut self, agent: &AgentId, handed: &Want) -> Result<(), Fault> {
        for waiter in self.waiters()? {
            let is_for_it = |want: &Want| want.claim(agent).overlaps(&handed.claim(agent));
            if waiter.agent() == agent
                && waiter.request.wants.iter().any(is_for_it)
                && self.is_waiting(&waiter)
            {
                self.grant_waiter(&waiter)?;
            }
        }
        Ok(())
    }

    fn grant_waiter(&mut self, waiter: &Waiter) -> Result<bool, Fault> {
        let (agent, wants) = (waiter.agent(), &waiter.request.wants);
        if !self.obstructions(agent, wants)?.conflicts.is_empty() {
            return Ok(false);
        }
        let waited = self.waited(waiter).as_millis();
        // Until the waiter has learned of it, the lock lives with the waiting process: if that dies, so does the grant.
        let party = Party { owner: waiter.waiting.clone(), ..waiter.request.party.clone() };
        self.grant(&Request { party, ..waiter.request.clone() }, Some(waited))?;
        // Said in any case: the lock itself may have come by another way, handed over by its holder.
        let target = wants.first().map(|want| &want.target);
        let detail = json!({ "waiter": waiter.id, "waited_ms": waited });
        self.record(EventKind::WaitGranted, &waiter.request.party, target, &detail)?;
        let sql = "UPDATE waiter SET granted_at = ?2, watches = NULL WHERE seq = ?1";
        self.sql.prepare_cached(sql)?.execute(params![waiter.seq, self.now.as_millis()])?;
        self.wake(&waiter.id);
        self.wake_watchers_of(&waiter.id)?;
        Ok(true)
    }

    /// Removes a waiter whose process died.
    pub(crate) fn abandon(&mut self, waiter: &Waiter) -> Result<(), Fault> {
        self.remove_waiter(waiter)?;
        let target = waiter.request.wants.first().map(|want| &want.target);
        self.record(
            EventKind::WaitAbandoned,
            &waiter.request.party,
            target,
            &json!({ "waiter": waiter.id, "waited_ms": self.waited(waiter).as_millis() }),
        )?;
        Ok(())
    }
}
