//! One run of a test command, whichever way it is run: held by the kernel below `mala exec`, by `mala test` in the checkout, or in
//! a slot.
//!
//! A [`TestRun`] begins with what the command is about to see, and the journal says that it has begun. From there it leads
//! only to a record: what it ran on and whose changes those were, its output, its arguments without secrets, how it ended, and
//! the event that says so. One that is dropped instead leaves no record, and so is no evidence.

use std::fs::File;
use std::io;
use std::path::Path;

use mala_core::{Actor, EvidenceId, Scope};
use mala_git::Repo;
use mala_logs::telemetry::spans::{self, Span};
use mala_sandbox::Exit;
use mala_store::{EventKind, Party, Store, StoreError};
use serde_json::{Value, json};
use thiserror::Error;

use crate::StoreOwnership;
use crate::evidence::output::{failed, sha256};
use crate::evidence::{Ended, Evidence, EvidenceError, Launch, Place, Recording, command_line};
use crate::runner::{self, Manner, RunError, Task, Tee};

/// A test that could not be run, or not be recorded.
#[derive(Debug, Error)]
pub enum TestRunError {
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A test command between its start and its record.
#[derive(Debug)]
pub struct TestRun {
    recording: Recording,
    party: Party,
    command: String,
    /// The checkout that it is run for, wherever it runs.
    scope: Scope,
    span: Span,
}

impl TestRun {
    /// To be called right before the command starts. `repo` is the checkout that it will see, `scope` the one that it is run for,
    /// and `span` is told how it ended.
    pub fn begin(
        (scope, repo): (&Scope, &Repo),
        party: &Party,
        launch: Launch,
        span: Span,
    ) -> Result<Self, TestRunError> {
        let who = Actor { agent: party.agent.clone(), issue: party.issue.clone(), run: party.run.clone() };
        let command = command_line(&launch.argv);
        let waited = match &launch.place {
            Place::Slot { waited, .. } => u64::try_from(waited.as_millis()).ok().filter(|waited| *waited > 0),
            Place::Shared => None,
        };
        let recording = Recording::begin(repo, who, launch)?;
        let mut detail = json!({ "command": command, "evidence": recording.id() });
        if let (Some(waited), Value::Object(fields)) = (waited, &mut detail) {
            fields.insert("waited_ms".into(), json!(waited));
        }
        Store::open(scope)?.record_fact(party, EventKind::TestStarted, None, &detail)?;
        Ok(Self { recording, party: party.clone(), command, scope: scope.clone(), span })
    }

    pub fn id(&self) -> &EvidenceId {
        self.recording.id()
    }

    /// The file that the output is to be saved in, for who copies it there.
    pub fn output(&self) -> io::Result<File> {
        self.recording.output()
    }

    /// The command has ended just now, and its record may have to wait for its output.
    pub fn note_end(&mut self) {
        self.recording.note_end();
    }

    /// Runs the command in `cwd`. One that is cut off is recorded like any other.
    ///
    /// # Errors
    ///
    /// Also if nobody waits for the result any more.
    pub fn run(self, cwd: &Path, manner: Manner<'_>, tee: &mut Tee<'_>) -> Result<Evidence, TestRunError> {
        let (argv, log) = (self.recording.argv().to_vec(), self.recording.output_log().to_owned());
        match runner::run(&Task { argv: &argv, cwd, log: &log, manner }, tee) {
            Ok(ended) | Err(RunError::Timeout(ended)) => self.record(ended),
            Err(RunError::Forsaken(ended)) => {
                self.record(ended.clone())?;
                Err(RunError::Forsaken(ended).into())
            }
            Err(error) => {
                self.note_failure(&error);
                Err(error.into())
            }
        }
    }

    /// What has begun ends in the journal, too. That there is no record says the rest, should this fail as well.
    fn note_failure(&self, error: &RunError) {
        let detail =
            json!({ "command": self.command, "evidence": self.recording.id(), "error": error.to_string() });
        if let Ok(mut store) = Store::open(&self.scope) {
            let _ = store.record_fact(&self.party, EventKind::TestEnded, None, &detail);
        }
    }

    /// Records a command that was run by another process: with its output, if that was copied to [`Self::output`].
    pub fn conclude(self, exit: Option<Exit>, is_output_saved: bool) -> Result<Evidence, TestRunError> {
        let saved = is_output_saved.then(|| self.output().and_then(|file| sha256(&file))).transpose();
        let output_sha256 = saved.map_err(failed(self.recording.output_log()))?;
        let (exit_code, signal) = exit.map_or((None, None), |exit| (exit.code, exit.signal));
        self.record(Ended { exit_code, signal, output_sha256 })
    }

    fn record(self, ended: Ended) -> Result<Evidence, TestRunError> {
        let Self { recording, party, command, scope, span } = self;
        spans::ended(&span, ended.exit_code, ended.signal);
        let ownership = StoreOwnership::new(Store::open(&scope)?);
        let evidence = recording.finish(ended, &ownership)?;
        let detail = json!({
            "command": command,
            "evidence": evidence.id,
            "exit_code": evidence.exit_code,
            "signal": evidence.signal,
        });
        ownership.into_store().record_fact(&party, EventKind::TestEnded, None, &detail)?;
        Ok(evidence)
    }
}
