//! What people had left uncommitted before agents began.
//!
//! It is kept when a run begins, and again for each attempt: people go on working. What agents hold at that moment may be
//! theirs already, so of that only what was kept when the run began counts.

use std::collections::{BTreeMap, BTreeSet};

use mala_core::{AgentId, Key, RunId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::baseline::{self, Damage};
use super::raw::{self, Taken};
use super::staged::{Entries, unmerged};
use super::{SalvageError, SavedRef, commit_tree, dirty, dirty_since, held_at, ref_part, refs, tree_with};
use crate::retry::Git;
use crate::{FileChange, Oid, Repo, RepoPath};

/// How often what is uncommitted is read while agents give their files back.
const MOST_READS: u32 = 4;

/// What git writes for a submodule.
pub(super) const SUBMODULE: &str = "160000";

/// Refs are shared by all checkouts of a repository, runs are not.
fn runs_of(repo: &Repo) -> String {
    let root = Key::from_stored(repo.root().as_os_str().as_encoded_bytes().to_vec());
    format!("refs/mala-runs/{}", root.short_id())
}

fn run_ref(repo: &Repo, run: &RunId) -> String {
    format!("{}/{}", runs_of(repo), ref_part(run.as_str()))
}

fn agent_ref(repo: &Repo, run: &RunId, agent: &AgentId) -> String {
    format!("{}.{}", run_ref(repo, run), ref_part(agent.as_str()))
}

/// What is uncommitted at one moment, as far as it can be read.
#[derive(Debug)]
pub struct Uncommitted {
    head: Option<Oid>,
    /// In the checkout.
    changes: Vec<FileChange>,
    /// In the index.
    staged: Vec<FileChange>,
    told: Told,
}

/// What no tree can say. It is the last line of a commit's message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// Of the files in the checkout.
    pub(super) permissions: BTreeMap<RepoPath, u32>,
    /// What is in conflict in the index.
    pub(super) unmerged: Entries,
}

impl Uncommitted {
    pub fn now(repo: &Repo) -> Result<Self, SalvageError> {
        let (head, files) = dirty_since(repo)?;
        let Taken { changes, permissions, left_out } = raw::take(repo, head.as_ref(), &files)?;
        let (mut staged, mut unmerged) =
            if files.is_empty() { Default::default() } else { (repo.staged(None)?, unmerged(repo)?) };
        // Git calls what is in conflict deleted. Submodules are not ours to put back.
        staged.retain(|change| !unmerged.contains_key(&change.path) && !is_submodule(change));
        for left in &left_out {
            staged.retain(|change| change.path != left.path);
            unmerged.remove(&left.path);
        }
        Ok(Self { head, changes, staged, told: Told { permissions, unmerged } })
    }

    pub fn files(&self) -> BTreeSet<RepoPath> {
        let changed = self.changes.iter().chain(&self.staged).map(|change| &change.path);
        changed.chain(self.told.unmerged.keys()).cloned().collect()
    }

    /// Keeps it for a run that begins.
    pub fn keep(&self, repo: &Repo, run: &RunId) -> Result<Before, SalvageError> {
        if self.files().is_empty() {
            return Ok(Before { saved: None });
        }
        self.point(repo, run_ref(repo, run), &format!("uncommitted work when the run {run} began\n"))
    }

    /// Keeps what is uncommitted now for an agent that begins, without what an agent holds. That is asked before and after it is
    /// read: if an agent has given its files back in between, nobody knows what was read, and it is read again.
    pub fn keep_unheld<E: From<SalvageError>>(
        repo: &Repo,
        run: &RunId,
        agent: &AgentId,
        is_held: impl Fn(&RepoPath) -> Result<bool, E>,
    ) -> Result<Before, E> {
        let held_of = |files: BTreeSet<RepoPath>| -> Result<BTreeSet<RepoPath>, E> {
            let judged = files.into_iter().map(|path| Ok(is_held(&path)?.then_some(path)));
            judged.filter_map(Result::transpose).collect()
        };
        let mut reads = 1;
        loop {
            let first = held_of(dirty(repo)?)?;
            let now = Self::now(repo)?;
            let mut held = held_of(now.files())?;
            if first.is_subset(&held) || reads == MOST_READS {
                held.extend(first);
                return Ok(now.keep_for(repo, run, agent, &held)?);
            }
            reads += 1;
        }
    }

    /// Keeps it for an agent that begins. Of the files in `held`, what was kept for the run stands for what is there.
    pub fn keep_for(
        mut self,
        repo: &Repo,
        run: &RunId,
        agent: &AgentId,
        held: &BTreeSet<RepoPath>,
    ) -> Result<Before, SalvageError> {
        let (name, first) = (agent_ref(repo, run, agent), Before::at(repo, run_ref(repo, run))?);
        for changes in [&mut self.changes, &mut self.staged] {
            changes.retain(|change| !held.contains(&change.path));
        }
        self.told.permissions.retain(|path, _| !held.contains(path));
        self.told.unmerged.retain(|path, _| !held.contains(path));
        if let Some(theirs) = first.untouched(repo)? {
            let is_their_file = |path: &RepoPath| held.contains(path) && theirs.files.contains(path);
            let is_theirs = |change: &FileChange| is_their_file(&change.path);
            let of = |commit: &Oid| repo.changes_of(&repo.commit(commit)?);
            self.changes.extend(of(&theirs.commit)?.into_iter().filter(is_theirs));
            let Told { permissions, unmerged } = theirs.told;
            self.told.permissions.extend(permissions.into_iter().filter(|(path, _)| held.contains(path)));
            self.told.unmerged.extend(unmerged.into_iter().filter(|(path, _)| is_their_file(path)));
            if let Some(staged) = &theirs.staged {
                self.staged.extend(of(staged)?.into_iter().filter(is_theirs));
            }
        }
        if self.files().is_empty() && first.saved.is_none() && repo.resolve(&name)?.is_none() {
            return Ok(Before { saved: None });
        }
        self.point(repo, name, &format!("uncommitted work when {agent} began\n"))
    }

    /// What is staged becomes a second parent of the commit, as in a stash.
    fn point(&self, repo: &Repo, name: String, message: &str) -> Result<Before, SalvageError> {
        let head = self.head.as_ref();
        let mut parents = Vec::from_iter(head.cloned());
        if !self.staged.is_empty() && head.is_some() {
            let tree = tree_with(repo, head, &self.staged)?;
            parents.push(commit_tree(repo, self.head.as_slice(), &tree, "staged\n")?);
        }
        let message = format!("{message}\n{}\n", json!(self.told));
        let commit = commit_tree(repo, &parents, &tree_with(repo, head, &self.changes)?, &message)?;
        refs::keep(repo, &name, &commit, "mala: uncommitted work", None)?;
        let saved = SavedRef { name, commit };
        baseline::record(repo, &saved, self.files().into_iter().collect())?;
        Ok(Before { saved: Some(saved) })
    }
}

/// What people had left uncommitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    pub(super) saved: Option<SavedRef>,
}

impl Before {
    /// What was kept for this agent or else for its run, perhaps in a process that is gone.
    pub fn of(repo: &Repo, run: &RunId, agent: &AgentId) -> Result<Self, SalvageError> {
        match Self::at(repo, agent_ref(repo, run, agent))? {
            Self { saved: None } => Self::at(repo, run_ref(repo, run)),
            found => Ok(found),
        }
    }

    /// What of the kept work is not there any more, or was not: for whoever is about to rely on it.
    pub fn damage(repo: &Repo, run: &RunId, agent: &AgentId) -> Result<Vec<Damage>, SalvageError> {
        let names = [agent_ref(repo, run, agent), run_ref(repo, run)];
        names.iter().filter_map(|name| baseline::check(repo, name).transpose()).collect()
    }

    fn at(repo: &Repo, name: String) -> Result<Self, SalvageError> {
        let saved = repo.resolve(&name)?.map(|commit| SavedRef { name, commit });
        Ok(Self { saved })
    }

    /// Keeps it under another ref, which stays when the run is over. Gives the ref's name if there is something to keep.
    pub fn keep_as(&self, repo: &Repo, name: String) -> Result<Option<String>, SalvageError> {
        let Some(saved) = &self.saved else { return Ok(None) };
        refs::keep(repo, &name, &saved.commit, "mala: uncommitted work", None)?;
        Ok(Some(name))
    }

    /// The run is over and nothing of it has to be restored any more.
    pub fn forget(repo: &Repo, run: &RunId) -> Result<(), SalvageError> {
        let name = run_ref(repo, run);
        Self::forget_all(repo, |found| is_of_run(found, &name))
    }

    /// The agent is gone and what it did was undone.
    pub fn forget_for(repo: &Repo, run: &RunId, agent: &AgentId) -> Result<(), SalvageError> {
        forget(repo, &agent_ref(repo, run, agent))
    }

    /// Forgets what was kept for runs of this checkout that were killed, except for those in `keep`.
    pub fn forget_others(repo: &Repo, keep: &[RunId]) -> Result<(), SalvageError> {
        let keep: Vec<String> = keep.iter().map(|run| run_ref(repo, run)).collect();
        Self::forget_all(repo, |found| !keep.iter().any(|kept| is_of_run(found, kept)))
    }

    fn forget_all(repo: &Repo, is_past: impl Fn(&str) -> bool) -> Result<(), SalvageError> {
        let args = ["for-each-ref", "--format=%(refname)", &runs_of(repo)];
        let names = Git::at(repo.root()).line(&args, b"")?;
        let written = baseline::names(repo);
        let past = names.lines().chain(written.iter().map(String::as_str)).filter(|name| is_past(name));
        past.collect::<BTreeSet<_>>().into_iter().try_for_each(|name| forget(repo, name))
    }

    /// The files that were a person's and that nobody has committed since.
    pub fn files(&self, repo: &Repo) -> Result<BTreeSet<RepoPath>, SalvageError> {
        Ok(self.untouched(repo)?.map(|theirs| theirs.files).unwrap_or_default())
    }

    /// The same, with where they are kept.
    pub(super) fn untouched(&self, repo: &Repo) -> Result<Option<Untouched>, SalvageError> {
        let Some(saved) = &self.saved else { return Ok(None) };
        let commit = repo.commit(&saved.commit)?;
        let staged = commit.parents.get(1).cloned();
        let mut changes = repo.changes_of(&commit)?;
        if let Some(staged) = &staged {
            changes.extend(repo.changes_of(&repo.commit(staged)?)?);
        }
        let told = commit.message.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let told: Told = told.unwrap_or_default();
        let mut files: BTreeSet<RepoPath> = changes.into_iter().map(|change| change.path).collect();
        files.extend(told.unmerged.keys().cloned());
        let head = repo.resolve("HEAD")?;
        let then = held_at(repo, commit.parents.first(), &files)?;
        let now = held_at(repo, head.as_ref(), &files)?;
        files.retain(|path| then.get(path) == now.get(path));
        Ok(Some(Untouched { commit: commit.id, staged, files, told }))
    }
}

fn forget(repo: &Repo, name: &str) -> Result<(), SalvageError> {
    baseline::forget(repo, name);
    match repo.resolve(name)? {
        Some(_) => refs::update(repo, name, &["-d", name]),
        None => Ok(()),
    }
}

fn is_submodule(change: &FileChange) -> bool {
    [&change.before, &change.after].into_iter().flatten().any(|entry| entry.mode == SUBMODULE)
}

/// True for the ref of the run and those of its agents.
fn is_of_run(name: &str, run: &str) -> bool {
    name.strip_prefix(run).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a person had left uncommitted and nobody has committed since.
pub(super) struct Untouched {
    pub(super) commit: Oid,
    /// What was staged, if anything was.
    pub(super) staged: Option<Oid>,
    pub(super) files: BTreeSet<RepoPath>,
    pub(super) told: Told,
}
