//! Runs, as `mala logs` shows them: what the store knows of each, and what each wrote into its own log.

use std::io::{self, Write};
use std::path::PathBuf;

use mala_core::Attempt;
use mala_core::{RunId, Scope, Timestamp};
use mala_logs::chain::{ChainReader, Order};
use mala_logs::secrets::mask_json;
use mala_store::{Event, EventFilter, EventKind, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::ui::{DIM, plain};

/// Where runs write their logs.
pub(super) fn folder(scope: &Scope) -> PathBuf {
    scope.state_dir().join("logs")
}

/// One `mala run`.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    id: RunId,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    state: State,
    attempts: Vec<Value>,
    log: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Running,
    Ended,
    /// Its process is gone, and it never said that it had ended.
    Killed,
}

/// The newest so many runs, oldest first.
pub(super) fn list(
    store: &mut Store,
    scope: &Scope,
    since: Option<Timestamp>,
    limit: u32,
) -> Result<Vec<Run>, CliError> {
    let started = EventFilter { limit: Some(limit), since, ..of_kind(EventKind::RunStarted) };
    let started = store.events(&started)?;
    started.iter().map(|event| read(store, scope, event)).collect()
}

/// The run of this id.
pub(super) fn find(store: &mut Store, scope: &Scope, id: &str) -> Result<Option<Run>, CliError> {
    let started = store.events(&of_kind(EventKind::RunStarted))?;
    let event = started.into_iter().find(|event| event.run.as_deref() == Some(id));
    event.map(|event| read(store, scope, &event)).transpose()
}

fn of_kind(kind: EventKind) -> EventFilter {
    EventFilter { kind: Some(kind.as_str().to_owned()), ..EventFilter::default() }
}

fn read(store: &mut Store, scope: &Scope, started: &Event) -> Result<Run, CliError> {
    let id = RunId::new(started.run.clone().unwrap_or_default())?;
    let after = EventFilter { after: Some(started.seq), ..of_kind(EventKind::RunEnded) };
    let ended = store.events(&after)?.into_iter().find(|event| event.run.as_deref() == Some(id.as_str()));
    let state = match (&ended, store.current_run()?) {
        (Some(_), _) => State::Ended,
        (None, Some(current)) if current.id == id => State::Running,
        (None, _) => State::Killed,
    };
    let attempts = store.attempts_of_run(&id)?.iter().map(attempt).collect();
    let log = folder(scope).join(format!("{id}.jsonl"));
    let (started_at, ended_at) = (started.at, ended.map(|event| event.at));
    Ok(Run { id, started_at, ended_at, state, attempts, log })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "issue": attempt.issue,
        "agent": attempt.agent,
        "number": attempt.number,
        "state": attempt.state,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
    })
}

impl Run {
    pub(super) fn id(&self) -> &RunId {
        &self.id
    }

    /// What it wrote into its own log, oldest first.
    pub(super) fn events(&self) -> Result<Vec<Value>, CliError> {
        let log = ChainReader::open(&self.log).map_err(CliError::failed)?;
        let mut events: Vec<Value> = log
            .records(Order::OldestFirst)
            .collect::<Result<_, _>>()
            .map_err(|error| CliError::failed(error).hint("see how far it can be read: mala logs verify"))?;
        events.iter_mut().for_each(mask_json);
        Ok(events)
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let state = match self.state {
            State::Running => "running",
            State::Ended => "ended",
            State::Killed => "killed",
        };
        let issues: Vec<&str> =
            self.attempts.iter().filter_map(|attempt| attempt["issue"].as_str()).collect();
        let (started, id) = (self.started_at, &self.id);
        writeln!(out, "{DIM}{started}{DIM:#}  {id}  {state:<8}  {}", plain(issues.join(" ")))
    }
}

/// One line for what happened in a run.
pub(super) fn write_event(out: &mut dyn Write, event: &Value) -> io::Result<()> {
    let text = |name: &str| event[name].as_str().map(plain).unwrap_or_default();
    let told = ["what", "reason", "why", "text", "outcome", "how"].map(text);
    let told = told.into_iter().find(|told| !told.is_empty()).unwrap_or_default();
    writeln!(out, "{DIM}{}{DIM:#}  {:<12}  {:<12}  {told}", text("at"), text("event"), text("issue"))
}
