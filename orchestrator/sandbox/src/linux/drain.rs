//! Who can still write to a file, whatever became of its lock: descriptors outlive locks.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use procfs::process::{MMPermissions, MMapPath, Process, all_processes};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::handle;
use crate::Writer;

/// Which signal tells that somebody wants the file; the same on every architecture.
const F_SETSIG: libc::c_int = 10;

/// True while any other process has `path`, a regular file, open for writing or mapped so. False for what is not
/// there or is no regular file.
///
/// The kernel itself is asked, by placing a read lease for a moment: it counts every descriptor, also those in flight
/// between processes. Where it cannot be asked (file systems without leases, files of other users or that cannot be read, files that
/// this process has open for writing itself) or does not know (mappings on overlayfs, which belong to the file below),
/// the answer is what [`writers`] finds.
pub fn has_writers(path: &Path) -> io::Result<bool> {
    // A pipe or a device would notice being opened.
    let opened = match rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(false),
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(false);
    }
    let found = || !writers_of(path, (stat.st_dev, stat.st_ino)).is_empty();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = match handle::reopen(&opened, flags, Mode::empty()) {
        Err(Errno::ACCESS) => return Ok(found()),
        file => File::from(file?),
    };
    match lease(&file) {
        // Closing the file gives the lease back.
        Ok(()) => Ok(is_overlay(&file) && found()),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(!has_open(own(), (stat.st_dev, stat.st_ino)) || found()),
            Some(libc::EINVAL | libc::EACCES | libc::EOPNOTSUPP) => Ok(found()),
            _ => Err(error),
        },
    }
}

fn is_overlay(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

/// The other processes that have `path` open for writing or mapped so, as far as this user may look.
pub fn writers(path: &Path) -> Vec<Writer> {
    fs::metadata(path).map(|meta| writers_of(path, (meta.dev(), meta.ino()))).unwrap_or_default()
}

/// Takes a read lease.
fn lease(file: &File) -> io::Result<()> {
    let fd = file.as_raw_fd();
    let result = |value: i32| if value < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: plain numbers and a descriptor that is open. Whoever opens the file in this moment makes the kernel signal
    // us; by default that signal would be a deadly one.
    unsafe {
        result(libc::fcntl(fd, F_SETSIG, libc::SIGURG))?;
        result(libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK))
    }
}

type Identity = (u64, u64);

fn own() -> u32 {
    std::process::id()
}

fn writers_of(path: &Path, file: Identity) -> Vec<Writer> {
    let name = fs::canonicalize(path).unwrap_or_default();
    let Ok(processes) = all_processes() else { return Vec::new() };
    let mut found = Vec::new();
    for process in processes.flatten() {
        let Ok(pid) = u32::try_from(process.pid()) else { continue };
        if pid != own() && (has_open(pid, file) || has_mapped(&process, &name, file)) {
            let program = process.stat().map(|stat| stat.comm).unwrap_or_default();
            found.push(Writer { pid, program });
        }
    }
    found
}

fn has_open(pid: u32, file: Identity) -> bool {
    /// The mode of a descriptor's link tells how it was opened.
    const WRITES: u32 = 0o200;
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|descriptor| {
        let writes = descriptor.metadata().is_ok_and(|link| link.mode() & WRITES != 0);
        writes && fs::metadata(descriptor.path()).is_ok_and(|meta| (meta.dev(), meta.ino()) == file)
    })
}

/// Some file systems (Btrfs, overlayfs) have another device number for mappings; there the name tells.
fn has_mapped(process: &Process, name: &Path, (device, inode): Identity) -> bool {
    let wanted = MMPermissions::WRITE | MMPermissions::SHARED;
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    let maps = process.maps().into_iter().flatten();
    maps.into_iter().any(|map| {
        let is_device = (map.dev.0.cast_unsigned(), map.dev.1.cast_unsigned()) == device;
        let is_name = || matches!(&map.pathname, MMapPath::Path(path) if path == name);
        map.inode == inode && map.perms.contains(wanted) && (is_device || is_name())
    })
}
