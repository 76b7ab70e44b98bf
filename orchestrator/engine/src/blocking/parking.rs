//! Agents that wait for files which they asked for, with no process of their own.

use std::io::PipeReader;
use std::os::fd::AsFd;

use mala_core::{AgentId, Ask, Attempt, Want};
use mala_session::{SessionError, acquire_or_wait};
use mala_store::{AskFilter, Cause, Outcome, Request, Store, Wait, show_circle};

use super::BlockingOps;
use crate::error::Result;
use crate::event::Held;

/// How waiting for others ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Everything that was asked for is the agent's.
    Granted,
    /// For this reason it is not.
    InVain(String),
}

impl BlockingOps {
    /// What the attempt's agent has asked for and nobody has given up yet. An agent that ends its turn meanwhile waits for it.
    pub(crate) fn awaited(&self, attempt: &Attempt) -> Result<Vec<Held>> {
        let asks = pending(&mut *self.store()?, &attempt.agent)?;
        let held = |ask: Ask| Held { file: ask.want.target.to_string(), by: ask.holder, issue: None };
        Ok(asks.into_iter().map(held).collect())
    }

    /// Stands in the queue for everything the agent has asked for, until it has it or the other end of `hangup` is closed.
    pub(crate) fn wait_for_asked(&self, attempt: &Attempt, hangup: &PipeReader) -> Result<WaitOutcome> {
        let (scope, lock) = (self.repo.scope(), &self.options.lock);
        // A connection of its own: the others go on meanwhile.
        let mut store = Store::open(scope)?;
        let wants: Vec<Want> = pending(&mut store, &attempt.agent)?.into_iter().map(|ask| ask.want).collect();
        if wants.is_empty() {
            return Ok(WaitOutcome::Granted);
        }
        let reason = Some("asked for".to_owned());
        let request = Request { party: self.party(attempt), wants, ttl: lock.ttl, reason };
        let wait = Wait { longest: lock.max_wait, on_behalf_of: Some(hangup.as_fd()), remind_every: None };
        Ok(match acquire_or_wait(scope, &mut store, &request, wait, |_| ()) {
            Ok(Outcome::Granted(_)) => WaitOutcome::Granted,
            Err(error @ SessionError::StillOpen { .. }) => WaitOutcome::InVain(error.to_string()),
            Err(error) => return Err(error.into()),
            Ok(Outcome::Refused(refusal)) => WaitOutcome::InVain(match refusal.cause {
                Cause::Deadlock(circle) => format!("waiting would never end: {}", show_circle(&circle)),
                Cause::Held | Cause::TimedOut | Cause::GivenUp => "nobody gave it up".to_owned(),
            }),
        })
    }

    /// Every agent that waits, directly or behind others, for something that this one holds.
    pub(crate) fn held_up_by(&self, agent: &AgentId) -> Result<Vec<AgentId>> {
        Ok(self.store()?.held_up_by(agent)?)
    }
}

fn pending(store: &mut Store, agent: &AgentId) -> Result<Vec<Ask>> {
    let mine = AskFilter { asker: Some(agent.clone()), ..AskFilter::default() };
    Ok(store.asks(&mine)?)
}
