//! What a killed landing has left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fs, thread};

use mala_core::crash_point;

use super::checkout::checkouts;
use super::index::{IndexState, beside, build_next, put_in_place};
use super::look::{Disk, FileMove};
use super::place::{Workshop, is_same, place, prune, render, temporary};
use super::{BranchMove, LandError, Repaired};
use crate::index_lock::{IndexLock, Mark, indexes};
use crate::{Commit, FileChange, GitError, Oid, Repo, RepoPath};

/// How long a git that its killed caller had told to move the branch is waited for.
const REF_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Finishes or undoes a landing whose process was killed. May itself be killed, and repeated.
pub fn repair(repo: &Repo, step: &BranchMove<'_>) -> Result<Repaired, LandError> {
    let tip = settled_tip(repo, step.branch)?;
    let tip = match tip {
        Some(tip) if repo.is_ancestor(step.to, &tip)? => Some(tip),
        _ => None,
    };
    crash_point("landing:repair-begun");
    let mut left = Vec::new();
    if let Some(tip) = &tip {
        let commits =
            Commits { from: repo.commit(step.from)?, to: repo.commit(step.to)?, tip: repo.commit(tip)? };
        for checkout in checkouts(repo, step.branch)? {
            left.extend(finish(&checkout, step, &commits)?);
        }
    }
    let mark = Mark::landing(step.directory);
    indexes(repo).iter().try_for_each(|index| mark.unlock(index))?;
    crash_point("landing:repair-unlocked");
    Workshop::new(step.directory).clear()?;
    Ok(if tip.is_some() { Repaired::Finished { left } } else { Repaired::Undone })
}

/// Where the branch is when no git moves it any more. The killed process may have told one to, which holds the lock of the
/// ref until it has: who can have that lock knows.
fn settled_tip(repo: &Repo, branch: &str) -> Result<Option<Oid>, LandError> {
    let deadline = Instant::now() + REF_WAIT_TIMEOUT;
    loop {
        let tip = repo.resolve(branch)?;
        let none = || repo.empty_tree().map(|tree| "0".repeat(tree.as_str().len()));
        let at = tip.as_ref().map_or_else(none, |tip| Ok(tip.to_string()))?;
        let call = repo.git("update-ref").args(["--stdin", "-z"]);
        match call.input(format!("verify {branch}\0{at}\0")).output() {
            Ok(_) => return Ok(tip),
            Err(GitError::Failed { .. }) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

struct Commits {
    from: Commit,
    to: Commit,
    /// Where the branch is by now.
    tip: Commit,
}

/// Brings a checkout up to the branch, and names the files that somebody wrote since.
fn finish(checkout: &Repo, step: &BranchMove<'_>, commits: &Commits) -> Result<Vec<RepoPath>, LandError> {
    let index = checkout.git_dir()?.join("index");
    let lock = IndexLock::take_or_adopt(&index, &Mark::landing(step.directory))?;
    crash_point("landing:repair-locked");
    if checkout.branch()?.as_deref() != Some(step.branch) {
        return Ok(Vec::new());
    }
    let all = checkout.tree_changes(&commits.from.tree, &commits.to.tree)?;
    remove_temporaries(checkout, &all, &index);
    let changes = still_wanted(checkout, all, commits)?;
    checkout.check_blobs(&super::new_blobs(&changes))?;
    let state = IndexState::read(checkout)?;
    let workshop = Workshop::new(step.directory);
    let next = workshop.next_index();
    fs::remove_file(next.with_extension("lock")).ok();
    build_next(checkout, (&index, &next), &state, &stale_entries(step, &state, &changes))?;
    let disk = Disk::look(checkout, step, &state, &changes)?;
    let (stale, mut left) = sorted_out(checkout, &disk, &workshop, commits)?;
    crash_point("landing:repair-staged");
    let placed = place(checkout.root(), &workshop.files(), &stale);
    crash_point("landing:repair-files-done");
    put_in_place(checkout, &next, &index)?;
    crash_point("landing:repair-index-placed");
    drop(lock);
    left.extend(placed?);
    left.sort();
    Ok(left)
}

/// The changes that the branch still has.
fn still_wanted(
    repo: &Repo,
    mut changes: Vec<FileChange>,
    commits: &Commits,
) -> Result<Vec<FileChange>, LandError> {
    let since = repo.tree_changes(&commits.to.tree, &commits.tip.tree)?;
    let changed: BTreeSet<RepoPath> = since.into_iter().map(|change| change.path).collect();
    changes.retain(|change| !changed.contains(&change.path));
    Ok(changes)
}

/// Those whose entries in the index are as they were before, with nothing staged since in their way.
fn stale_entries(step: &BranchMove<'_>, state: &IndexState, changes: &[FileChange]) -> Vec<FileChange> {
    let is_stale = |change: &&FileChange| {
        (step.spared.contains(&change.path) || state.holds(&change.path, change.before.as_ref()))
            && (change.before.is_some() || state.in_the_way(&change.path, changes).is_none())
    };
    changes.iter().filter(is_stale).cloned().collect()
}

/// The files that are as they were before, and those that are neither that nor as they should be.
fn sorted_out<'a>(
    repo: &Repo,
    disk: &Disk<'a>,
    workshop: &Workshop<'_>,
    commits: &Commits,
) -> Result<(Vec<FileMove<'a>>, Vec<RepoPath>), LandError> {
    let (before, after) = (workshop.files_before(), workshop.files());
    let changes = || disk.moves().iter().map(|file| file.change);
    let held_before: Vec<&RepoPath> =
        changes().filter(|change| change.before.is_some()).map(|change| &change.path).collect();
    let held_after: Vec<&RepoPath> =
        changes().filter(|change| change.after.is_some()).map(|change| &change.path).collect();
    // Attributes may be among what changes, so only the files themselves tell for sure which version is there.
    render_commit(repo, workshop, &commits.from, (&before, &held_before))?;
    render_commit(repo, workshop, &commits.to, (&after, &held_after))?;
    let (mut stale, mut left) = (Vec::new(), Vec::new());
    for file in disk.moves() {
        let FileChange { path, before: was, after: wanted } = file.change;
        let place = path.within(repo.root());
        let is_done =
            disk.holds(path, wanted.as_ref()) || (wanted.is_some() && is_same(&place, &path.within(&after)));
        let is_stale = match was {
            Some(_) => disk.holds(path, was.as_ref()) || is_same(&place, &path.within(&before)),
            None => disk.in_the_way(path)?.is_none(),
        };
        match (is_done, is_stale) {
            (true, _) => {}
            (false, true) => stale.push(file.clone()),
            (false, false) => left.push(path.clone()),
        }
    }
    Ok((stale, left))
}

fn render_commit(
    repo: &Repo,
    workshop: &Workshop<'_>,
    commit: &Commit,
    (into, paths): (&std::path::Path, &[&RepoPath]),
) -> Result<(), LandError> {
    let index = workshop.commit_index();
    fs::remove_file(index.with_extension("lock")).ok();
    fs::remove_file(&index).ok();
    repo.git_with(&["core.sparseCheckout=false"], "read-tree").index(&index).arg(&commit.tree).output()?;
    render(repo, &index, into, paths)
}

/// What was being copied from another file system.
fn remove_temporaries(checkout: &Repo, changes: &[FileChange], index: &std::path::Path) {
    fs::remove_file(beside(index)).ok();
    for change in changes.iter().filter(|change| change.after.is_some()) {
        if fs::remove_file(temporary(checkout.root(), change)).is_ok() {
            prune(checkout.root(), &change.path);
        }
    }
}
