//! What the gate says: one line per check.

use mala_core::{CheckName, EvidenceId, IssueId};
use mala_git::Oid;
use serde::Serialize;

/// The answer to "is this accepted?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub verdict: Answer,
    pub issue: Option<IssueId>,
    pub commit: Option<Oid>,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Pass,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: CheckName,
    pub status: Status,
    /// What was found and, if it failed, what to do about it.
    pub detail: String,
    /// The records it rests on.
    pub evidence: Vec<EvidenceId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pass,
    Fail,
    /// It does not apply here; the detail says why.
    Skipped,
}

impl Verdict {
    /// Accepted if no check failed, and at least one passed.
    pub(crate) fn of(issue: Option<IssueId>, commit: Option<Oid>, checks: Vec<Check>) -> Self {
        let has_failed = checks.iter().any(|check| check.status == Status::Fail);
        let has_passed = checks.iter().any(|check| check.status == Status::Pass);
        let verdict = if has_passed && !has_failed { Answer::Pass } else { Answer::Fail };
        Self { verdict, issue, commit, checks }
    }

    /// The verdict with the commands judged by these checks instead of by evidence.
    #[must_use]
    pub fn with_commands(mut self, commands: Vec<Check>) -> Self {
        let is_about_runs = |check: &Check| check.name.is_about_runs();
        let at = self.checks.iter().position(is_about_runs).unwrap_or(self.checks.len());
        self.checks.retain(|check| !is_about_runs(check));
        let at = at.min(self.checks.len());
        self.checks.splice(at..at, commands);
        Self::of(self.issue, self.commit, self.checks)
    }

    pub fn is_pass(&self) -> bool {
        self.verdict == Answer::Pass
    }

    /// What is missing, one line each: for the agent that has to do it.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.status == Status::Fail)
    }
}

impl Check {
    pub fn pass(name: CheckName, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Pass, detail: detail.into(), evidence: Vec::new() }
    }

    pub fn fail(name: CheckName, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Fail, detail: detail.into(), evidence: Vec::new() }
    }

    pub(crate) fn skipped(name: CheckName, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Skipped, detail: detail.into(), evidence: Vec::new() }
    }

    pub(crate) fn with(mut self, evidence: impl IntoIterator<Item = EvidenceId>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

/// Names for a person: the first few, and how many more.
pub(crate) fn list<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<String> =
        items.iter().take(SHOWN).map(|item| format!("`{}`", item.to_string())).collect();
    if items.len() > SHOWN {
        names.push(format!("{} more", items.len() - SHOWN));
    }
    names.join(", ")
}
