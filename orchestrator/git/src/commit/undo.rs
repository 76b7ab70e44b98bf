//! Taking back the last commit of a branch.

use mala_core::{AgentId, Owner};

use super::error::{CommitError, NotYours};
use super::land::change_index;
use super::select::refuse_unfinished;
use super::stage::index_info;
use crate::{Commit, FileChange, Holder, Oid, Ownership, Repo, RepoPath};

/// Takes the agent's `commit` off its branch, if it is still the last one there, and gives the files that it had. No file of the
/// checkout changes: what was committed is as uncommitted as before. What was staged since stays staged.
pub fn undo(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    owner: &Owner,
    commit: &Commit,
) -> Result<Vec<RepoPath>, CommitError> {
    refuse_unfinished(repo)?;
    let parent = match commit.parents.as_slice() {
        [parent] => parent,
        [] => return Err(CommitError::First(commit.id.clone())),
        _ => return Err(CommitError::Merge(commit.id.clone())),
    };
    let changes = repo.changes_of(commit)?;
    let passed_on = passed_on(repo, ownership, agent, commit, &changes)?;
    if !passed_on.is_empty() {
        return Err(CommitError::PassedOn(passed_on));
    }
    change_index(repo, owner, |index| {
        let head = repo.head()?;
        if head.at() != Some(&commit.id) {
            return Err(CommitError::NotLast(commit.id.clone()));
        }
        let staged: Vec<RepoPath> = repo.staged(Some(index))?.into_iter().map(|change| change.path).collect();
        let back: Vec<FileChange> = changes
            .iter()
            .filter(|change| !staged.contains(&change.path))
            .map(|FileChange { path, before, after }| FileChange {
                path: path.clone(),
                before: after.clone(),
                after: before.clone(),
            })
            .collect();
        let update = repo.git("update-index").index(index).args(["--add", "--replace", "-z", "--index-info"]);
        update.input(index_info(&back)).output()?;
        // Exits with 1 if some file differs from the index, as it does now.
        repo.git("update-index").index(index).args(["-q", "--refresh"]).finish()?;
        repo.move_branch(&head, parent, &format!("undo: {}", subject(commit))).map_err(|error| {
            if is_at(repo, &commit.id) { error.into() } else { CommitError::NotLast(commit.id.clone()) }
        })
    })?;
    Ok(changes.into_iter().map(|change| change.path).collect())
}

/// Files that the agent had and that somebody else has taken since the commit: uncommitted again, they would be part of the
/// other's work. What was the other's all along is no such file, it should never have been committed.
fn passed_on(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    commit: &Commit,
    changes: &[FileChange],
) -> Result<Vec<NotYours>, CommitError> {
    let mut passed_on = Vec::new();
    for FileChange { path, .. } in changes {
        let key = repo.key(path);
        let is_later = |holder: &Holder| holder.since >= commit.committed_at;
        let Some(holder) = ownership.holder(&key, Some(agent))?.filter(is_later) else { continue };
        if ownership.owned(agent, &key, None)?.is_some() {
            passed_on.push(NotYours { path: path.clone(), holder: Some(holder.agent.to_string()) });
        }
    }
    Ok(passed_on)
}

fn is_at(repo: &Repo, commit: &Oid) -> bool {
    repo.head().is_ok_and(|head| head.at() == Some(commit))
}

fn subject(commit: &Commit) -> &str {
    commit.message.lines().next().unwrap_or_default()
}
