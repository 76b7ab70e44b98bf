//! The seam to what decides whether an attempt is done, and the gate behind it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use mala_config::Settings;
use mala_core::{Attempt, CheckName, EvidenceId, Scope};
use mala_gate::evidence::Of;
use mala_gate::rules::{Outcome, RulesError};
use mala_gate::{AttemptVerdict, Check, Evidence, EvidenceLog, Gate};
use mala_git::Repo;
use mala_store::Store;
use serde::Serialize;

use crate::error::Result;

/// The seam to what decides whether an attempt is done.
pub trait Validator: Send + Sync {
    /// Judges what an attempt has come to.
    fn judge(&self, attempt: &Attempt, last_message: Option<&str>) -> Result<Judgement>;
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judgement {
    pub accepted: bool,
    /// Commits of this attempt, oldest first.
    pub commits: Vec<String>,
    /// The outcome without a commit that was accepted, such as `no-change: reason`.
    pub outcome: Option<String>,
    /// Only what did not pass.
    pub failed: Vec<FailedCheck>,
}

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedCheck {
    pub name: CheckName,
    /// What is wrong and what to do about it.
    pub detail: String,
    pub evidence: Vec<String>,
    /// The end of the output of the command that failed, if one did.
    pub output: Option<String>,
}

/// How much of a failing command's output an agent is shown.
const OUTPUT_TAIL_BYTES: u64 = 4 << 10;

#[derive(Debug)]
pub struct GateValidator {
    scope: Scope,
    gate: Gate,
}

impl GateValidator {
    pub fn new(scope: &Scope, settings: &Settings) -> Result<Self, RulesError> {
        Ok(Self { scope: scope.clone(), gate: Gate::of(settings)? })
    }

    fn failed(&self, attempt: &Attempt, check: &Check) -> FailedCheck {
        let output = self.output_of(attempt, &check.evidence.iter().collect());
        FailedCheck {
            name: check.name,
            detail: check.detail.clone(),
            evidence: check.evidence.iter().map(ToString::to_string).collect(),
            output,
        }
    }

    /// The end of what the newest of these runs printed, if it failed.
    fn output_of(&self, attempt: &Attempt, ids: &HashSet<&EvidenceId>) -> Option<String> {
        if ids.is_empty() {
            return None;
        }
        let log = EvidenceLog::of(&self.scope);
        let mut newest = None;
        let found = |record: Evidence| {
            if !ids.contains(&record.id) {
                return ControlFlow::Continue(());
            }
            newest = Some(record);
            ControlFlow::Break(())
        };
        log.search(Of::Agent(&attempt.agent), found).ok()?;
        let record = newest.filter(|record| record.exit_code != Some(0))?;
        tail(Path::new(&record.output_log?))
    }
}

impl Validator for GateValidator {
    fn judge(&self, attempt: &Attempt, last_message: Option<&str>) -> Result<Judgement> {
        let repo = Repo::new(self.scope.clone());
        let store = Store::open(&self.scope)?;
        let AttemptVerdict { verdict, commits } =
            self.gate.attempt_verdict(&repo, store, attempt, last_message)?;
        let accepted = verdict.is_pass();
        let outcome = last_message.and_then(Outcome::read).filter(|_| accepted && commits.is_empty());
        Ok(Judgement {
            accepted,
            commits: commits.iter().map(ToString::to_string).collect(),
            outcome: outcome.map(|outcome| format!("{}: {}", outcome.kind, outcome.reason)),
            failed: verdict.failures().map(|check| self.failed(attempt, check)).collect(),
        })
    }
}

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
