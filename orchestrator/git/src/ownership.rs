//! The port to the lock store: what an agent held, and who holds what now.

use std::error::Error;
use std::fmt;

use mala_core::{AgentId, EvidenceId, Fence, IssueId, Key, Timestamp};
use serde::Serialize;
use thiserror::Error;

use crate::{GitError, Kind, Repo, RepoPath, State};

/// Who holds a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    pub agent: AgentId,
    pub issue: Option<IssueId>,
    pub since: Timestamp,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.issue {
            Some(issue) => write!(f, "`{}` for {issue} since {}", self.agent, self.since),
            None => write!(f, "`{}` since {}", self.agent, self.since),
        }
    }
}

/// The store could not say who owns a file, so nothing may be accepted.
#[derive(Debug, Error)]
#[error("cannot find out who owns `{path}`")]
pub struct OwnershipError {
    pub path: Key,
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// What agents held, and who holds what now.
///
/// Contract: answers come from recorded locks alone. A lock that merely shared a file never counts as owning it.
pub trait Ownership {
    /// The fence under which `agent` held `path` alone at some time since the event `since`, if it did. It may have released it
    /// meanwhile. Without `since`, a lock at any time counts.
    fn owned(
        &self,
        agent: &AgentId,
        path: &Key,
        since: Option<Fence>,
    ) -> Result<Option<Fence>, OwnershipError>;

    /// Who holds it now, leaving `other_than` out.
    fn holder(&self, path: &Key, other_than: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError>;

    /// The events by which a test of `agent` began and ended, as far as they are known.
    fn test_events(&self, _agent: &AgentId, _test: &EvidenceId) -> Result<TestEvents, OwnershipError> {
        Ok(TestEvents::default())
    }

    /// All of these are about to be asked about. For those who answer from afar: one long way is shorter than many.
    fn expect(&self, _paths: &[Key]) -> Result<(), OwnershipError> {
        Ok(())
    }
}

/// When a test ran, by the numbers of events: they say what came first, whatever became of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestEvents {
    pub began: Option<Fence>,
    pub ended: Option<Fence>,
}

/// Whose a file is, seen from one agent.
#[derive(Debug)]
pub enum Standing {
    Own,
    Foreign { holder: Option<String> },
}

/// Whether `path` is `agent`'s own: it held it, and nobody else holds it now.
pub fn standing(
    path: &RepoPath,
    repo: &Repo,
    agent: &AgentId,
    ownership: &dyn Ownership,
) -> Result<Standing, OwnershipError> {
    let key = repo.key(path);
    let holder = ownership.holder(&key, Some(agent))?;
    if holder.is_none() && ownership.owned(agent, &key, None)?.is_some() {
        return Ok(Standing::Own);
    }
    Ok(Standing::Foreign { holder: holder.map(|holder| holder.agent.to_string()) })
}

/// The changed files that belong to the agent.
pub fn own_changes(
    repo: &Repo,
    agent: &AgentId,
    ownership: &dyn Ownership,
) -> Result<Vec<RepoPath>, OwnChangesError> {
    let mut own = Vec::new();
    for entry in repo.status()?.entries {
        let is_file = entry.kind == Kind::File && entry.state != State::Unwatched;
        if is_file && matches!(standing(&entry.path, repo, agent, ownership)?, Standing::Own) {
            own.push(entry.path);
        }
    }
    Ok(own)
}

/// It cannot be found out what an agent has changed.
#[derive(Debug, Error)]
pub enum OwnChangesError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
}
