//! Waiting for locks, asleep until there is something to do.

use std::time::{Duration, Instant};

use mala_core::{AgentId, Conflict, Lock, Target};
use rusqlite::params;
use serde_json::json;

use crate::Store;
use crate::change::{Change, millis};
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::request::{Cause, Outcome, Refusal, Request, Wait};
use crate::view::Standing;
use crate::waiters::{Obstacle, Waiter};
use crate::wake::{Asker, Bell};

/// Where a new request ends up.
#[derive(Debug)]
enum Entry {
    Decided(Outcome),
    Queued(Box<Ticket>, Vec<Conflict>),
}

/// Where a waiter stands after it has looked again.
#[derive(Debug)]
enum Step {
    Decided(Outcome),
    Wait(Obstacle),
}

/// A place in the queue.
#[derive(Debug)]
struct Ticket {
    waiter: Waiter,
    bell: Bell,
    obstacle: Obstacle,
}

impl Store {
    /// Like [`Store::reserve`], but queues if something is held. `on_wait` is told what is in the way: once, or as often as
    /// the wait asks for. A wait that would close a circle is refused at once.
    pub fn reserve_or_wait<'fd>(
        &mut self,
        request: &Request,
        wait: impl Into<Wait<'fd>>,
        mut on_wait: impl FnMut(&[Conflict]),
    ) -> Result<Outcome> {
        let wait = wait.into();
        match self.try_write(|change| change.reserve_or_enqueue(request, wait.longest)) {
            Ok(Entry::Decided(outcome)) => Ok(outcome),
            Ok(Entry::Queued(ticket, conflicts)) => {
                on_wait(&conflicts);
                let waiter = ticket.waiter.clone();
                let outcome = self.wait_in_queue(*ticket, &wait, on_wait);
                if outcome.is_err() {
                    // Leave no place in the queue that would be served and never used.
                    let _ = self.write(|change| change.leave_queue(&waiter));
                }
                outcome
            }
            Err(fault) => self.refuse_circles(request, Err(fault)),
        }
    }

    /// Agents that wait in the queue, for files or for a turn, and have waited for so long or longer.
    pub fn waiting_for(&mut self, span: Duration) -> Result<Vec<AgentId>> {
        self.read(|view| {
            let mut waiters = view.waiters()?;
            waiters.retain(|waiter| view.waited(waiter) >= span && view.is_waiting(waiter));
            Ok(waiters.into_iter().map(|waiter| waiter.agent().clone()).collect())
        })
    }

    /// Everybody who waits, directly or behind others, for something that `agent` holds.
    pub fn held_up_by(&mut self, agent: &AgentId) -> Result<Vec<AgentId>> {
        self.read(|view| view.held_up_by(agent))
    }

    fn wait_in_queue(
        &mut self,
        mut ticket: Ticket,
        wait: &Wait<'_>,
        mut on_wait: impl FnMut(&[Conflict]),
    ) -> Result<Outcome> {
        // A moment too far away to be told never comes.
        let deadline = Instant::now().checked_add(wait.longest);
        let mut said = Instant::now();
        loop {
            let mut longest =
                deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if let Some(rest) = ticket.obstacle.rest {
                longest = longest.min(rest);
            }
            if let Some(every) = wait.remind_every {
                longest = longest.min(every.saturating_sub(said.elapsed()));
            }
            let slept = ticket.bell.sleep(ticket.obstacle.process.as_ref(), wait.on_behalf_of, longest);
            let asker = slept.map_err(|error| StoreError::from_io(self.path(), error))?;
            let end = match asker {
                Asker::Gone => Some(Cause::GivenUp),
                Asker::Waits if deadline.is_some_and(|end| Instant::now() >= end) => Some(Cause::TimedOut),
                Asker::Waits => None,
            };
            match self.write(|change| change.revisit(&ticket.waiter, end.as_ref()))? {
                Step::Decided(outcome) => return Ok(outcome),
                Step::Wait(obstacle) => {
                    let is_other =
                        (&obstacle.id, obstacle.fence) != (&ticket.obstacle.id, ticket.obstacle.fence);
                    ticket.obstacle = obstacle;
                    if wait.remind_every.is_some_and(|every| is_other || said.elapsed() >= every) {
                        said = Instant::now();
                        on_wait(&self.read(|view| view.in_the_way(&ticket.waiter))?);
                    }
                }
            }
        }
    }
}

impl Change<'_> {
    fn reserve_or_enqueue(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> std::result::Result<Entry, Fault> {
        self.enroll(&request.party)?;
        let conflicts = self.clear_the_way(request)?;
        let is_free = conflicts.is_empty();
        if is_free && !self.must_queue(request)? {
            return Ok(Entry::Decided(Outcome::Granted(self.take(request)?)));
        }
        if self.must_not_wait(request)? {
            if is_free {
                return Ok(Entry::Decided(Outcome::Granted(self.take(request)?)));
            }
            let refusal = Refusal { cause: Cause::Held, conflicts };
            self.record_refusal(EventKind::LockRefused, request, &refusal)?;
            return Ok(Entry::Decided(Outcome::Refused(refusal)));
        }
        let id = self.fresh_id()?;
        let bell =
            Bell::hang(self.wake_dir(), &id).map_err(|error| StoreError::from_io(self.store, error))?;
        let waiter = self.enqueue(&id, request, patience)?;
        let target = conflicts.first().map(|c| &c.want).or(request.wants.first()).map(|want| &want.target);
        let detail = json!({ "waiter": id, "patience_ms": millis(patience) });
        self.record(EventKind::WaitStarted, &request.party, target, &detail)?;
        self.refuse_circle(&request.party.agent)?;
        let obstacle = self.next_obstacle(&waiter)?;
        let conflicts = self.in_the_way(&waiter)?;
        Ok(Entry::Queued(Box::new(Ticket { waiter, bell, obstacle }), conflicts))
    }

    /// Whoever holds a named lock, such as the test mutex, never queues for files: others queue behind it.
    fn must_not_wait(&self, request: &Request) -> std::result::Result<bool, Fault> {
        if request.wants.iter().all(|want| matches!(want.target, Target::Name(_))) {
            return Ok(false);
        }
        let own = self.locks_of(&request.party.agent)?;
        Ok(own.iter().any(|lock| lock.is_named() && self.standing(lock) == Standing::Held))
    }

    /// A waiter looks again: was it served, has its way become clear, must it `end` here?
    fn revisit(&mut self, waiter: &Waiter, end: Option<&Cause>) -> std::result::Result<Step, Fault> {
        self.hand_over()?;
        while self.exists("SELECT 1 FROM waiter WHERE id = ?1 AND granted_at IS NOT NULL", [&waiter.id])? {
            if let Some(locks) = self.accept(waiter)? {
                self.remove_waiter(waiter)?;
                return Ok(Step::Decided(Outcome::Granted(locks)));
            }
            // It slept through the whole lease of what it was granted. It keeps its place in the queue.
            self.sql.execute("UPDATE waiter SET granted_at = NULL WHERE seq = ?1", [waiter.seq])?;
            self.hand_over()?;
        }
        let Some(cause) = end else { return Ok(Step::Wait(self.next_obstacle(waiter)?)) };
        let (party, wants) = (&waiter.request.party, &waiter.request.wants);
        let conflicts = self.in_the_way(waiter)?;
        let target = wants.first().map(|want| &want.target);
        let waited = self.waited(waiter).as_millis();
        let kind = if *cause == Cause::TimedOut { EventKind::WaitTimedOut } else { EventKind::WaitAbandoned };
        self.record(kind, party, target, &json!({ "waiter": waiter.id, "waited_ms": waited }))?;
        self.leave_queue(waiter)?;
        Ok(Step::Decided(Outcome::Refused(Refusal { cause: cause.clone(), conflicts })))
    }

    fn leave_queue(&mut self, waiter: &Waiter) -> std::result::Result<(), Fault> {
        self.remove_waiter(waiter)?;
        // Those behind may have been held up by this waiter alone.
        self.hand_over()
    }

    /// Moves granted locks from the waiting process to the owner they were asked for. None if they are not all held any
    /// more.
    fn accept(&mut self, waiter: &Waiter) -> std::result::Result<Option<Vec<Lock>>, Fault> {
        let party = &waiter.request.party;
        let mut locks = Vec::with_capacity(waiter.request.wants.len());
        for want in &waiter.request.wants {
            let own = self.own_lock(&party.agent, want)?;
            let is_ours =
                |lock: &Lock| !lock.is_named() || lock.owner == waiter.waiting || lock.owner == party.owner;
            let is_worth = |lock: &Lock| lock.mode >= want.mode && self.standing(lock) == Standing::Held;
            match own.filter(|lock| is_ours(lock) && is_worth(lock)) {
                Some(lock) => locks.push(lock),
                None => return Ok(None),
            }
        }
        // It may have said goodbye while it waited.
        self.enroll(party)?;
        let owner = self.process_row(&party.owner)?;
        for lock in locks.iter_mut().filter(|lock| lock.owner == waiter.waiting && lock.owner != party.owner)
        {
            let sql = "UPDATE lock SET owner = ?2 WHERE id = ?1";
            self.sql.prepare_cached(sql)?.execute(params![lock.id.0, owner])?;
            lock.owner = party.owner.clone();
            self.wake_watchers_of(&lock.id.0)?;
        }
        Ok(Some(locks))
    }

    fn next_obstacle(&mut self, waiter: &Waiter) -> std::result::Result<Obstacle, Fault> {
        // Nothing in the way means that the queue has just been changed: look again at once.
        let at_once =
            || Obstacle { id: String::new(), fence: None, process: None, rest: Some(Duration::ZERO) };
        let obstacle = self.obstacle(waiter)?.unwrap_or_else(at_once);
        self.watch(waiter, &obstacle)?;
        Ok(obstacle)
    }
}
