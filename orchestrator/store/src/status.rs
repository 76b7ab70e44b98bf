//! One picture of everything that goes on in a scope.

use std::time::Duration;

use mala_core::{AgentId, Life, Lock, LockName, SteadyTime, Target, Timestamp};
use rusqlite::params;

use crate::Store;
use crate::agent_time::AgentTime;
use crate::agents::Agent;
use crate::error::{Fault, Result};
use crate::events::{EventKind, TargetKind};
use crate::rows;
use crate::view::View;

/// The stretch of time that health looks back on.
pub const HEALTH_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// How a try to lock something ends. Every wait ends in one of these, too.
pub const TRIES: &[EventKind] =
    &[EventKind::LockAcquired, EventKind::LockRefused, EventKind::WaitTimedOut, EventKind::WaitRefused];

/// How the names of agents begin by which mala tries itself out. What they lock is nobody's work.
pub const SELF_TEST: &str = "self-test-";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Running agents first.
    pub agents: Vec<Agent>,
    pub locks: Vec<Lock>,
    pub waiting: Vec<Waiting>,
    pub mutexes: Vec<Mutex>,
    pub health: Health,
}

/// An agent's place in the queue for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub target: Target,
    pub agent: AgentId,
    pub since: Timestamp,
    waited: Duration,
    /// First is 1.
    pub position: usize,
}

/// A named lock that is held or waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutex {
    pub name: LockName,
    pub holder: Option<(AgentId, Timestamp)>,
    pub queue: Vec<AgentId>,
}

/// How much agents got into each other's way during [`HEALTH_WINDOW`]. Files are one thing; a turn at a mutex is meant to be
/// waited for, so only how long it took counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    pub lock_tries: u64,
    pub lock_waits: u64,
    /// The longest wait for a named lock, whether it came or not.
    pub mutex_wait: Duration,
    pub time: AgentTime,
}

impl Health {
    /// Share of tries that had to wait.
    #[expect(clippy::cast_precision_loss, reason = "a day has far fewer than 2^52 tries")]
    pub fn wait_rate(&self) -> f64 {
        if self.lock_tries == 0 { 0.0 } else { self.lock_waits as f64 / self.lock_tries as f64 }
    }
}

impl Store {
    pub fn status(&mut self) -> Result<Status> {
        self.read(|view| view.status())
    }

    /// Everybody who is known here, the dead as well.
    pub fn agents(&mut self) -> Result<Vec<Agent>> {
        self.read(|view| view.agents())
    }
}

impl View<'_> {
    fn status(&self) -> std::result::Result<Status, Fault> {
        let mut agents = self.agents()?;
        agents.sort_by_key(|agent| agent.life == Life::Dead);
        let (locks, waiting) = (self.held_locks()?, self.waiting()?);
        let mutexes = mutexes(&locks, &waiting);
        let mut health = self.health()?;
        let named = waiting.iter().filter(|waiting| name_of(&waiting.target).is_some());
        let going_on = named.map(|waiting| waiting.waited).max().unwrap_or_default();
        health.mutex_wait = health.mutex_wait.max(going_on);
        Ok(Status { agents, mutexes, locks, waiting, health })
    }

    fn waiting(&self) -> std::result::Result<Vec<Waiting>, Fault> {
        let mut waiting: Vec<Waiting> = Vec::new();
        for waiter in self.waiters()?.into_iter().filter(|waiter| self.is_waiting(waiter)) {
            let waited = self.waited(&waiter);
            for want in waiter.request.wants {
                let ahead = waiting.iter().filter(|other| other.target.overlaps(&want.target)).count();
                waiting.push(Waiting {
                    target: want.target,
                    agent: waiter.request.party.agent.clone(),
                    since: waiter.since,
                    waited,
                    position: ahead + 1,
                });
            }
        }
        Ok(waiting)
    }

    fn health(&self) -> std::result::Result<Health, Fault> {
        let since = self.steady.minus(HEALTH_WINDOW);
        let mut health = Health { time: self.agent_time(since)?, ..Health::default() };
        // Events lie in the order of steady time, so the window is the end of the table.
        let sql = "SELECT coalesce(steady, at), kind, target, detail, agent FROM event WHERE scope = ?1 ORDER BY seq DESC";
        let mut statement = self.sql.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.scope])?;
        while let Some(row) = rows.next()? {
            if SteadyTime::from_millis(row.get(0)?) < since {
                break;
            }
            if row
                .get_ref(4)?
                .as_str_or_null()
                .is_ok_and(|agent| agent.is_some_and(|it| it.starts_with(SELF_TEST)))
            {
                continue;
            }
            let kind = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let is = |kinds: &[EventKind]| kinds.iter().any(|k| k.as_str() == kind);
            let is_named = rows::target_kind(row, 2)? == Some(TargetKind::Name);
            if is_named && (is(TRIES) || is(&[EventKind::WaitAbandoned])) {
                health.mutex_wait = health.mutex_wait.max(waited(&row.get::<_, String>(3)?));
            } else if !is_named {
                health.lock_waits += u64::from(is(&[EventKind::WaitStarted]));
                health.lock_tries += u64::from(is(TRIES));
            }
        }
        Ok(health)
    }
}

/// How long somebody has waited, as an event's detail says; nothing if it does not.
fn waited(detail: &str) -> Duration {
    let detail: serde_json::Value = serde_json::from_str(detail).unwrap_or_default();
    Duration::from_millis(detail["waited_ms"].as_u64().unwrap_or(0))
}

fn mutexes(locks: &[Lock], waiting: &[Waiting]) -> Vec<Mutex> {
    let mut mutexes: Vec<Mutex> = Vec::new();
    let mut entry = |name: &LockName| match mutexes.iter().position(|mutex| mutex.name == *name) {
        Some(place) => place,
        None => {
            mutexes.push(Mutex { name: name.clone(), holder: None, queue: Vec::new() });
            mutexes.len() - 1
        }
    };
    let held: Vec<_> = locks.iter().filter_map(|l| Some((entry(name_of(&l.target)?), l))).collect();
    let queued: Vec<_> = waiting.iter().filter_map(|w| Some((entry(name_of(&w.target)?), w))).collect();
    for (place, lock) in held {
        mutexes[place].holder = Some((lock.agent.clone(), lock.acquired_at));
    }
    for (place, waiter) in queued {
        mutexes[place].queue.push(waiter.agent.clone());
    }
    mutexes
}

fn name_of(target: &Target) -> Option<&LockName> {
    match target {
        Target::Name(name) => Some(name),
        Target::File(_) | Target::Pattern(_) => None,
    }
}
