//! The event log: one row per fact, written in the transaction that made it true.

use std::time::Duration;

use mala_core::{AgentId, Fence, IssueId, Lock, LockId, RunId, SteadyTime, Target, Timestamp, Who};
use mala_logs::secrets::mask_json;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result, StoreError};
use crate::notices::About;
use crate::request::Party;
use crate::rows;
use crate::status::SELF_TEST;
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
    /// It was the waiter's turn.
    WaitGranted = "wait.granted",
    WaitTimedOut = "wait.timed_out",
    /// The waiting process died.
    WaitAbandoned = "wait.abandoned",
    /// The wait would have closed a circle.
    WaitRefused = "wait.refused",
    AgentLeft = "agent.left",
    /// Taken from its holder for somebody who asked.
    LockTaken = "lock.taken",
    AskMade = "ask.made",
    /// Asked again, and more urgently.
    AskRaised = "ask.raised",
    AskDeferred = "ask.deferred",
    AskReleased = "ask.released",
    AskTaken = "ask.taken",
    AskMoot = "ask.moot",
    AskCancelled = "ask.cancelled",
    AskOverdue = "ask.overdue",
    MessageSent = "message.sent",
    MessageAcked = "message.acked",
    IssueAdded = "issue.added",
    IssueNoted = "issue.noted",
    IssueLabelled = "issue.labelled",
    /// It needs another issue from now on.
    IssueLinked = "issue.linked",
    IssuesImported = "issues.imported",
    /// Said by the store in a run, and by whoever starts an agent for an issue outside of one.
    IssueClaimed = "issue.claimed",
    IssueClosed = "issue.closed",
    IssueReopened = "issue.reopened",
    RunStarted = "run.started",
    RunEnded = "run.ended",
    AttemptAdvanced = "attempt.advanced",
    AttemptFinished = "attempt.finished",
    /// The agent of an attempt has a process.
    ProcessStarted = "process.started",
    ProcessEnded = "process.ended",
    /// A candidate came into the landing queue.
    EntryQueued = "entry.queued",
    EntryAdvanced = "entry.advanced",
    /// Its files are free while it waits.
    EntryFreed = "entry.freed",
    /// A branch is about to move.
    LandingBegun = "landing.begun",
    LandingDone = "landing.done",
    /// The branch has not moved.
    LandingUndone = "landing.undone",
    QueuePaused = "queue.paused",
    QueueResumed = "queue.resumed",
    /// The branch was validated in an emptied slot.
    QueueAudited = "queue.audited",
    SessionStarted = "session.started",
    SessionEnded = "session.ended",
    /// A client of a run has called a hook of mala's for the first time.
    HooksHeard = "hooks.heard",
    /// The kernel or a hook kept an agent from changing a file.
    WriteRefused = "write.refused",
    /// A file was changed by somebody who did not hold it, and an audit found it.
    WriteForeign = "write.foreign",
    /// A lock ended while its file was still open for writing.
    LockLost = "lock.lost",
    CommandRefused = "command.refused",
    TestStarted = "test.started",
    TestEnded = "test.ended",
    GatePassed = "gate.passed",
    GateFailed = "gate.failed",
    CommitMade = "commit.made",
    /// A log is taken as it is, whatever it was before.
    LogReset = "log.reset",
}

impl EventKind {
    /// True for what others tell the store. Everything else the store says itself, when it makes it so.
    pub fn is_fact(self) -> bool {
        matches!(
            self,
            Self::IssueClaimed
                | Self::SessionStarted
                | Self::SessionEnded
                | Self::HooksHeard
                | Self::WriteRefused
                | Self::WriteForeign
                | Self::LockLost
                | Self::CommandRefused
                | Self::TestStarted
                | Self::TestEnded
                | Self::GatePassed
                | Self::GateFailed
                | Self::CommitMade
        )
    }

    /// How a lock ends that nobody released.
    pub(crate) fn end_of(standing: Standing) -> Option<Self> {
        match standing {
            Standing::Held => None,
            Standing::Expired => Some(Self::LockExpired),
            Standing::Orphaned => Some(Self::LockOrphaned),
        }
    }
}

/// What an event's path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    File,
    Pattern,
    Name,
}

/// One fact from the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    pub seq: i64,
    pub at: Timestamp,
    /// When it happened, to be compared with other events.
    #[serde(skip)]
    pub steady: SteadyTime,
    pub kind: String,
    pub agent: Option<String>,
    pub issue: Option<String>,
    pub run: Option<String>,
    pub lock: Option<String>,
    pub path: Option<String>,
    /// What the path is; not known of old events.
    pub target: Option<TargetKind>,
    pub detail: Value,
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events after this one.
    pub after: Option<i64>,
    /// Only events since the wall clock showed this.
    pub since: Option<Timestamp>,
    /// Only events that are no older than this.
    pub within: Option<Duration>,
    pub agent: Option<String>,
    pub kind: Option<String>,
    pub lock: Option<String>,
    /// Not those of agents that only test enforcement.
    pub without_self_tests: bool,
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

    /// Notes something that happened to an agent outside the store. Returns the event's number. Secrets in the detail are masked:
    /// it quotes command lines and what programs say.
    pub fn record_fact(
        &mut self,
        party: &Party,
        kind: EventKind,
        target: Option<&Target>,
        detail: &Value,
    ) -> Result<i64> {
        if !kind.is_fact() {
            return Err(StoreError::NotAFact { kind: kind.as_str() });
        }
        let mut detail = detail.clone();
        mask_json(&mut detail);
        self.write(|change| {
            let event = change.record(kind, party, target, &detail)?;
            if kind == EventKind::WriteRefused
                && let Some(file @ Target::File(_)) = target
            {
                change.notify(&party.agent, About::Refused(file), event)?;
            }
            Ok(event)
        })
    }

    /// What happened to an agent besides its locks, from the event `since` on, oldest first.
    pub fn facts(
        &mut self,
        agent: &AgentId,
        kinds: &[EventKind],
        since: Option<Fence>,
    ) -> Result<Vec<Event>> {
        self.read(|view| view.facts(agent, kinds, since))
    }
}

impl View<'_> {
    pub(crate) fn events(&self, filter: &EventFilter) -> std::result::Result<Vec<Event>, Fault> {
        let sql = "SELECT seq, at, kind, agent, issue, run, lock, path, detail, target, steady FROM event
             WHERE scope = ?1 AND seq > ?2 AND at >= ?3 AND (?4 IS NULL OR agent = ?4)
               AND (?5 IS NULL OR kind = ?5) AND (?6 IS NULL OR lock = ?6)
               AND (?7 IS NULL OR agent IS NULL OR agent NOT GLOB ?7)
             ORDER BY seq DESC LIMIT ?8";
        let too_old = filter.within.map(|within| self.last_before(self.steady.minus(within))).transpose()?;
        let mut statement = self.sql.prepare_cached(sql)?;
        let params = params![
            self.scope,
            filter.after.max(too_old).unwrap_or(0),
            filter.since.map_or(i64::MIN, Timestamp::as_millis),
            filter.agent,
            filter.kind,
            filter.lock,
            filter.without_self_tests.then(|| format!("{SELF_TEST}*")),
            filter.limit.map_or(-1, i64::from),
        ];
        let mut events = statement.query_map(params, event)?.collect::<std::result::Result<Vec<_>, _>>()?;
        events.reverse();
        Ok(events)
    }

    /// The newest event, of any scope, that is older than this moment. Numbers and steady times grow together.
    pub(crate) fn last_before(&self, moment: SteadyTime) -> std::result::Result<i64, Fault> {
        let sql = "SELECT seq FROM event WHERE coalesce(steady, at) < ?1 ORDER BY seq DESC LIMIT 1";
        let mut statement = self.sql.prepare_cached(sql)?;
        Ok(statement.query_row([moment.as_millis()], |row| row.get(0)).optional()?.unwrap_or(0))
    }

    /// Since the event that is the lock's fence.
    fn held_for(&self, lock: &Lock) -> std::result::Result<Duration, Fault> {
        let sql = "SELECT coalesce(steady, at) FROM event WHERE seq = ?1";
        let mut statement = self.sql.prepare_cached(sql)?;
        let since: Option<i64> = statement.query_row([lock.fence.0], |row| row.get(0)).optional()?;
        // Its event may be too old to be kept.
        Ok(since.map_or(self.now.since(lock.acquired_at), |since| {
            self.steady.since(SteadyTime::from_millis(since))
        }))
    }

    fn facts(
        &self,
        agent: &AgentId,
        kinds: &[EventKind],
        since: Option<Fence>,
    ) -> std::result::Result<Vec<Event>, Fault> {
        let sql = "SELECT seq, at, kind, agent, issue, run, lock, path, detail, target, steady FROM event
             WHERE scope = ?1 AND agent = ?2 AND lock IS NULL AND seq >= ?3 ORDER BY seq";
        let mut statement = self.sql.prepare_cached(sql)?;
        let since = since.map_or(i64::MIN, |since| since.0);
        let mut rows = statement.query(params![self.scope, agent.as_str(), since])?;
        let mut facts = Vec::new();
        while let Some(row) = rows.next()? {
            let kind = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
            if kinds.iter().any(|wanted| wanted.as_str() == kind) {
                facts.push(event(row)?);
            }
        }
        Ok(facts)
    }
}

pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let path: Option<Vec<u8>> = row.get(7)?;
    let detail: String = row.get(8)?;
    Ok(Event {
        seq: row.get(0)?,
        at: rows::timestamp(row, 1)?,
        steady: rows::steady(row, 10)?.unwrap_or(SteadyTime::from_millis(row.get(1)?)),
        kind: row.get(2)?,
        agent: row.get(3)?,
        issue: row.get(4)?,
        run: row.get(5)?,
        lock: row.get(6)?,
        path: path.map(|bytes| mala_core::Key::from_stored(bytes).to_string()),
        target: rows::target_kind(row, 9)?,
        detail: serde_json::from_str(&detail).unwrap_or(Value::String(detail)),
    })
}

/// Who works on what.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work<'a> {
    pub(crate) agent: Option<&'a AgentId>,
    pub(crate) issue: Option<&'a IssueId>,
    pub(crate) run: Option<&'a RunId>,
}

/// Whom and what an event is about.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    agent: Option<&'a AgentId>,
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
        self.insert_event(kind, Subject { agent: Some(&party.agent), issue, run, lock: None, target }, detail)
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
            Subject { agent: Some(&lock.agent), issue, run, lock: Some(&lock.id), target },
            detail,
        )
    }

    /// Writes an event about a lock that an agent did not cause by holding it.
    pub(crate) fn record_about_lock(
        &mut self,
        kind: EventKind,
        actor: &AgentId,
        (lock, target): (&LockId, &Target),
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let party = self.party(actor)?;
        let issue = party.as_ref().and_then(|party| party.issue.as_ref());
        let run = party.as_ref().and_then(|party| party.run.as_ref());
        let about = Subject { agent: Some(actor), issue, run, lock: Some(lock), target: Some(target) };
        self.insert_event(kind, about, detail)
    }

    /// Writes an event about something that an agent or a person did. A person is named in the detail.
    pub(crate) fn record_by(
        &mut self,
        kind: EventKind,
        who: &Who,
        issue: Option<&IssueId>,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let run = match who {
            Who::Agent(agent) => self.party(agent)?.and_then(|party| party.run),
            Who::Person(_) => None,
        };
        let mut detail = detail.clone();
        if let (Who::Person(person), Value::Object(fields)) = (who, &mut detail) {
            fields.insert("person".into(), json!(person));
        }
        self.record_work(kind, Work { agent: who.agent(), issue, run: run.as_ref() }, &detail)
    }

    /// Writes an event about work on an issue or about a run.
    pub(crate) fn record_work(
        &mut self,
        kind: EventKind,
        work: Work<'_>,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let Work { agent, issue, run } = work;
        self.insert_event(kind, Subject { agent, issue, run, lock: None, target: None }, detail)
    }

    pub(crate) fn record_end(&mut self, kind: EventKind, lock: &Lock) -> std::result::Result<i64, Fault> {
        let held = self.held_for(lock)?.as_millis();
        self.record_lock(kind, lock, &json!({ "fence": lock.fence, "held_ms": held }))
    }

    fn insert_event(
        &mut self,
        kind: EventKind,
        about: Subject<'_>,
        detail: &Value,
    ) -> std::result::Result<i64, Fault> {
        let sql = "INSERT INTO event (at, scope, kind, agent, issue, run, lock, path, detail, target, steady)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.now.as_millis(),
            self.scope,
            kind.as_str(),
            about.agent.map(AgentId::as_str),
            about.issue.map(IssueId::as_str),
            about.run.map(RunId::as_str),
            about.lock.map(|lock| lock.0.as_str()),
            about.target.map(Target::as_bytes),
            detail.to_string(),
            about.target.map(rows::kind_of),
            self.steady.as_millis(),
        ])?;
        Ok(self.sql.last_insert_rowid())
    }
}

#[cfg(test)]
mod tests {
    use mala_core::Owner;

    use super::*;

    #[test]
    fn secrets_in_what_others_tell_are_masked_before_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open_in(dir.path(), b"/here").unwrap();
        let owner = Owner { pid: 1, start_time: 1, boot_id: "b".into(), host: "h".into(), node: None };
        let party =
            Party { agent: AgentId::new("a").unwrap(), owner, supervised: true, issue: None, run: None };
        let detail = json!({ "command": "git push https://me:hunter2@host", "said": "TOKEN=abc is refused" });
        store.record_fact(&party, EventKind::CommandRefused, None, &detail).unwrap();
        let event = store.events(&EventFilter::default()).unwrap().pop().unwrap();
        assert_eq!(
            event.detail,
            json!({ "command": "git push https://me:***@host", "said": "TOKEN=*** is refused" })
        );
    }
}
