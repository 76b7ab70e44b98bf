//! Files that take their place in a checkout.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::crash_point;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::LandError;
use super::index::parents;
use super::look::FileMove;
use crate::call::nul_separated;
use crate::{FileChange, Repo, RepoPath, owned_directory};

/// What a landing prepares in its directory.
#[derive(Debug)]
pub(super) struct Workshop<'a> {
    directory: &'a Path,
}

impl<'a> Workshop<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self { directory }
    }

    pub(super) fn next_index(&self) -> PathBuf {
        self.directory.join("next-index")
    }

    /// An index that holds one of the two commits, for a repair.
    pub(super) fn commit_index(&self) -> PathBuf {
        self.directory.join("commit-index")
    }

    /// The files as they will be.
    pub(super) fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    /// The files as they were, for a repair.
    pub(super) fn files_before(&self) -> PathBuf {
        self.directory.join("files-before")
    }

    /// Removes all of it.
    pub(super) fn clear(&self) -> Result<(), LandError> {
        for files in [self.files(), self.files_before()] {
            owned_directory::remove(&files).map_err(LandError::io(files))?;
        }
        for name in ["next-index", "next-index.lock", "commit-index", "commit-index.lock", "lock-mark"] {
            let path = self.directory.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LandError::io(path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes files of an index into a directory of their own, as git would check them out: filters and line ends apply, by the
/// attributes of the index, not of the checkout.
pub(super) fn render(repo: &Repo, index: &Path, into: &Path, paths: &[&RepoPath]) -> Result<(), LandError> {
    owned_directory::remove(into).and_then(|()| fs::create_dir(into)).map_err(LandError::io(into))?;
    if paths.is_empty() {
        return Ok(());
    }
    // With the directory as its checkout git finds no attributes there but those that it writes itself.
    let call =
        repo.git("checkout-index").index(index).env("GIT_DIR", repo.git_dir()?).env("GIT_WORK_TREE", into);
    call.args(["-f", "-z", "--stdin"]).input(nul_separated(paths.iter().copied())).output()?;
    for path in paths {
        let place = path.within(into);
        fs::symlink_metadata(&place).map_err(LandError::io(place))?;
    }
    Ok(())
}

/// True if both are the same file, byte for byte, or the same symlink.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (meta, other_meta) = (fs::symlink_metadata(one)?, fs::symlink_metadata(other)?);
        if meta.is_symlink() && other_meta.is_symlink() {
            return Ok(fs::read_link(one)? == fs::read_link(other)?);
        }
        let can_be_run = |meta: &fs::Metadata| meta.permissions().mode() & 0o100 != 0;
        let is_of_kind =
            meta.is_file() && other_meta.is_file() && can_be_run(&meta) == can_be_run(&other_meta);
        Ok(is_of_kind && meta.len() == other_meta.len() && fs::read(one)? == fs::read(other)?)
    };
    same().unwrap_or(false)
}

/// Gives each file its new content, or removes it. Those that are not as they were seen are left alone and named. One that
/// cannot be written keeps no other one from its place; the first such is the error.
pub(super) fn place(
    root: &Path,
    rendered: &Path,
    moves: &[FileMove<'_>],
) -> Result<Vec<RepoPath>, LandError> {
    let (gone, kept): (Vec<_>, Vec<_>) = moves.iter().partition(|file| file.change.after.is_none());
    let (mut left, mut all) = (Vec::new(), Ok(()));
    // What goes comes first, to make room.
    for file in gone.into_iter().chain(kept) {
        let path = &file.change.path;
        let done = if file.is_as_seen(root) { place_one(root, rendered, file) } else { Ok(false) };
        match done {
            Ok(true) => {}
            Ok(false) => left.push(path.clone()),
            Err(error) => all = all.and(Err(LandError::io(path.within(root))(error))),
        }
        crash_point("landing:file");
    }
    left.sort();
    all.map(|()| left)
}

/// False if something else lies there by now.
fn place_one(root: &Path, rendered: &Path, file: &FileMove<'_>) -> io::Result<bool> {
    let path = &file.change.path;
    let place = path.within(root);
    if file.change.after.is_none() {
        fs::remove_file(&place)?;
        prune(root, path);
        return Ok(true);
    }
    if !make_parents(root, path)? || !clear_directories(&place) {
        return Ok(false);
    }
    let staged = path.within(rendered);
    let is_new = file.seen.is_none();
    let installed = match install(&staged, &place, is_new) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = temporary(root, file.change);
            copy(&staged, &beside)?;
            crash_point("landing:copied");
            install(&beside, &place, is_new).inspect_err(|_| _ = fs::remove_file(&beside))
        }
        done => done,
    };
    match installed {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        done => done?,
    }
    // It was prepared a while ago; tools that build by time have to see that it is new here.
    utimensat(AT_FDCWD, &place, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW, UtimensatFlags::NoFollowSymlink)?;
    Ok(true)
}

/// Where a file is copied to if it was prepared on another file system.
pub(super) fn temporary(root: &Path, change: &FileChange) -> PathBuf {
    let name = change.after.as_ref().map_or("", |entry| entry.oid.short());
    change.path.within(root).with_file_name(format!(".mala-landing-{name}"))
}

/// Renames it; a new one never over something else.
fn install(from: &Path, to: &Path, is_new: bool) -> io::Result<()> {
    if !is_new {
        return fs::rename(from, to);
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::CrossesDevices) =>
        {
            Err(error)
        }
        // A file system without hard links.
        Err(_) => fs::rename(from, to),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::read_link(from) {
        Ok(target) => symlink(target, to),
        Err(_) => fs::copy(from, to).map(drop),
    }
}

/// False if a file or a symlink is where a directory has to be.
fn make_parents(root: &Path, path: &RepoPath) -> io::Result<bool> {
    for parent in parents(path) {
        let place = parent.within(root);
        match fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&place)?,
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Removes a directory with nothing but directories in it. False if there is something else.
fn clear_directories(place: &Path) -> bool {
    if !fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir()) {
        return true;
    }
    let below = fs::read_dir(place).into_iter().flatten().flatten();
    let are_cleared = below
        .into_iter()
        .all(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && clear_directories(&entry.path()));
    are_cleared && fs::remove_dir(place).is_ok()
}

/// Removes the directories that a file has left empty.
pub(super) fn prune(root: &Path, path: &RepoPath) {
    let mut above: Vec<RepoPath> = parents(path).collect();
    while let Some(directory) = above.pop() {
        if fs::remove_dir(directory.within(root)).is_err() {
            break;
        }
    }
}
