//! Messages: sent once, one copy for each recipient, read in pages.

mod rows;

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::message::{Audience, Body, Importance, Letter, Message, MessageId, Who};
use mala_core::{AgentId, Life, PersonId, SteadyTime, ThreadId, Timestamp};
use rusqlite::{OptionalExtension, params};
use serde_json::json;
use thiserror::Error;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::notices::About;
use crate::rows::{name, who_number};
use crate::view::View;
use rows::{importance_number, letter, message};

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Draft {
    pub from: Who,
    pub to: Audience,
    pub thread: ThreadId,
    pub importance: Importance,
    pub body: Body,
    /// How long recipients have to say that they took note, if they must.
    pub ack_in: Option<Duration>,
}

/// How often one sender may write to everybody.
#[derive(Debug, Clone, Copy)]
pub struct BroadcastLimit {
    pub most: u32,
    pub per: Duration,
}

/// What was sent to whom. The sender itself gets no copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub id: MessageId,
    pub to: Vec<Who>,
}

/// Which page of an inbox or a thread to read, newest messages first.
#[derive(Debug, Clone, Copy)]
pub struct PageOf {
    /// Only messages older than this one.
    pub before: Option<MessageId>,
    pub limit: u32,
    pub unread_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page starts, if there is one.
    pub next: Option<MessageId>,
}

/// Why a message was not sent or not found.
#[derive(Debug, Error)]
pub enum MessageError {
    #[error("nobody would get the message: the sender is the only recipient")]
    NoRecipient,
    #[error("`{from}` has written to everybody {most} times within {} s: wait until {again_at}, or name recipients", .per.as_secs())]
    TooManyBroadcasts { from: Who, most: u32, per: Duration, again_at: Timestamp },
    #[error("`{who}` has no message {id}")]
    NotFound { who: Who, id: MessageId },
}

impl Store {
    pub fn send(&mut self, draft: &Draft, limit: BroadcastLimit) -> Result<Sent> {
        self.write(|change| change.send(draft, limit))
    }

    /// A page of what somebody was sent. Reading changes nothing: see [`Store::mark_read`].
    pub fn inbox(&mut self, who: &Who, page: PageOf) -> Result<Page<Letter>> {
        self.read(|view| view.inbox(who, page))
    }

    /// A page of a thread, whoever it is addressed to.
    pub fn thread(&mut self, thread: &ThreadId, page: PageOf) -> Result<Page<Message>> {
        self.read(|view| view.thread(thread, page))
    }

    /// Everybody who takes part in conversations from a keyboard.
    pub fn people(&mut self) -> Result<BTreeSet<PersonId>> {
        self.read(|view| view.people())
    }

    pub fn unread(&mut self, who: &Who) -> Result<u64> {
        self.read(|view| {
            let sql = "SELECT count(*) FROM letter WHERE scope = ?1 AND to_kind = ?2 AND to_name = ?3 AND read_at IS NULL";
            let mut statement = view.sql.prepare_cached(sql)?;
            let count: i64 =
                statement.query_row(params![view.scope, who_number(who), who.name()], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
    }

    /// Notes that somebody has read these. What it has read already, or was never sent, stays as it is.
    pub fn mark_read(&mut self, who: &Who, ids: &[MessageId]) -> Result<()> {
        self.write(|change| ids.iter().try_for_each(|id| change.mark_read(who, *id)))
    }

    /// Says that a message was taken note of. Saying it twice is saying it once.
    pub fn ack(&mut self, who: &Who, id: MessageId) -> Result<Letter> {
        self.write(|change| change.ack(who, id))
    }

    /// Copies that should have been acknowledged by now, longest overdue first.
    pub fn overdue_acks(&mut self) -> Result<Vec<Letter>> {
        self.read(|view| {
            let condition =
                "l.scope = ?1 AND l.ack_due IS NOT NULL AND l.acked_at IS NULL AND coalesce(l.ack_due_steady, l.ack_due) <= ?2
                 ORDER BY coalesce(l.ack_due_steady, l.ack_due), l.message";
            view.letters_where(condition, params![view.scope, view.steady.as_millis()])
        })
    }
}

impl View<'_> {
    fn inbox(&self, who: &Who, page: PageOf) -> std::result::Result<Page<Letter>, Fault> {
        let condition = if page.unread_only {
            "l.scope = ?1 AND l.to_kind = ?2 AND l.to_name = ?3 AND l.message < ?4 AND l.read_at IS NULL
             ORDER BY l.message DESC LIMIT ?5"
        } else {
            "l.scope = ?1 AND l.to_kind = ?2 AND l.to_name = ?3 AND l.message < ?4 ORDER BY l.message DESC LIMIT ?5"
        };
        let (before, limit) = bounds(page);
        let letters =
            self.letters_where(condition, params![self.scope, who_number(who), who.name(), before, limit])?;
        Ok(cut(letters, page.limit, |letter| letter.message.id))
    }

    fn thread(&self, thread: &ThreadId, page: PageOf) -> std::result::Result<Page<Message>, Fault> {
        let sql = "SELECT seq, at, thread, from_kind, from_name, importance, body, broadcast FROM message
             WHERE scope = ?1 AND thread = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4";
        let (before, limit) = bounds(page);
        let mut statement = self.sql.prepare_cached(sql)?;
        let rows = statement.query_map(params![self.scope, thread.as_str(), before, limit], message)?;
        Ok(cut(rows.collect::<std::result::Result<_, _>>()?, page.limit, |message| message.id))
    }

    pub(crate) fn letter_of(&self, who: &Who, id: MessageId) -> std::result::Result<Option<Letter>, Fault> {
        let condition = "l.scope = ?1 AND l.to_kind = ?2 AND l.to_name = ?3 AND l.message = ?4";
        Ok(self.letters_where(condition, params![self.scope, who_number(who), who.name(), id.0])?.pop())
    }

    fn letters_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> std::result::Result<Vec<Letter>, Fault> {
        let sql = format!(
            "SELECT m.seq, m.at, m.thread, m.from_kind, m.from_name, m.importance, m.body, m.broadcast, l.to_kind,
                 l.to_name, l.read_at, l.ack_due, l.acked_at, l.ack_due_steady
             FROM letter l LEFT JOIN message m ON m.seq = l.message WHERE {condition}"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        let now = self.clocks();
        Ok(statement.query_map(params, |row| letter(row, now))?.collect::<std::result::Result<_, _>>()?)
    }

    /// Everybody who would get a message to everybody.
    fn everybody(&self) -> std::result::Result<BTreeSet<Who>, Fault> {
        let agents = self.agents()?.into_iter().filter(|agent| agent.life != Life::Dead);
        let mut all: BTreeSet<Who> = agents.map(|agent| Who::Agent(agent.party.agent)).collect();
        all.extend(self.people()?.into_iter().map(Who::Person));
        Ok(all)
    }

    fn people(&self) -> std::result::Result<BTreeSet<PersonId>, Fault> {
        let sql = "SELECT to_name FROM letter WHERE scope = ?1 AND to_kind = 1
             UNION SELECT from_name FROM message WHERE scope = ?1 AND from_kind = 1";
        let mut statement = self.sql.prepare_cached(sql)?;
        let people = statement.query_map([self.scope], |row| name(row, 0, PersonId::new))?;
        Ok(people.collect::<std::result::Result<_, _>>()?)
    }
}

/// One more than the page has shows whether there is another one.
fn bounds(page: PageOf) -> (i64, i64) {
    (page.before.map_or(i64::MAX, |id| id.0), i64::from(page.limit) + 1)
}

fn cut<T>(mut items: Vec<T>, limit: u32, id: impl Fn(&T) -> MessageId) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_last = items.len() <= limit;
    items.truncate(limit);
    let next = if is_last { None } else { items.last().map(id) };
    Page { items, next }
}

impl Change<'_> {
    fn send(&mut self, draft: &Draft, limit: BroadcastLimit) -> std::result::Result<Sent, Fault> {
        let (mut to, is_broadcast) = match &draft.to {
            Audience::These(these) => (these.iter().cloned().collect(), false),
            Audience::Everybody => (self.everybody()?, true),
        };
        to.remove(&draft.from);
        if to.is_empty() && !is_broadcast {
            return Err(MessageError::NoRecipient.into());
        }
        for agent in to.iter().filter_map(Who::agent) {
            self.must_know(agent)?;
        }
        if is_broadcast {
            self.refuse_flood(&draft.from, limit)?;
        }
        let id = self.insert_message(draft, is_broadcast)?;
        let detail = json!({
            "message": id, "thread": draft.thread, "importance": draft.importance, "recipients": to.len(),
            "broadcast": is_broadcast,
        });
        let event = self.record_by(EventKind::MessageSent, &draft.from, None, &detail)?;
        let ack_due = draft.ack_in.map(|span| self.now.plus(span));
        for who in &to {
            self.insert_letter(who, id, ack_due)?;
            if let Some(agent) = who.agent() {
                self.notify(agent, About::Message(id), event)?;
            }
        }
        Ok(Sent { id, to: to.into_iter().collect() })
    }

    /// Puts a message into the inboxes of those it names, without telling anybody about it.
    pub(crate) fn deposit(&mut self, draft: &Draft) -> std::result::Result<(), Fault> {
        let id = self.insert_message(draft, false)?;
        if let Audience::These(these) = &draft.to {
            these.iter().try_for_each(|who| self.insert_letter(who, id, None))?;
        }
        Ok(())
    }

    fn insert_letter(
        &mut self,
        who: &Who,
        id: MessageId,
        ack_due: Option<Timestamp>,
    ) -> std::result::Result<(), Fault> {
        let sql = "INSERT INTO letter (scope, to_kind, to_name, message, ack_due, ack_due_steady) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let steady = ack_due.map(|due| self.clocks().steady_end(due).as_millis());
        let ack_due = ack_due.map(Timestamp::as_millis);
        let row = params![self.scope, who_number(who), who.name(), id.0, ack_due, steady];
        self.sql.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn refuse_flood(&self, from: &Who, limit: BroadcastLimit) -> std::result::Result<(), Fault> {
        // The events know when on the steady line.
        let sql = "SELECT coalesce(steady, at) FROM event
             WHERE scope = ?1 AND agent IS ?2 AND lock IS NULL AND kind = ?3 AND coalesce(steady, at) > ?4
               AND detail ->> 'broadcast' AND detail ->> 'person' IS ?5
             ORDER BY seq DESC LIMIT 1 OFFSET ?6";
        let allowed_before = limit.most.checked_sub(1);
        let Some(skip) = allowed_before else { return self.flood(from, limit, self.steady) };
        let (agent, person) = match from {
            Who::Agent(agent) => (Some(agent.as_str()), None),
            Who::Person(person) => (None, Some(person.as_str())),
        };
        let since = self.steady.minus(limit.per).as_millis();
        let mut statement = self.sql.prepare_cached(sql)?;
        let row = params![self.scope, agent, EventKind::MessageSent.as_str(), since, person, skip];
        match statement.query_row(row, |row| row.get(0).map(SteadyTime::from_millis)).optional()? {
            Some(first) => self.flood(from, limit, first),
            None => Ok(()),
        }
    }

    fn flood(&self, from: &Who, limit: BroadcastLimit, first: SteadyTime) -> std::result::Result<(), Fault> {
        let BroadcastLimit { most, per } = limit;
        let again_at = self.now.plus(first.plus(per).since(self.steady));
        Err(MessageError::TooManyBroadcasts { from: from.clone(), most, per, again_at }.into())
    }

    fn insert_message(&mut self, draft: &Draft, is_broadcast: bool) -> std::result::Result<MessageId, Fault> {
        let sql = "INSERT INTO message (scope, at, thread, from_kind, from_name, importance, body, broadcast)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.scope,
            self.now.as_millis(),
            draft.thread.as_str(),
            who_number(&draft.from),
            draft.from.name(),
            importance_number(draft.importance),
            draft.body.as_str(),
            is_broadcast,
        ])?;
        Ok(MessageId(self.sql.last_insert_rowid()))
    }

    pub(crate) fn mark_read(&mut self, who: &Who, id: MessageId) -> std::result::Result<(), Fault> {
        let sql = "UPDATE letter SET read_at = ?5
             WHERE scope = ?1 AND to_kind = ?2 AND to_name = ?3 AND message = ?4 AND read_at IS NULL";
        let row = params![self.scope, who_number(who), who.name(), id.0, self.now.as_millis()];
        self.sql.prepare_cached(sql)?.execute(row)?;
        if let Some(agent) = who.agent() {
            self.unsay(agent, About::Message(id))?;
        }
        Ok(())
    }

    fn ack(&mut self, who: &Who, id: MessageId) -> std::result::Result<Letter, Fault> {
        let not_found = || MessageError::NotFound { who: who.clone(), id };
        let letter = self.letter_of(who, id)?.ok_or_else(not_found)?;
        if matches!(letter.ack, mala_core::message::Ack::Done(_)) {
            return Ok(letter);
        }
        self.mark_read(who, id)?;
        let sql = "UPDATE letter SET acked_at = ?5
             WHERE scope = ?1 AND to_kind = ?2 AND to_name = ?3 AND message = ?4";
        let row = params![self.scope, who_number(who), who.name(), id.0, self.now.as_millis()];
        self.sql.prepare_cached(sql)?.execute(row)?;
        self.record_by(EventKind::MessageAcked, who, None, &json!({ "message": id }))?;
        Ok(self.letter_of(who, id)?.ok_or_else(not_found)?)
    }

    /// An agent's unread message, read from now on.
    pub(crate) fn deliver(
        &mut self,
        agent: &AgentId,
        id: MessageId,
    ) -> std::result::Result<Option<Letter>, Fault> {
        let who = Who::Agent(agent.clone());
        self.mark_read(&who, id)?;
        self.letter_of(&who, id)
    }
}
