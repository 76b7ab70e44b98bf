//! Who must queue although nothing is held against it, and what a waiter really waits for.

use mala_core::{AgentId, Conflict, Want};

use crate::error::Fault;
use crate::request::Request;
use crate::view::{Standing, View};
use crate::waiters::Waiter;

impl View<'_> {
    /// Whether a request that could be granted must queue all the same: somebody who came before waits for part of what it
    /// would newly take. Otherwise those who share could keep a writer waiting forever, one after the other. Not so
    /// if whoever came before waits for this very agent: queueing behind it would close a circle.
    pub(crate) fn must_queue(&self, request: &Request) -> Result<bool, Fault> {
        let queue = self.waiters()?;
        if queue.is_empty() {
            return Ok(false);
        }
        let agent = &request.party.agent;
        let mut new = Vec::new();
        for want in request.sorted_wants() {
            if !self.holds(agent, &want)? {
                new.push(want);
            }
        }
        let mut must_queue = false;
        for ahead in queue.iter().filter(|waiter| waiter.excludes_any(agent, &new) && self.is_waiting(waiter))
        {
            if self.chain(&queue, ahead.agent(), agent)?.is_some() {
                return Ok(false);
            }
            must_queue = true;
        }
        Ok(must_queue)
    }

    /// Whether the agent has all of this already. A name is held by a process, never by an agent as such.
    pub(crate) fn holds(&self, agent: &AgentId, want: &Want) -> Result<bool, Fault> {
        let own = self.own_lock(agent, want)?.filter(|lock| !lock.is_named() && lock.mode >= want.mode);
        Ok(own.is_some_and(|lock| self.standing(&lock) == Standing::Held))
    }

    /// The locks that keep a waiter waiting: those in its own way or, if there are none, in the way of those ahead.
    pub(crate) fn in_the_way(&self, waiter: &Waiter) -> Result<Vec<Conflict>, Fault> {
        let mut conflicts = self.conflicts(waiter.agent(), &waiter.request.wants)?;
        if !conflicts.is_empty() {
            return Ok(conflicts);
        }
        let mut held_up = vec![waiter.clone()];
        for ahead in self.waiters()?.into_iter().rev().filter(|ahead| ahead.seq < waiter.seq) {
            if held_up.iter().any(|behind| ahead.holds_up(behind)) && self.is_waiting(&ahead) {
                conflicts.extend(self.conflicts(ahead.agent(), &ahead.request.wants)?);
                held_up.push(ahead);
            }
        }
        Ok(conflicts)
    }
}
