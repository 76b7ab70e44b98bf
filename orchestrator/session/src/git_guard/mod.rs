//! The gits of one agent's tree: what they may do, what they make, and what they leave.

pub mod environment;
pub mod lock_files;
mod stale_index;
mod worktree;

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_agents::Objection;
use mala_agents::git::RunAgent;
use mala_config::Settings;
use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};
use mala_core::scope::ScopeError;
use mala_git::salvage::Staged;
use mala_git::{Oid, Repo};
use mala_sandbox::{GitLock, Start};
use mala_store::Party;

use self::lock_files::GitLocks;
use self::stale_index::StaleIndex;
use crate::reserved_refs::{ReservedRefs, run_agent};
use crate::{SessionError, jail};

pub(crate) use self::stale_index::IndexView;

/// What one supervisor knows about the gits of its tree.
#[derive(Debug)]
pub struct GitGuard {
    scope: Scope,
    head: PathBuf,
    index: PathBuf,
    locks: GitLocks,
    stale_index: StaleIndex,
    /// For agents that are cleared up after.
    staged: Option<Staged>,
    reserved_refs: ReservedRefs,
    run: Option<RunAgent>,
}

impl GitGuard {
    pub fn of(party: &Party, scope: &Scope, settings: &Settings) -> io::Result<Self> {
        let index = jail::index_file(scope);
        Ok(Self {
            scope: scope.clone(),
            head: jail::head(scope),
            locks: GitLocks::open(scope)?,
            stale_index: StaleIndex::new(index.clone()),
            index,
            staged: party.run.is_some().then(|| Staged::of(scope, &party.agent)),
            reserved_refs: ReservedRefs::of(party, scope),
            run: run_agent(party, scope, settings),
        })
    }

    /// A program begins. Gives its command line if it is git.
    pub(crate) fn begins<'s>(&self, start: &'s Start<'_>) -> Option<Cow<'s, [OsString]>> {
        let args = git_args(start);
        self.stale_index.begins(start.pid, args.as_deref());
        if args.is_none() && is_judge(start) {
            self.stale_index.judges(start.pid);
        }
        args
    }

    /// What is to be said against a git that begins with `args`.
    pub(crate) fn objection(&self, start: &Start<'_>, args: &[OsString]) -> Option<Objection> {
        let folder = Path::new("/proc").join(start.pid.to_string()).join("cwd");
        let objection =
            mala_agents::git::objection(args, |path| folder.join(path).exists(), self.run.as_ref())?;
        let is_harmless =
            self.is_elsewhere(start, args, &folder) || worktree::is_filled(&self.scope, start, &folder);
        (!is_harmless).then_some(objection)
    }

    /// True if git, started in `folder` with `args`, works in another repository, or in none: everything there is the agent's
    /// own, and what it does here all the same is judged file by file.
    fn is_elsewhere(&self, start: &Start<'_>, args: &[OsString], folder: &Path) -> bool {
        if let Some(named) = start.variable("GIT_DIR") {
            // Worktrees have their branches in common.
            let own = self.scope.git_dir();
            return worktree::git_dir(&folder.join(named))
                .is_some_and(|named| named != own && !named.starts_with(own.join("worktrees")));
        }
        let Some(start) = mala_agents::git::start_folder(args, folder) else { return false };
        Scope::discover(&start).map_or_else(
            |error| matches!(error, ScopeError::NotARepository { .. }),
            |scope| scope.root() != self.scope.root(),
        )
    }

    /// True for the file that says which branch the checkout is on, unless a run has to stay on it.
    pub(crate) fn is_movable_head(&self, path: &Path) -> bool {
        path == self.head && self.run.is_none()
    }

    pub(crate) fn reserved_refs(&self) -> &ReservedRefs {
        &self.reserved_refs
    }

    /// What is said to who tries to move the branch by this name, which is out of reach.
    pub(crate) fn refusal_at(&self, path: &Path) -> Option<String> {
        let run = self.run.as_ref()?;
        self.reserved_refs.moves_branch(path).then(|| run.refusal())
    }

    /// One of them is about to make a lock file.
    pub(crate) fn makes_lock(&self, lock: &GitLock<'_>) {
        self.locks.note(lock);
    }

    /// What the maker of a lock file, which is in place, may know of the index.
    pub(crate) fn knowledge(&self, lock: &GitLock<'_>) -> IndexView {
        self.stale_index.knowledge(lock)
    }

    /// One of them has to wait for a lock file. True if that was nobody's and is gone now.
    pub(crate) fn waits(&self, pid: u32, lock: &Path) -> bool {
        self.stale_index.waits(pid, lock);
        self.locks.clear_at(lock)
    }

    /// One of them puts `from` in the place of `to`. Gives the commit that this makes, and the one before.
    pub(crate) fn replaces(&self, from: &Path, to: &Path) -> Option<(Oid, Option<Oid>)> {
        if let Some(staged) = self.staged.as_ref().filter(|_| to == self.index) {
            // What is not kept is merely not known to be the agent's.
            let _ = staged.keep(to, from);
        }
        // An index may be large, and is not read for nothing.
        if !self.is_branch(to) {
            return None;
        }
        Some((commit_in(from)?, commit_in(to)))
    }

    /// True for the file that says what the last commit is.
    fn is_branch(&self, path: &Path) -> bool {
        let Ok(name) = path.strip_prefix(self.scope.git_dir()) else { return false };
        name.starts_with("refs/heads")
            && fs::read(&self.head).is_ok_and(|head| {
                head.trim_ascii().strip_prefix(b"ref: ") == Some(name.as_os_str().as_bytes())
            })
    }

    /// Removes lock files that killed processes of the tree have left, and forgets the dead.
    pub fn clear(&self) {
        self.locks.clear();
        self.stale_index.forget_dead();
    }

    /// The same for the last time, when the tree is dead.
    pub fn end(&self) {
        self.locks.end();
    }

    /// Makes less of what is kept about the agent's changes of the index.
    pub fn sum_up_staged(&self) -> Result<(), SessionError> {
        let Some(staged) = &self.staged else { return Ok(()) };
        Ok(staged.sum_up(&Repo::new(self.scope.clone()))?)
    }
}

/// The command line, if git starts: also by the names that its commands have of their own (`git-reset`).
fn git_args<'s>(start: &'s Start<'_>) -> Option<Cow<'s, [OsString]>> {
    if start.program == "git" {
        return Some(start.args().into());
    }
    let command = start.program.to_str()?.strip_prefix("git-")?;
    let rest = start.args().iter().skip(1).cloned();
    Some(["git".into(), command.into()].into_iter().chain(rest).collect())
}

/// True for `mala gate pre-commit`, which judges what is staged.
fn is_judge(start: &Start<'_>) -> bool {
    start.program == "mala" && start.args().windows(2).any(|words| words == ["gate", "pre-commit"])
}

/// The commit that a file of git names.
fn commit_in(file: &Path) -> Option<Oid> {
    Oid::parse(read_small_text(file, SETTINGS).ok()?.trim())
}
