//! What an agent should hear once: asks about its locks, answers to its own, messages, and writes that were refused.
//!
//! Whatever concerns an agent leaves a row here, in the transaction that made it so. Rows say what it is about, not what
//! is true of it, so several changes before the agent listens are one notice with the latest state.

use std::borrow::Cow;

use mala_core::message::Letter;
use mala_core::{AgentId, Ask, AskId, Key, MessageId, Target};
use rusqlite::params;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};

/// Refused writes named in one notice; the rest is counted.
const WRITES_NAMED: usize = 20;

/// Something that an agent should hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// About a lock that this agent holds or held: somebody asks for it, is still waiting, does not need it any more, or
    /// has taken it.
    LockOfYours(Ask),
    /// About something that this agent asked for: answered, overdue, or moot.
    AskOfYours(Ask),
    /// A message, marked as read by being told.
    Message(Letter),
    /// Files that this agent was kept from changing, the newest first.
    WritesRefused { files: Vec<Refused>, more: usize },
}

/// A file that an agent was kept from changing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub target: Target,
    pub times: u64,
    /// Number of the last event about it.
    pub event: i64,
}

/// What a notice is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    LockOfYours(&'a AskId),
    AskOfYours(&'a AskId),
    Message(MessageId),
    Refused(&'a Target),
}

impl About<'_> {
    fn key(&self) -> (i64, Cow<'_, [u8]>) {
        match self {
            Self::LockOfYours(ask) => (0, ask.0.as_bytes().into()),
            Self::AskOfYours(ask) => (1, ask.0.as_bytes().into()),
            Self::Message(id) => (2, id.0.to_be_bytes().to_vec().into()),
            Self::Refused(target) => (3, target.as_bytes().into()),
        }
    }
}

/// Whether an agent has heard what there was to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Already,
    NotYet,
}

impl Store {
    /// Everything the agent has not heard yet, in the order it happened. It is told once: the same call marks it as heard.
    pub fn take_notices(&mut self, agent: &AgentId) -> Result<Vec<Notice>> {
        let any = self.read(|view| {
            let sql = "SELECT 1 FROM notice WHERE scope = ?1 AND agent = ?2";
            view.exists(sql, params![view.scope, agent.as_str()])
        })?;
        if any { self.write(|change| change.take_notices(agent)) } else { Ok(Vec::new()) }
    }
}

impl Change<'_> {
    pub(crate) fn notify(
        &mut self,
        agent: &AgentId,
        about: About<'_>,
        event: i64,
    ) -> std::result::Result<(), Fault> {
        let (kind, subject) = about.key();
        let sql =
            "INSERT INTO notice (scope, agent, kind, subject, event, times) VALUES (?1, ?2, ?3, ?4, ?5, 1)
             ON CONFLICT DO UPDATE SET event = excluded.event, times = times + 1";
        self.sql.prepare_cached(sql)?.execute(params![self.scope, agent.as_str(), kind, subject, event])?;
        Ok(())
    }

    /// Takes back what an agent has not heard yet.
    pub(crate) fn unsay(&mut self, agent: &AgentId, about: About<'_>) -> std::result::Result<Heard, Fault> {
        let (kind, subject) = about.key();
        let sql = "DELETE FROM notice WHERE scope = ?1 AND agent = ?2 AND kind = ?3 AND subject = ?4";
        let rows =
            self.sql.prepare_cached(sql)?.execute(params![self.scope, agent.as_str(), kind, subject])?;
        Ok(if rows == 0 { Heard::Already } else { Heard::NotYet })
    }

    /// Drops what only concerned an earlier session of this name. Messages stay: they are for the name.
    pub(crate) fn forget_notices(&mut self, agent: &AgentId) -> std::result::Result<(), Fault> {
        let sql = "DELETE FROM notice WHERE scope = ?1 AND agent = ?2 AND kind <> 2";
        self.sql.prepare_cached(sql)?.execute(params![self.scope, agent.as_str()])?;
        Ok(())
    }

    fn take_notices(&mut self, agent: &AgentId) -> std::result::Result<Vec<Notice>, Fault> {
        let sql =
            "SELECT kind, subject, event, times FROM notice WHERE scope = ?1 AND agent = ?2 ORDER BY event";
        let rows: Vec<(i64, Vec<u8>, i64, i64)> = {
            let mut statement = self.sql.prepare_cached(sql)?;
            let rows = statement.query_map(params![self.scope, agent.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            rows.collect::<std::result::Result<_, _>>()?
        };
        let (mut notices, mut files) = (Vec::new(), Vec::new());
        for (kind, subject, event, times) in rows {
            match kind {
                0 => notices.extend(self.ask_named(&subject)?.map(Notice::LockOfYours)),
                1 => notices.extend(self.ask_named(&subject)?.map(Notice::AskOfYours)),
                2 => notices.extend(self.message_named(agent, &subject)?.map(Notice::Message)),
                _ => files.push(Refused {
                    target: Target::File(Key::from_stored(subject)),
                    times: times.cast_unsigned(),
                    event,
                }),
            }
        }
        if !files.is_empty() {
            files.reverse();
            let more = files.len().saturating_sub(WRITES_NAMED);
            files.truncate(WRITES_NAMED);
            notices.push(Notice::WritesRefused { files, more });
        }
        let sql = "DELETE FROM notice WHERE scope = ?1 AND agent = ?2";
        self.sql.prepare_cached(sql)?.execute(params![self.scope, agent.as_str()])?;
        Ok(notices)
    }

    fn message_named(
        &mut self,
        agent: &AgentId,
        subject: &[u8],
    ) -> std::result::Result<Option<Letter>, Fault> {
        match subject.try_into() {
            Ok(number) => self.deliver(agent, MessageId(i64::from_be_bytes(number))),
            Err(_) => Ok(None),
        }
    }

    fn ask_named(&self, subject: &[u8]) -> std::result::Result<Option<Ask>, Fault> {
        self.ask_by_id(&AskId(String::from_utf8_lossy(subject).into_owned()))
    }
}
