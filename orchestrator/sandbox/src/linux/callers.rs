//! What is kept about the threads that make calls. To open it for every call would cost more than to use it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags};
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
    /// None where the kernel has no handles of threads.
    handle: Option<OwnedFd>,
}

impl Known {
    fn open(tid: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, format!("/proc/{tid}"), flags, Mode::empty())?;
        let a_thread = PidfdFlags::from_bits_retain(libc::PIDFD_THREAD);
        Ok(Self { folder, handle: pidfd_open(raw_pid(tid)?, a_thread).ok() })
    }
}

impl Callers {
    /// What the thread's current folder, or its descriptor `dirfd`, is called.
    pub(crate) fn folder_name(&self, tid: u32, dirfd: i32) -> Option<PathBuf> {
        self.ask(tid, |known| {
            let name = if dirfd == libc::AT_FDCWD {
                rustix::fs::readlinkat(&known.folder, c"cwd", Vec::new())
            } else {
                rustix::fs::readlinkat(&known.folder, format!("fd/{dirfd}"), Vec::new())
            };
            Some(PathBuf::from(OsString::from_vec(name.ok()?.into_bytes())))
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
        self.ask(tid, |known| user_for_files(known.handle.as_ref()?.as_fd()))
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
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_folder_is_asked_for_each_time() {
        let callers = Callers::default();
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::create_dir(&one).unwrap();
        let mut child = Command::new("cat").current_dir(&one).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let name = |callers: &Callers| callers.folder_name(pid, libc::AT_FDCWD);
        assert_eq!(name(&callers), Some(one.canonicalize().unwrap()));
        fs::rename(&one, &two).unwrap();
        assert_eq!(name(&callers), Some(two.canonicalize().unwrap()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(name(&callers), None, "nobody is taken for the dead");
    }
}
