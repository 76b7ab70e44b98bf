//! The seam to what decides whether an attempt is done, and the gate behind it.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use mala_config::Settings;
use mala_core::{Attempt, CheckName, Entry, EvidenceId, Scope};
use mala_gate::evidence::Of;
use mala_gate::rules::{Outcome, OutcomeKind};
use mala_gate::runner::Tee;
use mala_gate::{AttemptVerdict, Check, Evidence, EvidenceLog, Gate};
use mala_git::candidate::Pinned;
use mala_git::{Oid, Repo};
use mala_landing::offer::last_offer;
use mala_landing::{Pool, Requirements, Slots, Validate, Validation};
use mala_logs::secrets;
use mala_store::{EntryFilter, Store};
use serde::Serialize;

use crate::error::{EngineError, Result};
use crate::event::Event;

/// The seam to what decides whether an attempt is done.
pub trait Validator: Send + Sync {
    /// Judges what an attempt has come to.
    fn judge(&self, attempt: &Attempt, last_message: Option<&str>) -> Result<Judgement>;

    /// What a person should know about the branch before agents begin. That may take as long as the required commands:
    /// each is told when it starts.
    ///
    /// # Errors
    ///
    /// If no work could ever be accepted.
    fn look_at_base(&self, _tell: &mut dyn FnMut(&Event)) -> Result<Vec<Event>> {
        Ok(Vec::new())
    }
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Judgement {
    pub accepted: bool,
    /// Commits of this attempt, oldest first.
    pub commits: Vec<String>,
    /// What it wants to land; then that it is accepted means that the queue decides next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    /// The outcome without a commit that was accepted, such as `no-change: reason`.
    pub outcome: Option<String>,
    /// Nothing but the agent's word stands behind the outcome.
    pub is_unproven: bool,
    /// Only what did not pass.
    pub failed: Vec<FailedCheck>,
}

/// A candidate that an attempt has offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The ref that keeps it.
    pub pin: String,
    pub base: Oid,
    pub head: Oid,
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
pub(crate) const OUTPUT_TAIL_BYTES: u64 = 4 << 10;

/// The gate, whose commands mala runs itself: what the agent ran is for its own benefit.
#[derive(Debug)]
pub struct GateValidator {
    scope: Scope,
    gate: Gate,
    requirements: Requirements,
    slots: Slots,
}

impl GateValidator {
    pub fn new(scope: &Scope, settings: &Settings) -> Result<Self> {
        let slots = Slots::of(&Repo::new(scope.clone()), settings)?;
        let requirements = Requirements::of(settings);
        Ok(Self { scope: scope.clone(), gate: Gate::of(settings)?, requirements, slots })
    }

    /// What the required commands say about a commit, run by mala itself. `starts` hears of each that has to be run.
    fn validate(&self, commit: &Oid, starts: &mut dyn FnMut(&str)) -> Result<Validation> {
        let repo = Repo::new(self.scope.clone()).without_hooks();
        let (pool, requirements) = (Pool::Validation, &self.requirements);
        let validate = Validate { repo: &repo, slots: &self.slots, pool, requirements, asker: None };
        let mut tee = Tee { out: &mut io::sink(), err: &mut io::sink() };
        Ok(validate.commit_telling(commit, starts, &mut tee)?)
    }

    /// Judges what can be judged at once about an offer; its tests are the queue's.
    fn judge_offer(
        &self,
        repo: &Repo,
        mut store: Store,
        (attempt, last_message): (&Attempt, Option<&str>),
        offer: Pinned,
    ) -> Result<Judgement> {
        let filter = EntryFilter { attempt: Some(attempt.id), ..EntryFilter::default() };
        let is_this = |entry: &&Entry| entry.head == offer.commit && entry.state.is_rejection();
        let entries = store.entries(&filter)?;
        let base = repo.commit(&offer.commit)?.parents.into_iter().next();
        let verdict = self.gate.candidate_verdict(repo, store, (attempt, last_message), &offer.commit)?;
        let mut failed: Vec<FailedCheck> =
            verdict.failures().map(|check| self.failed(attempt, check, None)).collect();
        if entries.iter().any(|entry| is_this(&entry)) {
            failed.push(FailedCheck {
                name: CheckName::Outcome,
                detail: format!(
                    "nothing was offered since {} was rejected: mend it, then offer again with `mala commit`",
                    offer.commit.short()
                ),
                evidence: Vec::new(),
                output: None,
            });
        }
        let offer = base.map(|base| Offer { pin: offer.name, base, head: offer.commit });
        Ok(Judgement {
            accepted: failed.is_empty() && offer.is_some(),
            offer,
            failed,
            ..Judgement::default()
        })
    }

    fn failed(&self, attempt: &Attempt, check: &Check, validated: Option<&Validation>) -> FailedCheck {
        let results =
            validated.iter().flat_map(|validation| validation.results.iter().zip(validation.checks()));
        let ran = results.into_iter().find(|(_, ran)| ran == check).map(|(result, _)| result);
        let output = match ran {
            Some(result) => result.output_tail(OUTPUT_TAIL_BYTES),
            None => self.output_of(attempt, &check.evidence.iter().collect()),
        };
        FailedCheck {
            name: check.name,
            detail: secrets::mask(&check.detail).into_owned(),
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
        secrets::tail(Path::new(&record.output_log?), OUTPUT_TAIL_BYTES)
    }
}

impl Validator for GateValidator {
    fn look_at_base(&self, tell: &mut dyn FnMut(&Event)) -> Result<Vec<Event>> {
        if self.requirements.is_empty() {
            let text = "no command is required, so nothing is proven: whatever agents commit is accepted; name some in [validate] \
                        of mala.toml, or choose a preset"
                .to_owned();
            return Ok(vec![Event::Warning { text }]);
        }
        if let Some((command, program)) =
            self.requirements.missing_programs(self.scope.root()).into_iter().next()
        {
            return Err(EngineError::Unrunnable { command, why: format!("`{program}` is not in PATH") });
        }
        let Some(head) = Repo::new(self.scope.clone()).resolve("HEAD")? else { return Ok(Vec::new()) };
        let validation = self.validate(&head, &mut |command| {
            tell(&Event::Validating { commit: head.clone(), command: command.to_owned() });
        })?;
        if let Some(missing) = validation.results.iter().find(|result| !result.has_started()) {
            let (command, why) = (missing.command.clone(), missing.ending());
            return Err(EngineError::Unrunnable { command, why });
        }
        let red = validation.failure().map(|failure| Event::BranchRed {
            why: format!(
                "the branch is red before any agent has begun: `{}` failed on {} ({}), see `{}`; only work that makes it \
                 green is accepted",
                failure.command,
                head.short(),
                failure.ending(),
                failure.output_log
            ),
        });
        Ok(red.into_iter().collect())
    }

    fn judge(&self, attempt: &Attempt, last_message: Option<&str>) -> Result<Judgement> {
        let repo = Repo::new(self.scope.clone());
        let store = Store::open(&self.scope)?;
        if let Some(offer) = last_offer(&repo, attempt)? {
            return self.judge_offer(&repo, store, (attempt, last_message), offer);
        }
        let mut validated = None;
        let mut prove = |commit: &Oid| -> std::result::Result<_, Box<dyn Error + Send + Sync>> {
            let validation = self.validate(commit, &mut |_| {})?;
            let checks = validation.checks();
            validated = Some(validation);
            Ok(checks)
        };
        let AttemptVerdict { verdict, commits } =
            self.gate.attempt_verdict(&repo, store, (attempt, last_message), &mut prove)?;
        let accepted = verdict.is_pass();
        let outcome = last_message.and_then(Outcome::read).filter(|_| accepted && commits.is_empty());
        Ok(Judgement {
            accepted,
            is_unproven: outcome.as_ref().is_some_and(|outcome| outcome.kind != OutcomeKind::AlreadyComplete),
            commits: commits.iter().map(ToString::to_string).collect(),
            offer: None,
            outcome: outcome.map(|outcome| format!("{}: {}", outcome.kind, outcome.reason)),
            failed: verdict.failures().map(|check| self.failed(attempt, check, validated.as_ref())).collect(),
        })
    }
}
