//! What a checkout holds where a landing would change it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use super::index::{IndexState, parents};
use super::{BranchMove, LandError, Obstacle, is_submodule};
use crate::content::FileModes;
use crate::{Content, FileChange, GitError, Repo, RepoPath, TreeEntry};

/// By it a file is told from one that was written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Signature {
    /// Nothing if neither a file nor a symlink is there.
    pub(super) fn of(place: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(place).ok().filter(|meta| !meta.is_dir())?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mode: meta.mode(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// A file of the checkout that has to change.
#[derive(Debug, Clone)]
pub(super) struct FileMove<'a> {
    pub(super) change: &'a FileChange,
    /// As it was when it was looked at.
    pub(super) seen: Option<Signature>,
}

impl FileMove<'_> {
    pub(super) fn is_as_seen(&self, root: &Path) -> bool {
        Signature::of(&self.change.path.within(root)) == self.seen
    }
}

/// What the checkout holds at the files that go along with the branch.
#[derive(Debug)]
pub(super) struct Disk<'a> {
    repo: &'a Repo,
    moves: Vec<FileMove<'a>>,
    contents: BTreeMap<RepoPath, Content>,
    /// Whether git looks at who may run a file.
    modes: FileModes<'a>,
    /// Files that go.
    removed: BTreeSet<&'a RepoPath>,
}

impl<'a> Disk<'a> {
    /// Looks at all files that differ and are not held by agents, left out by the index or another repository's. Those that hold
    /// already what they are to hold stay as they are.
    pub(super) fn look(
        repo: &'a Repo,
        step: &BranchMove<'_>,
        state: &IndexState,
        changes: &'a [FileChange],
    ) -> Result<Self, GitError> {
        let goes_along = |change: &&FileChange| {
            !step.spared.contains(&change.path) && !state.is_skipped(&change.path) && !is_submodule(change)
        };
        let moves: Vec<FileMove<'a>> = changes
            .iter()
            .filter(goes_along)
            .map(|change| FileMove { change, seen: Signature::of(&change.path.within(repo.root())) })
            .collect();
        let contents = repo.contents(moves.iter().map(|file| &file.change.path))?;
        let gone = moves.iter().filter(|file| file.change.after.is_none());
        let removed = gone.map(|file| &file.change.path).collect();
        let mut disk = Self { repo, moves: Vec::new(), contents, modes: FileModes::new(repo), removed };
        // Who offers their own work has it lying there already.
        let is_to_move = |file: &FileMove<'_>| !disk.holds(&file.change.path, file.change.after.as_ref());
        disk.moves = moves.into_iter().filter(is_to_move).collect();
        Ok(disk)
    }

    pub(super) fn moves(&self) -> &[FileMove<'a>] {
        &self.moves
    }

    /// True if the checkout has exactly this at the path, as git would store it or byte for byte.
    pub(super) fn holds(&self, path: &RepoPath, entry: Option<&TreeEntry>) -> bool {
        self.modes.holds(path, self.contents.get(path), entry)
    }

    /// What lies where a new file is to be, or a directory for it, and does not go.
    pub(super) fn in_the_way(&self, path: &RepoPath) -> Result<Option<RepoPath>, LandError> {
        for parent in parents(path) {
            match fs::symlink_metadata(parent.within(self.repo.root())) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Ok(Some(parent).filter(|parent| !self.removed.contains(parent))),
                Err(_) => return Ok(None),
            }
        }
        let place = path.within(self.repo.root());
        match fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() => self.kept_below(path).map_err(LandError::io(place)),
            Ok(_) => Ok(Some(path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LandError::io(place)(error)),
        }
    }

    /// The first thing in a directory that does not go. Empty directories are nothing to git.
    fn kept_below(&self, directory: &RepoPath) -> io::Result<Option<RepoPath>> {
        for entry in fs::read_dir(directory.within(self.repo.root()))? {
            let entry = entry?;
            let path = [directory.as_bytes(), b"/", entry.file_name().as_encoded_bytes()].concat();
            let path = RepoPath::from_bytes(path);
            let kept = if entry.file_type()?.is_dir() {
                self.kept_below(&path)?
            } else {
                Some(path).filter(|path| !self.removed.contains(path))
            };
            if kept.is_some() {
                return Ok(kept);
            }
        }
        Ok(None)
    }
}

/// Everything that keeps the checkout from going along.
pub(super) fn obstacles(
    disk: &Disk<'_>,
    step: &BranchMove<'_>,
    state: &IndexState,
    changes: &[FileChange],
) -> Result<Vec<Obstacle>, LandError> {
    let mut found: BTreeMap<RepoPath, String> = BTreeMap::new();
    for change in changes {
        // What the holder of a file has staged is in the file.
        let is_spared = step.spared.contains(&change.path);
        let staged = if !is_spared && state.is_unmerged(&change.path) {
            Some((change.path.clone(), "has merge conflicts; resolve and commit them"))
        } else if state.holds(&change.path, change.after.as_ref()) {
            None
        } else if !is_spared && !state.holds(&change.path, change.before.as_ref()) {
            Some((
                change.path.clone(),
                "has staged changes; commit them, or unstage them with `git restore --staged`",
            ))
        } else if change.before.is_none() {
            let there = state.in_the_way(&change.path, changes);
            there.map(|path| (path, "is staged where the branch gets a file or a directory; commit it elsewhere, or unstage it"))
        } else {
            None
        };
        if let Some((path, why)) = staged {
            found.entry(path).or_insert_with(|| why.to_owned());
        }
    }
    for file in disk.moves() {
        let change = file.change;
        if change.before.is_none() {
            if let Some(path) = disk.in_the_way(&change.path)? {
                let why = format!(
                    "is not tracked and lies where the branch gets `{}`; move it away or remove it",
                    change.path
                );
                found.entry(path).or_insert(why);
            }
        } else if !disk.holds(&change.path, change.before.as_ref()) {
            let why =
                "has changes that are not committed; commit them, or put them aside with `git stash push`";
            found.entry(change.path.clone()).or_insert_with(|| why.to_owned());
        }
    }
    Ok(found.into_iter().map(|(path, why)| Obstacle { path: Some(path), why }).collect())
}
