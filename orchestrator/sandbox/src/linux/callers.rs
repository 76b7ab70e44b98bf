//! What is kept about the threads that make calls. To open it for every call would cost more than to use it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::process::{raw_pid, user_for_files};

/// Threads are forgotten when there are more.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Until one of them changes its rights, all have those of the supervisor, which started the first.
    have_own_rights: AtomicBool,
    known: Mutex<HashMap<u32, Arc<Known>>>,
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
    /// What the thread's current folder is called.
    pub(crate) fn current_folder(&self, tid: u32) -> Option<PathBuf> {
        self.read(tid, "cwd")
    }

    /// What the thread's descriptor leads to.
    pub(crate) fn descriptor(&self, tid: u32, fd: i32) -> Option<PathBuf> {
        self.read(tid, &format!("fd/{fd}"))
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
