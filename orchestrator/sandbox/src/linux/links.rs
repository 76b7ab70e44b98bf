//! Hard links: other names of a file of the tree.
//!
//! A file that a rule is about may have names the rule does not know: inside the tree, in an ignored folder, or
//! outside. From inside, no file comes to have names of both kinds, but some may have had them before.
//!
//! Where the kernel runs a call by itself, a name can be swapped after it was looked at. Landlock keeps such a call out
//! of the tree, but not from a file of the tree that has a name elsewhere. So all files are looked at once, by a thread
//! beside the agent's first writes. As long as it is at it, and afterwards if there is such a file, the broker opens all
//! files itself.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};

use walkdir::WalkDir;

use super::zones::{Zone, Zones};
use crate::Guard;

type Identity = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct Links {
    known: OnceLock<Linked>,
    looker: OnceLock<Thread>,
    is_over: AtomicBool,
    changing: Mutex<()>,
}

/// The files of the tree, as far as they need locks, that have several links.
#[derive(Debug, Default)]
struct Linked {
    names: HashMap<Identity, Vec<PathBuf>>,
    lead_out: bool,
}

impl Links {
    /// The names in the tree, relative to it, of a file that was reached by a name that needs no lock.
    pub(crate) fn behind(&self, file: Identity, zones: &Zones, guard: &dyn Guard) -> Vec<PathBuf> {
        self.known(zones, guard).names.get(&file).cloned().unwrap_or_default()
    }

    /// True if a file that needs a lock has a name that needs none.
    pub(crate) fn lead_out(&self, zones: &Zones, guard: &dyn Guard) -> bool {
        self.known(zones, guard).lead_out
    }

    /// The same, if that is known by now.
    pub(crate) fn lead_out_yet(&self) -> Option<bool> {
        let known = self.known.get();
        if let (None, Some(looker)) = (known, self.looker.get()) {
            looker.unpark();
        }
        known.map(|linked| linked.lead_out)
    }

    /// Looks at all files in this thread, as soon as somebody has asked.
    pub(crate) fn look(&self, zones: &Zones, guard: &dyn Guard) {
        if self.looker.set(thread::current()).is_ok() && !self.is_over.load(Ordering::SeqCst) {
            thread::park();
            self.known(zones, guard);
        }
    }

    fn known(&self, zones: &Zones, guard: &dyn Guard) -> &Linked {
        self.known.get_or_init(|| {
            let linked = scan(zones, guard, &self.is_over);
            linked.unwrap_or_else(|| Linked { lead_out: true, ..Linked::default() })
        })
    }

    /// Nobody needs to know any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(looker) = self.looker.get() {
            looker.unpark();
        }
    }

    /// Does `work`, which gives a file a further name, or moves one that must not have any, undisturbed by its like.
    pub(crate) fn one_at_a_time<T>(&self, work: impl FnOnce() -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// The names right now: inside the tree, links come and go.
    pub(crate) fn now(&self, file: Identity, zones: &Zones, guard: &dyn Guard) -> Vec<PathBuf> {
        let linked = scan(zones, guard, &self.is_over);
        linked.and_then(|mut linked| linked.names.remove(&file)).unwrap_or_default()
    }
}

/// Looks at all files. None if it was told to end.
fn scan(zones: &Zones, guard: &dyn Guard, is_over: &AtomicBool) -> Option<Linked> {
    let root = zones.root();
    let relative = |path: &Path| path.strip_prefix(root).ok().map(Path::to_path_buf);
    let mut counts: HashMap<Identity, u64> = HashMap::new();
    let mut linked = Linked::default();
    let mut walk = WalkDir::new(root).into_iter();
    while let Some(entry) = walk.next() {
        if is_over.load(Ordering::SeqCst) {
            return None;
        }
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_dir() {
            if zones.is_git(entry.path()) || zones.of(entry.path()) == Zone::Exempt {
                walk.skip_current_dir();
            }
            continue;
        }
        let Ok(meta) = entry.metadata() else { continue };
        let Some(name) = relative(entry.path()).filter(|_| meta.is_file() && meta.nlink() > 1) else {
            continue;
        };
        if guard.is_exempt(&name) {
            if name.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && guard.is_exempt(folder)) {
                walk.skip_current_dir();
            }
            continue;
        }
        let identity = (meta.dev(), meta.ino());
        counts.insert(identity, meta.nlink());
        linked.names.entry(identity).or_default().push(name);
    }
    linked.lead_out = linked.names.iter().any(|(file, names)| counts[file] > names.len() as u64);
    Some(linked)
}
