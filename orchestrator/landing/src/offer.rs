//! Offers: what an agent of a run wants to land.
//!
//! An agent makes the commit in its own tree, where the repository's hooks are its own business; here it is looked at as it is
//! and pinned by a ref that no agent can write. What is missing is said at once, not after a test run.

use mala_core::{AgentId, Attempt, Oid, RunId};
use mala_gate::{Check, Gate, JudgeError};
use mala_git::candidate::{self, Pinned};
use mala_git::salvage::{Before, SalvageError};
use mala_git::{GitError, Repo, RepoPath};
use mala_store::{Store, StoreError};
use thiserror::Error;

use crate::queue::list;

/// Why a commit is no candidate.
#[derive(Debug, Error)]
pub enum OfferError {
    #[error("`{agent}` has no attempt under way, so it has nothing to offer")]
    NoAttempt { agent: AgentId },
    #[error("{} was not made on a commit of the branch: offer again with `mala commit`", .commit.short())]
    NotOnBranch { commit: Oid },
    #[error("{}", said(.0))]
    Refused(Vec<Check>),
    #[error(
        "{} had uncommitted changes of a person before you began, and nobody else commits those: restore it, or have the run \
         started with `--allow-dirty`", list(.0)
    )]
    OfAPerson(Vec<RepoPath>),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Salvage(#[from] SalvageError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn said(checks: &[Check]) -> String {
    checks.iter().map(|check| check.detail.as_str()).collect::<Vec<_>>().join("; ")
}

/// The attempt that an agent of a run works on.
pub fn attempt_of(store: &mut Store, run: &RunId, agent: &AgentId) -> Result<Attempt, OfferError> {
    let mut attempts = store.attempts_of_run(run)?;
    attempts.retain(|attempt| attempt.agent == *agent && !attempt.state.is_over());
    attempts.pop().ok_or_else(|| OfferError::NoAttempt { agent: agent.clone() })
}

/// The files of the attempt's last offer: the next one has them, too.
pub fn offered_files(repo: &Repo, attempt: &Attempt) -> Result<Vec<RepoPath>, OfferError> {
    let Some(last) = last_offer(repo, attempt)? else { return Ok(Vec::new()) };
    let changes = repo.changes_of(&repo.commit(&last.commit)?)?;
    Ok(changes.into_iter().map(|change| change.path).collect())
}

/// What the attempt has offered last.
pub fn last_offer(repo: &Repo, attempt: &Attempt) -> Result<Option<Pinned>, OfferError> {
    Ok(candidate::all(repo, &attempt.issue, attempt.number)?.pop())
}

/// Looks at a commit that an agent has made, and pins it.
pub fn register(repo: &Repo, gate: &Gate, attempt: &Attempt, commit: &Oid) -> Result<Pinned, OfferError> {
    let made = repo.commit(commit)?;
    // Something may have landed since it was made: the queue puts it on top of that.
    let is_on_branch = match (made.parents.as_slice(), repo.resolve("HEAD")?) {
        ([parent], Some(tip)) => *parent == tip || repo.is_ancestor(parent, &tip)?,
        _ => false,
    };
    if !is_on_branch {
        return Err(OfferError::NotOnBranch { commit: commit.clone() });
    }
    let mut store = Store::open(repo.scope())?;
    if !allows_dirty(&mut store)? {
        refuse_persons_work(repo, attempt, commit)?;
    }
    let verdict = gate.candidate_checks(repo, store, (attempt, None), commit)?;
    let failed: Vec<Check> = verdict.failures().cloned().collect();
    if !failed.is_empty() {
        return Err(OfferError::Refused(failed));
    }
    Ok(candidate::pin(repo, &attempt.issue, attempt.number, commit)?)
}

/// True if the run was started with `--allow-dirty`.
fn allows_dirty(store: &mut Store) -> Result<bool, OfferError> {
    Ok(store.current_run()?.is_some_and(|run| run.options["allow_dirty"] == true))
}

fn refuse_persons_work(repo: &Repo, attempt: &Attempt, commit: &Oid) -> Result<(), OfferError> {
    let theirs = Before::of(repo, &attempt.run, &attempt.agent)?.files(repo)?;
    let changes = repo.changes_of(&repo.commit(commit)?)?;
    let mixed: Vec<RepoPath> =
        changes.into_iter().map(|change| change.path).filter(|path| theirs.contains(path)).collect();
    if mixed.is_empty() { Ok(()) } else { Err(OfferError::OfAPerson(mixed)) }
}
