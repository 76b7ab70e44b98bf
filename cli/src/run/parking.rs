//! Agents that wait for files which they asked for, with no process of their own.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::time::Duration;

use mala_core::{Ask, Scope, Want};
use mala_engine::ports::{Held, PortError, Waited};
use mala_session::{SessionError, acquire_or_wait};
use mala_store::{AskFilter, Cause, Outcome, Party, Request, Store, Wait, show_circle};

/// What the agent has asked for and nobody has given up yet.
pub(super) fn awaited(store: &mut Store, party: &Party) -> Result<Vec<Held>, PortError> {
    Ok(pending(store, party)?
        .into_iter()
        .map(|ask| Held { file: ask.want.target.to_string(), by: ask.holder, issue: None })
        .collect())
}

fn pending(store: &mut Store, party: &Party) -> Result<Vec<Ask>, PortError> {
    let mine = AskFilter { asker: Some(party.agent.clone()), ..AskFilter::default() };
    Ok(store.asks(&mine)?)
}

/// How a wait is made.
pub(super) struct Parking<'a> {
    pub(super) scope: &'a Scope,
    pub(super) party: Party,
    pub(super) ttl: Duration,
    pub(super) longest: Duration,
}

impl Parking<'_> {
    /// Stands in the queue for everything the agent has asked for, until it has it or nobody listens any more.
    pub(super) fn wait(self, hangup: &PipeReader) -> Result<Waited, PortError> {
        let mut store = Store::open(self.scope)?;
        let wants: Vec<Want> = pending(&mut store, &self.party)?.into_iter().map(|ask| ask.want).collect();
        if wants.is_empty() {
            return Ok(Waited::Granted);
        }
        let request =
            Request { party: self.party, wants, ttl: self.ttl, reason: Some("asked for".to_owned()) };
        let wait = Wait { longest: self.longest, on_behalf_of: Some(hangup.as_fd()), remind_every: None };
        Ok(match acquire_or_wait(self.scope, &mut store, &request, wait, |_| ()) {
            Ok(Outcome::Granted(_)) => Waited::Granted,
            Err(error @ SessionError::StillOpen { .. }) => Waited::InVain(error.to_string()),
            Err(error) => return Err(error.into()),
            Ok(Outcome::Refused(refusal)) => Waited::InVain(match refusal.cause {
                Cause::Deadlock(circle) => format!("waiting would never end: {}", show_circle(&circle)),
                Cause::Held | Cause::TimedOut | Cause::GivenUp => "nobody gave it up".to_owned(),
            }),
        })
    }
}
