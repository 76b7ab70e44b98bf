//! The work behind each step that may take long: claiming, judging, ending. Everything here blocks, and everything may be
//! repeated after a kill: the order of the steps is what keeps promises, not their being uninterrupted.

mod ending;
mod recover;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use mala_core::claim::Reading;
use mala_core::{AgentId, Issue, IssueId, Key, Mode, RunId, Want};
use mala_gate::git::Content;
use mala_gate::{Repo, RepoPath};
use mala_issues::{ClaimAnswer as TrackerAnswer, IssueSource};

use crate::options::Keeping;
use crate::ports::{
    Attempt, ClaimAnswer, ClaimRequest, Gatekeeper, Held, Judgement, Launcher, Ledger, PortError,
};
use crate::salvage::{self, Before};

pub(crate) use ending::{Given, Handed};

/// Does the blocking work of a run.
#[derive(Clone)]
pub(crate) struct Clerk {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) source: Arc<dyn IssueSource>,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) gate: Arc<dyn Gatekeeper>,
    pub(crate) repo: Repo,
    pub(crate) keeping: Keeping,
    /// Attempts before an issue is left to a person.
    pub(crate) attempts: u32,
}

/// What a claim came to.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// With the issue as it is now.
    Yes(Attempt, Box<Issue>),
    /// Somebody else has it, or it is closed.
    Gone(String),
    FilesHeld(Vec<Held>),
    /// It was tried often enough.
    TooOften(u32),
}

/// What must change between two rounds of the gate for it to be worth a third: what fails, and the agent's own work.
/// What others do meanwhile is no progress.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fingerprint {
    failed: Vec<(String, String)>,
    commits: Vec<String>,
    files: BTreeMap<RepoPath, Content>,
}

impl Clerk {
    /// The files that an issue names, as far as they make sense here; the others, in words.
    pub(crate) fn hints(&self, issue: &Issue) -> (Vec<Want>, Vec<String>) {
        let scope = self.repo.scope();
        let mut problems = Vec::new();
        let mut wants = Vec::new();
        for file in &issue.files {
            match scope.want(scope.root(), file.as_ref(), Mode::Exclusive, Reading::Guess) {
                Ok(want) => wants.push(want),
                Err(error) => problems.push(format!("{} names the file `{file}`: {error}", issue.id)),
            }
        }
        (wants, problems)
    }

    /// Takes an issue: first in the ledger, so that whatever happens next can be undone, then in the tracker.
    pub(crate) fn claim(
        &self,
        run: &RunId,
        issue: &IssueId,
        profile: &str,
        is_asked_for: bool,
    ) -> Result<Claimed, PortError> {
        let issue = self.source.show(issue)?;
        if issue.is_closed() {
            return Ok(Claimed::Gone("it is closed".to_owned()));
        }
        let tries = self.ledger.tries(&issue.id)?;
        if tries.ended >= self.attempts && !is_asked_for {
            return Ok(Claimed::TooOften(tries.ended));
        }
        if is_asked_for && self.keeping == Keeping::Ledger {
            self.ledger.unblock(&issue.id)?;
        }
        let request = ClaimRequest {
            run: run.clone(),
            issue: issue.id.clone(),
            agent: agent_name(profile, &issue.id, tries.next),
            files: self.hints(&issue).0,
            head: self.repo.resolve("HEAD")?,
        };
        let attempt = match self.ledger.claim(&request)? {
            ClaimAnswer::Claimed(attempt) => attempt,
            ClaimAnswer::Taken { by } => return Ok(Claimed::Gone(format!("{by} works on it"))),
            ClaimAnswer::FilesHeld(held) => return Ok(Claimed::FilesHeld(held)),
        };
        if self.keeping == Keeping::Tracker
            && let TrackerAnswer::AlreadyTaken { by } = self.source.claim(&issue.id, &attempt.agent)?
        {
            let why = format!("{by} works on it");
            self.ledger.put_back(&attempt, &why)?;
            return Ok(Claimed::Gone(why));
        }
        Ok(Claimed::Yes(attempt, Box::new(issue)))
    }

    /// Undoes a claim that came to nothing.
    pub(crate) fn put_back(&self, attempt: &Attempt, why: &str) -> Result<(), PortError> {
        if self.keeping == Keeping::Tracker {
            self.source.release(&attempt.issue, &attempt.agent)?;
        }
        self.ledger.put_back(attempt, why)
    }

    pub(crate) fn judge(
        &self,
        attempt: &Attempt,
        message: Option<&str>,
    ) -> Result<(Judgement, Fingerprint), PortError> {
        let judgement = self.gate.judge(attempt, message)?;
        let files = if judgement.accepted {
            BTreeMap::new()
        } else {
            let own = self.own_dirty_files(attempt)?;
            self.repo.contents(&own)?
        };
        let failed = judgement.failed.iter().map(|check| (check.name.clone(), check.detail.clone()));
        let fingerprint = Fingerprint { failed: failed.collect(), commits: judgement.commits.clone(), files };
        Ok((judgement, fingerprint))
    }

    /// What the attempt's agent has changed and not committed. From here on it is held for the agent, so nobody else
    /// can take it before it is saved.
    fn own_dirty_files(&self, attempt: &Attempt) -> Result<BTreeSet<RepoPath>, PortError> {
        let mut dirty: BTreeMap<Key, RepoPath> = BTreeMap::new();
        for path in salvage::dirty(&self.repo)? {
            dirty.insert(self.repo.key(&path), path);
        }
        let keys: Vec<Key> = dirty.keys().cloned().collect();
        let own = self.ledger.secure(attempt, &keys)?;
        Ok(own.into_iter().filter_map(|key| dirty.remove(&key)).collect())
    }

    fn before(&self, run: &RunId) -> Result<Before, PortError> {
        Ok(Before::of(&self.repo, run)?)
    }
}

impl std::fmt::Debug for Clerk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clerk")
            .field("repo", &self.repo)
            .field("keeping", &self.keeping)
            .finish_non_exhaustive()
    }
}

/// The name of the agent of one attempt. It says all a person wants to know, as long as that fits.
fn agent_name(profile: &str, issue: &IssueId, number: u32) -> AgentId {
    let full = format!("{profile}-{issue}-{number}");
    AgentId::new(full).unwrap_or_else(|_| {
        let short = Key::from_stored(std::ffi::OsStr::new(issue.as_str()).as_bytes().to_vec()).short_id();
        AgentId::new(format!("agent-{short}-{number}")).expect("letters and digits make a name")
    })
}
