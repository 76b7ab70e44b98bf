//! Asking a holder for a lock, and the holder's answers.
//!
//! Only the holder answers, only the asker cancels. An answer that releases hands the lock straight to the asker, within
//! the same transaction. No lock ever changes hands because of time alone.

mod rows;
pub(crate) mod take;
pub(crate) mod types;

use std::time::Duration;

use mala_core::ask::{MAX_DEFERRAL, MAX_DEFERRALS, MAX_WHY};
use mala_core::{AgentId, Ask, AskId, AskState, Life, Lock, Mode, Target, Want};
use rusqlite::params;
use serde_json::json;

use crate::Store;
use crate::asks::types::{Answered, AskError, AskFilter, AskRequest};
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::locks::is_named_by;
use crate::notices::{About, Heard};
use crate::request::{Party, Request};
use crate::view::Standing;

impl Store {
    /// Asks everybody whose lock stands in the way: one ask for each lock. Asking again gives the same asks.
    pub fn ask(&mut self, request: &AskRequest) -> Result<Vec<Ask>> {
        self.write(|change| change.ask(request))
    }

    /// The holder gives the lock up. The asker gets what it wanted at once, before anybody who waits in the queue, unless
    /// somebody else's lock stands in its way as well or that would close a circle of waits.
    pub fn answer_release(&mut self, holder: &AgentId, id: &AskId) -> Result<Answered> {
        match self.try_write(|change| change.answer_release(holder, id)) {
            Err(Fault::Circle(_)) => self.write(|change| change.release_asked(holder, id)),
            other => other.map_err(|fault| fault.at(self.path())),
        }
    }

    /// The holder says how much longer it needs the lock.
    pub fn answer_defer(&mut self, holder: &AgentId, id: &AskId, eta: Duration) -> Result<Ask> {
        self.write(|change| change.answer_defer(holder, id, eta))
    }

    /// The asker does not need it any more.
    pub fn cancel_ask(&mut self, asker: &AgentId, id: &AskId) -> Result<Ask> {
        self.write(|change| change.cancel_ask(asker, id))
    }

    /// The ask called `id`, pending or over.
    pub fn find_ask(&mut self, id: &AskId) -> Result<Ask> {
        self.read(|view| view.must_find_ask(id))
    }

    /// How something that overlaps `target` was last taken from this agent, if it was.
    pub fn taken_from(&mut self, agent: &AgentId, target: &Target) -> Result<Option<Ask>> {
        let wanted = Want { target: target.clone(), aliases: Vec::new(), mode: Mode::Exclusive };
        self.read(|view| {
            let condition = "scope = ?1 AND holder = ?2 AND state = 3 ORDER BY fence DESC, made DESC";
            let taken = view.asks_where(condition, params![view.scope, agent.as_str()])?;
            let is_about = |ask: &Ask| ask.want.claim(agent).overlaps(&wanted.claim(agent));
            Ok(taken.into_iter().find(is_about))
        })
    }

    /// Asks of this scope, oldest first.
    pub fn asks(&mut self, filter: &AskFilter) -> Result<Vec<Ask>> {
        self.read(|view| {
            let mut asks = match filter.ended {
                true => view.asks_where("scope = ?1 ORDER BY made, created_at, id", params![view.scope])?,
                false => view.pending_asks()?,
            };
            asks.retain(|ask| filter.asker.as_ref().is_none_or(|asker| ask.asker == *asker));
            asks.retain(|ask| filter.holder.as_ref().is_none_or(|holder| ask.holder == *holder));
            Ok(asks)
        })
    }

    /// Tells everybody concerned about asks that have become overdue, each once for each due time, whoever comes first.
    pub fn escalate_due(&mut self) -> Result<Vec<Ask>> {
        let is_news = |ask: &Ask, now| ask.is_overdue(now) && ask.escalated_at.is_none();
        let any = self.read(|view| Ok(view.pending_asks()?.iter().any(|ask| is_news(ask, view.now))))?;
        if !any {
            return Ok(Vec::new());
        }
        self.write(|change| {
            let mut due = change.pending_asks()?;
            due.retain(|ask| is_news(ask, change.now));
            for ask in &mut due {
                change.escalate(ask)?;
            }
            due.retain(|ask| ask.state.is_pending());
            Ok(due)
        })
    }
}

impl Change<'_> {
    fn ask(&mut self, request: &AskRequest) -> std::result::Result<Vec<Ask>, Fault> {
        let (agent, target) = (&request.party.agent, || Box::new(request.want.target.clone()));
        if matches!(request.want.target, Target::Name(_)) {
            return Err(AskError::Named { target: target() }.into());
        }
        if request.why.len() > MAX_WHY {
            return Err(AskError::WhyTooLong { len: request.why.len() }.into());
        }
        self.enroll(&request.party)?;
        let conflicts = self.clear_the_way(&wish(&request.party, &request.want, request.ttl, None))?;
        if conflicts.is_empty() {
            let is_own = self.holds(agent, &request.want)?;
            let (agent, target) = (agent.clone(), target());
            return Err(
                if is_own { AskError::Yours { agent, target } } else { AskError::Free { target } }.into()
            );
        }
        conflicts.into_iter().map(|conflict| self.ask_holder(request, &conflict.holder)).collect()
    }

    fn ask_holder(&mut self, request: &AskRequest, lock: &Lock) -> std::result::Result<Ask, Fault> {
        let asker = &request.party.agent;
        let due_at = self.now.plus(request.due_in);
        if let Some(known) = self.pending_asks_about(&lock.id.0)?.into_iter().find(|ask| ask.asker == *asker)
        {
            return self.ask_again(known, request, lock);
        }
        let ask = Ask {
            id: self.fresh_ask_id()?,
            want: request.want.clone(),
            ttl: request.ttl,
            lock: lock.id.clone(),
            fence: lock.fence,
            asker: asker.clone(),
            holder: lock.agent.clone(),
            why: request.why.clone(),
            urgency: request.urgency,
            state: AskState::Open,
            created_at: self.now,
            due_at,
            eta: None,
            deferrals: 0,
            answered_at: None,
            escalated_at: None,
            ended_by: None,
        };
        self.insert_ask(&ask)?;
        let detail =
            json!({ "why": ask.why, "urgency": ask.urgency, "due_at": ask.due_at, "fence": ask.fence });
        let event = self.record_ask(EventKind::AskMade, &ask, asker, detail)?;
        self.notify(&ask.holder, About::LockOfYours(&ask.id), event)?;
        Ok(ask)
    }

    /// The same ask once more: it knows the lock as it is now, and may have become urgent.
    fn ask_again(
        &mut self,
        mut ask: Ask,
        request: &AskRequest,
        lock: &Lock,
    ) -> std::result::Result<Ask, Fault> {
        let is_raised = request.urgency > ask.urgency;
        if !is_raised && ask.fence == lock.fence {
            return Ok(ask);
        }
        ask.fence = lock.fence;
        if is_raised {
            ask.urgency = request.urgency;
            ask.why.clone_from(&request.why);
            // What the holder was promised stays promised.
            if ask.state == AskState::Open {
                ask.due_at = ask.due_at.min(self.now.plus(request.due_in));
            }
            let detail = json!({ "why": ask.why, "urgency": ask.urgency, "due_at": ask.due_at });
            let event = self.record_ask(EventKind::AskRaised, &ask, &ask.asker, detail)?;
            self.notify(&ask.holder, About::LockOfYours(&ask.id), event)?;
        }
        self.update_ask(&ask)?;
        Ok(ask)
    }

    fn answer_release(&mut self, holder: &AgentId, id: &AskId) -> std::result::Result<Answered, Fault> {
        let mut ask = self.ask_for_holder(holder, id)?;
        let asker = self.party(&ask.asker)?.filter(|party| self.life(&party.owner) != Life::Dead);
        let Some(asker) = asker else {
            // Nobody needs it any more: the holder keeps what it has.
            self.end_ask(&mut ask, AskState::Moot, None, json!({ "reason": "the asker is gone" }))?;
            return Ok(Answered { ask, granted: Vec::new() });
        };
        let Some(lock) = self.lock_by_id(&ask.lock.0)?.filter(|lock| self.standing(lock) == Standing::Held)
        else {
            return self.release_asked(holder, id);
        };
        let granted = self.hand_to_asker(lock, &ask, &asker, EventKind::LockReleased)?;
        let fence = granted.first().map(|lock| lock.fence);
        let (event, _) =
            self.end_ask(&mut ask, AskState::Released, Some(holder), json!({ "fence": fence }))?;
        self.notify(&ask.asker, About::AskOfYours(&ask.id), event)?;
        Ok(Answered { ask, granted })
    }

    /// The holder gives up the lock that was asked for, and the queue decides who is next.
    fn release_asked(&mut self, holder: &AgentId, id: &AskId) -> std::result::Result<Answered, Fault> {
        let ask = self.ask_for_holder(holder, id)?;
        if let Some(lock) = self.lock_by_id(&ask.lock.0)? {
            let kind = EventKind::end_of(self.standing(&lock)).unwrap_or(EventKind::LockReleased);
            self.remove_lock(&lock, kind)?;
        }
        self.hand_over()?;
        self.settle_asks()?;
        let granted = self.own_lock(&ask.asker, &ask.want)?.into_iter().collect();
        Ok(Answered { ask: self.must_find_ask(id)?, granted })
    }

    fn answer_defer(
        &mut self,
        holder: &AgentId,
        id: &AskId,
        eta: Duration,
    ) -> std::result::Result<Ask, Fault> {
        let mut ask = self.ask_for_holder(holder, id)?;
        if ask.deferrals >= MAX_DEFERRALS {
            return Err(AskError::DeferredAlready { id: id.clone() }.into());
        }
        if eta > MAX_DEFERRAL {
            return Err(AskError::DeferredTooLong.into());
        }
        ask.state = AskState::Deferred;
        ask.deferrals += 1;
        ask.due_at = self.now.plus(eta);
        ask.eta = Some(ask.due_at);
        ask.answered_at = Some(self.now);
        // A new due time: it can become overdue once more.
        ask.escalated_at = None;
        self.update_ask(&ask)?;
        self.unsay(holder, About::LockOfYours(id))?;
        let event = self.record_ask(EventKind::AskDeferred, &ask, holder, json!({ "eta": ask.eta }))?;
        self.notify(&ask.asker, About::AskOfYours(id), event)?;
        Ok(ask)
    }

    fn cancel_ask(&mut self, asker: &AgentId, id: &AskId) -> std::result::Result<Ask, Fault> {
        let mut ask = self.pending_ask(id)?;
        if ask.asker != *asker {
            return Err(AskError::NotAsker { id: id.clone(), asker: ask.asker }.into());
        }
        self.withdraw(&mut ask)?;
        Ok(ask)
    }

    fn withdraw(&mut self, ask: &mut Ask) -> std::result::Result<(), Fault> {
        let asker = ask.asker.clone();
        let (event, heard) = self.end_ask(ask, AskState::Cancelled, Some(&asker), json!({}))?;
        if heard == Heard::Already {
            self.notify(&ask.holder, About::LockOfYours(&ask.id), event)?;
        }
        Ok(())
    }

    /// Withdraws everything that a leaving agent has asked for.
    pub(crate) fn withdraw_asks_of(&mut self, asker: &AgentId) -> std::result::Result<(), Fault> {
        for mut ask in self.pending_asks()? {
            if ask.asker == *asker {
                self.withdraw(&mut ask)?;
            }
        }
        Ok(())
    }

    fn escalate(&mut self, ask: &mut Ask) -> std::result::Result<(), Fault> {
        if self.party(&ask.asker)?.is_none_or(|party| self.life(&party.owner) == Life::Dead) {
            self.end_ask(ask, AskState::Moot, None, json!({ "reason": "the asker is gone" }))?;
            return Ok(());
        }
        ask.escalated_at = Some(self.now);
        self.update_ask(ask)?;
        let event =
            self.record_ask(EventKind::AskOverdue, ask, &ask.asker, json!({ "due_at": ask.due_at }))?;
        self.notify(&ask.holder, About::LockOfYours(&ask.id), event)?;
        self.notify(&ask.asker, About::AskOfYours(&ask.id), event)
    }

    fn ask_for_holder(&self, holder: &AgentId, id: &AskId) -> std::result::Result<Ask, Fault> {
        let ask = self.pending_ask(id)?;
        match ask.holder == *holder {
            true => Ok(ask),
            false => Err(AskError::NotHolder { id: ask.id, holder: ask.holder }.into()),
        }
    }

    /// Takes the lock out of its holder's hands and gives the asker what it wanted, past everybody who waits. The very
    /// same lock moves if that is what was wanted; a lock on more than that ends.
    pub(crate) fn hand_to_asker(
        &mut self,
        lock: Lock,
        ask: &Ask,
        asker: &Party,
        end: EventKind,
    ) -> std::result::Result<Vec<Lock>, Fault> {
        let request = wish(asker, &ask.want, ask.ttl, Some(ask.why.clone()));
        let conflicts = self.conflicts(&asker.agent, std::slice::from_ref(&ask.want))?;
        let is_alone = conflicts.iter().all(|conflict| conflict.holder.id == lock.id);
        let is_same =
            is_named_by(&lock.target, &ask.want) && self.own_lock(&asker.agent, &ask.want)?.is_none();
        if is_alone && is_same {
            let process = self.process_row(&asker.owner)?;
            self.move_lock(lock, asker, process)?;
        } else {
            self.remove_lock(&lock, end)?;
        }
        let granted = if is_alone { self.grant(&request, None)? } else { Vec::new() };
        self.serve_first(&asker.agent, &ask.want)?;
        self.hand_over()?;
        self.refuse_circle(&asker.agent)?;
        Ok(granted)
    }
}

/// The asker's want as a request.
fn wish(party: &Party, want: &Want, ttl: Duration, reason: Option<String>) -> Request {
    Request { party: party.clone(), wants: vec![want.clone()], ttl, reason }
}
