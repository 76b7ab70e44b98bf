//! Asks as rows: reading and writing them, and the end that a lock's own end gives them.

use mala_core::{AgentId, Ask, AskId, AskState, Fence, Key, LockId, Timestamp, Urgency, Want};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Value, json};

use crate::asks::types::AskError;
use crate::change::{Change, millis};
use crate::error::Fault;
use crate::events::EventKind;
use crate::ids::fresh_id;
use crate::notices::{About, Heard};
use crate::rows::{self, kind_of, mode_number};
use crate::steady::Now;
use crate::view::View;

const COLUMNS: &str =
    "kind, path, mode, aliases, ttl_ms, id, lock, fence, asker, holder, why, urgent, state, created_at,
     due_at, eta, deferrals, answered_at, escalated_at, ended_by, due_steady";

impl View<'_> {
    pub(crate) fn ask_by_id(&self, id: &AskId) -> Result<Option<Ask>, Fault> {
        let sql = format!("SELECT {COLUMNS} FROM ask WHERE id = ?1 AND scope = ?2");
        let mut statement = self.sql.prepare_cached(&sql)?;
        let now = self.clocks();
        Ok(statement.query_row(params![id.0, self.scope], |row| ask(row, now)).optional()?)
    }

    pub(crate) fn must_find_ask(&self, id: &AskId) -> Result<Ask, Fault> {
        self.ask_by_id(id)?.ok_or_else(|| AskError::Unknown { id: id.clone() }.into())
    }

    pub(crate) fn pending_ask(&self, id: &AskId) -> Result<Ask, Fault> {
        let ask = self.must_find_ask(id)?;
        match ask.state.is_pending() {
            true => Ok(ask),
            false => Err(AskError::Over { id: ask.id, state: ask.state }.into()),
        }
    }

    /// All asks of this scope that wait for an answer.
    pub(crate) fn pending_asks(&self) -> Result<Vec<Ask>, Fault> {
        self.asks_where("scope = ?1 AND state < 2 ORDER BY made, created_at, id", params![self.scope])
    }

    pub(crate) fn pending_asks_about(&self, lock: &str) -> Result<Vec<Ask>, Fault> {
        let condition = "scope = ?1 AND lock = ?2 AND state < 2 ORDER BY made, created_at, id";
        self.asks_where(condition, params![self.scope, lock])
    }

    pub(crate) fn asks_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Ask>, Fault> {
        let sql = format!("SELECT {COLUMNS} FROM ask WHERE {condition}");
        let mut statement = self.sql.prepare_cached(&sql)?;
        let now = self.clocks();
        Ok(statement.query_map(params, |row| ask(row, now))?.collect::<Result<_, _>>()?)
    }
}

fn ask(row: &Row<'_>, now: Now) -> rusqlite::Result<Ask> {
    let due = rows::steady(row, 20)?;
    let aliases: Vec<u8> = row.get(3)?;
    let aliases = aliases.split_inclusive(|byte| *byte == 0).map(|name| &name[..name.len() - 1]);
    let aliases = aliases.map(|name| Key::from_stored(name.to_vec())).collect();
    Ok(Ask {
        want: Want { target: rows::target(row, 0)?, mode: rows::mode(row, 2)?, aliases },
        ttl: rows::duration(row, 4)?,
        id: AskId(row.get(5)?),
        lock: LockId(row.get(6)?),
        fence: Fence(row.get(7)?),
        asker: rows::name(row, 8, AgentId::new)?,
        holder: rows::name(row, 9, AgentId::new)?,
        why: row.get(10)?,
        urgency: if row.get(11)? { Urgency::Urgent } else { Urgency::Normal },
        state: state(row, 12)?,
        created_at: rows::timestamp(row, 13)?,
        due_at: now.wall_end(rows::timestamp(row, 14)?, due),
        eta: row.get::<_, Option<i64>>(15)?.map(|eta| now.wall_end(Timestamp::from_millis(eta), due)),
        deferrals: row.get(16)?,
        answered_at: row.get::<_, Option<i64>>(17)?.map(Timestamp::from_millis),
        escalated_at: row.get::<_, Option<i64>>(18)?.map(Timestamp::from_millis),
        ended_by: rows::optional_name(row, 19, AgentId::new)?,
    })
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<AskState> {
    let number: i64 = row.get(column)?;
    let known = usize::try_from(number).ok().and_then(|number| AskState::ALL.get(number));
    known.copied().map_or_else(|| rows::bad(column, format!("`{number}` is no state of an ask")), Ok)
}

/// The place of a state in [`AskState::ALL`].
fn state_number(state: AskState) -> i64 {
    match state {
        AskState::Open => 0,
        AskState::Deferred => 1,
        AskState::Released => 2,
        AskState::Taken => 3,
        AskState::Moot => 4,
        AskState::Cancelled => 5,
    }
}

fn joined(aliases: &[Key]) -> Vec<u8> {
    aliases.iter().flat_map(|key| key.as_bytes().iter().copied().chain([0])).collect()
}

impl Change<'_> {
    pub(crate) fn fresh_ask_id(&self) -> Result<AskId, Fault> {
        let taken = |id: &str| self.exists("SELECT 1 FROM ask WHERE id = ?1", [id]);
        Ok(AskId(fresh_id(|| fastrand::usize(..), taken)?))
    }

    pub(crate) fn insert_ask(&mut self, ask: &Ask) -> Result<(), Fault> {
        let sql =
            "INSERT INTO ask (id, scope, kind, path, mode, aliases, ttl_ms, lock, fence, asker, holder, why,
                 urgent, state, created_at, due_at, deferrals, due_steady, made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
        // The event that says so is the next one.
        let made = self.newest_event()?.0 + 1;
        self.sql.prepare_cached(sql)?.execute(params![
            ask.id.0,
            self.scope,
            kind_of(&ask.want.target),
            ask.want.target.as_bytes(),
            mode_number(ask.want.mode),
            joined(&ask.want.aliases),
            millis(ask.ttl),
            ask.lock.0,
            ask.fence.0,
            ask.asker.as_str(),
            ask.holder.as_str(),
            ask.why,
            ask.urgency == Urgency::Urgent,
            state_number(ask.state),
            ask.created_at.as_millis(),
            ask.due_at.as_millis(),
            ask.deferrals,
            self.clocks().steady_end(ask.due_at).as_millis(),
            made,
        ])?;
        Ok(())
    }

    /// Stores what may change about an ask.
    pub(crate) fn update_ask(&mut self, ask: &Ask) -> Result<(), Fault> {
        let sql = "UPDATE ask SET fence = ?2, why = ?3, urgent = ?4, state = ?5, due_at = ?6, eta = ?7, deferrals = ?8,
                 answered_at = ?9, escalated_at = ?10, ended_by = ?11, due_steady = ?12
             WHERE id = ?1";
        let moment = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        self.sql.prepare_cached(sql)?.execute(params![
            ask.id.0,
            ask.fence.0,
            ask.why,
            ask.urgency == Urgency::Urgent,
            state_number(ask.state),
            ask.due_at.as_millis(),
            moment(ask.eta),
            ask.deferrals,
            moment(ask.answered_at),
            moment(ask.escalated_at),
            ask.ended_by.as_ref().map(AgentId::as_str),
            self.clocks().steady_end(ask.due_at).as_millis(),
        ])?;
        Ok(())
    }

    /// Ends an ask and says so in the log. What its holder has not heard of yet it need not hear any more.
    pub(crate) fn end_ask(
        &mut self,
        ask: &mut Ask,
        state: AskState,
        by: Option<&AgentId>,
        detail: Value,
    ) -> Result<(i64, Heard), Fault> {
        ask.state = state;
        ask.answered_at = Some(self.now);
        ask.ended_by = by.cloned();
        self.update_ask(ask)?;
        let heard = self.unsay(&ask.holder, About::LockOfYours(&ask.id))?;
        let kind = match state {
            AskState::Released => EventKind::AskReleased,
            AskState::Taken => EventKind::AskTaken,
            AskState::Cancelled => EventKind::AskCancelled,
            AskState::Open | AskState::Deferred | AskState::Moot => EventKind::AskMoot,
        };
        let event = self.record_ask(kind, ask, by.unwrap_or(&ask.asker), detail)?;
        Ok((event, heard))
    }

    /// Writes an event about an ask, caused by `actor`.
    pub(crate) fn record_ask(
        &mut self,
        kind: EventKind,
        ask: &Ask,
        actor: &AgentId,
        mut detail: Value,
    ) -> Result<i64, Fault> {
        if let Value::Object(fields) = &mut detail {
            fields.insert("ask".into(), json!(ask.id));
            fields.insert("asker".into(), json!(ask.asker));
            fields.insert("holder".into(), json!(ask.holder));
        }
        self.record_about_lock(kind, actor, (&ask.lock, &ask.want.target), &detail)
    }

    /// Ends the asks about locks that ended or moved in this transaction: released if the asker has got what it wanted,
    /// moot otherwise.
    pub(crate) fn settle_asks(&mut self) -> Result<(), Fault> {
        let ended = std::mem::take(&mut self.ended_locks);
        if ended.is_empty()
            || !self.exists("SELECT 1 FROM ask WHERE scope = ?1 AND state < 2", [self.scope])?
        {
            return Ok(());
        }
        for lock in ended {
            for mut ask in self.pending_asks_about(&lock)? {
                if self.holds(&ask.asker, &ask.want)? {
                    self.end_ask(&mut ask, AskState::Released, None, json!({}))?;
                } else {
                    let (event, _) =
                        self.end_ask(&mut ask, AskState::Moot, None, json!({ "reason": "the lock ended" }))?;
                    self.notify(&ask.asker, About::AskOfYours(&ask.id), event)?;
                }
            }
        }
        Ok(())
    }
}
