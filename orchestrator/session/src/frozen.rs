//! Files as they were before the agent started, for the git that works for the supervisor: agents can change the files, but not
//! the copies, which have no name but their descriptor's.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use mala_core::file::open_regular;
use rustix::fs::MemfdFlags;

/// Where no file is.
const NOWHERE: &str = "/proc/no-file";
/// What git takes for nothing it could read.
const UNREADABLE: &str = "/dev/null";

#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) path: PathBuf,
    _copy: Option<File>,
}

impl Frozen {
    /// A copy of the file. Git stops at it if it could not be made, and finds none if there was none.
    pub(super) fn copy(file: &Path) -> Self {
        let no_copy = |path: &str| Self { path: path.into(), _copy: None };
        Self::try_copy(&[file], "").unwrap_or_else(|error| {
            no_copy(if error.kind() == ErrorKind::NotFound { NOWHERE } else { UNREADABLE })
        })
    }

    /// A copy of all files that are there, one after the other.
    pub(super) fn copy_all(files: &[PathBuf]) -> io::Result<Self> {
        let there: Vec<&Path> = files.iter().map(PathBuf::as_path).filter(|file| file.is_file()).collect();
        Self::try_copy(&there, "\n")
    }

    fn try_copy(files: &[&Path], end: &str) -> io::Result<Self> {
        let mut copy = File::from(rustix::fs::memfd_create(c"frozen", MemfdFlags::CLOEXEC)?);
        for file in files {
            io::copy(&mut open_regular(file)?, &mut copy)?;
            copy.write_all(end.as_bytes())?;
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
        Ok(Self { path: path.into(), _copy: Some(copy) })
    }
}
