//! Taking a lock from a holder that does not answer.
//!
//! Taking is guarded: it needs the very lock that was asked for, an ask that is overdue, and a holder that is gone, or
//! that has shown no sign of life for long and leaves no uncommitted change behind. A person may overrule all but the
//! first. Decision, hand-over, log and the notice to the former holder are one transaction.

use std::time::Duration;

use mala_core::message::{Audience, Body, Importance, Who};
use mala_core::{AgentId, Ask, AskId, AskState, Fence, Life, Lock, LockId, SteadyTime, ThreadId};
use rusqlite::params;
use serde_json::json;

use crate::Store;
use crate::asks::types::{Answered, AskError};
use crate::change::Change;
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::messages::Draft;
use crate::notices::About;
use crate::request::Party;
use crate::view::{Standing, View};

/// What is known of the file that would be taken. The store cannot look: the caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// Everything in it is committed.
    None,
    Uncommitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Only what the rules allow.
    Rules,
    /// A person has decided.
    Force,
}

/// Under which conditions a lock may be taken.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The lock as the taker has seen it.
    pub lock: LockId,
    pub fence: Fence,
    /// How long the holder must have been idle.
    pub idle: Duration,
    pub changes: Changes,
    pub authority: Authority,
    /// The ref under which the caller has saved uncommitted changes, if there were any.
    pub saved: Option<String>,
}

impl Store {
    /// Whether [`Store::take_asked`] would take it right now, or why not. Changes nothing.
    pub fn may_take(&mut self, by: &AgentId, id: &AskId, guard: &Guard) -> Result<()> {
        self.read(|view| view.judge_take(by, id, guard).map(drop))
    }

    /// Takes what was asked for out of the holder's hands and gives it to the asker.
    pub fn take_asked(&mut self, by: &AgentId, id: &AskId, guard: &Guard) -> Result<Answered> {
        self.write(|change| change.take_asked(by, id, guard))
    }
}

impl View<'_> {
    /// When the agent was last seen to do something.
    fn last_sign(&self, agent: &AgentId) -> std::result::Result<SteadyTime, Fault> {
        const AT: &str = "SELECT max(coalesce(steady, at)) FROM event WHERE seq =";
        let newest = |sql: &str| -> std::result::Result<i64, Fault> {
            let mut statement = self.sql.prepare_cached(sql)?;
            let at: Option<i64> =
                statement.query_row(params![self.scope, agent.as_str()], |row| row.get(0))?;
            Ok(at.unwrap_or(i64::MIN))
        };
        let signs = [
            newest("SELECT max(seen_at) FROM agent WHERE scope = ?1 AND name = ?2")?,
            // A lock's fence is the event by which it came to its holder.
            newest(&format!("{AT} (SELECT max(fence) FROM lock WHERE scope = ?1 AND agent = ?2)"))?,
            newest(&format!("{AT} (SELECT max(ended) FROM tenure WHERE scope = ?1 AND agent = ?2)"))?,
            newest(&format!(
                "{AT} (SELECT max(seq) FROM event WHERE scope = ?1 AND agent = ?2 AND lock IS NULL)"
            ))?,
        ];
        Ok(SteadyTime::from_millis(signs.into_iter().max().unwrap_or(i64::MIN)))
    }
}

/// What the rules have looked at on the way to a yes.
struct Judged {
    ask: Ask,
    asker: Party,
    lock: Lock,
    idle: Duration,
}

impl View<'_> {
    fn judge_take(&self, by: &AgentId, id: &AskId, guard: &Guard) -> std::result::Result<Judged, Fault> {
        let ask = self.pending_ask(id)?;
        let forced = guard.authority == Authority::Force;
        if forced && self.party(by)?.is_some_and(|party| party.supervised) {
            return Err(AskError::NotAPerson { agent: by.clone() }.into());
        }
        if ask.asker != *by && !forced {
            return Err(AskError::NotAsker { id: id.clone(), asker: ask.asker }.into());
        }
        let asker = self.must_know(&ask.asker)?;
        if self.life(&asker.owner) == Life::Dead {
            return Err(StoreError::AgentGone { agent: ask.asker }.into());
        }
        let lock = self.lock_asked_for(&ask, guard)?;
        let idle = self.steady.since(self.last_sign(&ask.holder)?);
        if !forced {
            self.refuse_to_take(&ask, &lock, guard, idle)?;
        }
        Ok(Judged { ask, asker, lock, idle })
    }

    /// The lock, if it is still the one that was asked for and that the taker has seen.
    fn lock_asked_for(&self, ask: &Ask, guard: &Guard) -> std::result::Result<Lock, Fault> {
        let is_meant = guard.lock == ask.lock && guard.fence == ask.fence;
        let lock = self.lock_by_id(&ask.lock.0)?.filter(|lock| is_meant && lock.fence == ask.fence);
        lock.ok_or_else(|| AskError::Changed { id: ask.id.clone() }.into())
    }

    /// The rules. A lock that is worth nothing any more is free for anybody, so also for the one who asked.
    fn refuse_to_take(
        &self,
        ask: &Ask,
        lock: &Lock,
        guard: &Guard,
        idle: Duration,
    ) -> std::result::Result<(), Fault> {
        let refusal = if self.standing(lock) != Standing::Held {
            return Ok(());
        } else if !ask.is_overdue(self.now) {
            AskError::NotDue { id: ask.id.clone(), due_at: ask.due_at }
        } else if idle < guard.idle {
            AskError::HolderActive { holder: ask.holder.clone(), idle }
        } else if guard.changes == Changes::Uncommitted {
            AskError::Uncommitted { target: Box::new(lock.target.clone()) }
        } else {
            return Ok(());
        };
        Err(refusal.into())
    }
}

impl Change<'_> {
    fn take_asked(
        &mut self,
        by: &AgentId,
        id: &AskId,
        guard: &Guard,
    ) -> std::result::Result<Answered, Fault> {
        let Judged { mut ask, asker, lock, idle } = self.judge_take(by, id, guard)?;
        let granted = self.hand_to_asker(lock, &ask, &asker, EventKind::LockTaken)?;
        let detail = json!({
            "by": by, "forced": guard.authority == Authority::Force, "why": ask.why, "due_at": ask.due_at,
            "idle_ms": idle.as_millis(), "uncommitted": guard.changes == Changes::Uncommitted,
            "saved": guard.saved, "fence_before": ask.fence, "fence": granted.first().map(|lock| lock.fence),
        });
        let (event, _) = self.end_ask(&mut ask, AskState::Taken, Some(by), detail)?;
        self.notify(&ask.holder, About::LockOfYours(id), event)?;
        self.write_to_former_holder(by, &ask, guard.saved.as_deref())?;
        if ask.asker != *by {
            self.notify(&ask.asker, About::AskOfYours(id), event)?;
        }
        Ok(Answered { ask, granted })
    }

    /// Leaves a message that stays, besides the notice that is told once.
    fn write_to_former_holder(
        &mut self,
        by: &AgentId,
        ask: &Ask,
        saved: Option<&str>,
    ) -> std::result::Result<(), Fault> {
        let path = &ask.want.target;
        let saved =
            saved.map(|name| format!(" Your uncommitted changes are saved in {name}.")).unwrap_or_default();
        let text = format!(
            "`{path}` was taken from you by `{by}` for `{}` at {}: {}.{saved} Ask for it again with `mala lock ask`.",
            ask.asker, self.now, ask.why
        );
        let (Ok(body), Ok(thread)) = (Body::new(text), ThreadId::new(ask.id.0.clone())) else {
            return Ok(());
        };
        let draft = Draft {
            from: Who::Agent(by.clone()),
            to: Audience::These(vec![Who::Agent(ask.holder.clone())]),
            thread,
            importance: Importance::High,
            body,
            ack_in: None,
        };
        self.deposit(&draft)
    }
}
