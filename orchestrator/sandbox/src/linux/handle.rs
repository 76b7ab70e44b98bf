//! What an open descriptor of this process refers to, whatever that is called by now.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::DecInt;

/// This process's descriptors, as files. Kept open: looking the folder up each time would cost as much as what is done
/// in it.
fn all() -> Result<&'static OwnedFd, Errno> {
    static FOLDER: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
    let open = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, c"/proc/self/fd", flags, Mode::empty())
    };
    FOLDER.get_or_init(open).as_ref().map_err(|errno| *errno)
}

fn file_of(fd: &OwnedFd) -> DecInt {
    DecInt::from_fd(fd)
}

/// The name the kernel has for it.
pub(crate) fn name(fd: &OwnedFd) -> Result<OsString, Errno> {
    let name = rustix::fs::readlinkat(all()?, file_of(fd), Vec::new())?;
    Ok(OsString::from_vec(name.into_bytes()))
}

/// Opens it once more.
pub(crate) fn reopen(fd: &OwnedFd, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(all()?, file_of(fd), flags | OFlags::CLOEXEC, mode)
}

pub(crate) fn chmod(fd: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmodat(all()?, file_of(fd), mode, AtFlags::empty())
}

/// Gives it a further name.
pub(crate) fn link(fd: &OwnedFd, folder: &OwnedFd, name: OsString) -> Result<(), Errno> {
    rustix::fs::linkat(all()?, file_of(fd), folder, name, AtFlags::SYMLINK_FOLLOW)
}
