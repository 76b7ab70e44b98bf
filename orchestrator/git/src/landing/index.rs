//! Indexes: what one holds, and the next one in the making.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, process};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::LandError;
use crate::call::nul_separated;
use crate::commit::index_info;
use crate::index_lock::copy_index;
use crate::{FileChange, GitError, Repo, RepoPath, TreeEntry};

/// What a killed process has left is this old at least; a tree is made in much less.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// An index that nobody else sees, for making a tree. Gone when dropped.
#[derive(Debug)]
pub(super) struct PrivateIndex(PathBuf);

impl PrivateIndex {
    pub(super) fn new(repo: &Repo) -> Result<Self, LandError> {
        let directory = repo.scope().state_dir().join("landing");
        fs::create_dir_all(&directory).map_err(LandError::io(&directory))?;
        remove_stale(&directory);
        Ok(Self(directory.join(format!("{}-{:x}.index", process::id(), fastrand::u64(..)))))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateIndex {
    fn drop(&mut self) {
        // What cannot be removed now is stale later.
        fs::remove_file(&self.0).ok();
        fs::remove_file(self.0.with_extension("index.lock")).ok();
    }
}

fn remove_stale(directory: &Path) {
    let is_stale = |path: &Path| {
        let written = fs::metadata(path).and_then(|meta| meta.modified());
        let is_old = written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
        // The clock may have been set: what a process still uses is not old.
        is_old && !has_living_maker(path)
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_index = entry.file_name().as_encoded_bytes().windows(6).any(|part| part == b".index");
        if is_index && is_stale(&entry.path()) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// True if a process has the number that the index's name begins with. In another process namespace none has, so age decides.
fn has_living_maker(index: &Path) -> bool {
    let name = index.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

/// What an index holds.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    entries: BTreeMap<RepoPath, TreeEntry>,
    /// Git was told not to look at their files.
    skipped: BTreeSet<RepoPath>,
    unmerged: BTreeSet<RepoPath>,
}

impl IndexState {
    pub(super) fn read(repo: &Repo) -> Result<Self, GitError> {
        let mut state = Self::default();
        for entry in repo.index_entries()? {
            let path = entry.path();
            if entry.is_unmerged() {
                state.unmerged.insert(path);
                continue;
            }
            if entry.is_skipped() {
                state.skipped.insert(path.clone());
            }
            let tree_entry = entry.tree_entry();
            let tree_entry = tree_entry.ok_or_else(|| GitError::answer("ls-files", path.as_bytes()))?;
            state.entries.insert(path, tree_entry);
        }
        Ok(state)
    }

    pub(super) fn is_skipped(&self, path: &RepoPath) -> bool {
        self.skipped.contains(path)
    }

    pub(super) fn is_unmerged(&self, path: &RepoPath) -> bool {
        self.unmerged.contains(path)
    }

    pub(super) fn holds(&self, path: &RepoPath, entry: Option<&TreeEntry>) -> bool {
        !self.is_unmerged(path) && self.entries.get(path) == entry
    }

    /// An entry that would have to go for a new one at `path`, and is none of `changes`: a file where a directory is to be, or
    /// the other way round.
    pub(super) fn in_the_way(&self, path: &RepoPath, changes: &[FileChange]) -> Option<RepoPath> {
        let stays = |other: &RepoPath| {
            let at = changes.binary_search_by(|change| change.path.cmp(other));
            at.map_or(true, |at| changes[at].after.is_some())
        };
        let is_there = |other: &RepoPath| self.entries.contains_key(other) || self.is_unmerged(other);
        let above = parents(path).find(|parent| is_there(parent) && stays(parent));
        above.or_else(|| {
            let inner = RepoPath::from_bytes([path.as_bytes(), b"/"].concat());
            let below =
                self.entries.range(&inner..).map(|(other, _)| other).chain(self.unmerged.range(&inner..));
            below.take_while(|other| other.is_within(path)).find(|other| stays(other)).cloned()
        })
    }
}

/// The directories that a path lies in, the outermost first, without the top.
pub(super) fn parents(path: &RepoPath) -> impl Iterator<Item = RepoPath> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| RepoPath::from_bytes(&bytes[..at]))
}

/// Makes `next` what `index` is after these changes. Files that git does not look at stay so.
pub(super) fn build_next(
    repo: &Repo,
    (index, next): (&Path, &Path),
    state: &IndexState,
    changes: &[FileChange],
) -> Result<(), LandError> {
    match fs::remove_file(next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(LandError::io(next)(error)),
        _ => {}
    }
    copy_index(index, next).map_err(LandError::io(next))?;
    if changes.is_empty() {
        return Ok(());
    }
    let update = || repo.git("update-index").index(next);
    update().args(["--add", "--replace", "-z", "--index-info"]).input(index_info(changes)).output()?;
    let stays_skipped = |change: &&FileChange| change.after.is_some() && state.is_skipped(&change.path);
    let skipped = nul_separated(changes.iter().filter(stays_skipped).map(|change| &change.path));
    if !skipped.is_empty() {
        update().args(["--skip-worktree", "-z", "--stdin"]).input(skipped).output()?;
    }
    Ok(())
}

/// Has git note the times of the files, and puts the index in its place.
pub(super) fn put_in_place(repo: &Repo, next: &Path, index: &Path) -> Result<(), LandError> {
    // Exits with 1 if some file differs from the index, which is nobody's fault.
    repo.git("update-index").index(next).args(["-q", "--refresh"]).finish()?;
    match fs::rename(next, index) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = beside(index);
            let copied = copy_index(next, &beside).and_then(|()| fs::rename(&beside, index));
            copied.map_err(LandError::io(index))
        }
        // Nothing was staged, then or now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(LandError::io(index)),
    }
}

/// Where the next index is copied to if it was made on another file system. Only under the index lock.
pub(super) fn beside(index: &Path) -> PathBuf {
    index.with_file_name("mala-next-index")
}
