//! Which files a commit takes, and whether it may.

use mala_core::{AgentId, Fence};

use super::error::{CommitError, NotYours};
use crate::ownership::{Standing, standing};
use crate::{Entry, Kind, Ownership, OwnershipError, Repo, RepoPath, State};

/// Which files to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These files, and what changed in these folders.
    Paths(Vec<RepoPath>),
    /// Everything that changed and belongs to the agent.
    Owned,
}

/// A commit in the middle of a merge would have to take everybody's files.
pub(super) fn refuse_unfinished(repo: &Repo) -> Result<(), CommitError> {
    repo.unfinished()?.map_or(Ok(()), |unfit| Err(CommitError::InProgress(unfit)))
}

/// The files to commit, all of them the agent's own.
pub(super) fn choose(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    selection: &Selection,
) -> Result<Vec<RepoPath>, CommitError> {
    let entries = repo.status()?.entries;
    let changed: Vec<&Entry> = entries.iter().filter(|entry| entry.state != State::Unwatched).collect();
    let chosen = match selection {
        Selection::Paths(paths) => named(&changed, paths)?,
        Selection::Owned => owned(repo, ownership, agent, &changed)?,
    };
    if let Some(entry) = chosen.iter().find(|entry| entry.state == State::Unmerged) {
        return Err(CommitError::Conflicts(entry.path.clone()));
    }
    let paths: Vec<RepoPath> = chosen.iter().map(|entry| entry.path.clone()).collect();
    refuse_foreign(repo, ownership, agent, &paths)
        .map_err(|refused| refused.into_error(CommitError::NotYours))?;
    Ok(paths)
}

/// Those of `files` that have changed and are the agent's own.
pub(super) fn changed_of(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    files: &[RepoPath],
) -> Result<Vec<RepoPath>, CommitError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let entries = repo.status()?.entries;
    let is_meant = |entry: &&Entry| {
        entry.kind == Kind::File && entry.state != State::Unwatched && files.contains(&entry.path)
    };
    let mut own = Vec::new();
    for entry in entries.iter().filter(is_meant) {
        if matches!(standing(&entry.path, repo, agent, ownership)?, Standing::Own) {
            own.push(entry.path.clone());
        }
    }
    Ok(own)
}

fn named<'a>(changed: &[&'a Entry], paths: &[RepoPath]) -> Result<Vec<&'a Entry>, CommitError> {
    for path in paths {
        let found: Vec<_> = changed.iter().filter(|entry| entry.path.is_within(path)).collect();
        match found.as_slice() {
            [] => return Err(CommitError::Unchanged(path.clone())),
            [only] if only.path == *path && only.kind != Kind::File => {
                return Err(CommitError::Submodule(path.clone()));
            }
            _ => {}
        }
    }
    let is_named = |entry: &&&Entry| paths.iter().any(|path| entry.path.is_within(path));
    let files: Vec<&Entry> =
        changed.iter().filter(is_named).filter(|entry| entry.kind == Kind::File).copied().collect();
    if files.is_empty() {
        return Err(CommitError::Nothing("no file was named".to_owned()));
    }
    Ok(files)
}

fn owned<'a>(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    changed: &[&'a Entry],
) -> Result<Vec<&'a Entry>, CommitError> {
    let mut own = Vec::new();
    let files: Vec<&Entry> = changed.iter().filter(|entry| entry.kind == Kind::File).copied().collect();
    ownership.expect(&files.iter().map(|entry| repo.key(&entry.path)).collect::<Vec<_>>())?;
    for entry in files {
        if matches!(standing(&entry.path, repo, agent, ownership)?, Standing::Own) {
            own.push(entry);
        }
    }
    match (own.is_empty(), changed.len()) {
        (false, _) => Ok(own),
        (true, 0) => Err(CommitError::Nothing("no file has changed".to_owned())),
        (true, others) => Err(CommitError::Nothing(format!(
            "{others} changed, none of them held by `{agent}`; take a file with: mala lock acquire FILE"
        ))),
    }
}

/// Why files were not let through: they belong to others, or nobody could say.
pub(super) enum Refused {
    Foreign(Vec<NotYours>),
    Unknown(OwnershipError),
}

impl Refused {
    pub(super) fn into_error(self, foreign: impl FnOnce(Vec<NotYours>) -> CommitError) -> CommitError {
        match self {
            Self::Foreign(files) => foreign(files),
            Self::Unknown(error) => error.into(),
        }
    }
}

pub(super) fn refuse_foreign<'a>(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    paths: impl IntoIterator<Item = &'a RepoPath>,
) -> Result<(), Refused> {
    let mut foreign = Vec::new();
    for path in paths {
        if let Standing::Foreign { holder } =
            standing(path, repo, agent, ownership).map_err(Refused::Unknown)?
        {
            foreign.push(NotYours { path: path.clone(), holder });
        }
    }
    if foreign.is_empty() { Ok(()) } else { Err(Refused::Foreign(foreign)) }
}

/// The fences under which the agent held the files, each once.
pub(super) fn fences<'a>(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    paths: impl Iterator<Item = &'a RepoPath>,
) -> Result<Vec<Fence>, CommitError> {
    let mut fences = Vec::new();
    for path in paths {
        fences.extend(ownership.owned(agent, &repo.key(path), None)?);
    }
    fences.sort_unstable();
    fences.dedup();
    Ok(fences)
}
