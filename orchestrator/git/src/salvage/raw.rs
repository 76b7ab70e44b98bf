//! Files byte for byte, past git's filters: what people had left uncommitted must come back as it was, also where a filter fails
//! or does not give back what it took.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use super::before::Untouched;
use super::{SalvageError, held_at, is_missing, oid, remove_file};
use crate::retry::Git;
use crate::{FileChange, GitError, Oid, Repo, RepoPath, TreeEntry};

pub(super) const LINK: &str = "120000";

/// A file that cannot be read, so it is neither saved nor touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: RepoPath,
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.to_text(), self.why)
    }
}

/// What the checkout holds at some files.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Against the last commit.
    pub(super) changes: Vec<FileChange>,
    /// What git does not keep.
    pub(super) permissions: BTreeMap<RepoPath, u32>,
    pub(super) left_out: Vec<LeftOut>,
}

/// What stands at each path, if something does.
type Entries = BTreeMap<RepoPath, Option<TreeEntry>>;

/// Stores what the checkout holds at `files`.
pub(super) fn take(
    repo: &Repo,
    head: Option<&Oid>,
    files: &BTreeSet<RepoPath>,
) -> Result<Taken, SalvageError> {
    let mut taken = Taken::default();
    let mut held = Entries::new();
    for path in files {
        match look(repo.root(), path) {
            Ok(Found::Nothing) => _ = held.insert(path.clone(), None),
            Ok(Found::Link(target)) => _ = held.insert(path.clone(), Some(stored_link(repo, &target)?)),
            Ok(Found::File(permissions)) => _ = taken.permissions.insert(path.clone(), permissions),
            Err(error) => taken.left_out.push(LeftOut { path: path.clone(), why: error.to_string() }),
        }
    }
    held.extend(stored_files(repo, &mut taken)?);
    let mut then = held_at(repo, head, files)?;
    let changes =
        held.into_iter().map(|(path, after)| FileChange { before: then.remove(&path), path, after });
    taken.changes = changes.filter(|change| change.before != change.after).collect();
    Ok(taken)
}

/// The files whose permissions are known. One that goes meanwhile is nothing.
fn stored_files(repo: &Repo, taken: &mut Taken) -> Result<Entries, SalvageError> {
    let files: Vec<(RepoPath, u32)> = taken.permissions.clone().into_iter().collect();
    let mut entries = Entries::new();
    store_all(repo, &files, taken, &mut entries)?;
    Ok(entries)
}

/// Stores all at once or, if that fails, each half for itself: one that fails keeps no other one out.
fn store_all(
    repo: &Repo,
    files: &[(RepoPath, u32)],
    taken: &mut Taken,
    entries: &mut Entries,
) -> Result<(), SalvageError> {
    match (stored(repo, files.iter().map(|(path, _)| path)), files) {
        (Ok(oids), _) => {
            for ((path, permissions), oid) in files.iter().zip(oids) {
                let mode = if permissions & 0o100 == 0 { "100644" } else { "100755" };
                entries.insert(path.clone(), Some(TreeEntry { mode: mode.to_owned(), oid }));
            }
        }
        (Err(SalvageError::Git(error @ GitError::Failed { .. })), [(path, _)]) => {
            if let Ok(Found::Nothing) = look(repo.root(), path) {
                taken.permissions.remove(path);
                entries.insert(path.clone(), None);
            } else {
                taken.left_out.push(LeftOut { path: path.clone(), why: error.to_string() });
            }
        }
        (Err(SalvageError::Git(GitError::Failed { .. })), _) => {
            let (first, second) = files.split_at(files.len() / 2);
            store_all(repo, first, taken, entries)?;
            store_all(repo, second, taken, entries)?;
        }
        (Err(error), _) => return Err(error),
    }
    Ok(())
}

/// Those of the files that cannot be read.
pub fn unreadable(repo: &Repo, files: &BTreeSet<RepoPath>) -> Vec<LeftOut> {
    let why = |path| look(repo.root(), path).err().map(|error| error.to_string());
    files.iter().filter_map(|path| Some(LeftOut { path: path.clone(), why: why(path)? })).collect()
}

/// Puts the files of a person back into the checkout. One that is as it was is not written, and one that cannot be put back
/// keeps no other one from it; the first such is the error.
pub(super) fn put_back(repo: &Repo, theirs: &Untouched) -> Result<(), SalvageError> {
    let mut held = repo.tree_entries(&theirs.commit, &theirs.files)?;
    let (there, gone): (Vec<_>, Vec<_>) = theirs.files.iter().partition(|path| held.contains_key(path));
    let mut all = Ok(());
    for path in gone {
        all = all.and(remove_file(repo.root(), path));
    }
    for (path, entry) in there.into_iter().filter_map(|path| held.remove_entry(path)) {
        all = all.and(put_one_back(repo, &path, &entry, theirs.told.permissions.get(&path).copied()));
    }
    all
}

fn put_one_back(
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
    permissions: Option<u32>,
) -> Result<(), SalvageError> {
    let bytes = Git::at(repo.root()).run(&["cat-file", "blob", entry.oid.as_str()], b"")?;
    put(repo.root(), path, &entry.mode, &bytes, permissions)
        .map_err(|source| SalvageError::Io { path: path.within(repo.root()), source })
}

/// What stands at a path.
enum Found {
    Nothing,
    /// With these permissions.
    File(u32),
    Link(Vec<u8>),
}

fn look(root: &Path, path: &RepoPath) -> io::Result<Found> {
    let place = path.within(root);
    let found = match fs::symlink_metadata(&place) {
        _ if is_behind_link(root, &place) => return Ok(Found::Nothing),
        Err(error) if is_missing(&error) => return Ok(Found::Nothing),
        found => found?,
    };
    let kind = found.file_type();
    if kind.is_symlink() {
        Ok(Found::Link(fs::read_link(&place)?.into_os_string().into_vec()))
    } else if kind.is_dir() {
        // What is in it has names of its own.
        Ok(Found::Nothing)
    } else if kind.is_file() {
        File::open(&place).map(|_| Found::File(found.permissions().mode() & 0o7777))
    } else {
        Err(io::Error::other("neither a file nor a link"))
    }
}

/// Git does not look through links.
fn is_behind_link(root: &Path, place: &Path) -> bool {
    let folders = place.ancestors().skip(1).take_while(|folder| *folder != root);
    folders.into_iter().any(Path::is_symlink)
}

fn stored_link(repo: &Repo, target: &[u8]) -> Result<TreeEntry, SalvageError> {
    let line = Git::at(repo.root()).line(&["hash-object", "-w", "--no-filters", "--stdin"], target)?;
    Ok(TreeEntry { mode: LINK.to_owned(), oid: oid(line)? })
}

fn stored<'a>(repo: &Repo, files: impl Iterator<Item = &'a RepoPath>) -> Result<Vec<Oid>, SalvageError> {
    let list: String = files.map(|path| path.to_quoted() + "\n").collect();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let lines = Git::at(repo.root())
        .line(&["hash-object", "-w", "--no-filters", "--stdin-paths"], list.as_bytes())?;
    lines.lines().map(|line| oid(line.to_owned())).collect()
}

pub(super) fn put_directory(root: &Path, path: &RepoPath) -> io::Result<()> {
    let place = path.within(root);
    refuse_links(root, &place)?;
    fs::create_dir_all(place)
}

/// What an agent has put in the place of a directory must lead nowhere.
fn refuse_links(root: &Path, place: &Path) -> io::Result<()> {
    match is_behind_link(root, place) {
        true => Err(io::Error::other("a link is in the place of its directory")),
        false => Ok(()),
    }
}

/// Puts one file or link there, byte for byte.
pub(super) fn put(
    root: &Path,
    path: &RepoPath,
    mode: &str,
    bytes: &[u8],
    permissions: Option<u32>,
) -> io::Result<()> {
    let place = path.within(root);
    refuse_links(root, &place)?;
    let wanted = permissions.unwrap_or(if mode == "100755" { 0o755 } else { 0o644 });
    match look(root, path) {
        Ok(Found::Link(target)) if mode == LINK && target == bytes => return Ok(()),
        Ok(Found::File(found)) if mode != LINK && found == wanted && fs::read(&place)? == bytes => {
            return Ok(());
        }
        _ => remove_file(root, path).map_err(io::Error::other)?,
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    if mode == LINK {
        return symlink(OsStr::from_bytes(bytes), &place);
    }
    // Nobody else may read it meanwhile.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?.write_all(bytes)?;
    fs::set_permissions(&place, Permissions::from_mode(wanted))
}

#[cfg(test)]
mod tests;
