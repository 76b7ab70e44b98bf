//! Hard links: other names of a file of the tree.
//!
//! A file that a rule is about may have names the rule does not know: inside the tree, in an ignored folder, or
//! outside. They are looked for only when a file with several links is about to be changed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use walkdir::WalkDir;

use super::zones::Zones;
use crate::Guard;

type Identity = (u64, u64);
type Names = HashMap<Identity, Vec<PathBuf>>;

/// The files of the tree, as far as they need locks, that have several links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    known: OnceLock<Names>,
    changing: Mutex<()>,
}

impl Links {
    /// The names in the tree, relative to it, of a file that was reached by a name that needs no lock. One look is enough:
    /// from inside, no file comes to have both kinds of names.
    pub(crate) fn behind(&self, file: Identity, zones: &Zones, guard: &dyn Guard) -> Vec<PathBuf> {
        self.known.get_or_init(|| scan(zones, guard)).get(&file).cloned().unwrap_or_default()
    }

    /// Does `work`, which gives a file a further name, or moves one that must not have any, undisturbed by its like.
    pub(crate) fn one_at_a_time<T>(&self, work: impl FnOnce() -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// The names right now: inside the tree, links come and go.
    pub(crate) fn now(file: Identity, zones: &Zones, guard: &dyn Guard) -> Vec<PathBuf> {
        scan(zones, guard).remove(&file).unwrap_or_default()
    }
}

fn scan(zones: &Zones, guard: &dyn Guard) -> Names {
    let root = zones.root();
    let needs_lock = |path: &Path| {
        let relative = path.strip_prefix(root).unwrap_or(path);
        relative.as_os_str().is_empty() || !(zones.is_git(path) || guard.is_exempt(relative))
    };
    let mut names = Names::new();
    let walk = WalkDir::new(root).into_iter().filter_entry(|entry| needs_lock(entry.path()));
    for entry in walk.flatten().filter(|entry| entry.file_type().is_file()) {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.nlink() > 1
            && let Ok(relative) = entry.path().strip_prefix(root)
        {
            names.entry((meta.dev(), meta.ino())).or_default().push(relative.to_path_buf());
        }
    }
    names
}
