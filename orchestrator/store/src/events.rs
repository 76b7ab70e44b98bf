//! The event log: one row per fact, written in the transaction that made it true.

use mala_core::{AgentId, IssueId, Lock, LockId, RunId, Target, Timestamp};
use rusqlite::{Row, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::request::Party;
use crate::rows;
use crate::view::{Standing, View};

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $kind:ident = $text:literal,)*) => {
        /// What can happen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind { $($(#[$doc])* $kind,)* }

        impl EventKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }
        }
    };
}

event_kinds! {
    AgentJoined = "agent.joined",
    LockAcquired = "lock.acquired",
    /// Shared became exclusive.
    LockUpgraded = "lock.upgraded",
    LockRenewed = "lock.renewed",
    LockReleased = "lock.released",
    /// Its lease ran out.
    LockExpired = "lock.expired",
    /// Its owner died.
    LockOrphaned = "lock.orphaned",
    LockTransferred = "lock.transferred",
    LockRefused = "lock.refused",
    WaitStarted = "wait.started",
    WaitTimedOut = "wait.timed_out",
    /// The waiting process died.
    WaitAbandoned = "wait.abandoned",
    /// The wait would have closed a circle.
    WaitRefused = "wait.refused",
}

impl EventKind {
    /// How a lock ends that nobody released.
    pub(crate) fn end_of(standing: Standing) -> Option<Self> {
        match standing {
            Standing::Held => None,
            Standing::Expired => Some(Self::LockExpired),
            Standing::Orphaned => Some(Self::LockOrphaned),
        }
    }
}

/// One fact from the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    pub seq: i64,
    pub at: Timestamp,
    pub kind: String,
    pub agent: Option<String>,
    pub issue: Option<String>,
    pub run: Option<String>,
    pub lock: Option<String>,
    pub path: Option<String>,
    pub detail: Value,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events after this one.
    pub after: Option<i64>,
    pub since: Option<Timestamp>,
    pub agent: Option<String>,
    pub kind: Option<String>,
    pub lock: Option<String>,
    /// The newest so many.
    pub limit: Option<u32>,
}

impl Store {
    /// Events of this scope, oldest first.
    pub fn events(&mut self, filter: &EventFilter) -> Result<Vec<Event>> {
        self.read(|view| view.events(filter))
    }

    /// The event with this number.
    pub fn event(&mut self, seq: i64) -> Result<Option<Event>> {
        let found = self.events(&EventFilter { after: Some(seq - 1), ..EventFilter::default() })?;
        Ok(found.into_iter().next().filter(|event| event.seq == seq))
    }
}

impl View<'_> {
    fn events(&self, filter: &EventFilter) -> std::result::Result<Vec<Event>, Fault> {
        let sql = "SELECT seq, at, kind, agent, issue, run, lock, path, detail FROM event
             WHERE scope = ?1 AND seq > ?2 AND at >= ?3 AND (?4 IS NULL OR agent = ?4)
               AND (?5 IS NULL OR kind = ?5) AND (?6 IS NULL OR lock = ?6)
             ORDER BY seq DESC LIMIT ?7";
        let mut statement = self.sql.prepare_cached(sql)?;
        let params = params![
            self.scope,
            filter.after.unwrap_or(0),
            filter.since.map_or(i64::MIN, Timestamp::as_millis),
            filter.agent,
            filter.kind,
            filter.lock,
            filter.limit.map_or(-1, i64::from),
        ];
        let mut events = statement.query_map(params, event)?.collect::<std::result::Result<Vec<_>, _>>()?;
        events.reverse();
        Ok(events)
    }
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let path: Option<Vec<u8>> = row.get(7)?;
    let detail: String = row.get(8)?;
    Ok(Event {
        seq: row.get(0)?,
        at: rows::timestamp(row, 1)?,
        kind: row.get(2)?,
        agent: row.get(3)?,
        issue: row.get(4)?,
        run: row.get(5)?,
        lock: row.get(6)?,
        path: path.map(|bytes| mala_core::Key::from_stored(bytes).to_string()),
        detail: serde_json::from_str(&detail).unwrap_or(Value::String(detail)),
    })
}

/// Whom and what an event is about.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    agent: &'a AgentId,
    issue: Option<&'a IssueId>,
    run: Option<&'a RunId>,
    lock: Option<&'a LockId>,
    target: Option<&'a Target>,
}

impl Change<'_> {
    /// Writes an event about an agent and, where there is one, its target. Returns its number.
    pub(crate) fn record(
        &mut self,
        kind: EventKind,
        party: &Party,
        target: Option<&Target>,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let (issue, run) = (party.issue.as_ref(), party.run.as_ref());
        self.insert_event(kind, Subject { agent: &party.agent, issue, run, lock: None, target }, detail)
    }

    /// Writes an event about a lock that exists or existed.
    pub(crate) fn record_lock(
        &mut self,
        kind: EventKind,
        lock: &Lock,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let (issue, run, target) = (lock.issue.as_ref(), lock.run.as_ref(), Some(&lock.target));
        self.insert_event(
            kind,
            Subject { agent: &lock.agent, issue, run, lock: Some(&lock.id), target },
            detail,
        )
    }

    pub(crate) fn record_end(&mut self, kind: EventKind, lock: &Lock) -> std::result::Result<i64, Fault> {
        let held = self.now.since(lock.acquired_at).as_millis();
        self.record_lock(kind, lock, &json!({ "fence": lock.fence, "held_ms": held }))
    }

    fn insert_event(
        &mut self,
        kind: EventKind,
        about: Subject<'_>,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let sql = "INSERT INTO event (at, scope, kind, agent, issue, run, lock, path, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.now.as_millis(),
            self.scope,
            kind.as_str(),
            about.agent.as_str(),
            about.issue.map(IssueId::as_str),
            about.run.map(RunId::as_str),
            about.lock.map(|lock| lock.0.as_str()),
            about.target.map(Target::as_bytes),
            detail.to_string(),
        ])?;
        Ok(self.sql.last_insert_rowid())
    }
}
