//! A checkout of its own for one test run: the last commit plus one agent's changes, and nobody's half edits.
//!
//! Git writes the files straight out of its object store into a folder of mala's own. Where the file system can clone files,
//! cloning those of the checkout is not faster, for most of the time goes into making them, and would need a guard against
//! somebody who edits one at that moment. The folder is a checkout to git: it has an index and a `HEAD` of its own, beside
//! the repository's list of worktrees, so nothing has to be pruned. It is removed when the value is dropped; what killed
//! processes leave is swept by the owner in its name.
//!
//! Submodules stay empty folders. What git ignores is not there, except for folders that are carried over.

mod carry;

use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::file::{SETTINGS, read_small_text};
use mala_core::ports::Liveness;
use mala_core::scope::ScopeError;
use mala_core::shell::word;
use mala_core::{AgentId, Owner, Scope};
use thiserror::Error;

use crate::owned_directory::{self, OwnedDirectory};
use crate::ownership::{Standing, standing};
use crate::{GitError, Kind, Oid, Ownership, OwnershipError, Repo, RepoPath, State};

pub use self::carry::{Carried, CarryError, How};

/// As many processes write files as there are cores.
const ALL_CORES: &[&str] = &["checkout.workers=0"];

#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error("there is nothing to make a snapshot of before the first commit: run without `--isolated`")]
    Unborn,
    #[error(
        "`{}` is not in the snapshot, which has only folders with committed files or your own: start from another \
         one, such as: cd {}", .folder.display(), word(.top.as_os_str().as_encoded_bytes())
    )]
    NoFolder { folder: PathBuf, top: PathBuf },
    #[error(transparent)]
    Carry(#[from] CarryError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("the snapshot is not a checkout")]
    Scope(#[from] ScopeError),
    #[error("`{}` is not a snapshot of this repository", .0.display())]
    Foreign(PathBuf),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    move |source| SnapshotError::Io { path, source }
}

/// A checkout that exists as long as this value.
#[derive(Debug)]
pub struct Snapshot {
    repo: Repo,
    original: PathBuf,
    // Dropped last: everything else lies in it.
    _folder: OwnedDirectory,
}

impl Snapshot {
    /// The last commit plus the agent's own changes, new files and deletions.
    pub fn of_agent(
        repo: &Repo,
        ownership: &dyn Ownership,
        agent: &AgentId,
        owner: &Owner,
        carried: &[Carried],
    ) -> Result<Self, SnapshotError> {
        let status = repo.status()?;
        let head = status.head.ok_or(SnapshotError::Unborn)?;
        let snapshot = Self::of_commit(repo, &head, owner, carried)?;
        for entry in &status.entries {
            let is_file = entry.kind == Kind::File && entry.state != State::Unwatched;
            if is_file && matches!(standing(&entry.path, repo, agent, ownership)?, Standing::Own) {
                snapshot.take_over(&entry.path)?;
            }
        }
        Ok(snapshot)
    }

    /// A commit as it is.
    pub fn of_commit(
        repo: &Repo,
        commit: &Oid,
        owner: &Owner,
        carried: &[Carried],
    ) -> Result<Self, SnapshotError> {
        for folder in carried {
            folder.refuse_outside()?;
        }
        let parent = folder_of(repo);
        let folder = OwnedDirectory::create(&parent, owner).map_err(at(&parent))?;
        let tree = folder.path().join("tree");
        prepare(repo, folder.path(), &tree, commit).map_err(at(folder.path()))?;
        let scope = Scope::discover(&tree)?;
        let copy = pinned(repo, scope, &folder.path().join("git"))?;
        copy.git_with(ALL_CORES, "read-tree").args(["--reset", "-u"]).arg(commit).output()?;
        for folder in carried {
            folder.bring(repo.root(), &tree)?;
        }
        let apart = carried.iter().map(Carried::path);
        Ok(Self { repo: copy.without(apart), original: repo.root().to_owned(), _folder: folder })
    }

    /// The snapshot as a repository, for recording and for asking git. Carried folders are no part of it.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    pub fn root(&self) -> &Path {
        self.repo.root()
    }

    /// The folder that stands for `cwd` of the checkout.
    pub fn place(&self, cwd: &Path) -> Result<PathBuf, SnapshotError> {
        let cwd = fs::canonicalize(cwd).map_err(at(cwd))?;
        let inside = cwd.strip_prefix(&self.original).unwrap_or(&cwd);
        let place = self.root().join(inside);
        if !place.starts_with(self.root()) || !place.is_dir() {
            return Err(SnapshotError::NoFolder { folder: inside.into(), top: self.original.clone() });
        }
        Ok(place)
    }

    fn take_over(&self, path: &RepoPath) -> Result<(), SnapshotError> {
        let (from, to) = (path.within(&self.original), path.within(self.root()));
        carry::replace(&from, &to).map_err(at(&to))
    }
}

/// A snapshot that somebody else has made, for whoever records what is run in it.
///
/// Whoever may write to the work folder can have made it, and can change it at any time. Of its git folder nothing counts but the
/// index and the name of the commit: which settings apply, and where records go, is not up to it.
#[derive(Debug)]
pub struct FoundSnapshot {
    repo: Repo,
    // Dropped last: it is the git folder.
    _folder: OwnedDirectory,
}

impl FoundSnapshot {
    /// The snapshot whose checkout is `scope`, one of `repo`.
    pub fn open(repo: &Repo, scope: Scope, owner: &Owner) -> Result<Self, SnapshotError> {
        let git = scope.root().with_file_name("git");
        let head = git.join("HEAD");
        let text = read_small_text(&head, SETTINGS).map_err(at(&head))?;
        let commit =
            Oid::parse(text.trim_end()).ok_or_else(|| SnapshotError::Foreign(scope.root().into()))?;
        let parent = seen_folder_of(repo);
        let folder = OwnedDirectory::create(&parent, owner).map_err(at(&parent))?;
        fs::write(folder.path().join("HEAD"), format!("{commit}\n")).map_err(at(folder.path()))?;
        let repo = pinned(repo, scope, folder.path())?.with_env("GIT_INDEX_FILE", git.join("index"));
        Ok(Self { repo, _folder: folder })
    }

    pub fn repo(&self) -> &Repo {
        &self.repo
    }
}

/// A checkout of `repo` whose files do not tell git which repository they belong to: agents may write them.
fn pinned(repo: &Repo, scope: Scope, git_dir: &Path) -> Result<Repo, SnapshotError> {
    if scope.git_dir() != repo.scope().git_dir() {
        return Err(SnapshotError::Foreign(scope.root().to_owned()));
    }
    let root = scope.root().to_owned();
    let pinned = repo.beside(scope).with_env("GIT_DIR", git_dir).with_env("GIT_WORK_TREE", root);
    Ok(pinned.with_env("GIT_COMMON_DIR", repo.scope().git_dir()))
}

/// Git folders for snapshots that others have made. Unlike these, they are out of agents' reach.
fn seen_folder_of(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("snapshots")
}

fn folder_of(repo: &Repo) -> PathBuf {
    repo.scope().work_dir().join("snapshots")
}

/// Makes `tree` a checkout without files whose git folder is `folder/git`.
fn prepare(repo: &Repo, folder: &Path, tree: &Path, commit: &Oid) -> io::Result<()> {
    let git = folder.join("git");
    fs::create_dir(tree)?;
    fs::create_dir(&git)?;
    let line =
        |start: &str, path: &Path| [start.as_bytes(), path.as_os_str().as_encoded_bytes(), b"\n"].concat();
    fs::write(git.join("HEAD"), format!("{commit}\n"))?;
    fs::write(git.join("commondir"), line("", repo.scope().git_dir()))?;
    fs::write(git.join("gitdir"), line("", &tree.join(".git")))?;
    fs::write(tree.join(".git"), line("gitdir: ", &git))
}

/// Removes the snapshots of killed processes.
pub fn sweep(repo: &Repo, liveness: &dyn Liveness) -> Result<Vec<PathBuf>, SnapshotError> {
    // Inside an agent's tree they are out of reach; others clear them up.
    for seen in owned_directory::abandoned(&seen_folder_of(repo), liveness).unwrap_or_default() {
        let _ = owned_directory::remove(&seen);
    }
    let parent = folder_of(repo);
    let folders = owned_directory::abandoned(&parent, liveness).map_err(at(&parent))?;
    for folder in &folders {
        owned_directory::remove(folder).map_err(at(folder))?;
    }
    Ok(folders)
}
