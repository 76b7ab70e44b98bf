//! The operations on locks. Each is one transaction: it decides and writes, or changes nothing.

use std::time::Duration;

use mala_core::{AgentId, Conflict, Fence, IssueId, Lease, Life, Lock, Mode, RunId, Target, Want};
use rusqlite::params;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::request::{Cause, Outcome, Party, Refusal, Request, Which};
use crate::view::Standing;

/// Conflicts named in one event; the answer to the caller has them all.
const CONFLICTS_LOGGED: usize = 20;

/// What a release did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// These are free now. Releasing what is not held is fine and gives an empty list.
    Done(Vec<Lock>),
    /// Nothing was released: these belong to others.
    NotYours(Vec<Conflict>),
}

/// What a renewal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    Done(Vec<Lock>),
    /// Nothing was renewed: the agent does not hold these (any more).
    NotHeld(Vec<Want>),
}

impl Store {
    /// Takes everything in the request, or nothing. The answer is the decision: there is no check before it.
    pub fn reserve(&mut self, request: &Request) -> Result<Outcome> {
        let outcome = self.try_write(|change| change.reserve(request));
        self.refuse_circles(request, outcome)
    }

    /// A transaction that would have closed a circle of waits has been undone. What is left is to say so.
    pub(crate) fn refuse_circles(
        &mut self,
        request: &Request,
        outcome: std::result::Result<Outcome, Fault>,
    ) -> Result<Outcome> {
        match outcome {
            Err(Fault::Circle(circle)) => {
                let conflicts = self.check(&request.party.agent, &request.sorted_wants())?;
                let refusal = Refusal { cause: Cause::Deadlock(circle), conflicts };
                self.write(|change| change.record_refusal(EventKind::WaitRefused, request, &refusal))?;
                Ok(Outcome::Refused(refusal))
            }
            other => other.map_err(|fault| fault.at(self.path())),
        }
    }

    /// What a reservation of these would meet right now. Changes nothing.
    pub fn check(&mut self, agent: &AgentId, wants: &[Want]) -> Result<Vec<Conflict>> {
        self.read(|view| view.conflicts(agent, wants))
    }

    /// Everybody who holds something that overlaps the want.
    pub fn holders(&mut self, want: &Want) -> Result<Vec<Lock>> {
        self.read(|view| view.holders(want))
    }

    /// True if the agent alone holds the whole checkout.
    pub fn holds_everything(&mut self, agent: &AgentId) -> Result<bool> {
        let is_all = |lock: &Lock| {
            lock.agent == *agent && lock.mode == Mode::Exclusive && lock.target.as_bytes() == b"**"
        };
        Ok(self.locks()?.iter().any(is_all))
    }

    /// All held locks of this scope, in path order.
    pub fn locks(&mut self) -> Result<Vec<Lock>> {
        self.read(|view| view.held_locks())
    }

    /// Gives locks back. Only the holder can.
    pub fn release(&mut self, agent: &AgentId, which: &Which) -> Result<Released> {
        self.write(|change| change.release(agent, which))
    }

    /// Gives exactly this lock back. False if it is not held any more, perhaps because its owner's end was noticed before.
    pub fn release_one(&mut self, lock: &Lock) -> Result<bool> {
        self.write(|change| {
            let stored = change.lock_by_id(&lock.id.0)?.filter(|stored| stored.fence == lock.fence);
            let Some(stored) = stored else { return Ok(false) };
            change.remove_lock(&stored, EventKind::LockReleased)?;
            change.hand_over()?;
            Ok(true)
        })
    }

    /// Starts the leases anew.
    pub fn renew(&mut self, agent: &AgentId, which: &Which, ttl: Option<Duration>) -> Result<Renewed> {
        self.write(|change| change.renew(agent, which, ttl))
    }

    /// Hands locks of `from` to `to`, all or none, with new fences.
    pub fn transfer(&mut self, from: &AgentId, to: &AgentId, which: &Which) -> Result<Renewed> {
        self.write(|change| change.transfer(from, to, which))
    }
}

impl Change<'_> {
    fn reserve(&mut self, request: &Request) -> std::result::Result<Outcome, Fault> {
        let outcome = self.decide(request)?;
        if let Outcome::Refused(refusal) = &outcome {
            self.record_refusal(EventKind::LockRefused, request, refusal)?;
        }
        Ok(outcome)
    }

    /// Takes everything the request wants, or says what stands in the way.
    fn decide(&mut self, request: &Request) -> std::result::Result<Outcome, Fault> {
        self.enroll(&request.party)?;
        let conflicts = self.clear_the_way(request)?;
        if !conflicts.is_empty() {
            return Ok(Outcome::Refused(Refusal { cause: Cause::Held, conflicts }));
        }
        Ok(Outcome::Granted(self.take(request)?))
    }

    /// Takes what nothing stands in the way of.
    pub(crate) fn take(&mut self, request: &Request) -> std::result::Result<Vec<Lock>, Fault> {
        let locks = self.grant(request, None)?;
        // An agent that waits elsewhere may have taken what those ahead of it wait for.
        self.refuse_circle(&request.party.agent)?;
        Ok(locks)
    }

    /// Undoes the transaction if it has closed a circle of waits through this agent.
    pub(crate) fn refuse_circle(&self, agent: &AgentId) -> std::result::Result<(), Fault> {
        match self.circle_through(agent)? {
            Some(circle) => Err(Fault::Circle(circle)),
            None => Ok(()),
        }
    }

    /// Takes back what the dead left in the request's way, serves those who waited for it, and returns what still
    /// stands there.
    pub(crate) fn clear_the_way(&mut self, request: &Request) -> std::result::Result<Vec<Conflict>, Fault> {
        let (agent, wants) = (&request.party.agent, request.sorted_wants());
        loop {
            let found = self.obstructions(agent, &wants)?;
            if !found.any_reclaimed {
                return Ok(found.conflicts);
            }
            self.hand_over()?;
        }
    }

    pub(crate) fn record_refusal(
        &mut self,
        kind: EventKind,
        request: &Request,
        refusal: &Refusal,
    ) -> std::result::Result<(), Fault> {
        let conflicts: Vec<Value> = refusal
            .conflicts
            .iter()
            .take(CONFLICTS_LOGGED)
            .map(|c| json!({ "held": c.holder.target.to_string(), "by": c.holder.agent, "fence": c.holder.fence }))
            .collect();
        let circle = match &refusal.cause {
            Cause::Deadlock(circle) => Some(circle),
            Cause::Held | Cause::TimedOut | Cause::GivenUp => None,
        };
        let target =
            refusal.conflicts.first().map(|c| &c.want).or(request.wants.first()).map(|want| &want.target);
        let detail = json!({ "conflicts": conflicts, "circle": circle, "reason": request.reason });
        self.record(kind, &request.party, target, &detail)?;
        Ok(())
    }

    fn release(&mut self, agent: &AgentId, which: &Which) -> std::result::Result<Released, Fault> {
        self.must_know(agent)?;
        let mut selected = self.select(agent, which)?;
        let mut foreign = Vec::new();
        for want in std::mem::take(&mut selected.missing) {
            // Somebody else's alone, under this name or another one of the same file? Then it is theirs to release.
            // What others merely share is no concern of this agent.
            let others = self.rivals(agent, &Want { mode: Mode::Exclusive, ..want.clone() })?;
            let others = others
                .into_iter()
                .filter(|lock| lock.mode == Mode::Exclusive && is_named_by(&lock.target, &want));
            foreign.extend(
                others
                    .filter(|lock| self.standing(lock) == Standing::Held)
                    .map(|holder| Conflict { want: want.clone(), holder }),
            );
        }
        if !foreign.is_empty() {
            return Ok(Released::NotYours(foreign));
        }
        self.settle_bases(agent, &mut selected.held)?;
        for lock in &selected.held {
            self.remove_lock(lock, EventKind::LockReleased)?;
        }
        self.hand_over()?;
        Ok(Released::Done(selected.held))
    }

    fn renew(
        &mut self,
        agent: &AgentId,
        which: &Which,
        ttl: Option<Duration>,
    ) -> std::result::Result<Renewed, Fault> {
        self.must_know(agent)?;
        let mut selected = self.select_held(agent, which)?;
        if !selected.missing.is_empty() {
            return Ok(Renewed::NotHeld(selected.missing));
        }
        for lock in &mut selected.held {
            let before = lock.lease;
            lock.lease = Lease::starting(self.now, ttl.unwrap_or(before.ttl));
            self.update_lock(lock)?;
            if lock.lease.expires_at < before.expires_at {
                self.wake_watchers_of(&lock.id.0)?;
            }
            self.record_lock(EventKind::LockRenewed, lock, &json!({ "expires_at": lock.lease.expires_at }))?;
        }
        Ok(Renewed::Done(selected.held))
    }

    fn transfer(
        &mut self,
        from: &AgentId,
        to: &AgentId,
        which: &Which,
    ) -> std::result::Result<Renewed, Fault> {
        self.must_know(from)?;
        let heir = self.must_know(to)?;
        if self.life(&heir.owner) == Life::Dead {
            return Err(StoreError::AgentGone { agent: to.clone() }.into());
        }
        // Everything is read and understood before anything moves.
        let selected = self.select_held(from, which)?;
        if !selected.missing.is_empty() {
            return Ok(Renewed::NotHeld(selected.missing));
        }
        let process = self.process_row(&heir.owner)?;
        let mut moved = Vec::with_capacity(selected.held.len());
        for lock in selected.held {
            let want = Want { target: lock.target.clone(), aliases: lock.aliases.clone(), mode: lock.mode };
            match self.own_lock(to, &want)?.filter(|own| own.id != lock.id) {
                // Both shared it; one lock is enough.
                Some(own) if !self.reclaim(&own)? => self.remove_lock(&own, EventKind::LockReleased)?,
                _ => {}
            }
            moved.push(self.move_lock(lock, &heir, process)?);
        }
        self.refuse_overlap(&moved)?;
        self.refuse_circle(to)?;
        Ok(Renewed::Done(moved))
    }

    /// Undoes the transaction if the giver keeps something that excludes what it gave away.
    fn refuse_overlap(&self, moved: &[Lock]) -> std::result::Result<(), Fault> {
        // A name cannot overlap with anything but itself.
        for lock in moved.iter().filter(|lock| !lock.is_named()) {
            let want = Want { target: lock.target.clone(), aliases: lock.aliases.clone(), mode: lock.mode };
            if let Some(Conflict { want, holder }) = self.conflicts(&lock.agent, &[want])?.pop() {
                let (agent, kept, moved) = (holder.agent, Box::new(holder.target), Box::new(want.target));
                return Err(StoreError::StillHeld { agent, kept, moved }.into());
            }
        }
        Ok(())
    }

    pub(crate) fn move_lock(
        &mut self,
        mut lock: Lock,
        heir: &Party,
        process: i64,
    ) -> std::result::Result<Lock, Fault> {
        if lock.agent != heir.agent {
            self.end_hold(&lock)?;
            self.ended_locks.push(lock.id.0.clone());
        }
        let detail = json!({ "from": lock.agent, "to": heir.agent, "fence_before": lock.fence });
        lock.agent = heir.agent.clone();
        lock.owner = heir.owner.clone();
        lock.supervised = heir.supervised;
        lock.issue.clone_from(&heir.issue);
        lock.run.clone_from(&heir.run);
        lock.fence = Fence(self.record_lock(EventKind::LockTransferred, &lock, &detail)?);
        lock.acquired_at = self.now;
        lock.lease = Lease::starting(self.now, lock.lease.ttl);
        let sql = "UPDATE lock SET agent = ?2, owner = ?3, supervised = ?4, fence = ?5, acquired_at = ?6, expires_at = ?7,
                 issue = ?8, run = ?9, expires_steady = ?10
             WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![
            lock.id.0,
            lock.agent.as_str(),
            process,
            lock.supervised,
            lock.fence.0,
            lock.acquired_at.as_millis(),
            lock.lease.expires_at.as_millis(),
            lock.issue.as_ref().map(IssueId::as_str),
            lock.run.as_ref().map(RunId::as_str),
            self.clocks().steady_end(lock.lease.expires_at).as_millis(),
        ])?;
        self.wake_watchers_of(&lock.id.0)?;
        Ok(lock)
    }

    /// The agent's locks that are still worth something.
    fn select_held(&self, agent: &AgentId, which: &Which) -> std::result::Result<Selected, Fault> {
        let mut selected = self.select(agent, which)?;
        let is_held = |lock: &Lock| self.standing(lock) == Standing::Held;
        if let Which::These(wants) = which {
            let lapsed = selected.held.iter().filter(|lock| !is_held(lock));
            let lapsed: Vec<_> = lapsed.map(|lock| &lock.target).collect();
            let is_lapsed = |want: &&Want| lapsed.iter().any(|target| is_named_by(target, want));
            selected.missing.extend(wants.iter().filter(is_lapsed).cloned());
        }
        selected.held.retain(is_held);
        Ok(selected)
    }

    /// The agent's stored locks.
    fn select(&self, agent: &AgentId, which: &Which) -> std::result::Result<Selected, Fault> {
        let mut selected = Selected::default();
        match which {
            Which::All => {
                selected.held = self.locks_of(agent)?;
                selected.held.retain(|lock| !lock.is_named());
            }
            Which::These(wants) => {
                for want in wants {
                    match self.own_lock(agent, want)? {
                        Some(lock) => selected.held.push(lock),
                        None => selected.missing.push(want.clone()),
                    }
                }
            }
        }
        // Two names of one file are one lock.
        selected.held.sort_by(|a, b| a.id.cmp(&b.id));
        selected.held.dedup_by(|a, b| a.id == b.id);
        Ok(selected)
    }
}

/// Whether `target` is the very thing wanted, by any of a file's names.
pub(crate) fn is_named_by(target: &Target, want: &Want) -> bool {
    *target == want.target || matches!(target, Target::File(key) if want.aliases.contains(key))
}

#[derive(Debug, Default)]
struct Selected {
    held: Vec<Lock>,
    missing: Vec<Want>,
}
