//! The gits of one agent's tree: what they may do, what they make, and what they leave.

pub mod environment;
pub mod lock_files;
mod programs;
mod stale_index;
mod worktree;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use mala_agents::git::{Commit, Facts, RunAgent};
use mala_agents::{Objection, When};
use mala_config::Settings;
use mala_core::file::{SETTINGS, read_small_text};
use mala_core::scope::ScopeError;
use mala_core::{Key, Scope};
use mala_git::config_file::{self, SettingsList};
use mala_git::salvage::Staged;
use mala_git::{GitError, Oid, Repo, RepoPath, State};
use mala_sandbox::{Action, GitLock, Start};
use mala_store::Party;

use self::lock_files::GitLocks;
use self::stale_index::{Seen, StaleIndex};
use crate::other_checkouts::OtherCheckouts;
use crate::reserved_refs::{ReservedRefs, run_agent};
use crate::{SessionError, jail};

pub(crate) use self::stale_index::IndexView;

/// What one supervisor knows about the gits of its tree.
#[derive(Debug)]
pub struct GitGuard {
    scope: Scope,
    head: PathBuf,
    index: PathBuf,
    others: OtherCheckouts,
    locks: GitLocks,
    stale_index: StaleIndex,
    /// For agents that are cleared up after.
    staged: Option<Staged>,
    reserved_refs: ReservedRefs,
    run: Option<RunAgent>,
    /// Where git's hooks are, before the agent starts.
    hooks_path: Option<String>,
}

const HOOKS_PATH: &str = "core.hookspath";
/// What is said to who changes another checkout of the repository.
pub(crate) const ANOTHER_CHECKOUT: &str =
    "it belongs to another checkout of this repository, which is only there to be read: work in your own";

impl GitGuard {
    pub fn of(party: &Party, scope: &Scope, settings: &Settings) -> io::Result<Self> {
        let index = jail::index_file(scope);
        Ok(Self {
            scope: scope.clone(),
            head: jail::head(scope),
            locks: GitLocks::open(scope)?,
            stale_index: StaleIndex::new(index.clone()),
            index,
            others: OtherCheckouts::of(scope),
            staged: party.run.is_some().then(|| Staged::of(scope, &party.agent)),
            reserved_refs: ReservedRefs::of(party, scope),
            run: run_agent(party, scope, settings),
            hooks_path: SettingsList::of(|name| env::var_os(name), &local_settings(scope))
                .last(HOOKS_PATH)
                .map(str::to_owned),
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
    pub(crate) fn objections(&self, start: &Start<'_>, args: &[OsString]) -> Vec<Objection> {
        let folder = cwd_of(start);
        let known = OnceCell::new();
        let settings = || known.get_or_init(|| self.settings_of(start));
        let given = given_settings(start);
        let facts = Facts {
            exists: &|path| folder.join(path).exists(),
            alias: &|name| settings().alias(name),
            settings: &given,
            run: self.run.as_ref(),
        };
        if self.is_in_another(start, args, &folder) && !worktree::is_filled(&self.scope, start, &folder) {
            return mala_agents::git::another_checkout_objection(args, &facts).into_iter().collect();
        }
        let mut found = mala_agents::git::objections_enforced(args, &facts);
        found.retain(|objection| objection.when != When::ForeignChanges);
        if self.run.is_none() && mala_agents::git::runs_hooks(args, &facts) {
            let hooks = settings().last(HOOKS_PATH);
            let is_elsewhere = hooks != self.hooks_path.as_deref();
            found.extend(is_elsewhere.then(|| mala_agents::git::hooks_objection(args)));
        }
        if let Some(name) = mala_agents::git::unknown_command(args, &facts)
            && start.program == "git"
            && !programs::is_another(&name, start)
        {
            found.push(mala_agents::git::unknown_objection(args));
        }
        let is_harmless = found.is_empty()
            || self.is_elsewhere(start, args, &folder)
            || worktree::is_filled(&self.scope, start, &folder);
        if is_harmless { Vec::new() } else { found }
    }

    /// The settings that a git of the tree works with.
    fn settings_of(&self, start: &Start<'_>) -> SettingsList {
        let variable = |name: &str| start.variable(name).map(OsStr::to_owned);
        SettingsList::of(variable, &local_settings(&self.scope))
    }

    /// What a git that begins with `args` would commit in this checkout.
    pub(crate) fn commit(&self, start: &Start<'_>, args: &[OsString]) -> Option<Commit> {
        let commit = mala_agents::git::committed(args)?;
        (!self.is_elsewhere(start, args, &cwd_of(start))).then_some(commit)
    }

    /// True if git, started in `folder` with `args`, works in another checkout of this repository, which is not the agent's.
    fn is_in_another(&self, start: &Start<'_>, args: &[OsString], folder: &Path) -> bool {
        if let Some(named) = start.variable("GIT_DIR") {
            let git_dir = worktree::git_dir(&folder.join(named));
            return git_dir.is_some_and(|git_dir| self.others.owns(&git_dir.join("index")));
        }
        let start = mala_agents::git::start_folder(args, folder).and_then(|start| start.canonicalize().ok());
        start.is_some_and(|start| {
            self.others.around(&start).is_some_and(|root| {
                // A repository of its own may lie in there.
                Scope::discover(&start).is_ok_and(|scope| scope.root() == root)
            })
        })
    }

    /// True if git, started in `folder` with `args`, works in another repository, or in none: everything there is the agent's
    /// own, and what it does here all the same is judged file by file.
    fn is_elsewhere(&self, start: &Start<'_>, args: &[OsString], folder: &Path) -> bool {
        // Files or an index of this checkout that it would change make it this one. Clients keep snapshots of the files elsewhere.
        let writes = mala_agents::git::writes_in_checkout(args, &|path| folder.join(path).exists());
        let named = |name: &str| start.variable(name).map(|named| folder.join(named));
        let is_here = |path: PathBuf, of: &Path| path.canonicalize().is_ok_and(|path| of.starts_with(path));
        let has_index = |index: PathBuf| {
            index.parent().and_then(|place| place.canonicalize().ok()).as_deref() == self.index.parent()
        };
        if writes.files && named("GIT_WORK_TREE").is_some_and(|files| is_here(files, self.scope.root()))
            || writes.index && named("GIT_INDEX_FILE").is_some_and(has_index)
        {
            return false;
        }
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

    /// The other checkouts of the repository.
    pub(crate) fn others(&self) -> &OtherCheckouts {
        &self.others
    }

    pub(crate) fn is_index(&self, path: &Path) -> bool {
        path == self.index
    }

    /// Why a file of git must not be changed in another way than by git's own, which makes a new one and puts it in the place
    /// of the old one: what differs could not be told. None if it may.
    pub(crate) fn refusal_to_change(&self, path: &Path, action: Action) -> Option<&'static str> {
        match action {
            _ if self.is_index_of_another(path) => Some(ANOTHER_CHECKOUT),
            _ if self.is_index(path) && action != Action::Chmod => {
                Some("the index holds what everybody has staged: change it by git, for your own files")
            }
            Action::Write | Action::Link if self.is_branch(path) => {
                Some("the branch moves by commits: mala commit -m 'what changes'")
            }
            _ => None,
        }
    }

    /// True for what another checkout of the repository has staged.
    pub(crate) fn is_index_of_another(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == "index") && self.others.owns(path)
    }

    /// The key by which a path is locked.
    pub(crate) fn key(&self, path: &RepoPath) -> Key {
        self.repo().key(path)
    }

    fn repo(&self) -> Repo {
        Repo::new(self.scope.clone())
    }

    /// What would be different if `from` took the place of `to`, the index or the file of the branch.
    pub(crate) fn changed_by(&self, from: &Path, to: &Path) -> Result<Vec<RepoPath>, GitError> {
        let repo = self.repo();
        if self.is_index(to) {
            return repo.changed_entries(to, from);
        }
        let Some(new) = commit_in(from) else { return Ok(Vec::new()) };
        let changes = match repo.resolve("HEAD")? {
            Some(old) => repo.changes_between(&old, &new)?,
            None => repo.changes_of(&repo.commit(&new)?)?,
        };
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// What a `git commit` that begins would commit, as far as can be told.
    pub(crate) fn committed(&self, start: &Start<'_>, commit: &Commit) -> Result<Vec<RepoPath>, GitError> {
        let repo = self.repo();
        let folder = cwd_of(start);
        let mut paths = Vec::new();
        if commit.takes_staged() {
            let index = start.variable("GIT_INDEX_FILE").map(|index| folder.join(index));
            paths.extend(repo.staged(index.as_deref())?.into_iter().map(|change| change.path));
        }
        if commit.takes_unstaged() {
            let folder = folder.canonicalize().unwrap_or(folder);
            let changed = repo.status()?.entries.into_iter().filter(|entry| {
                entry.state != State::Untracked
                    && commit.names(&folder, &entry.path.within(self.scope.root()))
            });
            paths.extend(changed.map(|entry| entry.path));
        }
        Ok(paths)
    }

    /// The index as it is when a commit begins.
    pub(crate) fn sees_index(&self, start: &Start<'_>) -> Option<Seen> {
        start.variable("GIT_INDEX_FILE").is_none().then(|| self.stale_index.see())
    }

    /// What the commit takes was looked at when the index was the one that was `seen`.
    pub(crate) fn has_judged(&self, start: &Start<'_>, seen: Option<Seen>) {
        if let Some(seen) = seen {
            self.stale_index.judged_at_start(start.pid, seen);
        }
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
    pub(crate) fn is_branch(&self, path: &Path) -> bool {
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

fn cwd_of(start: &Start<'_>) -> PathBuf {
    Path::new("/proc").join(start.pid.to_string()).join("cwd")
}

/// The files with the settings of a checkout.
fn local_settings(scope: &Scope) -> [PathBuf; 2] {
    [scope.git_dir().join("config"), jail::head(scope).with_file_name("config.worktree")]
}

/// What its environment tells a git to set, as `key=value`.
fn given_settings(start: &Start<'_>) -> Vec<String> {
    let given = config_file::given(|name| start.variable(name).map(OsStr::to_owned));
    given.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
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
