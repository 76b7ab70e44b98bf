//! What is remembered of folders for a moment: which one a thread is in, and the one that files are being made in.
//!
//! What was seen is still so if in that time nobody went elsewhere and no folder moved or was taken away. All that is known
//! before it happens, so after it takes as long until what is seen is believed to last.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::callers::Callers;
use super::resolve;

/// How long what was seen is believed.
const SETTLED: Duration = Duration::from_millis(20);
/// Threads are forgotten when there are more.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    current: HashMap<u32, Seen<PathBuf>>,
    last: Option<Seen<(PathBuf, Arc<OwnedFd>)>>,
    changed: Option<Instant>,
}

#[derive(Debug)]
struct Seen<T> {
    what: T,
    since: Instant,
}

impl<T> Seen<T> {
    fn is_believed(&self) -> bool {
        is_recent(self.since)
    }
}

fn is_recent(since: Instant) -> bool {
    since.elapsed() < SETTLED
}

impl Remembered {
    fn is_settled(&self) -> bool {
        !self.changed.is_some_and(is_recent)
    }
}

impl Folders {
    /// What the thread's current folder, or its descriptor `dirfd`, is called.
    pub(crate) fn name(&self, callers: &Callers, tid: u32, dirfd: i32) -> Option<PathBuf> {
        if dirfd != libc::AT_FDCWD {
            return callers.descriptor(tid, dirfd);
        }
        if let Some(seen) = self.remembered().current.get(&tid).filter(|seen| seen.is_believed()) {
            return Some(seen.what.clone());
        }
        let since = Instant::now();
        let what = callers.current_folder(tid)?;
        let mut remembered = self.remembered();
        if remembered.is_settled() {
            if remembered.current.len() >= MOST {
                remembered.current.clear();
            }
            remembered.current.insert(tid, Seen { what: what.clone(), since });
        }
        Some(what)
    }

    /// The folder with this canonical name. Mostly it is the one that was asked for last.
    pub(crate) fn open(&self, name: &Path) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(Seen { what: (known, fd), .. }) =
            self.remembered().last.as_ref().filter(|seen| seen.is_believed())
            && known == name
        {
            return Ok(Arc::clone(fd));
        }
        let since = Instant::now();
        let fd = Arc::new(resolve::open_folder(name)?);
        let mut remembered = self.remembered();
        if remembered.is_settled() {
            remembered.last = Some(Seen { what: (name.to_owned(), Arc::clone(&fd)), since });
        }
        Ok(fd)
    }

    /// A thread is about to go to another folder, or a folder to move or vanish.
    pub(crate) fn change(&self) {
        *self.remembered() = Remembered { changed: Some(Instant::now()), ..Remembered::default() };
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use rustix::fs::AtFlags;
    use tempfile::TempDir;

    use super::*;

    /// A process in a folder that can be moved, and what is known of it.
    struct Caller {
        folders: Folders,
        callers: Callers,
        process: Child,
        world: TempDir,
    }

    impl Caller {
        fn new() -> Self {
            let world = tempfile::tempdir().unwrap();
            fs::create_dir(world.path().join("one")).unwrap();
            let mut cat = Command::new("cat");
            let process = cat.current_dir(world.path().join("one")).stdin(Stdio::piped()).spawn().unwrap();
            Self { folders: Folders::default(), callers: Callers::default(), process, world }
        }

        fn moves_to(&self, name: &str) {
            fs::rename(self.world.path().join("one"), self.world.path().join(name)).unwrap();
        }

        fn name(&self) -> Option<PathBuf> {
            self.folders.name(&self.callers, self.process.id(), libc::AT_FDCWD)
        }

        fn is_in(&self, name: &str) -> bool {
            self.name().unwrap() == self.world.path().canonicalize().unwrap().join(name)
        }
    }

    impl Drop for Caller {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    /// A machine that is busy with something else may come too late for what is tried: none then.
    fn is_ever_right(is_right: impl Fn() -> Option<bool>) -> bool {
        (0..100).find_map(|_| is_right()).expect("a machine with a moment to spare")
    }

    #[test]
    fn a_folder_is_looked_at_again_after_a_moment() {
        let caller = Caller::new();
        assert!(caller.is_in("one"));
        caller.moves_to("two");
        thread::sleep(2 * SETTLED);
        assert!(caller.is_in("two"));
    }

    #[test]
    fn nothing_is_remembered_across_a_change() {
        assert!(is_ever_right(|| {
            let caller = Caller::new();
            assert!(caller.is_in("one"));
            let begin = Instant::now();
            caller.folders.change();
            // Seen before the change takes effect.
            assert!(caller.is_in("one"));
            let is_early = begin.elapsed() < SETTLED;
            caller.moves_to("two");
            is_early.then(|| caller.is_in("two"))
        }));
    }

    #[test]
    fn nobody_is_taken_for_the_dead() {
        let mut caller = Caller::new();
        assert!(caller.is_in("one"));
        caller.folders.change();
        drop(caller.process.stdin.take());
        caller.process.wait().unwrap();
        assert_eq!(caller.name(), None);
    }

    #[test]
    fn the_last_folder_stays_open_until_something_changes() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().canonicalize().unwrap().join("folder");
        let is_there = |folders: &Folders, name: &str| {
            let fd = folders.open(&folder).unwrap();
            rustix::fs::statat(&*fd, name, AtFlags::empty()).is_ok()
        };
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            fs::create_dir(&folder).unwrap();
            let begin = Instant::now();
            let first = folders.open(&folder).unwrap();
            let is_same = Arc::ptr_eq(&first, &folders.open(&folder).unwrap());
            let is_early = begin.elapsed() < SETTLED;
            folders.change();
            // Still open for a call that is under way when it is replaced.
            let _old = folders.open(&folder).unwrap();
            fs::remove_dir(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("new"), "").unwrap();
            let is_new = is_there(&folders, "new");
            fs::remove_dir_all(&folder).unwrap();
            is_early.then_some(is_same && is_new)
        }));
    }
}
