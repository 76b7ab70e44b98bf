//! Acting with the caller's rights when the supervisor is root.
//!
//! A program of root's may give its rights up and then make a call that the broker performs. Without this, it would be
//! performed with root's rights. User and groups for file access belong to a thread, so each broker thread
//! takes the caller's for one call. An ordinary user's supervisor has the same rights as its tree and does nothing here.

use rustix::io::Errno;

use super::callers::Callers;
use super::task::{Rights, Task};

/// The caller's rights, worn by this thread; dropping it takes root's back.
#[derive(Debug)]
pub(crate) struct Disguise(Rights);

impl Disguise {
    /// Takes the caller's rights, if they are not the ones this thread has.
    pub(crate) fn of(task: Task, callers: &Callers) -> Result<Option<Self>, Errno> {
        // SAFETY: takes nothing and cannot fail.
        if !callers.have_own_rights() || unsafe { libc::geteuid() } != 0 {
            return Ok(None);
        }
        if callers.user_for_files(task.tid) == Some(0) {
            return Ok(None);
        }
        let rights = task.rights()?;
        if rights.user == 0 {
            return Ok(None);
        }
        let disguise = Self(rights);
        disguise.wear();
        // Taking a user's rights reports no failure; asking for an impossible user's tells the present one.
        // SAFETY: plain numbers.
        let worn = unsafe { libc::syscall(libc::SYS_setfsuid, -1) };
        if worn == libc::c_long::from(disguise.0.user) { Ok(Some(disguise)) } else { Err(Errno::PERM) }
    }

    /// Does something with the supervisor's own rights.
    pub(crate) fn lifted<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::lift();
        let result = work();
        self.wear();
        result
    }

    fn wear(&self) {
        // SAFETY: the list has the length that is passed; the calls change this thread alone, unlike libc's own.
        unsafe {
            libc::syscall(libc::SYS_setgroups, self.0.groups.len(), self.0.groups.as_ptr());
            libc::syscall(libc::SYS_setfsgid, self.0.group);
            libc::syscall(libc::SYS_setfsuid, self.0.user);
        }
    }

    fn lift() {
        // SAFETY: as above. Root needs no groups to reach a file.
        unsafe {
            libc::syscall(libc::SYS_setfsuid, 0);
            libc::syscall(libc::SYS_setfsgid, libc::getegid());
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        }
    }
}

impl Drop for Disguise {
    fn drop(&mut self) {
        Self::lift();
    }
}
