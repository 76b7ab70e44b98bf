//! The moment the branch moves.

use mala_core::crash_point;

use super::checkout::{checkouts, rebase_of};
use super::index::{IndexState, build_next, put_in_place};
use super::look::{Disk, obstacles};
use super::place::{Workshop, place, render};
use super::{BranchMove, LandError, Landed, Obstacle, new_blobs};
use crate::index_lock::{IndexLock, Mark};
use crate::{FileChange, Head, Repo, RepoPath};

/// How often is looked again if somebody changes files or branches meanwhile.
const MAX_TRIES: usize = 10;

/// Moves a branch, and the checkout that has it, if there is one. After an error nobody knows how far it came:
/// [`super::repair()`] does.
pub fn land(repo: &Repo, step: &BranchMove<'_>) -> Result<Landed, LandError> {
    let (from, to) = (repo.commit(step.from)?, repo.commit(step.to)?);
    if !repo.is_ancestor(step.from, step.to)? {
        return Err(LandError::NotForward { from: from.id, to: to.id });
    }
    let changes = repo.tree_changes(&from.tree, &to.tree)?;
    repo.check_blobs(&new_blobs(&changes))?;
    for _ in 0..MAX_TRIES {
        let landed = match checkouts(repo, step.branch)?.as_slice() {
            [] => move_alone(repo, step).map(Some)?,
            [checkout] => land_in(checkout, step, &changes)?,
            [..] => Some(Landed::Held(vec![checked_out_twice()])),
        };
        if let Some(landed) = landed {
            Workshop::new(step.directory).clear()?;
            return Ok(landed);
        }
    }
    Err(LandError::Restless)
}

/// What would keep the checkout from going along right now. Nothing is locked or changed; [`land()`] looks again.
pub fn look_ahead(repo: &Repo, step: &BranchMove<'_>) -> Result<Vec<Obstacle>, LandError> {
    let (from, to) = (repo.commit(step.from)?, repo.commit(step.to)?);
    match checkouts(repo, step.branch)?.as_slice() {
        [] => Ok(rebase_of(repo, step.branch).into_iter().collect()),
        [checkout] => {
            let changes = repo.tree_changes(&from.tree, &to.tree)?;
            let state = IndexState::read(checkout)?;
            let disk = Disk::look(checkout, step, &state, &changes)?;
            obstacles_in(checkout, &disk, step, (&state, &changes))
        }
        [..] => Ok(vec![checked_out_twice()]),
    }
}

fn obstacles_in(
    checkout: &Repo,
    disk: &Disk<'_>,
    step: &BranchMove<'_>,
    (state, changes): (&IndexState, &[FileChange]),
) -> Result<Vec<Obstacle>, LandError> {
    match checkout.unfinished()? {
        Some(unfit) => Ok(vec![Obstacle { path: None, why: format!("{}; {}", unfit.why, unfit.hint) }]),
        None => obstacles(disk, step, state, changes),
    }
}

fn checked_out_twice() -> Obstacle {
    let why = "the branch is checked out in several worktrees; leave it in all but one: git switch BRANCH";
    Obstacle { path: None, why: why.to_owned() }
}

/// Where no checkout has it.
fn move_alone(repo: &Repo, step: &BranchMove<'_>) -> Result<Landed, LandError> {
    if let Some(rebase) = rebase_of(repo, step.branch) {
        return Ok(Landed::Held(vec![rebase]));
    }
    crash_point("landing:staged");
    let moved = move_ref(repo, step)?;
    crash_point("landing:ref-moved");
    Ok(moved.unwrap_or(Landed::Done { left: Vec::new() }))
}

/// Nothing if the branch is where it should be now.
fn move_ref(repo: &Repo, step: &BranchMove<'_>) -> Result<Option<Landed>, LandError> {
    let head = Head::Branch { name: step.branch.to_owned(), at: Some(step.from.clone()) };
    let Err(error) = repo.move_branch(&head, step.to, step.reason) else { return Ok(None) };
    let tip = repo.resolve(step.branch)?;
    if tip.as_ref() == Some(step.from) { Err(error.into()) } else { Ok(Some(Landed::Moved(tip))) }
}

/// Nothing if somebody changed something meanwhile, so that all has to be looked at again.
fn land_in(
    checkout: &Repo,
    step: &BranchMove<'_>,
    changes: &[FileChange],
) -> Result<Option<Landed>, LandError> {
    crash_point("landing:before-lock");
    let index = checkout.git_dir()?.join("index");
    let lock = IndexLock::take(&index, &Mark::landing(step.directory))?;
    crash_point("landing:locked");
    if checkout.branch()?.as_deref() != Some(step.branch) {
        return Ok(None);
    }
    let tip = checkout.resolve(step.branch)?;
    if tip.as_ref() != Some(step.from) {
        return Ok(Some(Landed::Moved(tip)));
    }
    let state = IndexState::read(checkout)?;
    let disk = Disk::look(checkout, step, &state, changes)?;
    let obstacles = obstacles_in(checkout, &disk, step, (&state, changes))?;
    if !obstacles.is_empty() {
        return Ok(Some(Landed::Held(obstacles)));
    }
    let workshop = Workshop::new(step.directory);
    let next = workshop.next_index();
    build_next(checkout, (&index, &next), &state, changes)?;
    crash_point("landing:index-built");
    let is_written = |change: &&FileChange| change.after.is_some();
    let written: Vec<&RepoPath> =
        disk.moves().iter().map(|file| file.change).filter(is_written).map(|change| &change.path).collect();
    render(checkout, &next, &workshop.files(), &written)?;
    crash_point("landing:staged");
    if !disk.moves().iter().all(|file| file.is_as_seen(checkout.root())) {
        return Ok(None);
    }
    if let Some(moved) = move_ref(checkout, step)? {
        return Ok(Some(moved));
    }
    crash_point("landing:ref-moved");
    let placed = place(checkout.root(), &workshop.files(), disk.moves());
    crash_point("landing:files-done");
    // Also after a failure: with the old index the next commit of a person would take back what has landed.
    put_in_place(checkout, &next, &index)?;
    crash_point("landing:index-placed");
    drop(lock);
    crash_point("landing:unlocked");
    Ok(Some(Landed::Done { left: placed? }))
}
