//! What is kept about the threads that make calls. To open it for every call would cost more than to use it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::process::{raw_pid, user_for_files};

/// Threads are forgotten when there are more.
const MOST: usize = 64;
/// A thread that was in a folder this long ago is still there, if in that time nobody went elsewhere or moved a folder. Both
/// are known before they happen, so after them it takes as long until what is seen is believed to last.
const SETTLED: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Until one of them changes its rights, all have those of the supervisor, which started the first.
    have_own_rights: AtomicBool,
    known: Mutex<HashMap<u32, Arc<Known>>>,
    folders: Mutex<Folders>,
}

/// Current folders, and when they were seen.
#[derive(Debug, Default)]
struct Folders {
    seen: HashMap<u32, (PathBuf, Instant)>,
    changed: Option<Instant>,
}

/// A thread by handles that are its own: when it is gone they tell nothing, whoever has its number then.
#[derive(Debug)]
struct Known {
    /// Its folder in /proc.
    folder: OwnedFd,
    /// Opened when it is needed; none where the kernel has no handles of threads.
    handle: OnceLock<Option<OwnedFd>>,
}

impl Known {
    fn open(tid: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, format!("/proc/{tid}"), flags, Mode::empty())?;
        Ok(Self { folder, handle: OnceLock::new() })
    }

    /// A number that has passed to another thread in the meantime has no folder here.
    fn handle(&self, tid: u32) -> Option<&OwnedFd> {
        let open = || {
            let a_thread = PidfdFlags::from_bits_retain(libc::PIDFD_THREAD);
            let handle = pidfd_open(raw_pid(tid).ok()?, a_thread).ok()?;
            rustix::fs::accessat(&self.folder, c"stat", Access::EXISTS, AtFlags::empty()).ok()?;
            Some(handle)
        };
        self.handle.get_or_init(open).as_ref()
    }
}

impl Callers {
    /// What the thread's current folder, or its descriptor `dirfd`, is called.
    pub(crate) fn folder_name(&self, tid: u32, dirfd: i32) -> Option<PathBuf> {
        if dirfd == libc::AT_FDCWD {
            self.current_folder(tid)
        } else {
            self.read(tid, &format!("fd/{dirfd}"))
        }
    }

    fn current_folder(&self, tid: u32) -> Option<PathBuf> {
        let folders = || self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |since: Instant| since.elapsed() < SETTLED;
        if let Some((name, since)) = folders().seen.get(&tid)
            && is_recent(*since)
        {
            return Some(name.clone());
        }
        let now = Instant::now();
        let name = self.read(tid, "cwd")?;
        let mut folders = folders();
        if !folders.changed.is_some_and(is_recent) {
            if folders.seen.len() >= MOST {
                folders.seen.clear();
            }
            folders.seen.insert(tid, (name.clone(), now));
        }
        Some(name)
    }

    /// One of them is about to go to another folder, or to move one.
    pub(crate) fn folders_change(&self) {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.seen.clear();
        folders.changed = Some(Instant::now());
    }

    fn read(&self, tid: u32, link: &str) -> Option<PathBuf> {
        self.ask(tid, |known| {
            let name = rustix::fs::readlinkat(&known.folder, link, Vec::new()).ok()?;
            Some(PathBuf::from(OsString::from_vec(name.into_bytes())))
        })
    }

    /// One of them is about to change its rights.
    pub(crate) fn rights_change(&self) {
        self.have_own_rights.store(true, Ordering::SeqCst);
    }

    /// True if not all of them have the supervisor's rights.
    pub(crate) fn have_own_rights(&self) -> bool {
        self.have_own_rights.load(Ordering::SeqCst)
    }

    /// The user that decides what the thread may do to files. None if this kernel does not tell so quickly.
    pub(crate) fn user_for_files(&self, tid: u32) -> Option<libc::uid_t> {
        self.ask(tid, |known| user_for_files(known.handle(tid)?.as_fd()))
    }

    fn ask<T>(&self, tid: u32, question: impl Fn(&Known) -> Option<T>) -> Option<T> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let old = known().get(&tid).map(Arc::clone);
        if let Some(told) = old.and_then(|old| question(&old)) {
            return Some(told);
        }
        let fresh = Arc::new(Known::open(tid).ok()?);
        let told = question(&fresh)?;
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(tid, fresh);
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    /// A process in a folder that can be moved, and what is known of it.
    struct Caller {
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
            Self { callers: Callers::default(), process, world }
        }

        fn moves_to(&self, name: &str) {
            fs::rename(self.world.path().join("one"), self.world.path().join(name)).unwrap();
        }

        fn is_in(&self, name: &str) -> bool {
            let seen = self.callers.folder_name(self.process.id(), libc::AT_FDCWD).unwrap();
            seen == self.world.path().canonicalize().unwrap().join(name)
        }
    }

    impl Drop for Caller {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
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
        let is_right = || {
            let caller = Caller::new();
            assert!(caller.is_in("one"));
            let begin = Instant::now();
            caller.callers.folders_change();
            // Seen before the change takes effect.
            assert!(caller.is_in("one"));
            let is_early = begin.elapsed() < SETTLED;
            caller.moves_to("two");
            is_early.then(|| caller.is_in("two"))
        };
        // A machine that is busy with something else may come too late for what is tried here.
        assert_eq!((0..100).find_map(|_| is_right()), Some(true));
    }

    #[test]
    fn nobody_is_taken_for_the_dead() {
        let mut caller = Caller::new();
        assert!(caller.is_in("one"));
        caller.callers.folders_change();
        drop(caller.process.stdin.take());
        caller.process.wait().unwrap();
        assert_eq!(caller.callers.folder_name(caller.process.id(), libc::AT_FDCWD), None);
    }
}
