//! What slots take on the disk.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mala_config::Settings;
use mala_core::Scope;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use crate::slots::{SlotsError, at, slots_directory};

/// The unit of `st_blocks`, see inode(7).
const BLOCK_BYTES: u64 = 512;

/// A slot, as it lies on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotUse {
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// A command runs in it, or is about to.
    pub in_use: bool,
    /// When it was last moved to a commit.
    #[serde(skip)]
    pub used: Option<SystemTime>,
}

/// The slots of a repository, those that have something in them.
pub fn slots_in_use(scope: &Scope, settings: &Settings) -> Result<Vec<SlotUse>, SlotsError> {
    slots_directory(scope, settings).map_or_else(|| Ok(Vec::new()), |directory| all(&directory))
}

/// The slots in a directory, by their names.
pub(crate) fn all(directory: &Path) -> Result<Vec<SlotUse>, SlotsError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(directory))?,
    };
    let mut slots = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.join("tree").is_dir()) {
        let (size, in_use, used) = (size(&path)?, is_in_use(&path), last_used(&path));
        slots.push(SlotUse { path, size, in_use, used });
    }
    slots.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(slots)
}

/// When a slot was last moved to a commit.
pub(crate) fn last_used(slot: &Path) -> Option<SystemTime> {
    fs::metadata(slot.join("git/HEAD")).and_then(|meta| meta.modified()).ok()
}

fn is_in_use(slot: &Path) -> bool {
    let file = fs::OpenOptions::new().write(true).open(slot.join("lock"));
    file.is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err())
}

/// What a directory takes on the disk. What goes away meanwhile is not counted, nor is what cannot be read.
pub(crate) fn size(directory: &Path) -> Result<u64, SlotsError> {
    let (mut total, mut linked) = (0, HashSet::new());
    let mut rest = vec![directory.to_owned()];
    while let Some(directory) = rest.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                continue;
            }
            entries => entries.map_err(at(&directory))?,
        };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.metadata()?, entry.path()))) {
                Ok((meta, path)) => {
                    // Build tools link what they would otherwise copy.
                    if meta.nlink() == 1 || meta.is_dir() || linked.insert((meta.dev(), meta.ino())) {
                        total += meta.blocks() * BLOCK_BYTES;
                    }
                    if meta.is_dir() {
                        rest.push(path);
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(at(&directory)(error)),
            }
        }
    }
    Ok(total)
}

/// A size for people: "1.4 GB".
pub fn shown_size(bytes: u64) -> String {
    let units = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit / (unit / 10)),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_one_file_count_once() {
        let dir = tempfile::tempdir().unwrap();
        let empty = size(dir.path()).unwrap();
        fs::write(dir.path().join("a"), vec![1; 100_000]).unwrap();
        let one = size(dir.path()).unwrap();
        assert!(one - empty >= 100_000, "{one}");
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_eq!(size(dir.path()).unwrap(), one);
        assert_eq!(size(&dir.path().join("gone")).unwrap(), 0);
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!([999, 1_000, 1_450_000_000].map(shown_size), ["999 bytes", "1.0 KB", "1.4 GB"]);
    }
}
