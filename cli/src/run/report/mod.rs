//! What a person, or a program, sees of a run.

mod live;
mod summary;
pub(crate) mod words;

use std::io::Write;
use std::path::PathBuf;

use mala_core::{Scope, Timestamp};
use mala_engine::{Event, Reporter};
use mala_gate::evidence::anchoring::{self, AnchorError};
use mala_landing::running;
use mala_logs::chain::{ChainError, ChainWriter};
use mala_logs::secrets::mask_json;
use mala_store::{Status, Store};
use serde::Serialize;

use crate::ui::{Ui, plain, span};

pub(crate) use live::{Live, Pulse};
pub(crate) use summary::{write_blocked, write_summary};

/// An event as `--json` and the log write it.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(flatten)]
    event: &'a Event,
}

/// One JSON object a line, as things happen.
#[derive(Debug)]
pub(crate) struct Json(pub(crate) Ui);

impl Reporter for Json {
    fn report(&mut self, at: Timestamp, event: &Event) {
        // A reader that has gone away is no reason to stop agents.
        let _ = self.0.json_line(&Line { at, event });
    }
}

/// Sends everything to the log of the run, and then to whoever watches.
pub(crate) struct Logged {
    /// Opened when the run says its name.
    log: Option<RunLog>,
    scope: Scope,
    next: Box<dyn Reporter>,
    ui: Ui,
}

impl Logged {
    pub(crate) fn new(scope: &Scope, ui: &Ui, next: Box<dyn Reporter>) -> Self {
        Self { log: None, scope: scope.clone(), next, ui: ui.clone() }
    }

    fn open(&mut self, run: &str) {
        match RunLog::open(&self.scope, run) {
            Ok(log) => self.log = Some(log),
            Err(error) => self.ui.warning(&format!("this run has no log: {error}")),
        }
    }
}

/// The log of one run. What agents do goes into it as it happens; each step of the run is anchored in the store as well.
struct RunLog {
    writer: ChainWriter,
    path: PathBuf,
    scope: Scope,
    store: Store,
}

impl RunLog {
    fn open(scope: &Scope, run: &str) -> Result<Self, AnchorError> {
        let path = scope.state_dir().join("logs").join(format!("{run}.jsonl"));
        let writer = ChainWriter::open(&path)?.unsynced().private();
        Ok(Self { writer, path, scope: scope.clone(), store: Store::open(scope)? })
    }

    /// What agents do may name secrets, as in the command lines they type.
    fn append(&mut self, line: &Line<'_>) -> Result<(), AnchorError> {
        let mut value = serde_json::to_value(line).expect("events become JSON");
        mask_json(&mut value);
        let link = self.writer.append(&value)?;
        // Agents do something several times a second; the next step of the run anchors that, too.
        if matches!(line.event, Event::Doing { .. }) {
            return Ok(());
        }
        match anchoring::anchor(&mut self.store, &self.scope, &self.path, &link) {
            // Lines are gone: `mala logs verify` says so for good, and the run goes on.
            Err(AnchorError::Log(ChainError::Broken(_))) => Ok(()),
            done => done,
        }
    }
}

impl Reporter for Logged {
    fn report(&mut self, at: Timestamp, event: &Event) {
        if let Event::RunStarted { run, .. } = event {
            self.open(run.as_str());
        }
        if let Some(log) = &mut self.log
            && let Err(error) = log.append(&Line { at, event })
        {
            self.ui.warning(&format!("the log of this run ends here: {error}"));
            self.log = None;
        }
        self.next.report(at, event);
    }

    fn tick(&mut self) {
        self.next.tick();
    }
}

/// Writes a line, wherever it goes; a reader that has gone away is no reason to stop agents.
fn put(out: &mut dyn Write, line: &str) {
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

#[derive(Debug)]
pub(crate) struct Plain(pub(crate) Ui);

impl Reporter for Plain {
    fn report(&mut self, _at: Timestamp, event: &Event) {
        // Warnings are remarks; what happens is the answer.
        let is_remark = matches!(event, Event::Warning { .. } | Event::BranchRed { .. })
            || matches!(event, Event::Validating { .. } | Event::Preparing { .. });
        let mut out = if is_remark { self.0.err() } else { self.0.out() };
        for line in words::lines(event) {
            put(&mut *out, &line);
        }
        if let Event::RunEnded { summary } = event {
            let _ = write_summary(&mut *out, summary);
        }
    }
}

/// What happens to the landing queue, for whoever sums it up: nothing of the run around it, and only remarks for programs.
#[derive(Debug)]
pub(crate) struct QueueOnly(pub(crate) Ui);

impl Reporter for QueueOnly {
    fn report(&mut self, _at: Timestamp, event: &Event) {
        let mut out = match event {
            Event::RunStarted { .. } | Event::RunEnded { .. } => return,
            Event::Warning { .. } | Event::BranchRed { .. } => self.0.err(),
            _ if self.0.json => return,
            _ => self.0.out(),
        };
        words::lines(event).iter().for_each(|line| put(&mut *out, line));
    }
}

/// Looks into the store, and at what is validated, each time it is asked.
pub(crate) fn pulse(scope: &Scope) -> Pulse {
    let (mut store, scope) = (Store::open(scope).ok(), scope.clone());
    Box::new(move || {
        let status = store.as_mut()?.status().ok()?;
        let validating = running(&scope).into_iter().map(|running| {
            let since = span(Timestamp::now().since(running.since));
            format!("`{}` in {} for {since}", plain(&running.command), running.slot)
        });
        Some(std::iter::once(line(&status)).chain(validating).collect::<Vec<_>>().join("; "))
    })
}

fn line(status: &Status) -> String {
    let held = status.locks.iter().filter(|lock| !lock.is_named()).count();
    let mut parts = vec![format!("{held} {} held", if held == 1 { "file" } else { "files" })];
    if !status.waiting.is_empty() {
        parts.push(format!("{} waiting", status.waiting.len()));
    }
    for mutex in &status.mutexes {
        if let Some((holder, _)) = &mutex.holder {
            let queue = match mutex.queue.len() {
                0 => String::new(),
                waiting => format!(", {waiting} behind it"),
            };
            parts.push(format!("{}: `{holder}`{queue}", mutex.name));
        }
    }
    parts.join("; ")
}
