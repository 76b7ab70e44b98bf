//! Writing so that a crash leaves old or new bytes, never half of each.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What a power cut may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing that was said to be written.
    Synced,
    /// The last seconds. The death of a process takes nothing.
    Unsynced,
}

impl Durability {
    pub(crate) fn sync(self, file: &File) -> io::Result<()> {
        match self {
            Self::Synced => file.sync_data(),
            Self::Unsynced => Ok(()),
        }
    }

    /// Makes names that were added to or removed from a folder last.
    pub(crate) fn sync_folder(self, folder: &Path) -> io::Result<()> {
        match self {
            Self::Synced => sync_folder(folder),
            Self::Unsynced => Ok(()),
        }
    }
}

/// Replaces a file: the bytes are on disk under another name before they take this one.
///
/// The other name is fixed, so that killed processes do not leave many; callers see to it that only one of them writes.
pub(crate) fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = Path::new(&beside);
    let written = File::create(beside).and_then(|mut file| {
        file.write_all(bytes)?;
        durability.sync(&file)
    });
    let replaced = written.and_then(|()| fs::rename(beside, path));
    if replaced.is_err() {
        // It is overwritten next time; removing it only gives the space back sooner.
        let _ = fs::remove_file(beside);
    }
    replaced
}

/// Makes names that were added to or removed from a folder last.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The length of a file; nothing if there is none.
pub(crate) fn length(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
