//! Offers: what an agent of a run wants to land.
//!
//! An agent makes the commit in its own tree, where the repository's hooks are its own business; here it is looked at as it is
//! and pinned by a ref that no agent can write. What is missing is said at once, not after a test run.

use mala_core::{AgentId, Attempt, Oid, RunId};
use mala_gate::{Check, Gate, JudgeError, bases_of};
use mala_git::candidate::{self, Pinned};
use mala_git::landing::{self, Candidate, LandError, Stacked};
use mala_git::salvage::{Bases, Before, SalvageError};
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
    #[error("{} only lacks what has landed since: there is nothing of yours in it", list(.0))]
    NothingOwn(Vec<RepoPath>),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Land(#[from] LandError),
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

/// An offer that is kept.
#[derive(Debug)]
pub struct Registered {
    pub pinned: Pinned,
    /// What has landed in its files since the agent took them.
    pub since: Since,
}

/// What has landed in the files of an offer since its agent took them.
#[derive(Debug, Default)]
pub struct Since {
    /// The two merge.
    pub merged: Vec<RepoPath>,
    /// They do not.
    pub conflicts: Vec<RepoPath>,
}

/// Looks at a commit that an agent has made, and pins it. Where the branch has moved on below some of its files, what is pinned is
/// the same work as a change of what these files started from.
pub fn register(repo: &Repo, gate: &Gate, attempt: &Attempt, commit: &Oid) -> Result<Registered, OfferError> {
    let made = repo.commit(commit)?;
    let Some(tip) = repo.resolve("HEAD")? else {
        return Err(OfferError::NotOnBranch { commit: commit.clone() });
    };
    // Something may have landed since it was made: the queue puts it on top of that.
    let is_on_branch = match made.parents.as_slice() {
        [parent] => *parent == tip || repo.is_ancestor(parent, &tip)?,
        _ => false,
    };
    if !is_on_branch {
        return Err(OfferError::NotOnBranch { commit: commit.clone() });
    }
    let mut store = Store::open(repo.scope())?;
    if !allows_dirty(&mut store)? {
        refuse_persons_work(repo, attempt, commit)?;
    }
    let files: Vec<RepoPath> = repo.changes_of(&made)?.into_iter().map(|change| change.path).collect();
    let bases = bases_of(repo, &mut store, &files)?;
    let own = bases.rebased(repo, commit)?;
    if own != *commit && repo.changes_of(&repo.commit(&own)?)?.is_empty() {
        return Err(OfferError::NothingOwn(files));
    }
    let verdict = gate.candidate_checks(repo, store, (attempt, None), &own)?;
    let failed: Vec<Check> = verdict.failures().cloned().collect();
    if !failed.is_empty() {
        return Err(OfferError::Refused(failed));
    }
    let pinned = candidate::pin(repo, &attempt.issue, attempt.number, &own)?;
    let since = if own == *commit { Since::default() } else { landed_since(repo, &tip, &own, &bases)? };
    Ok(Registered { pinned, since })
}

fn landed_since(repo: &Repo, tip: &Oid, own: &Oid, bases: &Bases) -> Result<Since, OfferError> {
    let Some(base) = repo.commit(own)?.parents.into_iter().next() else { return Ok(Since::default()) };
    let candidate = Candidate { base, head: own.clone(), message: None };
    Ok(match landing::stack(repo, tip, &candidate)? {
        Stacked::Conflict(conflicts) => Since { conflicts, ..Since::default() },
        Stacked::Commit(_) | Stacked::Nothing => {
            Since { merged: bases.files().into_iter().collect(), ..Since::default() }
        }
    })
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
