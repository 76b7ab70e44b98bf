//! A checkout of mala's own at a fixed path, moved from commit to commit.
//!
//! A slot is a linked worktree with a detached `HEAD`: `git describe` and the like work in it. Its git directory lies beside
//! its files, out of agents' reach, not in the repository's list of worktrees, so there is nothing to prune. Being moved
//! rather than made anew keeps what a build left behind, which makes the next one fast. Two things make that safe: every
//! file that a move writes is newer than whatever was built before, and what lies there afterwards is compared with the
//! commit byte for byte.
//!
//! Whoever calls these functions has the slot for itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use mala_core::Scope;
use mala_core::scope::ScopeError;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use thiserror::Error;

use crate::call::nul_parts;
use crate::objects::{blob_id, tree_id};
use crate::{Commit, GitError, Oid, Repo, RepoPath, TreeEntry, owned_directory};

/// As many processes write files as there are cores, and all files are there whatever the main checkout leaves out.
const CHECKOUT: &[&str] = &["checkout.workers=0", "core.sparseCheckout=false"];
/// The last second that files of a slot were stamped with.
const STAMP: &str = "mala-stamp";

#[derive(Debug, Error)]
pub enum SlotError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the slot is not a checkout")]
    Scope(#[from] ScopeError),
    #[error(
        "`{path}` in the slot does not hold what commit {commit} says: an object in the repository was changed, \
         or a filter does not restore what it stored; see: git fsck"
    )]
    Differs { path: RepoPath, commit: Oid },
    #[error(
        "the files in the slot are not those of commit {commit}: an object in the repository was changed; see: git fsck"
    )]
    OtherTree { commit: Oid },
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SlotError {
    let path = path.to_owned();
    move |source| SlotError::Io { path, source }
}

/// Where the slots of a repository lie: in `configured`, else in the user's cache directory. Nothing if there is none.
pub fn directory(scope: &Scope, configured: &str) -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
    let base = match configured {
        "" => set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?,
        directory => scope.root().join(directory),
    };
    let name = scope.root().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let git_dir = scope.git_dir().as_os_str().as_encoded_bytes();
    // Stable over versions of mala: by it a slot is found again.
    let number = git_dir.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(base.join("mala").join(format!("{name}-{number:016x}")).join("slots"))
}

/// Removes a directory with all that is in it, also what was made unwritable.
pub fn remove_all(directory: &Path) -> io::Result<()> {
    owned_directory::remove(directory)
}

/// A checkout that mala moves.
#[derive(Debug)]
pub struct Slot {
    repo: Repo,
    git_dir: PathBuf,
}

impl Slot {
    /// Makes the files in `dir` those of `commit`. Of what git does not track, only paths that match `keep` (as in a
    /// `.gitignore`) stay. A slot that is beyond repair is made anew.
    pub fn place(repo: &Repo, dir: &Path, commit: &Oid, keep: &[String]) -> Result<Self, SlotError> {
        let commit = repo.commit(commit)?;
        match Self::open(repo, dir, &commit, keep).and_then(|slot| slot.move_to(&commit, keep)) {
            Err(SlotError::Differs { .. } | SlotError::OtherTree { .. } | SlotError::Git(_)) => {
                Self::remove(dir)?;
                Self::open(repo, dir, &commit, keep)?.move_to(&commit, keep)
            }
            result => result,
        }
    }

    /// Removes the slot's files, and what was built among them.
    pub fn remove(dir: &Path) -> Result<(), SlotError> {
        for part in ["tree", "git"].map(|name| dir.join(name)) {
            owned_directory::remove(&part).map_err(at(&part))?;
        }
        Ok(())
    }

    pub fn root(&self) -> &Path {
        self.repo.root()
    }

    /// The slot as a repository, for asking git.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    fn open(repo: &Repo, dir: &Path, commit: &Commit, keep: &[String]) -> Result<Self, SlotError> {
        let (tree, git_dir) = (dir.join("tree"), dir.join("git"));
        for part in [&tree, &git_dir] {
            // What it leads to is somebody else's, and would be cleaned.
            if part.is_symlink() {
                fs::remove_file(part).map_err(at(part))?;
            }
            fs::create_dir_all(part).map_err(at(part))?;
        }
        link(repo, &tree, &git_dir, &commit.id).map_err(at(&git_dir))?;
        let scope = Scope::discover(&tree)?;
        let root = scope.root().to_owned();
        let repo = repo.beside(scope).with_env("GIT_DIR", &git_dir).with_env("GIT_WORK_TREE", root);
        let common = repo.scope().git_dir().to_owned();
        // What was built is no part of the tree, also where git does not ignore it.
        let built = keep.iter().map(|pattern| RepoPath::from_bytes(pattern.trim_matches('/')));
        Ok(Self { repo: repo.with_env("GIT_COMMON_DIR", common).without(built), git_dir })
    }

    fn move_to(self, commit: &Commit, keep: &[String]) -> Result<Self, SlotError> {
        let began = self.now()?;
        let kept = keep.iter().flat_map(|pattern| ["-e".into(), OsString::from(pattern)]);
        self.repo.git("clean").args(["-ffdxq"]).args(kept).output()?;
        self.repo.git_with(CHECKOUT, "read-tree").args(["--reset", "-u"]).arg(&commit.tree).output()?;
        let files = self.repo.index_files()?;
        if tree_id(&files, &commit.id)? != commit.tree {
            return Err(SlotError::OtherTree { commit: commit.id.clone() });
        }
        self.stamp(began, &files)?;
        self.compare(commit, &files)?;
        Ok(self)
    }

    /// The time by the clock that files get theirs from.
    fn now(&self) -> Result<SystemTime, SlotError> {
        let path = self.git_dir.join("mala-clock");
        fs::write(&path, "").and_then(|()| fs::metadata(&path)?.modified()).map_err(at(&path))
    }

    /// Gives what was written since `began` a time in a later second than every earlier move has: build tools compare times,
    /// some of them in whole seconds, and a file with another content but the same time would not be built again.
    fn stamp(&self, began: SystemTime, files: &[(RepoPath, TreeEntry)]) -> Result<(), SlotError> {
        let path = self.git_dir.join(STAMP);
        let last: Option<u64> = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        let began_second = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let second = last.map_or(began_second, |last| began_second.max(last + 1));
        fs::write(&path, second.to_string()).map_err(at(&path))?;
        let time = TimeSpec::from(Duration::from_secs(second));
        for (file, entry) in files {
            let place = file.within(self.root());
            let is_new = |meta: fs::Metadata| meta.modified().is_ok_and(|modified| modified >= began);
            if entry.mode != "160000" && fs::symlink_metadata(&place).is_ok_and(is_new) {
                utimensat(AT_FDCWD, &place, &time, &time, UtimensatFlags::NoFollowSymlink)
                    .map_err(|error| at(&place)(error.into()))?;
            }
        }
        Ok(())
    }

    /// Has git hash every file whose times changed, which are those that were written.
    fn compare(&self, commit: &Commit, files: &[(RepoPath, TreeEntry)]) -> Result<(), SlotError> {
        let refreshed = self.repo.git("update-index").arg("--really-refresh").finish()?;
        if refreshed.status.success() {
            return Ok(());
        }
        let output = self.repo.git("diff-files").args(["--name-only", "-z"]).output()?;
        for path in nul_parts(&output).map(RepoPath::from_bytes) {
            let entry = files.binary_search_by(|(other, _)| other.cmp(&path)).ok().map(|at| &files[at].1);
            if !entry.is_some_and(|entry| self.is_stored_as(&path, entry)) {
                return Err(SlotError::Differs { path, commit: commit.id.clone() });
            }
        }
        Ok(())
    }

    /// True if the file is the blob, byte for byte. Git would store some files differently than somebody once did, such as those
    /// with other line ends than its settings want, and calls them changed.
    fn is_stored_as(&self, path: &RepoPath, entry: &TreeEntry) -> bool {
        let place = path.within(self.root());
        let is_file = fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_file());
        is_file
            && fs::read(&place).is_ok_and(|bytes| blob_id(&bytes, &entry.oid).is_ok_and(|id| id == entry.oid))
    }
}

/// Makes `tree` a checkout of `commit` whose git directory is `git_dir`, whatever was written there before.
fn link(repo: &Repo, tree: &Path, git_dir: &Path, commit: &Oid) -> io::Result<()> {
    let line =
        |start: &str, path: &Path| [start.as_bytes(), path.as_os_str().as_encoded_bytes(), b"\n"].concat();
    // What a killed git has left.
    for name in ["index.lock", "HEAD.lock"] {
        match fs::remove_file(git_dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::write(git_dir.join("HEAD"), format!("{commit}\n"))?;
    fs::write(git_dir.join("commondir"), line("", repo.scope().git_dir()))?;
    fs::write(git_dir.join("gitdir"), line("", &tree.join(".git")))?;
    let dot_git = tree.join(".git");
    if fs::symlink_metadata(&dot_git).is_ok_and(|meta| !meta.is_file()) {
        owned_directory::remove(&dot_git).or_else(|_| fs::remove_file(&dot_git))?;
    }
    fs::write(dot_git, line("gitdir: ", git_dir))
}
