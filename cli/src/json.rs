//! The JSON that other programs read. Field names are a contract: see `docs/json.md`.

use std::fmt::Write as _;

use mala_core::message::{Ack, Importance, Letter};
use mala_core::{
    AgentId, Ask, AskId, AskState, Conflict, Fence, IssueId, Lock, LockId, Message, MessageId, Mode, Owner,
    RunId, Target, ThreadId, Timestamp, Urgency, Who,
};
use serde::Serialize;

/// The name of a target. A name that is not UTF-8 is shown with `\xNN` and given exactly in hex.
#[derive(Debug, Serialize)]
pub(crate) struct PathJson {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl From<&Target> for PathJson {
    fn from(target: &Target) -> Self {
        let bytes = target.as_bytes();
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
                hex
            })
        };
        Self { path: target.to_string(), path_hex: std::str::from_utf8(bytes).is_err().then(|| hex(bytes)) }
    }
}

fn kind(target: &Target) -> &'static str {
    match target {
        Target::File(_) => "file",
        Target::Pattern(_) => "pattern",
        Target::Name(_) => "name",
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct LockJson<'a> {
    id: &'a LockId,
    #[serde(flatten)]
    path: PathJson,
    kind: &'static str,
    /// Stable short id of a file's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    mode: Mode,
    agent: &'a AgentId,
    issue: Option<&'a IssueId>,
    run: Option<&'a RunId>,
    owner: &'a Owner,
    fence: Fence,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    reason: Option<&'a str>,
}

impl<'a> From<&'a Lock> for LockJson<'a> {
    fn from(lock: &'a Lock) -> Self {
        Self {
            id: &lock.id,
            path: (&lock.target).into(),
            kind: kind(&lock.target),
            key: match &lock.target {
                Target::File(key) => Some(key.short_id()),
                Target::Pattern(_) | Target::Name(_) => None,
            },
            mode: lock.mode,
            agent: &lock.agent,
            issue: lock.issue.as_ref(),
            run: lock.run.as_ref(),
            owner: &lock.owner,
            fence: lock.fence,
            acquired_at: lock.acquired_at,
            expires_at: lock.lease.expires_at,
            reason: lock.reason.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ConflictJson<'a> {
    #[serde(flatten)]
    path: PathJson,
    /// What was asked for.
    requested: String,
    /// What is held: the same file, or a pattern that covers it.
    held: String,
    /// How it is held.
    mode: Mode,
    agent: &'a AgentId,
    issue: Option<&'a IssueId>,
    since: Timestamp,
    fence: Fence,
}

impl<'a> From<&'a Conflict> for ConflictJson<'a> {
    fn from(conflict: &'a Conflict) -> Self {
        let Conflict { want, holder } = conflict;
        Self {
            path: conflict.contended().into(),
            requested: want.target.to_string(),
            held: holder.target.to_string(),
            mode: holder.mode,
            agent: &holder.agent,
            issue: holder.issue.as_ref(),
            since: holder.acquired_at,
            fence: holder.fence,
        }
    }
}

pub(crate) fn locks(locks: &[Lock]) -> Vec<LockJson<'_>> {
    locks.iter().map(LockJson::from).collect()
}

pub(crate) fn conflicts(conflicts: &[Conflict]) -> Vec<ConflictJson<'_>> {
    conflicts.iter().map(ConflictJson::from).collect()
}

#[derive(Debug, Serialize)]
pub(crate) struct AskJson<'a> {
    id: &'a AskId,
    #[serde(flatten)]
    path: PathJson,
    mode: Mode,
    asker: &'a AgentId,
    holder: &'a AgentId,
    /// The lock in the way, as it was when somebody asked for it.
    lock: &'a LockId,
    fence: Fence,
    why: &'a str,
    urgency: Urgency,
    state: AskState,
    overdue: bool,
    created_at: Timestamp,
    due_at: Timestamp,
    /// When the holder expects to be done, if it has said so.
    eta: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    ended_by: Option<&'a AgentId>,
}

impl<'a> AskJson<'a> {
    pub(crate) fn new(ask: &'a Ask, now: Timestamp) -> Self {
        Self {
            id: &ask.id,
            path: (&ask.want.target).into(),
            mode: ask.want.mode,
            asker: &ask.asker,
            holder: &ask.holder,
            lock: &ask.lock,
            fence: ask.fence,
            why: &ask.why,
            urgency: ask.urgency,
            state: ask.state,
            overdue: ask.is_overdue(now),
            created_at: ask.created_at,
            due_at: ask.due_at,
            eta: ask.eta,
            answered_at: ask.answered_at,
            ended_by: ask.ended_by.as_ref(),
        }
    }
}

pub(crate) fn asks(asks: &[Ask], now: Timestamp) -> Vec<AskJson<'_>> {
    asks.iter().map(|ask| AskJson::new(ask, now)).collect()
}

/// An agent or a person.
#[derive(Debug, Serialize)]
pub(crate) struct WhoJson<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> From<&'a Who> for WhoJson<'a> {
    fn from(who: &'a Who) -> Self {
        let kind = match who {
            Who::Agent(_) => "agent",
            Who::Person(_) => "person",
        };
        Self { kind, name: who.name() }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct MessageJson<'a> {
    id: MessageId,
    at: Timestamp,
    thread: &'a ThreadId,
    from: WhoJson<'a>,
    importance: Importance,
    broadcast: bool,
    body: &'a str,
}

impl<'a> From<&'a Message> for MessageJson<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            id: message.id,
            at: message.at,
            thread: &message.thread,
            from: (&message.from).into(),
            importance: message.importance,
            broadcast: message.is_broadcast,
            body: message.body.as_str(),
        }
    }
}

/// One recipient's copy of a message.
#[derive(Debug, Serialize)]
pub(crate) struct LetterJson<'a> {
    #[serde(flatten)]
    message: MessageJson<'a>,
    to: WhoJson<'a>,
    read_at: Option<Timestamp>,
    /// Until when the sender wants to know that it was taken note of; null if it does not.
    ack_due: Option<Timestamp>,
    acked_at: Option<Timestamp>,
    overdue: bool,
}

impl<'a> LetterJson<'a> {
    pub(crate) fn new(letter: &'a Letter, now: Timestamp) -> Self {
        let (ack_due, acked_at) = match letter.ack {
            Ack::NotWanted => (None, None),
            Ack::Due(at) => (Some(at), None),
            Ack::Done(at) => (None, Some(at)),
        };
        Self {
            message: (&letter.message).into(),
            to: (&letter.to).into(),
            read_at: letter.read_at,
            ack_due,
            acked_at,
            overdue: letter.is_overdue(now),
        }
    }
}

pub(crate) fn letters(letters: &[Letter], now: Timestamp) -> Vec<LetterJson<'_>> {
    letters.iter().map(|letter| LetterJson::new(letter, now)).collect()
}
