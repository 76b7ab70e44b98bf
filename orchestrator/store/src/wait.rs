//! Waiting for locks, asleep until there is something to do.

use std::time::{Duration, Instant};

use mala_core::{Conflict, Lock, Target};
use rusqlite::params;
use serde_json::json;

use crate::Store;
use crate::change::{Change, millis};
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::queue::{Obstacle, Waiter};
use crate::request::{Cause, Outcome, Refusal, Request};
use crate::view::Standing;
use crate::wake::Bell;

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
    /// Like [`Store::reserve`], but queues for up to `patience` if something is held. `on_wait` is told once what is in
    /// the way. A wait that would close a circle is refused at once.
    pub fn reserve_or_wait(
        &mut self,
        request: &Request,
        patience: Duration,
        on_wait: impl FnOnce(&[Conflict]),
    ) -> Result<Outcome> {
        // A moment too far away to be told never comes.
        let deadline = Instant::now().checked_add(patience);
        match self.try_write(|change| change.reserve_or_enqueue(request, patience)) {
            Ok(Entry::Decided(outcome)) => Ok(outcome),
            Ok(Entry::Queued(ticket, conflicts)) => {
                on_wait(&conflicts);
                let waiter = ticket.waiter.clone();
                let outcome = self.wait_in_queue(*ticket, deadline);
                if outcome.is_err() {
                    // Leave no place in the queue that would be served and never used.
                    let _ = self.write(|change| change.leave_queue(&waiter));
                }
                outcome
            }
            Err(fault) => self.refuse_circles(request, Err(fault)),
        }
    }

    fn wait_in_queue(&mut self, mut ticket: Ticket, deadline: Option<Instant>) -> Result<Outcome> {
        loop {
            let mut longest =
                deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if let Some(until) = ticket.obstacle.until {
                longest = longest.min(until.since(self.now()));
            }
            let slept = ticket.bell.sleep(ticket.obstacle.process.as_ref(), longest);
            slept.map_err(|error| StoreError::from_io(self.path(), error))?;
            let is_last = deadline.is_some_and(|end| Instant::now() >= end);
            match self.write(|change| change.revisit(&ticket.waiter, is_last))? {
                Step::Decided(outcome) => return Ok(outcome),
                Step::Wait(obstacle) => ticket.obstacle = obstacle,
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
        let agent = &request.party.agent;
        let refusal = match self.decide(request)? {
            Outcome::Refused(refusal) => refusal,
            granted @ Outcome::Granted(_) => return Ok(Entry::Decided(granted)),
        };
        if self.must_not_wait(request)? {
            self.record_refusal(EventKind::LockRefused, request, &refusal)?;
            return Ok(Entry::Decided(Outcome::Refused(refusal)));
        }
        let id = self.fresh_id()?;
        let bell =
            Bell::hang(self.wake_dir(), &id).map_err(|error| StoreError::from_io(self.store, error))?;
        let waiter = self.enqueue(&id, request, patience)?;
        let target = refusal.conflicts.first().map(|conflict| &conflict.want.target);
        let detail = json!({ "waiter": id, "patience_ms": millis(patience) });
        self.record(EventKind::WaitStarted, &request.party, target, &detail)?;
        self.refuse_circle(agent)?;
        let obstacle = self.next_obstacle(&waiter)?;
        Ok(Entry::Queued(Box::new(Ticket { waiter, bell, obstacle }), refusal.conflicts))
    }

    /// Whoever holds a named lock, such as the test mutex, never queues for files: others queue behind it.
    fn must_not_wait(&self, request: &Request) -> std::result::Result<bool, Fault> {
        let is_name = |target: &Target| matches!(target, Target::Name(_));
        if request.wants.iter().all(|want| is_name(&want.target)) {
            return Ok(false);
        }
        let own = self.locks_of(&request.party.agent)?;
        Ok(own.iter().any(|lock| is_name(&lock.target) && self.standing(lock) == Standing::Held))
    }

    /// A waiter looks again: was it served, has its way become clear, is its time over?
    fn revisit(&mut self, waiter: &Waiter, is_last: bool) -> std::result::Result<Step, Fault> {
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
        if !is_last {
            return Ok(Step::Wait(self.next_obstacle(waiter)?));
        }
        let (party, wants) = (&waiter.request.party, &waiter.request.wants);
        let conflicts = self.conflicts(&party.agent, wants)?;
        let target = wants.first().map(|want| &want.target);
        let waited = self.now.since(waiter.since).as_millis();
        self.record(
            EventKind::WaitTimedOut,
            party,
            target,
            &json!({ "waiter": waiter.id, "waited_ms": waited }),
        )?;
        self.leave_queue(waiter)?;
        Ok(Step::Decided(Outcome::Refused(Refusal { cause: Cause::TimedOut, conflicts })))
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
            match own.filter(|lock| lock.mode >= want.mode && self.standing(lock) == Standing::Held) {
                Some(lock) => locks.push(lock),
                None => return Ok(None),
            }
        }
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
        let at_once = || Obstacle { id: String::new(), process: None, until: Some(self.now) };
        let obstacle = self.obstacle(waiter)?.unwrap_or_else(at_once);
        self.watch(waiter, &obstacle)?;
        Ok(obstacle)
    }
}
