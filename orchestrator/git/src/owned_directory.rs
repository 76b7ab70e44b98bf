//! Folders that belong to one process, and are found when that process is gone.
//!
//! The owner stands in the folder's name, so there is no moment at which a folder exists and nobody knows whose it is.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::ports::Liveness;
use mala_core::{Life, Owner};

use crate::Repo;

/// Between the parts of a name; escaped within them.
const SEPARATOR: char = '~';

/// A folder that is removed when this value is dropped, and by whoever sweeps if its owner was killed.
#[derive(Debug)]
pub struct OwnedDirectory {
    path: PathBuf,
}

impl OwnedDirectory {
    /// A new folder in `parent`.
    pub fn create(parent: &Path, owner: &Owner) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        loop {
            let path = parent.join(name(owner, fastrand::u32(..)));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes those in `parent` whose owners are gone.
    pub fn sweep(parent: &Path, liveness: &dyn Liveness) -> io::Result<()> {
        abandoned(parent, liveness)?.iter().try_for_each(|path| remove(path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is swept later.
        remove(&self.path).ok();
    }
}

/// Removes a folder with all that is in it, also folders that were made unwritable.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(path);
            fs::remove_dir_all(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Some package managers write-protect the folders of their caches.
fn unlock(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).ok();
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

/// What killed commits have left behind, which [`crate::commit::sweep`] clears away.
pub fn left_behind(repo: &Repo, liveness: &dyn Liveness) -> io::Result<Vec<PathBuf>> {
    let work = repo.scope().work_dir();
    let kinds = match fs::read_dir(&work) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?,
    };
    let mut found = Vec::new();
    for parent in kinds {
        if parent.is_dir() {
            found.extend(abandoned(&parent, liveness)?);
        }
    }
    found.sort();
    Ok(found)
}

/// The folders in `parent` whose owners are certainly gone.
pub(crate) fn abandoned(parent: &Path, liveness: &dyn Liveness) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let owner = owner(&entry.file_name());
        if owner.is_some_and(|owner| liveness.of(&owner) == Life::Dead) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn name(owner: &Owner, number: u32) -> String {
    let host = escaped(&owner.host);
    let boot = escaped(&owner.boot_id);
    let node = owner.node.as_deref().map(escaped).unwrap_or_default();
    [owner.pid.to_string(), owner.start_time.to_string(), boot, host, node, format!("{number:08x}")]
        .join(&SEPARATOR.to_string())
}

fn owner(name: &OsStr) -> Option<Owner> {
    let parts: Vec<&str> = name.to_str()?.split(SEPARATOR).collect();
    let (pid, start_time, boot_id, host, node) = match parts.as_slice() {
        [pid, start_time, boot_id, host, node, _number] => (pid, start_time, boot_id, host, *node),
        // As older ones are called.
        [pid, start_time, boot_id, host, _number] => (pid, start_time, boot_id, host, ""),
        _ => return None,
    };
    Some(Owner {
        host: unescaped(host)?,
        boot_id: unescaped(boot_id)?,
        pid: pid.parse().ok()?,
        start_time: start_time.parse().ok()?,
        node: Some(unescaped(node)?).filter(|node| !node.is_empty()),
    })
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => escaped.push(char::from(byte)),
            _ => write!(escaped, "%{byte:02x}").expect("writing to a string cannot fail"),
        }
        escaped
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?);
        rest = &rest[at + 3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct DeadPids(Vec<u32>);

    impl Liveness for DeadPids {
        fn of(&self, owner: &Owner) -> Life {
            if self.0.contains(&owner.pid) { Life::Dead } else { Life::Alive }
        }
    }

    fn process(pid: u32) -> Owner {
        Owner {
            host: "höst/pid4026~x%".into(),
            boot_id: "a-b".into(),
            pid,
            start_time: 7,
            node: Some("n0de".into()),
        }
    }

    #[test]
    fn a_folder_says_whose_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let folder = OwnedDirectory::create(parent.path(), &process(5)).unwrap();
        assert_eq!(owner(folder.path().file_name().unwrap()), Some(process(5)));
        assert_eq!(owner(OsStr::new("notes")), None);
    }

    #[test]
    fn only_folders_of_dead_processes_are_abandoned() {
        let parent = tempfile::tempdir().unwrap();
        let [living, dead] = [5, 6].map(|pid| OwnedDirectory::create(parent.path(), &process(pid)).unwrap());
        fs::create_dir(parent.path().join("somebody else's")).unwrap();
        assert_eq!(abandoned(parent.path(), &DeadPids(vec![6])).unwrap(), [dead.path()]);
        assert!(living.path().exists());
        assert_eq!(
            abandoned(&parent.path().join("none"), &DeadPids(vec![6])).unwrap(),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn a_dropped_folder_is_gone_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = OwnedDirectory::create(parent.path(), &process(5)).unwrap();
        let path = folder.path().to_owned();
        fs::create_dir(path.join("inner")).unwrap();
        fs::write(path.join("inner/file"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
