//! The journal of a run and the locks of its agents, in the store. Every change is one transaction that may be repeated.

use std::sync::MutexGuard;
use std::time::Duration;

use mala_core::issue::BLOCKED;
use mala_core::{
    AgentId, Attempt, AttemptState, Fence, Interruption, IssueId, Key, Mode, RunId, Target, Timestamp, Want,
};
use mala_git::RepoPath;
use mala_session::{SessionError, acquire};
use mala_store::{
    End, Event, EventFilter, EventKind, Extent, Finish, IssueError, IssueFilter, JournalError, NewAttempt,
    Outcome, Party, Progress, Request, SELF_TEST, Store, StoreError, TRIES, TargetKind,
};
use serde_json::{Value, json};

use super::BlockingOps;
use crate::error::{EngineError, Result};
use crate::event::Held;
use crate::health::{self, Contention, TimeSpent};
use crate::options::Keeping;
use crate::source::mala as person;

/// Nobody names a file of git's own, so whoever had it had everything.
const GITS_OWN: &[u8] = b".git/MERGE_HEAD";

/// So many runs back the last one is looked for that was more than working the landing queue off.
const LATEST_RUNS: u32 = 50;

/// What was tried at an issue so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Attempts that came to an end, good or bad, and were not just stopped.
    pub(crate) ended: u32,
    /// The number that the next attempt gets.
    pub(crate) next: u32,
}

/// What the store says to a claim.
pub(super) enum StoreClaim {
    Granted(Box<Attempt>),
    /// Another agent works on the issue, or it is no longer open.
    Gone(String),
}

/// How the last run of this checkout was started, if it was killed or stopped before its end.
pub fn unfinished_run(store: &mut Store) -> Result<Option<Value>> {
    if store.current_run()?.is_some() {
        return Ok(None);
    }
    let mut last = |kind: EventKind| {
        let kind = Some(kind.as_str().to_owned());
        store.events(&EventFilter { kind, limit: Some(LATEST_RUNS), ..EventFilter::default() })
    };
    let (started, ended) = (last(EventKind::RunStarted)?, last(EventKind::RunEnded)?);
    // Whoever only works the queue off goes on with no run, and ends none.
    let mut started = started.into_iter().filter(|started| started.detail["options"]["queue_only"] != true);
    let is_end = |ended: &Event, run: &Option<String>| ended.run == *run && ended.detail["stopped"].is_null();
    let has_ended = |run: &Option<String>| ended.iter().any(|ended| is_end(ended, run));
    Ok(started.next_back().filter(|it| !has_ended(&it.run)).map(|it| it.detail["options"].clone()))
}

impl BlockingOps {
    pub(super) fn store(&self) -> Result<MutexGuard<'_, Store>> {
        self.store.lock().map_err(|_poisoned| EngineError::StorePoisoned)
    }

    pub(super) fn party(&self, attempt: &Attempt) -> Party {
        Party {
            agent: attempt.agent.clone(),
            owner: self.options.owner.clone(),
            supervised: true,
            issue: Some(attempt.issue.clone()),
            run: Some(attempt.run.clone()),
        }
    }

    /// Begins the one run of this checkout.
    pub(crate) fn begin_run(&self, options: &Value) -> Result<RunId> {
        match self.store()?.begin_run(&self.options.owner, options) {
            Ok(run) => Ok(run.id),
            Err(StoreError::Journal(JournalError::AlreadyRunning { run })) => {
                Err(EngineError::Busy { run: run.id, owner: run.owner, since: run.started_at })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn end_run(&self, run: &RunId, summary: &Value) -> Result<()> {
        let count = |name: &str| summary[name].as_array().map_or(0, Vec::len);
        let detail = json!({
            "stopped": summary["stopped"], "attempts": count("attempts"), "left": count("left"),
            "cost": summary["cost"], "unpriced": summary["unpriced"], "tokens": summary["tokens"],
        });
        let mut store = self.store()?;
        // What killed agents have left in queues.
        store.sweep(Extent { keep_events_since: Timestamp::from_millis(0), foreign_locks: false })?;
        Ok(store.end_run(run, &detail)?)
    }

    /// What was tried at the issue so far, over all runs.
    pub(crate) fn tries(&self, issue: &IssueId) -> Result<Tries> {
        let attempts = self.store()?.attempts(issue)?;
        let ended = attempts
            .iter()
            .filter(|attempt| matches!(attempt.state, AttemptState::Done | AttemptState::HandedOver))
            .filter(|attempt| attempt.interruption != Some(Interruption::Stopped))
            .count();
        let next = attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0) + 1;
        Ok(Tries { ended: u32::try_from(ended).unwrap_or(u32::MAX), next })
    }

    /// Issues that were left to a person, as far as the store keeps issues.
    pub(crate) fn blocked(&self) -> Result<Vec<IssueId>> {
        if self.options.keeping == Keeping::Tracker {
            return Ok(Vec::new());
        }
        let filter = IssueFilter { status: Some(BLOCKED.to_owned()), ..IssueFilter::default() };
        Ok(self.store()?.issues(&filter)?.into_iter().map(|issue| issue.id).collect())
    }

    /// Issues that need each other, as far as the store keeps issues. Whoever cannot look says nothing.
    pub(crate) fn circles(&self) -> Vec<Vec<IssueId>> {
        if self.options.keeping == Keeping::Tracker {
            return Vec::new();
        }
        self.store().ok().and_then(|mut store| store.circles_of_needs().ok()).unwrap_or_default()
    }

    /// The issue was left to a person, who asks for it now: it is open again. Anything else stays as it is.
    pub(crate) fn unblock(&self, issue: &IssueId) -> Result<()> {
        let mut store = self.store()?;
        let is_blocked = store.issue(issue)?.is_some_and(|issue| issue.status == BLOCKED);
        if is_blocked {
            store.reopen_issue(&person(), issue)?;
        }
        Ok(())
    }

    /// Takes the issue, and writes down that an attempt at it has begun.
    pub(super) fn claim_in_store(&self, new: &NewAttempt) -> Result<StoreClaim> {
        match self.store()?.claim(new) {
            Ok(attempt) => Ok(StoreClaim::Granted(Box::new(attempt))),
            Err(
                error @ (StoreError::Journal(JournalError::Attempted { .. } | JournalError::Queued { .. })
                | StoreError::Issue(IssueError::NotOpen { .. } | IssueError::Blocked { .. })),
            ) => Ok(StoreClaim::Gone(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes these files for the attempt's agent, all or none, without waiting. False if others have one of them.
    pub(super) fn take_files<'a>(
        &self,
        attempt: &Attempt,
        files: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<bool> {
        let request = self.request(attempt, self.wants(files), "uncommitted work");
        match acquire(self.repo.scope(), &mut *self.store()?, &request) {
            Ok(outcome) => Ok(matches!(outcome, Outcome::Granted(_))),
            Err(SessionError::StillOpen { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn request(&self, attempt: &Attempt, wants: Vec<Want>, why: &str) -> Request {
        let reason = Some(why.to_owned());
        Request { party: self.party(attempt), wants, ttl: self.options.lock.ttl, reason }
    }

    /// Undoes a claim in the store as if it had not been: no attempt is counted.
    pub(super) fn give_back(&self, attempt: &Attempt) -> Result<()> {
        let finish = Finish { end: End::GivenBack, note: None, progress: Progress::default() };
        self.finish_in_store(attempt, &finish)
    }

    /// Writes a step down, if the attempt still is where `from` says. If `to` is the same, only what became known is.
    pub(crate) fn advance(
        &self,
        attempt: &Attempt,
        (from, to): (AttemptState, AttemptState),
        progress: &Progress,
    ) -> Result<()> {
        if from == to {
            return Ok(self.store()?.keep(attempt.id, progress)?);
        }
        self.store()?.advance(attempt.id, from, to, progress)?;
        Ok(())
    }

    /// Ends the attempt: note, state of the issue, release of every lock and the event are one transaction.
    pub(super) fn finish_in_store(&self, attempt: &Attempt, finish: &Finish) -> Result<()> {
        self.store()?.finish(attempt.id, finish)?;
        Ok(())
    }

    /// Attempts that are not over although their run is.
    pub(crate) fn abandoned(&self) -> Result<Vec<Attempt>> {
        Ok(self.store()?.stranded()?)
    }

    /// Those of `keys` that the attempt's agent held alone at some time since its claim and that nobody else has held since.
    /// They are held for it from now on, also if its process is gone.
    pub(crate) fn secure(&self, attempt: &Attempt, keys: &[Key]) -> Result<Vec<Key>> {
        let mut store = self.store()?;
        let began = store.began(&attempt.agent, Some(&attempt.run))?;
        let mut secured = Vec::new();
        for key in store.held_last(&attempt.agent, keys, began)? {
            let target = Target::File(key.clone());
            let want = Want { target, aliases: Vec::new(), mode: Mode::Exclusive };
            let request = self.request(attempt, vec![want], "uncommitted work");
            if let Outcome::Granted(_) = acquire(self.repo.scope(), &mut store, &request)? {
                secured.push(key);
            }
        }
        Ok(secured)
    }

    /// True if the attempt's agent has the whole checkout for itself, or had it since its claim and still when something was
    /// written at `written`. A file's date can only be compared with the date until which the agent had it.
    pub(crate) fn held_everything(&self, attempt: &Attempt, written: Timestamp) -> Result<bool> {
        let mut store = self.store()?;
        let began = store.began(&attempt.agent, Some(&attempt.run))?.unwrap_or(Fence(0));
        let any = Key::from_stored(GITS_OWN.to_vec());
        let history = store.file_history(&attempt.agent, &any, (began, None))?;
        Ok(history.held_since.is_some() || history.last_hold.is_some_and(|end| end.at >= written))
    }

    /// The last attempt at the issue, if it was cut off.
    pub(crate) fn unfinished(&self, issue: &IssueId) -> Result<Option<Attempt>> {
        let attempts = self.store()?.attempts(issue)?;
        // One that was given back untouched has left nothing.
        let last = attempts.into_iter().rfind(|attempt| attempt.state != AttemptState::Ready);
        Ok(last.filter(|attempt| attempt.interruption.is_some()))
    }

    /// Who holds something that `files` would need.
    pub(crate) fn holders(&self, files: &[Want]) -> Result<Vec<Held>> {
        let mut store = self.store()?;
        Ok(store.check(&AgentId::nobody(), files)?.iter().map(held).collect())
    }

    /// For how much of the last `span` the agent has waited for files and for its turn to test.
    pub(crate) fn waited(&self, agent: &AgentId, span: Duration) -> Result<Duration> {
        Ok(self.store()?.waited(agent, span)?)
    }

    /// How long ago the agent last had a turn to test, if that was in the last `span`.
    pub(crate) fn last_turn(&self, agent: &AgentId, span: Duration) -> Result<Option<Duration>> {
        Ok(self.store()?.last_turn(agent, span)?)
    }

    /// Agents that have waited for files or for a turn for at least so long, and still do.
    pub(crate) fn waiting_for(&self, span: Duration) -> Result<Vec<AgentId>> {
        Ok(self.store()?.waiting_for(span)?)
    }

    /// How much agents got in each other's way since the run began.
    pub(crate) fn contention(&self) -> Result<Contention> {
        let mut store = self.store()?;
        let kind = Some(EventKind::RunStarted.as_str().to_owned());
        let began = store.events(&EventFilter { kind, limit: Some(1), ..EventFilter::default() })?;
        let began = began.first().map_or(0, |event| event.seq);
        let mut events = store.events(&EventFilter { after: Some(began), ..EventFilter::default() })?;
        events.retain(|event| event.agent.as_ref().is_none_or(|agent| !agent.starts_with(SELF_TEST)));
        // Turns are there to be waited for.
        events.retain(|event| event.target != Some(TargetKind::Name));
        let count = |kinds: &[EventKind]| {
            let is = |kind: &str| kinds.iter().any(|known| known.as_str() == kind);
            u64::try_from(events.iter().filter(|event| is(&event.kind)).count()).unwrap_or(u64::MAX)
        };
        let time = TimeSpent::from(&store.agent_time(Fence(began))?);
        let health = health::judge(&store.status()?.health, &self.options.health);
        Ok(Contention {
            lock_tries: count(TRIES),
            lock_waits: count(&[EventKind::WaitStarted]),
            refusals: count(&[EventKind::LockRefused]),
            time,
            warnings: health.iter().map(|warning| warning.text.clone()).collect(),
            advice: health.iter().map(|warning| warning.advice).collect(),
        })
    }
}

fn held(conflict: &mala_core::Conflict) -> Held {
    Held {
        file: conflict.contended().to_string(),
        by: conflict.holder.agent.clone(),
        issue: conflict.holder.issue.clone(),
    }
}
