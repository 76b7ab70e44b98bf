//! What an open descriptor of this process refers to, whatever that is called by now.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::path::DecInt;

/// This process's descriptors, as files. Kept open: looking the folder up each time would cost as much as what is done
/// in it.
fn all() -> Result<&'static OwnedFd, Errno> {
    static FOLDER: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(folder) = FOLDER.get() {
        return Ok(folder);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // What fails now, because too much is open, may work the next time.
    let folder = rustix::fs::openat(CWD, c"/proc/self/fd", flags, Mode::empty())?;
    Ok(FOLDER.get_or_init(|| folder))
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

pub(crate) fn set_attribute(fd: &OwnedFd, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
    rustix::fs::setxattr(path(fd), name, value, flags)
}

pub(crate) fn remove_attribute(fd: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::removexattr(path(fd), name)
}

/// Gives `socket` a name in `folder`. A socket's path may have only about a hundred characters.
pub(crate) fn bind(socket: &OwnedFd, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let path = [path(folder).as_bytes(), b"/", name.as_bytes()].concat();
    rustix::net::bind(socket, &SocketAddrUnix::new(path)?)
}

/// A name that leads to it.
fn path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Gives it a further name.
pub(crate) fn link(fd: &OwnedFd, folder: &OwnedFd, name: OsString) -> Result<(), Errno> {
    rustix::fs::linkat(all()?, file_of(fd), folder, name, AtFlags::SYMLINK_FOLLOW)
}
