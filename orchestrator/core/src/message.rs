//! Messages between agents and people.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use crate::{AgentId, PersonId, ThreadId, Timestamp};

/// The longest body, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// Somebody who writes, reads or does something: an agent or a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    Agent(AgentId),
    Person(PersonId),
}

impl Who {
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => agent.as_str(),
            Self::Person(person) => person.as_str(),
        }
    }

    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Person(_) => None,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number of a message. Later messages have higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MessageId(pub i64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Importance {
    Low,
    Normal,
    High,
    Urgent,
}

impl Importance {
    /// From the least important on.
    pub const ALL: &[Self] = &[Self::Low, Self::Normal, Self::High, Self::Urgent];
}

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    These(Vec<Who>),
    /// Every agent that runs, and every person who takes part.
    Everybody,
}

/// What a message says: never empty, never longer than [`MAX_BODY`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Body(String);

/// Why a text is no body of a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyError {
    #[error("the message is empty: say something")]
    Empty,
    #[error("the message has {len} bytes: at most {MAX_BODY} are allowed, put the rest into a file")]
    TooLong { len: usize },
}

impl Body {
    pub fn new(text: impl Into<String>) -> Result<Self, BodyError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(BodyError::Empty);
        }
        if text.len() > MAX_BODY {
            return Err(BodyError::TooLong { len: text.len() });
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub id: MessageId,
    pub at: Timestamp,
    /// What it belongs to: an issue's id, or anything.
    pub thread: ThreadId,
    pub from: Who,
    pub importance: Importance,
    pub body: Body,
    pub is_broadcast: bool,
}

/// Whether the sender wants to know that a message was taken note of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    NotWanted,
    /// Until then.
    Due(Timestamp),
    Done(Timestamp),
}

/// One recipient's copy of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Letter {
    pub message: Message,
    pub to: Who,
    pub read_at: Option<Timestamp>,
    pub ack: Ack,
}

impl Letter {
    /// The one definition of "overdue": at the very instant it is due, it already is.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.ack, Ack::Due(at) if at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_at_most_64_kib_counted_in_bytes() {
        let full = "é".repeat(MAX_BODY / 2);
        assert_eq!(Body::new(full.clone()).unwrap().as_str(), full);
        assert_eq!(Body::new(full + "x"), Err(BodyError::TooLong { len: MAX_BODY + 1 }));
        assert_eq!(Body::new(" \n"), Err(BodyError::Empty));
    }
}
