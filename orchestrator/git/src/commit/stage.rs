//! The commit in the making: a private index, and what it changes.

use std::path::{Path, PathBuf};

use mala_core::{AgentId, Owner};

use super::backup::Backup;
use super::error::CommitError;
use super::hook::{self, HookPlace, HookRunner};
use super::land::{self, TRIES};
use super::select::refuse_foreign;
use crate::call::{Call, nul_separated};
use crate::index_lock::copy_index;
use crate::owned_directory::OwnedDirectory;
use crate::{FileChange, GitError, Head, Oid, Ownership, Repo, RepoPath};

const PRE_COMMIT: &str = "pre-commit";

/// Where commits in the making lie.
pub(super) fn folder_of(repo: &Repo) -> PathBuf {
    repo.scope().work_dir().join("commits")
}

/// True for the index of a commit in the making.
pub fn is_draft(repo: &Repo, index: &Path) -> bool {
    index.starts_with(folder_of(repo))
}

/// A commit that is not made yet.
#[derive(Debug)]
pub(super) struct Draft {
    repo: Repo,
    folder: OwnedDirectory,
    head: Head,
    chosen: Vec<RepoPath>,
    /// What the commit will change, known once the hooks have had their say.
    changes: Vec<FileChange>,
    tree: Option<Oid>,
    /// The chosen files as they were before a hook could change them.
    backup: Option<Backup>,
    /// Where its repository may have hooks, once that was asked.
    hooks: Option<HookPlace>,
    output: String,
}

impl Draft {
    /// Puts the chosen files, as they are now, on top of the last commit.
    pub(super) fn stage(repo: &Repo, owner: &Owner, chosen: &[RepoPath]) -> Result<Self, CommitError> {
        let parent = folder_of(repo);
        let folder = OwnedDirectory::create(&parent, owner).map_err(CommitError::io(parent))?;
        let head = repo.head()?;
        let draft = Self {
            repo: repo.clone(),
            folder,
            head,
            chosen: chosen.to_vec(),
            changes: Vec::new(),
            tree: None,
            backup: None,
            hooks: None,
            output: String::new(),
        };
        draft.copy_index(&draft.index())?;
        draft.base_on(draft.head.at())?;
        draft.add_chosen()?;
        Ok(draft)
    }

    pub(super) fn repo(&self) -> &Repo {
        &self.repo
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn index(&self) -> PathBuf {
        self.folder().join("index")
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn branch(&self) -> Option<&str> {
        match &self.head {
            Head::Branch { name, .. } => Some(name),
            Head::Detached { .. } => None,
        }
    }

    pub(super) fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// What the commit will hold, as far as that is known: what it changes or, before the hooks, what was chosen.
    pub(super) fn concerned(&self) -> Vec<&RepoPath> {
        if self.changes.is_empty() { self.chosen.iter().collect() } else { self.paths().collect() }
    }

    /// The files that the commit changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        self.changes.iter().map(|change| &change.path)
    }

    pub(super) fn tree(&self) -> Result<Oid, GitError> {
        match &self.tree {
            Some(tree) => Ok(tree.clone()),
            None => self.write_tree(),
        }
    }

    /// True unless it is known that there is no hook of this name.
    pub(super) fn may_have_hook(&mut self, name: &str) -> Result<bool, GitError> {
        let place = match self.hooks.take() {
            Some(place) => place,
            None => HookPlace::of(&self.repo)?,
        };
        Ok(self.hooks.insert(place).may_have(name))
    }

    pub(super) fn note_output(&mut self, output: &str) {
        self.output.push_str(output);
    }

    pub(super) fn into_output(self) -> String {
        self.output
    }

    /// A copy of the shared index, which keeps what git knows about unchanged files and so makes everything faster.
    pub(super) fn copy_index(&self, to: &Path) -> Result<(), CommitError> {
        let from = self.repo.git_dir()?.join("index");
        copy_index(&from, to).map_err(CommitError::io(from))
    }

    fn on_index(&self, command: &str) -> Call {
        self.repo.git(command).index(&self.index())
    }

    /// Makes the private index equal to a commit.
    fn base_on(&self, commit: Option<&Oid>) -> Result<(), GitError> {
        let call = self.on_index("read-tree");
        match commit {
            Some(commit) => call.arg("--reset").arg(commit).output()?,
            None => call.arg("--empty").output()?,
        };
        Ok(())
    }

    fn add_chosen(&self) -> Result<(), GitError> {
        let update = self.on_index("update-index").args(["--add", "--remove", "--replace", "-z", "--stdin"]);
        update.input(nul_separated(&self.chosen)).output().map(drop)
    }

    /// Runs the hook that may object to files or reformat them. One that fails after changing files, as formatters
    /// do, is run once more on what it made of them. One that fails after the branch moved may have judged by a commit
    /// that this draft was not based on, as mala's own does, and is run again on top of it.
    pub(super) fn run_pre_commit(&mut self, hooks: &dyn HookRunner) -> Result<(), CommitError> {
        if !self.may_have_hook(PRE_COMMIT)? {
            return Ok(());
        }
        let folder = self.folder().join("before-hook");
        let backup =
            Backup::take(self.repo.root(), &self.chosen, &folder).map_err(CommitError::io(folder))?;
        self.backup = Some(backup);
        let mut was_formatted = false;
        for _ in 0..TRIES {
            let Err(refusal) = hook::ask(hooks, self, PRE_COMMIT, &[]) else { return Ok(()) };
            let has_moved = self.repo.head()? != self.head;
            let is_formatted = !was_formatted && self.is_changed_by_hook()?;
            if !has_moved && !is_formatted {
                return Err(refusal);
            }
            if has_moved {
                land::follow(&self.repo.clone(), self)?;
            }
            was_formatted |= is_formatted;
            self.add_chosen()?;
        }
        Err(CommitError::Restless(TRIES))
    }

    fn is_changed_by_hook(&self) -> Result<bool, CommitError> {
        let changed = self.backup.as_ref().map_or(Ok(Vec::new()), Backup::changed);
        changed.map(|files| !files.is_empty()).map_err(CommitError::io(self.repo.root()))
    }

    /// Gives files that hooks changed their bytes back.
    pub(super) fn restore_files(&self) -> Result<(), CommitError> {
        let restored = self.backup.as_ref().map_or(Ok(()), Backup::restore);
        restored.map_err(CommitError::io(self.repo.root()))
    }

    /// Fixes what the commit changes. What a hook added must be the agent's own as well.
    pub(super) fn settle(&mut self, ownership: &dyn Ownership, agent: &AgentId) -> Result<(), CommitError> {
        let tree = self.write_tree()?;
        let before = match self.head.at() {
            Some(commit) => commit.clone(),
            None => self.repo.empty_tree()?,
        };
        self.changes = self.repo.changes_between(&before, &tree)?;
        self.tree = Some(tree);
        if self.changes.is_empty() {
            return Err(CommitError::Nothing("the files are as in the last commit".to_owned()));
        }
        let added = self.paths().filter(|path| !self.chosen.contains(path));
        refuse_foreign(&self.repo, ownership, agent, added)
            .map_err(|refused| refused.into_error(|files| CommitError::HookAdded { hook: PRE_COMMIT, files }))
    }

    /// Puts the same changes on top of another commit.
    pub(super) fn move_to(&mut self, head: Head) -> Result<(), CommitError> {
        self.base_on(head.at())?;
        let update = self.on_index("update-index").args(["--add", "--replace", "-z", "--index-info"]);
        update.input(index_info(&self.changes)).output()?;
        self.tree = Some(self.write_tree()?);
        self.head = head;
        Ok(())
    }

    fn write_tree(&self) -> Result<Oid, GitError> {
        let tree = self.on_index("write-tree").line()?;
        Oid::parse(&tree).ok_or_else(|| GitError::answer("write-tree", tree.as_bytes()))
    }
}

/// The changes as `git update-index --index-info` reads them; what goes comes first, to make room.
pub(crate) fn index_info(changes: &[FileChange]) -> Vec<u8> {
    let mut info = Vec::new();
    let (kept, gone): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.after.is_some());
    for change in gone.into_iter().chain(kept) {
        let (mode, oid) = match (&change.after, &change.before) {
            (Some(entry), _) => (entry.mode.as_str(), entry.oid.as_str().to_owned()),
            (None, before) => ("0", "0".repeat(before.as_ref().map_or(40, |entry| entry.oid.as_str().len()))),
        };
        info.extend_from_slice(format!("{mode} {oid}\t").as_bytes());
        info.extend_from_slice(change.path.as_bytes());
        info.push(0);
    }
    info
}
