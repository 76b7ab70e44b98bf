//! Telling one file from another that has its name, or its number, by now.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::FileIdentity;

/// The file behind a descriptor.
pub(crate) fn of_open(fd: impl AsFd) -> Result<FileIdentity, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, wanted()).map(|stat| identity(&stat))
}

/// The file that has this name now, itself and not what it points to; nothing if there is none.
pub fn identity_of(path: &Path) -> Option<FileIdentity> {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted()).ok().map(|stat| identity(&stat))
}

fn wanted() -> StatxFlags {
    StatxFlags::INO | StatxFlags::BTIME
}

fn identity(stat: &Statx) -> FileIdentity {
    let is_born = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = if is_born { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) };
    FileIdentity { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born }
}
