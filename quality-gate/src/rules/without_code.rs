//! The rules for ends without code.

use mala_core::CheckName;
use mala_git::{Commit, Oid};

use super::outcome::{Kind, Outcome};
use super::{GateError, Judge};
use crate::serial;
use crate::verdict::{Check, list};

const NAME: CheckName = CheckName::Outcome;

impl Judge<'_> {
    pub(super) fn without_code(&self, outcome: &Outcome) -> Result<Vec<Check>, GateError> {
        let kind = outcome.kind;
        if kind == Kind::DocsOnly {
            return Ok(vec![Check::fail(
                NAME,
                format!(
                    "docs-only was declared, but nothing was committed: commit your own files with: {}",
                    self.rules.commit_line(self.subject.issue.as_ref())
                ),
            )]);
        }
        let mut checks = vec![self.nothing_left(kind)?];
        if let Some(commit) = self.commit_since_claim()? {
            let id = commit.id.short();
            let detail = format!(
                "{kind} was declared, but a commit names this issue (`git show {id}`): leave the line out, so that the \
                 commit is judged"
            );
            checks.push(Check::fail(NAME, detail));
        }
        checks.push(match kind {
            Kind::AlreadyComplete => self.done_before(outcome)?,
            _ => Check::pass(NAME, format!("{kind}: {}", outcome.reason)),
        });
        Ok(checks)
    }

    fn nothing_left(&self, kind: Kind) -> Result<Check, GateError> {
        let left = self.own_changes()?;
        Ok(if left.is_empty() {
            Check::pass(CheckName::CleanStatus, "nothing is left uncommitted")
        } else {
            let names = list(&left);
            Check::fail(
                CheckName::CleanStatus,
                format!(
                    "{kind} was declared, but {names} is changed: commit it with `mala commit`, or restore it"
                ),
            )
        })
    }

    /// A commit of the time since the claim that names the issue.
    fn commit_since_claim(&self) -> Result<Option<Commit>, GateError> {
        let (Some(head), Some(issue)) = (&self.subject.claimed_head, &self.subject.issue) else {
            return Ok(None);
        };
        let since = self.repo.commits_between(head, "HEAD")?;
        for id in since {
            let commit = self.repo.commit(&id)?;
            if self.rules.issue.names(&commit.message, issue) {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    /// A landed commit must have done it: the reason names one of this branch whose message names the issue.
    fn done_before(&self, outcome: &Outcome) -> Result<Check, GateError> {
        let Some(id) = self.commit_in_reason(&outcome.reason)? else {
            let which = match self.commit_that_names_issue()? {
                Some(id) => format!("`{}` names this issue", id.short()),
                None => "find it with `git log`".to_owned(),
            };
            return Ok(Check::fail(
                NAME,
                format!(
                    "already-complete was declared, but no commit shows it: name the commit that did it in the reason ({which})"
                ),
            ));
        };
        let message = self.repo.commit(&id)?.message;
        Ok(match &self.subject.issue {
            Some(issue) if !self.rules.issue.names(&message, issue) => Check::fail(
                NAME,
                format!(
                    "already-complete was declared, but the message of {} does not name `{}`: name the commit that did it, or say \
                     `no-change` and why",
                    id.short(),
                    self.rules.issue.token(issue)
                ),
            ),
            _ => Check::pass(NAME, format!("already-complete: done in {}", id.short())),
        })
    }

    fn commit_in_reason(&self, reason: &str) -> Result<Option<Oid>, GateError> {
        let Some(head) = self.repo.resolve("HEAD")? else { return Ok(None) };
        let words = reason.split(|letter: char| !letter.is_ascii_alphanumeric());
        for word in words.filter(|word| serial::is_commit_like(word)) {
            if let Some(id) = self.repo.resolve(word)?
                && self.repo.is_ancestor(&id, &head)?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn commit_that_names_issue(&self) -> Result<Option<Oid>, GateError> {
        let Some(issue) = &self.subject.issue else { return Ok(None) };
        for id in self.repo.commits_mentioning(issue.as_str())? {
            if self.rules.issue.names(&self.repo.commit(&id)?.message, issue) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
