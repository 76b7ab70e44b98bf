//! The landing queue: which candidates wait for which branch, and which branch is being moved right now.
//!
//! Entries belong to the repository, whichever checkout they were offered in. Each step of an entry is a compare-and-swap,
//! and its event lies in the checkout that offered it. A landing is one row per branch, written before anything is touched and
//! gone in the transaction that says how it ended: whoever finds the row of a dead process finishes or undoes the landing, and
//! doing so twice is doing it once. The store moves no branch and judges no tree.
//!
//! An entry that is rejected counts the rejection itself, and the next entry of the same attempt goes on counting.

pub(crate) mod audits;
pub(crate) mod freed;
mod rows;
#[cfg(test)]
mod tests;
pub(crate) mod types;

use std::time::Duration;

use mala_core::{Attempt, AttemptId, AttemptState, Entry, EntryId, EntryState, Key, Oid, Timestamp};
use rusqlite::params;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::{EventKind, Work};
use crate::journal::types::{End, Finish, Progress};
use crate::landing::types::{EntryChange, EntryFilter, LandingError, LandingRow, NewEntry, NewLanding};
pub(crate) use rows::OPEN_STATES;

/// Why an entry is dropped when its work is offered anew.
const REPLACED: &str = "replaced by a later offer";

impl Store {
    /// Puts a candidate into the queue. Its attempt, if it has one, is gating and becomes offered. An earlier entry of the same
    /// attempt, or of the same pin, is dropped; one that already offers this very commit is returned as it is.
    pub fn enqueue(&mut self, new: &NewEntry) -> Result<Entry> {
        self.write(|change| change.queue_entry(new))
    }

    pub fn entry(&mut self, id: EntryId) -> Result<Option<Entry>> {
        self.read(|view| view.entry_by_id(id))
    }

    /// Entries by priority, then in order of arrival.
    pub fn entries(&mut self, filter: &EntryFilter) -> Result<Vec<Entry>> {
        self.read(|view| view.entries(filter))
    }

    /// How the entries of a branch ended that have landed or were red: so many that did last, the newest first.
    pub fn last_verdicts(&mut self, branch: &str, most: usize) -> Result<Vec<EntryState>> {
        self.read(|view| view.last_verdicts(branch, most))
    }

    /// How long the last attempts took from their claim to their first offer for a branch, at most so many.
    pub fn offer_times(&mut self, branch: &str, most: usize) -> Result<Vec<Duration>> {
        self.read(|view| view.offer_times(branch, most))
    }

    /// One step of an entry, if it is where the caller believes it to be. What becomes red or a conflict counts as rejected.
    /// Into a landing and out of it lead only [`Store::begin_landing`], [`Store::finish_landing`] and [`Store::undo_landing`];
    /// what is over comes back only by [`Store::retry_entry`].
    pub fn advance_entry(
        &mut self,
        id: EntryId,
        from: EntryState,
        to: EntryState,
        entry_change: &EntryChange,
    ) -> Result<Entry> {
        self.write(|change| change.advance_entry(id, (from, to), entry_change))
    }

    /// The work of an attempt's entry is out of the checkout: from now on it takes part in rounds.
    pub fn make_entry_ready(&mut self, id: EntryId) -> Result<Entry> {
        self.write(|change| {
            let mut entry = change.must_find_entry(id)?;
            entry.is_ready = true;
            change.update_entry(&entry)?;
            Ok(entry)
        })
    }

    /// Lets an entry that is over, and has not landed, wait once more.
    pub fn retry_entry(&mut self, id: EntryId) -> Result<Entry> {
        self.write(|change| change.retry_entry(id))
    }

    /// Takes an entry out of the queue. Its candidate stays pinned. Dropping it twice is dropping it once.
    pub fn drop_entry(&mut self, id: EntryId, reason: &str) -> Result<Entry> {
        self.write(|change| {
            let entry = change.must_find_entry(id)?;
            if entry.state == EntryState::Dropped { Ok(entry) } else { change.drop_entry(entry, reason) }
        })
    }

    /// Writes down that a branch is about to move, unless it is being moved already. Its entries are landing from here on, and
    /// nobody gets a file of theirs. Gives the files that agents of a run hold: the branch moves on below them.
    pub fn begin_landing(&mut self, new: &NewLanding) -> Result<Vec<Key>> {
        self.write(|change| change.begin_landing(new))
    }

    /// How this branch is being moved.
    pub fn landing(&mut self, branch: &str) -> Result<Option<LandingRow>> {
        self.read(|view| view.landing(branch))
    }

    /// All branches that are being moved.
    pub fn landings(&mut self) -> Result<Vec<LandingRow>> {
        self.read(|view| view.landings_where("TRUE", []))
    }

    /// The branch has moved: its entries have landed. Returns them; none where no landing is under way.
    pub fn finish_landing(&mut self, branch: &str) -> Result<Vec<Entry>> {
        self.finish_landing_with(branch, &[])
    }

    /// The same, and these attempts end in the same transaction, in whichever checkout they work. Where no landing is under
    /// way, none ends.
    pub fn finish_landing_with(&mut self, branch: &str, ends: &[(AttemptId, Finish)]) -> Result<Vec<Entry>> {
        self.write(|change| change.finish_landing(branch, ends))
    }

    /// The branch has not moved: its entries wait again. Returns them; none where no landing is under way.
    pub fn undo_landing(&mut self, branch: &str) -> Result<Vec<Entry>> {
        self.write(|change| change.undo_landing(branch, 0))
    }

    /// The same, because other hands have moved the branch meanwhile, which counts.
    pub fn overtake_landing(&mut self, branch: &str) -> Result<Vec<Entry>> {
        self.write(|change| change.undo_landing(branch, 1))
    }

    /// Stops the queue of a branch. Of one that is paused already, only the reason changes.
    pub fn pause_queue(&mut self, branch: &str, why: &str) -> Result<()> {
        self.write(|change| change.pause_queue(branch, why))
    }

    /// Lets the queue of a branch go on. True if it was paused.
    pub fn resume_queue(&mut self, branch: &str) -> Result<bool> {
        self.write(|change| {
            let Some((why, since)) = change.queue_pause(branch)? else { return Ok(false) };
            change.sql.execute("DELETE FROM queue_pause WHERE branch = ?1", [branch])?;
            let detail = json!({ "branch": branch, "why": why, "since": since });
            change.record_work(EventKind::QueueResumed, Work::default(), &detail)?;
            Ok(true)
        })
    }

    /// Branches whose queues stand still, with the reason and since when.
    pub fn queue_pauses(&mut self) -> Result<Vec<(String, String, Timestamp)>> {
        self.read(|view| view.queue_pauses())
    }

    /// Why the queue of a branch stands still, and since when.
    pub fn queue_pause(&mut self, branch: &str) -> Result<Option<(String, Timestamp)>> {
        self.read(|view| view.queue_pause(branch))
    }
}

impl Change<'_> {
    fn queue_entry(&mut self, new: &NewEntry) -> std::result::Result<Entry, Fault> {
        let rivals = self.rivals_of(new.attempt, &new.pin)?;
        if let Some(same) = rivals.iter().find(|rival| rival.branch == new.branch && rival.head == new.head) {
            self.offer(new.attempt)?;
            return Ok(same.clone());
        }
        let mut entry = self.new_entry(new)?;
        for rival in rivals {
            self.drop_entry(rival, REPLACED)?;
        }
        // After the earlier entry is gone, and before this one is there: the attempt has one place in the queue.
        self.must_offer(new.attempt)?;
        entry.id = self.insert_entry(&entry)?;
        let Entry { branch, base, head, pin, attempt, priority, rejections, .. } = &entry;
        let detail = json!({
            "branch": branch, "base": base, "head": head, "pin": pin, "attempt": attempt, "priority": priority,
            "rejections": rejections,
        });
        self.record_entry(EventKind::EntryQueued, &entry, detail)?;
        Ok(entry)
    }

    fn new_entry(&self, new: &NewEntry) -> std::result::Result<Entry, Fault> {
        let attempt = new.attempt.map(|id| self.must_find_attempt(id)).transpose()?;
        let (issue, agent, run) = attempt
            .map(|Attempt { issue, agent, run, .. }| (Some(issue), Some(agent), Some(run)))
            .unwrap_or_default();
        let rejections = match new.attempt {
            Some(attempt) => self.rejections_of(attempt)?,
            None => 0,
        };
        Ok(Entry {
            id: EntryId(0),
            branch: new.branch.clone(),
            base: new.base.clone(),
            head: new.head.clone(),
            pin: new.pin.clone(),
            issue: new.issue.clone().or(issue),
            agent: new.agent.clone().or(agent),
            run: new.run.clone().or(run),
            attempt: new.attempt,
            priority: new.priority,
            state: EntryState::Waiting,
            reason: None,
            arrived_at: self.now,
            since: self.now,
            rejections,
            kills: 0,
            overtaken: 0,
            landed: None,
            is_ready: new.attempt.is_none(),
            frees_files: false,
        })
    }

    /// Open entries that a new one of this attempt and pin would stand beside.
    fn rivals_of(&self, attempt: Option<AttemptId>, pin: &str) -> std::result::Result<Vec<Entry>, Fault> {
        let condition = format!("e.state IN {OPEN_STATES} AND (e.attempt = ?1 OR e.pin = ?2)");
        self.entries_where(&condition, params![attempt.map(|id| id.0), pin])
    }

    fn rejections_of(&self, attempt: AttemptId) -> std::result::Result<u32, Fault> {
        let sql = "SELECT coalesce(max(rejections), 0) FROM entry WHERE attempt = ?1";
        Ok(self.sql.prepare_cached(sql)?.query_row([attempt.0], |row| row.get(0))?)
    }

    /// Makes an attempt offered that is gating. One that is offered already stays so.
    fn offer(&mut self, attempt: Option<AttemptId>) -> std::result::Result<(), Fault> {
        let Some(id) = attempt else { return Ok(()) };
        if self.must_find_attempt(id)?.state == AttemptState::Offered {
            return Ok(());
        }
        self.must_offer(attempt)
    }

    fn must_offer(&mut self, attempt: Option<AttemptId>) -> std::result::Result<(), Fault> {
        let Some(id) = attempt else { return Ok(()) };
        self.advance(id, (AttemptState::Gating, AttemptState::Offered), &Progress::default())?;
        Ok(())
    }

    fn advance_entry(
        &mut self,
        id: EntryId,
        (from, to): (EntryState, EntryState),
        change: &EntryChange,
    ) -> std::result::Result<Entry, Fault> {
        let entry = self.must_find_entry(id)?;
        if entry.state != from {
            return Err(LandingError::NotInState { id, expected: from, found: entry.state }.into());
        }
        // The row of a landing and its entries change together, and a retry looks at more than the state.
        let is_special = from.is_over() || [from, to].contains(&EntryState::Landing);
        if is_special || !from.may_become(to) {
            return Err(LandingError::NoSuchStep { id, from, to }.into());
        }
        self.step(entry, to, change)
    }

    /// Brings an entry into a state. A step that changes nothing leaves no trace.
    fn step(
        &mut self,
        mut entry: Entry,
        to: EntryState,
        change: &EntryChange,
    ) -> std::result::Result<Entry, Fault> {
        let from = entry.state;
        if from == to && entry.reason == change.reason && change.kills_add == 0 {
            return Ok(entry);
        }
        entry.reason.clone_from(&change.reason);
        entry.kills = entry.kills.saturating_add(change.kills_add);
        if from != to {
            entry.state = to;
            entry.since = self.now;
            entry.rejections = entry.rejections.saturating_add(u32::from(to.is_rejection()));
        }
        self.update_entry(&entry)?;
        let Entry { branch, head, reason, rejections, kills, overtaken, landed, .. } = &entry;
        let detail = json!({
            "branch": branch, "head": head, "from": from, "to": to, "reason": reason, "rejections": rejections,
            "kills": kills, "overtaken": overtaken, "landed": landed,
        });
        self.record_entry(EventKind::EntryAdvanced, &entry, detail)?;
        Ok(entry)
    }

    fn retry_entry(&mut self, id: EntryId) -> std::result::Result<Entry, Fault> {
        let entry = self.must_find_entry(id)?;
        let to = EntryState::Waiting;
        if !entry.state.is_over() || !entry.state.may_become(to) {
            return Err(LandingError::NoSuchStep { id, from: entry.state, to }.into());
        }
        if let Some(rival) = self.rivals_of(entry.attempt, &entry.pin)?.first() {
            return Err(LandingError::Replaced { id, by: rival.id }.into());
        }
        self.step(entry, to, &EntryChange::default())
    }

    fn drop_entry(&mut self, entry: Entry, reason: &str) -> std::result::Result<Entry, Fault> {
        let (id, from, to) = (entry.id, entry.state, EntryState::Dropped);
        if from == EntryState::Landing {
            return Err(LandingError::EntryLanding { id, branch: entry.branch }.into());
        }
        if !from.may_become(to) {
            return Err(LandingError::NoSuchStep { id, from, to }.into());
        }
        self.step(entry, to, &EntryChange { reason: Some(reason.to_owned()), kills_add: 0 })
    }

    /// Drops what an attempt that ends still has in the queue. What is landing at this moment cannot be given up; work that is
    /// done may be.
    pub(crate) fn close_queue_for(
        &mut self,
        attempt: AttemptId,
        end: &End,
    ) -> std::result::Result<(), Fault> {
        let Some(entry) = self.open_entry_of(attempt)? else { return Ok(()) };
        let reason = match end {
            End::Done { .. } if entry.state == EntryState::Landing => return Ok(()),
            End::Done { .. } => "its attempt was done without it",
            End::HandedOver { reason, .. } => reason,
            End::GivenBack => "its attempt was given back",
        };
        self.drop_entry(entry, reason)?;
        Ok(())
    }

    fn pause_queue(&mut self, branch: &str, why: &str) -> std::result::Result<(), Fault> {
        if self.queue_pause(branch)?.is_some_and(|(known, _)| known == why) {
            return Ok(());
        }
        let sql = "INSERT INTO queue_pause (branch, why, since) VALUES (?1, ?2, ?3)
             ON CONFLICT (branch) DO UPDATE SET why = excluded.why";
        self.sql.execute(sql, params![branch, why, self.now.as_millis()])?;
        let detail = json!({ "branch": branch, "why": why });
        self.record_work(EventKind::QueuePaused, Work::default(), &detail)?;
        Ok(())
    }

    fn begin_landing(&mut self, new: &NewLanding) -> std::result::Result<Vec<Key>, Fault> {
        if let Some(LandingRow { branch, owner, .. }) = self.landing(&new.branch)? {
            return Err(LandingError::LandingUnderWay { branch, owner: Box::new(owner) }.into());
        }
        for (id, _) in &new.entries {
            let entry = self.must_find_entry(*id)?;
            if entry.branch != new.branch {
                return Err(LandingError::OtherBranch { id: *id, branch: entry.branch }.into());
            }
            let expected = EntryState::Green;
            if entry.state != expected {
                return Err(LandingError::NotInState { id: *id, expected, found: entry.state }.into());
            }
            let reason = EntryChange { reason: entry.reason.clone(), kills_add: 0 };
            self.step(entry, EntryState::Landing, &reason)?;
        }
        let files = self.hold_freed(&new.owner, &new.freed)?;
        if !files.blocking.is_empty() {
            return Err(LandingError::FilesHeld { conflicts: files.blocking }.into());
        }
        self.insert_landing(new)?;
        let gone_past: Vec<String> = files.spared.iter().map(ToString::to_string).collect();
        let detail = json!({
            "branch": new.branch, "from": new.from, "to": new.to, "directory": new.directory, "pid": new.owner.pid,
            "entries": entries_json(&new.entries), "gone_past": gone_past,
        });
        self.record_work(EventKind::LandingBegun, Work::default(), &detail)?;
        Ok(files.spared)
    }

    fn finish_landing(
        &mut self,
        branch: &str,
        ends: &[(AttemptId, Finish)],
    ) -> std::result::Result<Vec<Entry>, Fault> {
        let Some(landing) = self.landing(branch)? else { return Ok(Vec::new()) };
        let mut landed = Vec::with_capacity(landing.entries.len());
        for (id, commit) in &landing.entries {
            let entry = Entry { landed: Some(commit.clone()), ..self.must_find_landing(*id)? };
            // What was worth a word when it was proven is so for good.
            let reason = EntryChange { reason: entry.reason.clone(), kills_add: 0 };
            landed.push(self.step(entry, EntryState::Landed, &reason)?);
            // The step's own event is the newest.
            let event = self.newest_event()?;
            self.note_landed(*id, event.0)?;
        }
        self.count_landing(&landing.branch, &landing.from, &landing.to)?;
        self.end_landing(&landing, EventKind::LandingDone)?;
        for (attempt, finish) in ends {
            self.finish_anywhere(*attempt, finish)?;
        }
        Ok(landed)
    }

    fn undo_landing(&mut self, branch: &str, overtaken: u32) -> std::result::Result<Vec<Entry>, Fault> {
        let Some(landing) = self.landing(branch)? else { return Ok(Vec::new()) };
        let mut waiting = Vec::with_capacity(landing.entries.len());
        for (id, _) in &landing.entries {
            let mut entry = self.must_find_landing(*id)?;
            entry.overtaken = entry.overtaken.saturating_add(overtaken);
            waiting.push(self.step(entry, EntryState::Waiting, &EntryChange::default())?);
        }
        self.end_landing(&landing, EventKind::LandingUndone)?;
        Ok(waiting)
    }

    fn must_find_landing(&self, id: EntryId) -> std::result::Result<Entry, Fault> {
        let (entry, expected) = (self.must_find_entry(id)?, EntryState::Landing);
        match entry.state == expected {
            true => Ok(entry),
            false => Err(LandingError::NotInState { id, expected, found: entry.state }.into()),
        }
    }

    fn end_landing(&mut self, landing: &LandingRow, kind: EventKind) -> std::result::Result<(), Fault> {
        let LandingRow { branch, from, to, entries, .. } = landing;
        let took = self.landing_took(branch)?;
        self.free_landed_files(landing)?;
        self.delete_landing(branch)?;
        let detail = json!({
            "branch": branch, "from": from, "to": to, "entries": entries_json(entries),
            "took_ms": took.as_millis(),
        });
        self.record_work(kind, Work::default(), &detail)?;
        Ok(())
    }

    /// Ends an attempt of any checkout.
    fn finish_anywhere(&mut self, id: AttemptId, finish: &Finish) -> std::result::Result<(), Fault> {
        let home = self.scope;
        // What ended here is settled here, and what ends there is settled there.
        self.settle_asks()?;
        self.enter_scope(self.scope_of_attempt(id)?);
        self.finish(id, finish)?;
        self.settle_asks()?;
        self.enter_scope(home);
        Ok(())
    }

    /// Writes an event about an entry, in the checkout that has offered it.
    fn record_entry(
        &mut self,
        kind: EventKind,
        entry: &Entry,
        mut detail: Value,
    ) -> std::result::Result<(), Fault> {
        if let Value::Object(fields) = &mut detail {
            fields.insert("entry".into(), json!(entry.id));
        }
        let work = Work { agent: entry.agent.as_ref(), issue: entry.issue.as_ref(), run: entry.run.as_ref() };
        let home = self.scope;
        self.enter_scope(self.scope_of_entry(entry.id)?);
        let event = self.record_work(kind, work, &detail)?;
        self.enter_scope(home);
        self.sql
            .prepare_cached("UPDATE entry SET stepped = ?2 WHERE id = ?1")?
            .execute([entry.id.0, event])?;
        Ok(())
    }
}

fn entries_json(entries: &[(EntryId, Oid)]) -> Value {
    entries.iter().map(|(entry, commit)| json!({ "entry": entry, "commit": commit })).collect()
}
