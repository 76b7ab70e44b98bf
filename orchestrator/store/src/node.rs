//! The id of this machine or container: random, made once, kept in the user's state directory.
//!
//! Without one nothing fails: processes of before a reboot are then unknown instead of dead, and their leases end them.

use std::collections::hash_map::RandomState;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Hexadecimal digits of an id.
const ID_LENGTH: usize = 32;

static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Says where the id is kept: the first call counts, and only before anything was asked about a process.
pub fn keep_node_id_in(file: PathBuf) {
    // A second call means the same file.
    let _ = FILE.set(file);
}

pub(crate) fn node_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    ID.get_or_init(|| FILE.get().and_then(|file| read(file).or_else(|| create(file).ok().flatten())))
        .as_deref()
}

fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let id = text.trim();
    (id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

fn create(file: &Path) -> io::Result<Option<String>> {
    // Each has keys of its own, which come from the system's source of randomness.
    let random = || RandomState::new().build_hasher().finish();
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    let draft = file.with_extension(format!("{:016x}", random()));
    // Readable for all: one that a command has made as root would be no use otherwise.
    let mut open = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft)?;
    let written = writeln!(open, "{:016x}{:016x}", random(), random());
    // A rename would replace what another process has just made, and relies on. A damaged file is of no use to anybody.
    let is_damaged = file.exists() && read(file).is_none();
    let placed = written
        .and_then(|()| if is_damaged { fs::rename(&draft, file) } else { fs::hard_link(&draft, file) });
    let _ = fs::remove_file(&draft);
    match placed {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(read(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_once_and_by_one_of_all_who_try() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/mala/node-id");
        let ids: Vec<_> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8).map(|_| scope.spawn(|| create(&file).unwrap())).collect();
            made.into_iter().map(|id| id.join().unwrap().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(read(&file).as_ref(), Some(&ids[0]));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        fs::remove_file(&file).unwrap();
        assert_ne!(create(&file).unwrap().as_ref(), Some(&ids[0]));
    }

    #[test]
    fn a_damaged_id_is_made_anew_and_where_nothing_can_be_written_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node-id");
        fs::write(&file, "0123").unwrap();
        assert_eq!(read(&file), None);
        assert_eq!(create(&file).unwrap(), read(&file));
        assert!(read(&file).is_some());
        assert!(create(&file.join("below/a/file")).is_err());
    }
}
