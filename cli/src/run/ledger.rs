//! The engine's ledger over the store.

use std::io::PipeReader;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use mala_config::Settings;
use mala_core::issue::BLOCKED;
use mala_core::{AgentId, AttemptState, IssueId, Key, Mode, RunId, Scope, Target, Timestamp, Want};
use mala_engine::Keeping;
use mala_engine::ports::{
    Attempt, BeginError, ClaimAnswer, ClaimRequest, Contention, Detail, Ending, Finish, Held, Interruption,
    Ledger, PortError, Tries, Waited,
};
use mala_session::{Handover, SessionError, acquire, claim};
use mala_store::{
    ClaimOutcome, End, Event, EventFilter, EventKind, Extent, IssueError, IssueFilter, JournalError,
    NewAttempt, Next, Outcome, Party, Progress, Request, SELF_TEST, Store, StoreError, TRIES, TargetKind,
    Tracker, process,
};
use serde_json::{Value, json};

use super::parking::{self, Parking};
use super::source::mala as person;
use super::{health, waits};
use crate::context::open;
use crate::error::CliError;

/// Nobody names a file of git's own, so whoever had it had everything.
const GITS_OWN: &[u8] = b".git/MERGE_HEAD";

/// The store, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct StoreLedger {
    scope: Scope,
    store: Mutex<Store>,
    ttl: Duration,
    keeping: Keeping,
    settings: Settings,
}

impl StoreLedger {
    pub(crate) fn open(scope: &Scope, settings: &Settings, keeping: Keeping) -> Result<Self, CliError> {
        let store = Mutex::new(open(scope)?);
        Ok(Self { scope: scope.clone(), store, ttl: settings.lock.ttl, keeping, settings: settings.clone() })
    }

    fn store(&self) -> Result<MutexGuard<'_, Store>, PortError> {
        self.store.lock().map_err(|_| "the store was left in the middle of something".into())
    }

    /// What the last run was asked to do, if it was killed or stopped before its end.
    pub(crate) fn last_wish(&self) -> Result<Option<Value>, CliError> {
        let mut store = self.store().map_err(CliError::failed)?;
        if store.current_run()?.is_some() {
            return Ok(None);
        }
        let mut last = |kind: EventKind| {
            let kind = Some(kind.as_str().to_owned());
            store.events(&EventFilter { kind, limit: Some(1), ..EventFilter::default() })
        };
        let (started, ended) = (last(EventKind::RunStarted)?.pop(), last(EventKind::RunEnded)?.pop());
        let is_end =
            |ended: &Event, run: &Option<String>| ended.run == *run && ended.detail["stopped"].is_null();
        let has_ended = |run: &Option<String>| ended.as_ref().is_some_and(|ended| is_end(ended, run));
        Ok(started
            .filter(|started| !has_ended(&started.run))
            .map(|started| started.detail["options"].clone()))
    }

    fn party(&self, attempt: &Attempt) -> Party {
        Party {
            agent: attempt.agent.clone(),
            owner: process::current(),
            supervised: true,
            issue: Some(attempt.issue.clone()),
            run: Some(attempt.run.clone()),
        }
    }
}

impl Ledger for StoreLedger {
    fn begin_run(&self, options: &Value) -> Result<RunId, BeginError> {
        let mut store = self.store().map_err(BeginError::Port)?;
        match store.begin_run(&process::current(), options) {
            Ok(run) => Ok(run.id),
            Err(StoreError::Journal(JournalError::AlreadyRunning { run })) => {
                Err(BeginError::Busy { run: run.id, owner: run.owner, since: run.started_at })
            }
            Err(error) => Err(BeginError::Port(error.into())),
        }
    }

    fn end_run(&self, run: &RunId, summary: &Value) -> Result<(), PortError> {
        let count = |name: &str| summary[name].as_array().map_or(0, Vec::len);
        let detail = json!({
            "stopped": summary["stopped"], "attempts": count("attempts"), "left": count("left"),
            "cost": summary["cost"], "tokens": summary["tokens"],
        });
        let mut store = self.store()?;
        // What killed agents have left in queues.
        store.sweep(Extent { keep_events_since: Timestamp::from_millis(0), foreign_locks: false })?;
        Ok(store.end_run(run, &detail)?)
    }

    fn tries(&self, issue: &IssueId) -> Result<Tries, PortError> {
        let attempts = self.store()?.attempts(issue)?;
        let ended = attempts
            .iter()
            .filter(|attempt| matches!(attempt.state, AttemptState::Done | AttemptState::HandedOver))
            .filter(|attempt| attempt.interruption != Some(Interruption::Stopped))
            .count();
        let next = attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0) + 1;
        Ok(Tries { ended: u32::try_from(ended)?, next })
    }

    fn blocked(&self) -> Result<Vec<IssueId>, PortError> {
        if self.keeping == Keeping::Tracker {
            return Ok(Vec::new());
        }
        let filter = IssueFilter { status: Some(BLOCKED.to_owned()), ..IssueFilter::default() };
        Ok(self.store()?.issues(&filter)?.into_iter().map(|issue| issue.id).collect())
    }

    fn unblock(&self, issue: &IssueId) -> Result<(), PortError> {
        let mut store = self.store()?;
        let is_blocked = store.issue(issue)?.is_some_and(|issue| issue.status == BLOCKED);
        if is_blocked {
            store.reopen_issue(&person(), issue)?;
        }
        Ok(())
    }

    fn claim(&self, request: &ClaimRequest) -> Result<ClaimAnswer, PortError> {
        let new = NewAttempt {
            run: request.run.clone(),
            issue: request.issue.clone(),
            tracker: match self.keeping {
                Keeping::Ledger => Tracker::BuiltIn,
                Keeping::Tracker => Tracker::Other,
            },
            agent: request.agent.clone(),
            profile: request.profile.clone(),
            head: request.head.clone(),
            files: request.files.clone(),
            owner: process::current(),
            ttl: self.ttl,
        };
        match claim(&self.scope, &mut *self.store()?, &new) {
            Ok(ClaimOutcome::Claimed { attempt, .. }) => Ok(ClaimAnswer::Claimed(*attempt)),
            Ok(ClaimOutcome::FilesHeld(conflicts)) => {
                Ok(ClaimAnswer::FilesHeld(conflicts.iter().map(held).collect()))
            }
            Err(SessionError::StillOpen { key, side: Handover::Acquire { by: Some(by) }, .. }) => {
                Ok(ClaimAnswer::FilesHeld(vec![Held { file: key.to_string(), by, issue: None }]))
            }
            Err(SessionError::Store(
                error @ (StoreError::Journal(JournalError::Attempted { .. })
                | StoreError::Issue(IssueError::NotOpen { .. } | IssueError::Blocked { .. })),
            )) => Ok(ClaimAnswer::Taken { why: error.to_string() }),
            Err(error) => Err(error.into()),
        }
    }

    fn put_back(&self, attempt: &Attempt, _why: &str) -> Result<(), PortError> {
        let finish = mala_store::Finish { end: End::GivenBack, note: None, progress: Progress::default() };
        self.store()?.finish(attempt.id, &finish)?;
        Ok(())
    }

    fn advance(
        &self,
        attempt: &Attempt,
        from: AttemptState,
        to: AttemptState,
        detail: &Detail,
    ) -> Result<(), PortError> {
        let Detail { session, question, interruption } = detail.clone();
        let progress = Progress { session, question, interruption, ..Progress::default() };
        if from == to {
            return Ok(self.store()?.keep(attempt.id, &progress)?);
        }
        self.store()?.advance(attempt.id, from, to, &progress)?;
        Ok(())
    }

    fn finish(&self, attempt: &Attempt, finish: &Finish) -> Result<(), PortError> {
        let end = match &finish.ending {
            Ending::Done { reason } => End::Done { commit: Some(reason.clone()) },
            Ending::HandedOver { reason } => End::HandedOver { reason: reason.clone(), next: Next::TryAgain },
            Ending::Blocked { reason } => End::HandedOver { reason: reason.clone(), next: Next::AskAPerson },
        };
        let spend =
            mala_core::Spend { cost_micros: micros(finish.cost.unwrap_or(0.0)), tokens: finish.tokens };
        let progress = Progress {
            interruption: finish.interruption,
            saved_ref: finish.saved_ref.clone(),
            verdict: finish.verdict.clone(),
            spend: Some(spend),
            ..Progress::default()
        };
        let finish = mala_store::Finish { end, note: finish.note.clone(), progress };
        self.store()?.finish(attempt.id, &finish)?;
        Ok(())
    }

    fn abandoned(&self) -> Result<Vec<Attempt>, PortError> {
        Ok(self.store()?.stranded()?)
    }

    fn secure(&self, attempt: &Attempt, keys: &[Key]) -> Result<Vec<Key>, PortError> {
        let mut store = self.store()?;
        let owned = store.owned_each(&attempt.agent, keys, Some(attempt.started_at))?;
        let mut secured = Vec::new();
        for (key, _) in keys.iter().zip(owned).filter(|(_, fence)| fence.is_some()) {
            let target = Target::File(key.clone());
            let request = Request {
                party: self.party(attempt),
                wants: vec![Want { target, aliases: Vec::new(), mode: Mode::Exclusive }],
                ttl: self.ttl,
                reason: Some("uncommitted work".to_owned()),
            };
            if let Outcome::Granted(_) = acquire(&self.scope, &mut store, &request)? {
                secured.push(key.clone());
            }
        }
        Ok(secured)
    }

    fn held_everything(&self, attempt: &Attempt, since: Timestamp) -> Result<bool, PortError> {
        let (any, since) = (Key::from_stored(GITS_OWN.to_vec()), since.max(attempt.started_at));
        Ok(self.store()?.owned(&attempt.agent, &any, Some(since))?.is_some())
    }

    fn waited(&self, agent: &AgentId, since: Timestamp) -> Result<Duration, PortError> {
        let mut store = self.store()?;
        // From the beginning: a wait may have begun before.
        let filter = EventFilter { agent: Some(agent.to_string()), ..EventFilter::default() };
        let events = store.events(&filter)?;
        Ok(waits::waited(&events, since, store.now()))
    }

    fn awaited(&self, attempt: &Attempt) -> Result<Vec<Held>, PortError> {
        parking::awaited(&mut *self.store()?, &self.party(attempt))
    }

    fn wait_for_asked(&self, attempt: &Attempt, hangup: PipeReader) -> Result<Waited, PortError> {
        let (party, ttl, longest) = (self.party(attempt), self.ttl, self.settings.lock.max_wait);
        Parking { scope: &self.scope, party, ttl, longest }.wait(&hangup)
    }

    fn held_up_by(&self, agent: &AgentId) -> Result<Vec<AgentId>, PortError> {
        Ok(self.store()?.held_up_by(agent)?)
    }

    fn last_tested(&self, agent: &AgentId, since: Timestamp) -> Result<Option<Timestamp>, PortError> {
        let mut store = self.store()?;
        if store.locks()?.iter().any(|lock| lock.is_named() && lock.agent == *agent) {
            return Ok(Some(store.now()));
        }
        let filter =
            EventFilter { agent: Some(agent.to_string()), since: Some(since), ..EventFilter::default() };
        Ok(waits::last_turn(&store.events(&filter)?))
    }

    fn unfinished(&self, issue: &IssueId) -> Result<Option<Attempt>, PortError> {
        let attempts = self.store()?.attempts(issue)?;
        // One that was given back untouched has left nothing.
        let last = attempts.into_iter().rfind(|attempt| attempt.state != AttemptState::Ready);
        Ok(last.filter(|attempt| attempt.interruption.is_some()))
    }

    fn holders(&self, files: &[Want]) -> Result<Vec<Held>, PortError> {
        let mut store = self.store()?;
        let nobody = AgentId::new("nobody-in-particular")?;
        Ok(store.check(&nobody, files)?.iter().map(held).collect())
    }

    fn contention(&self, since: Timestamp) -> Result<Contention, PortError> {
        let mut store = self.store()?;
        let mut events = store.events(&EventFilter { since: Some(since), ..EventFilter::default() })?;
        events.retain(|event| event.agent.as_ref().is_none_or(|agent| !agent.starts_with(SELF_TEST)));
        // Turns are there to be waited for.
        events.retain(|event| event.target != Some(TargetKind::Name));
        let count = |kinds: &[EventKind]| {
            let is = |kind: &str| kinds.iter().any(|known| known.as_str() == kind);
            u64::try_from(events.iter().filter(|event| is(&event.kind)).count()).unwrap_or(u64::MAX)
        };
        let health = health::judge(store.status()?.health, &self.settings.health);
        Ok(Contention {
            lock_tries: count(TRIES),
            lock_waits: count(&[EventKind::WaitStarted]),
            refusals: count(&[EventKind::LockRefused]),
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

/// Dollars as whole millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are never negative, and a run that costs more than 2^64 micros is over long before"
)]
fn micros(dollars: f64) -> u64 {
    (dollars.max(0.0) * 1_000_000.0).round() as u64
}
