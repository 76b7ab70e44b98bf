//! The rules by which a commit is accepted.
//!
//! [`check`] reads the commit from git, asks the lock store who owned its files, and compares it with the evidence. It
//! believes nothing that the agent could have written: not the trailers, not the dates if better is known, not the
//! records of a log that has been changed. Every failure says what to do next.

mod command;
mod fit;
mod outcome;
mod required;
mod token;
mod without_code;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use mala_config::{Settings, ValidateSettings};
use mala_core::scope::SETTINGS_FILE;
use mala_core::shell::commit_line;
use mala_core::{AgentId, CheckName, CommandPattern, Fence, IssueId, Pattern, PatternError, Timestamp};
use mala_git::{Commit, FileChange, GitError, Oid, Ownership, OwnershipError, Repo, RepoPath};
use mala_logs::chain::{ChainError, Verified};
use thiserror::Error;

use crate::Evidence;
use crate::evidence::EvidenceLog;
use crate::evidence::anchoring::AnchorError;
use crate::verdict::{Check, Verdict, list};

pub(crate) use self::fit::{CommitContext, Committed, Fit};
pub use self::outcome::{Kind as OutcomeKind, MARKER, Outcome};
pub use self::token::{IssuePattern, IssuePatternError};

/// What people keep for mala beside its settings.
const SETTINGS_DIRECTORY: &str = ".mala/**";

/// What a repository asks of a commit.
#[derive(Debug, Clone)]
pub struct Rules {
    pub issue: IssuePattern,
    /// Commands that must have passed on what was committed.
    pub required: Vec<CommandPattern>,
    /// Groups of commands that test the same, besides what is known to.
    pub equivalents: Vec<Vec<CommandPattern>>,
    /// Where they must have been run, from the top of the checkout.
    pub directory: PathBuf,
    pub foreign: Foreign,
    pub clean: Clean,
    /// What agents never change: the settings, which say what is asked of them.
    pub for_people: Vec<Pattern>,
    /// What counts as documentation.
    pub documentation: Vec<Pattern>,
}

/// What happens if others' changes were tested along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Foreign {
    /// They are named, and the evidence counts.
    #[default]
    Named,
    /// The evidence does not count: the whole tree must be the tested one.
    Refused,
}

/// Whether the agent may leave changes of its own uncommitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clean {
    #[default]
    Ignored,
    Required,
}

impl Default for Rules {
    fn default() -> Self {
        let documentation = ["**/*.md", "**/*.rst", "**/*.adoc", "docs/**"];
        let pattern = |text: &&str| Pattern::parse(text.as_bytes()).expect("these are patterns");
        Self {
            issue: IssuePattern::default(),
            required: Vec::new(),
            equivalents: Vec::new(),
            directory: PathBuf::new(),
            foreign: Foreign::default(),
            clean: Clean::default(),
            for_people: vec![pattern(&SETTINGS_FILE), pattern(&SETTINGS_DIRECTORY)],
            documentation: documentation.iter().map(pattern).collect(),
        }
    }
}

/// The settings ask for rules that make no sense.
#[derive(Debug, Error)]
pub enum RulesError {
    #[error(transparent)]
    IssuePattern(#[from] IssuePatternError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Rules {
    /// The rules that the settings ask for.
    pub fn of(settings: &Settings) -> Result<Self, RulesError> {
        let ValidateSettings { strict, clean, docs, .. } = &settings.validate;
        let pattern = |text: &String| Pattern::parse(text.as_bytes());
        Ok(Self {
            issue: settings.gate.issue_pattern.parse()?,
            required: settings.required(),
            equivalents: settings.validate.equivalents.clone(),
            directory: PathBuf::from(&settings.validate.directory),
            foreign: if *strict { Foreign::Refused } else { Foreign::Named },
            clean: if *clean { Clean::Required } else { Clean::Ignored },
            for_people: Self::default().for_people,
            documentation: docs.iter().map(pattern).collect::<Result<_, _>>()?,
        })
    }

    /// What to type to commit work on this issue.
    fn commit_line(&self, issue: Option<&IssueId>) -> String {
        commit_line(issue.map(|issue| self.issue.token(issue)).as_deref(), None)
    }
}

/// What is to be judged.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// Nothing if none was made; then only an outcome without code can be accepted.
    pub commit: Option<Oid>,
    pub issue: Option<IssueId>,
    /// Nothing if a person committed: then files belong to nobody and anybody's evidence counts.
    pub agent: Option<AgentId>,
    pub claim: Option<ClaimMoment>,
    /// The last commit when the issue was claimed. Better than the time, which a committer can choose.
    pub claimed_head: Option<Oid>,
    pub final_message: Option<String>,
    pub place: CommitPlace,
}

/// When an issue was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimMoment {
    /// What decides whether something came before.
    pub event: Fence,
    /// For what carries no event: dates of commits, and what clients have written down.
    pub at: Timestamp,
}

/// Where a commit is when it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitPlace {
    /// On a branch, or about to be.
    #[default]
    Branch,
    /// On no branch: it is offered, and the landing queue runs the required commands before the branch moves to it.
    Candidate,
}

impl Subject {
    pub(crate) fn claimed_event(&self) -> Option<Fence> {
        self.claim.map(|claim| claim.event)
    }
}

/// The evidence to judge by.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    pub log: &'a EvidenceLog,
    /// What was read from clients' transcripts, the newest first; empty unless the repository accepts them.
    pub transcripts: &'a [Evidence],
}

/// The gate could not find out, so nothing is accepted.
#[derive(Debug, Error)]
pub enum GateError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("the evidence log cannot be read")]
    Log(#[from] ChainError),
    #[error("what the store knows of the evidence log cannot be read")]
    Anchor(#[from] AnchorError),
}

/// Judges a commit, or the declaration that none is needed.
pub fn check(
    repo: &Repo,
    ownership: &dyn Ownership,
    records: &Records<'_>,
    rules: &Rules,
    subject: &Subject,
) -> Result<Verdict, GateError> {
    let outcome = subject.final_message.as_deref().and_then(Outcome::read);
    let checks = match (&subject.commit, outcome) {
        (Some(id), outcome) => {
            let commit = repo.commit(id)?;
            Judge { repo, ownership, records, rules, subject }.commit(&commit, outcome.as_ref())?
        }
        (None, Some(outcome)) => Judge { repo, ownership, records, rules, subject }.without_code(&outcome)?,
        (None, None) => vec![Check::fail(
            CheckName::Outcome,
            format!(
                "nothing was committed: commit your own files with: {}; or, if there is nothing to do, end the last message with \
                 the line `{MARKER}no-change: REASON` (or obsolete, already-complete)",
                rules.commit_line(subject.issue.as_ref())
            ),
        )],
    };
    Ok(Verdict::of(subject.issue.clone(), subject.commit.clone(), checks))
}

fn count(files: usize) -> String {
    if files == 1 { "the file of the commit".to_owned() } else { format!("all {files} files") }
}

struct Judge<'a> {
    repo: &'a Repo,
    ownership: &'a dyn Ownership,
    records: &'a Records<'a>,
    rules: &'a Rules,
    subject: &'a Subject,
}

impl Judge<'_> {
    /// The log is verified beside all that git has to be asked.
    fn commit(&self, commit: &Commit, outcome: Option<&Outcome>) -> Result<Vec<Check>, GateError> {
        thread::scope(|scope| {
            let is_needed = outcome.is_none() && !self.rules.required.is_empty();
            let log = self.records.log;
            let spawn = || thread::Builder::new().spawn_scoped(scope, || log.verify()).ok();
            let verifying = is_needed.then(spawn).flatten();
            let verified = || match verifying {
                Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => log.verify(),
            };
            self.judge_commit(commit, outcome, verified)
        })
    }

    fn judge_commit(
        &self,
        commit: &Commit,
        outcome: Option<&Outcome>,
        verified: impl FnOnce() -> Result<Verified, AnchorError>,
    ) -> Result<Vec<Check>, GateError> {
        let changes = self.repo.changes_of(commit)?;
        let head = self.repo.resolve("HEAD")?;
        let mut checks = vec![self.issue_id(commit, head.as_ref()), self.newer_than_claim(commit)?];
        if self.subject.place == CommitPlace::Branch {
            checks.push(self.on_a_branch(commit, head.as_ref())?);
        }
        checks.push(self.files_owned(commit, &changes, head.as_ref())?);
        match outcome {
            None if self.subject.place == CommitPlace::Candidate => {
                let later = "mala runs the required commands before the branch moves";
                checks.push(Check::skipped(CheckName::Command, later));
            }
            Some(outcome) if outcome.kind == OutcomeKind::DocsOnly => {
                checks.push(self.docs_only(&changes));
                checks.push(Check::skipped(CheckName::Command, "only documentation was changed"));
            }
            Some(outcome) => checks.push(Check::fail(
                CheckName::Outcome,
                format!(
                    "`{}` was declared, but {} was committed: leave the line out, so that the commit is judged",
                    outcome.kind,
                    commit.id.short()
                ),
            )),
            None => {
                let committed = Committed::new(CommitContext {
                    repo: self.repo,
                    ownership: self.ownership,
                    commit: Some(&commit.id),
                    tree: &commit.id,
                    base: commit.parents.first(),
                    changes: &changes,
                    claimed: self.subject.claimed_event(),
                });
                checks.extend(required::check(self, committed, verified)?);
            }
        }
        checks.push(self.clean_status()?);
        Ok(checks)
    }

    /// How a commit is taken back that is not accepted, by who reads the verdict: agents are refused git commands that could
    /// take back their neighbours' as well.
    fn take_back(&self, commit: &Commit, head: Option<&Oid>) -> String {
        let id = commit.id.short();
        match (&self.subject.agent, head == Some(&commit.id)) {
            _ if self.subject.place == CommitPlace::Candidate => "restore it".to_owned(),
            (Some(_), true) => "take it back (`mala commit --undo`)".to_owned(),
            (Some(_), false) => format!(
                "take it back together with what you have committed since (`mala commit --undo` for each), or, if \
                 others have committed since, leave it to a person (`git revert {id}`)"
            ),
            (None, true) => "take it back (`git reset --soft HEAD~1`)".to_owned(),
            (None, false) => format!("take it back (`git revert {id}`)"),
        }
    }

    fn issue_id(&self, commit: &Commit, head: Option<&Oid>) -> Check {
        const NAME: CheckName = CheckName::IssueId;
        let Some(issue) = &self.subject.issue else {
            return Check::skipped(NAME, "no issue was given: use `--issue ID`");
        };
        let token = self.rules.issue.token(issue);
        if self.rules.issue.names(&commit.message, issue) {
            return Check::pass(NAME, format!("the message names `{token}`"));
        }
        let again = commit_line(Some(&token), commit.message.lines().next());
        let remedy = match (&self.subject.agent, head == Some(&commit.id)) {
            _ if self.subject.place == CommitPlace::Candidate => format!("offer it again: {again}"),
            (Some(_), true) => {
                format!("take it back and commit it again: mala commit --undo && {again}")
            }
            (Some(_), false) => format!("{}; then commit it again: {again}", self.take_back(commit, head)),
            (None, true) => "`git commit --amend` it".to_owned(),
            (None, false) => format!("`git rebase -i {}^` lets you reword it", commit.id.short()),
        };
        let id = commit.id.short();
        Check::fail(
            NAME,
            format!("the message of {id} does not name `{token}` as a word of its own: {remedy}"),
        )
    }

    fn newer_than_claim(&self, commit: &Commit) -> Result<Check, GateError> {
        const NAME: CheckName = CheckName::NewerThanClaim;
        let commit_again = "commit your own work with `mala commit`";
        if let Some(head) = &self.subject.claimed_head {
            let is_next = commit.parents.contains(head);
            let is_old = !is_next && self.repo.is_ancestor(&commit.id, head)?;
            let builds_on_it = is_next || (!is_old && self.repo.is_ancestor(head, &commit.id)?);
            return Ok(match (is_old, builds_on_it) {
                (false, true) => Check::pass(NAME, format!("it builds on {}", head.short())),
                (true, _) => Check::fail(
                    NAME,
                    format!("{} was there before the issue was claimed: {commit_again}", commit.id.short()),
                ),
                (false, false) => Check::fail(
                    NAME,
                    format!(
                        "it does not build on {}, the last commit when the issue was claimed: {commit_again} on the branch",
                        head.short()
                    ),
                ),
            });
        }
        let Some(ClaimMoment { at: claimed_at, .. }) = self.subject.claim else {
            return Ok(Check::skipped(NAME, "it is not known when the issue was claimed"));
        };
        // Commits carry whole seconds.
        let claimed_at = Timestamp::from_millis(claimed_at.as_millis() / 1000 * 1000);
        Ok(if commit.committed_at >= claimed_at {
            Check::pass(NAME, format!("by its date, {}", commit.committed_at))
        } else {
            let date = commit.committed_at;
            Check::fail(
                NAME,
                format!("it is from {date}, before the issue was claimed ({claimed_at}): {commit_again}"),
            )
        })
    }

    fn on_a_branch(&self, commit: &Commit, head: Option<&Oid>) -> Result<Check, GateError> {
        const NAME: CheckName = CheckName::OnABranch;
        let is_checked_out = match head {
            Some(head) => *head == commit.id || self.repo.is_ancestor(&commit.id, head)?,
            None => false,
        };
        let is_on_this_branch = is_checked_out && self.repo.branch()?.is_some();
        Ok(if is_on_this_branch || self.repo.is_on_a_branch(&commit.id)? {
            Check::pass(NAME, "a branch leads to it")
        } else if is_checked_out {
            // As in a CI job, which checks out a commit and no branch.
            Check::pass(NAME, "what is checked out leads to it, and no branch does")
        } else {
            Check::fail(
                NAME,
                "no branch leads to this commit: commit with `mala commit`, which moves the branch",
            )
        })
    }

    fn files_owned(
        &self,
        commit: &Commit,
        changes: &[FileChange],
        head: Option<&Oid>,
    ) -> Result<Check, GateError> {
        const NAME: CheckName = CheckName::FilesOwned;
        let Some(agent) = &self.subject.agent else {
            return Ok(Check::skipped(NAME, "no agent was given: people may commit any file"));
        };
        if changes.is_empty() {
            return Ok(Check::fail(NAME, "the commit changes no file: commit your work with `mala commit`"));
        }
        let is_for_people =
            |path: &RepoPath| self.rules.for_people.iter().any(|pattern| pattern.matches(path.as_bytes()));
        if let Some(change) = changes.iter().find(|change| is_for_people(&change.path)) {
            let why = "only people change it, because it says what is asked of commits";
            let remedy = self.take_back(commit, head);
            return Ok(Check::fail(
                NAME,
                format!("`{}` was changed: {why}; {remedy} and commit the other files", change.path),
            ));
        }
        let mut foreign = Vec::new();
        for change in changes {
            let key = self.repo.key(&change.path);
            if self.ownership.owned(agent, &key, self.subject.claimed_event())?.is_none() {
                let holder = self.ownership.holder(&key, Some(agent))?;
                let holder = holder.map_or(String::new(), |holder| format!(" (held by {})", holder.agent));
                foreign.push(format!("{}{holder}", change.path));
            }
        }
        Ok(if foreign.is_empty() {
            Check::pass(NAME, format!("`{agent}` held {}", count(changes.len())))
        } else {
            Check::fail(
                NAME,
                format!(
                    "`{agent}` never held {}: {}; then commit only your own files with `mala commit`",
                    list(&foreign),
                    self.take_back(commit, head)
                ),
            )
        })
    }

    fn docs_only(&self, changes: &[FileChange]) -> Check {
        const NAME: CheckName = CheckName::Outcome;
        let is_plain = |mode: &str| mode == "100644";
        let is_documentation = |change: &&FileChange| {
            let is_named =
                self.rules.documentation.iter().any(|pattern| pattern.matches(change.path.as_bytes()));
            is_named && change.after.as_ref().is_none_or(|entry| is_plain(&entry.mode))
        };
        let other: Vec<&RepoPath> =
            changes.iter().filter(|change| !is_documentation(change)).map(|change| &change.path).collect();
        if other.is_empty() {
            return Check::pass(NAME, "docs-only: the commit changes documentation and nothing else");
        }
        Check::fail(
            NAME,
            format!(
                "docs-only was declared, but {} is no documentation: leave the line out and test with `mala test`",
                list(&other)
            ),
        )
    }

    fn clean_status(&self) -> Result<Check, GateError> {
        const NAME: CheckName = CheckName::CleanStatus;
        if self.rules.clean == Clean::Ignored {
            return Ok(Check::skipped(NAME, "not asked for"));
        }
        let left = self.own_changes()?;
        Ok(if left.is_empty() {
            Check::pass(NAME, "nothing is left uncommitted")
        } else {
            let how = match &self.subject.agent {
                Some(_) => "`mala commit` it, or restore it with `git checkout HEAD -- FILE`",
                None => "commit or restore it",
            };
            Check::fail(NAME, format!("{} is not committed: {how}", list(&left)))
        })
    }

    /// Uncommitted changes: the agent's own, or all of them if no agent is known.
    fn own_changes(&self) -> Result<Vec<RepoPath>, GateError> {
        let mut own = Vec::new();
        for path in self.repo.status()?.paths() {
            let is_own = match &self.subject.agent {
                Some(agent) => {
                    let key = self.repo.key(path);
                    self.ownership.owned(agent, &key, self.subject.claimed_event())?.is_some()
                        && self.ownership.holder(&key, Some(agent))?.is_none()
                }
                None => true,
            };
            if is_own {
                own.push(path.clone());
            }
        }
        Ok(own)
    }
}
