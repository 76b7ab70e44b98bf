//! The seam to what decides whether an attempt is done, and the gate behind it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use mala_config::Settings;
use mala_core::{Attempt, CheckSubject, EvidenceId, Scope};
use mala_gate::evidence::Of;
use mala_gate::judge::foreign_writes;
use mala_gate::rules::{Outcome, RulesError};
use mala_gate::transcript::SessionTranscript;
use mala_gate::verdict::Status;
use mala_gate::{Candidate, Check, Evidence, EvidenceLog, Records, Rules, StoreOwnership, Verdict, check};
use mala_git::{Oid, Repo};
use mala_store::Store;
use serde::Serialize;

use crate::error::Result;
use crate::range;

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
    pub name: String,
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
    rules: Rules,
    /// Whether what clients wrote down themselves counts.
    transcripts: bool,
}

impl GateValidator {
    pub fn new(scope: &Scope, settings: &Settings) -> Result<Self, RulesError> {
        let transcripts = settings.transcripts.evidence;
        Ok(Self { scope: scope.clone(), rules: Rules::of(settings)?, transcripts })
    }

    /// Every commit must be properly made; together they must leave what was proven.
    fn verdicts(&self, attempt: &Attempt, own: &[Oid], message: Option<&str>) -> Result<Vec<Check>> {
        let [earlier @ .., last] = own else { return Ok(self.check(attempt, None, message)?.checks) };
        if earlier.is_empty() {
            return Ok(self.check(attempt, Some(last), message)?.checks);
        }
        let mut checks = Vec::new();
        for commit in own {
            let verdict = self.check(attempt, Some(commit), message)?;
            checks.extend(
                verdict.checks.into_iter().filter(|check| check.name.subject() != CheckSubject::Content),
            );
        }
        let repo = Repo::new(self.scope.clone());
        let text = format!("{}: what {} leaves\n", attempt.issue, attempt.agent);
        let together = range::squash(&repo, attempt.head.as_ref(), own, &text)?;
        let verdict = self.check(attempt, Some(&together), message)?;
        checks
            .extend(verdict.checks.into_iter().filter(|check| check.name.subject() == CheckSubject::Content));
        Ok(checks)
    }

    fn check(&self, attempt: &Attempt, commit: Option<&Oid>, message: Option<&str>) -> Result<Verdict> {
        let repo = Repo::new(self.scope.clone());
        let ownership = StoreOwnership::new(Store::open(&self.scope)?);
        let log = EvidenceLog::of(&self.scope);
        let told = self.told(&repo, &ownership, attempt, commit)?;
        let records = Records { log: &log, transcripts: &told };
        let candidate = Candidate {
            commit: commit.cloned(),
            issue: Some(attempt.issue.clone()),
            agent: Some(attempt.agent.clone()),
            claimed_at: Some(attempt.started_at),
            claimed_head: attempt.head.clone(),
            final_message: message.map(str::to_owned),
        };
        Ok(check(&repo, &ownership, &records, &self.rules, &candidate)?)
    }

    /// What the transcript of the agent's client says, where it counts.
    fn told(
        &self,
        repo: &Repo,
        ownership: &StoreOwnership,
        attempt: &Attempt,
        commit: Option<&Oid>,
    ) -> Result<Vec<Evidence>> {
        let Some(commit) = commit.filter(|_| self.transcripts) else { return Ok(Vec::new()) };
        let mut store = Store::open(&self.scope)?;
        let transcript = SessionTranscript::of_session(&mut store, &attempt.agent, Some(attempt.started_at));
        match transcript? {
            Some(transcript) => Ok(transcript.evidence(repo, ownership, &attempt.agent, commit)?),
            None => Ok(Vec::new()),
        }
    }

    fn failed(&self, attempt: &Attempt, check: Check) -> FailedCheck {
        let output = self.output_of(attempt, &check.evidence.iter().collect());
        FailedCheck {
            name: check.name.to_string(),
            detail: check.detail,
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
        let base = attempt.head.as_ref();
        let own = range::commits(&repo, base, &attempt.agent, &self.rules.issue, &attempt.issue)?;
        let mut checks = self.verdicts(attempt, &own, last_message)?;
        let mut store = Store::open(&self.scope)?;
        checks.push(foreign_writes(&mut store, &attempt.agent, Some(attempt.started_at))?);
        // That nothing was done wrong is no proof that something was done.
        let is_proof = |check: &&Check| check.name.subject() != CheckSubject::Conduct;
        let has_passed = checks.iter().filter(is_proof).any(|check| check.status == Status::Pass);
        let failed: Vec<Check> = checks.into_iter().filter(|check| check.status == Status::Fail).collect();
        let accepted = has_passed && failed.is_empty();
        let outcome = last_message.and_then(Outcome::read).filter(|_| accepted && own.is_empty());
        Ok(Judgement {
            accepted,
            commits: own.iter().map(ToString::to_string).collect(),
            outcome: outcome.map(|outcome| format!("{}: {}", outcome.kind, outcome.reason)),
            failed: failed.into_iter().map(|check| self.failed(attempt, check)).collect(),
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
