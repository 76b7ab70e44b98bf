//! Requests in few words.
//!
//! A want is written as text: `src/a.rs` is that file, `pattern:src/**` a pattern, `name:test` a named lock. With
//! `shared:` in front it is shared, otherwise exclusive.

use std::time::Duration;

use mala_core::{AgentId, Key, LockName, Mode, Pattern, Target, Timestamp, Want};
use mala_store::{Extent, Party, Request, process};

/// The lease of requests that do not care.
pub const TTL: Duration = Duration::from_secs(600);

/// A sweep that keeps all events and does not judge other hosts.
pub const ONLY_THE_DEAD: Extent =
    Extent { keep_events_since: Timestamp::from_millis(0), foreign_locks: false };

pub fn agent(name: &str) -> AgentId {
    AgentId::new(name).expect("tests use proper names")
}

pub fn key(path: impl AsRef<[u8]>) -> Key {
    Key::from_stored(path.as_ref().to_vec())
}

pub fn want(text: &str) -> Want {
    let (mode, text) = match text.strip_prefix("shared:") {
        Some(rest) => (Mode::Shared, rest),
        None => (Mode::Exclusive, text),
    };
    let target = match text.split_once(':') {
        Some(("pattern", text)) => {
            Target::Pattern(Pattern::parse(text.as_bytes()).expect("a proper pattern"))
        }
        Some(("name", text)) => Target::Name(LockName::new(text).expect("a proper name")),
        _ => Target::File(key(text)),
    };
    Want { target, aliases: Vec::new(), mode }
}

/// The file `path`, which is also called `aliases`.
pub fn linked(path: &str, aliases: &[&str]) -> Want {
    Want { aliases: aliases.iter().map(key).collect(), ..want(path) }
}

pub fn wants(texts: &[&str]) -> Vec<Want> {
    texts.iter().map(|text| want(text)).collect()
}

/// An agent that lives with this process, without a supervisor.
pub fn party(name: &str) -> Party {
    Party { agent: agent(name), owner: process::current(), supervised: false, issue: None, run: None }
}

pub fn ask(name: &str, texts: &[&str]) -> Request {
    ask_as(&party(name), texts)
}

pub fn ask_as(party: &Party, texts: &[&str]) -> Request {
    Request { party: party.clone(), wants: wants(texts), ttl: TTL, reason: None }
}
