//! Folders that git ignores and tests need: dependencies, virtual environments, build results.

use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use thiserror::Error;
use walkdir::WalkDir;

use crate::RepoPath;

/// A folder of the checkout that a snapshot gets as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Relative to the top of the checkout.
    pub folder: PathBuf,
    pub how: How,
}

/// How a folder gets into a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// As a link: fast, and whatever the tests write there stays.
    Shared,
    /// As a copy, which costs no space and little time where the file system can clone files.
    Copied,
}

#[derive(Debug, Error)]
pub enum CarryError {
    #[error("`{}` is not a folder inside the checkout: write it relative to its top, without `..`", .0.display())]
    Outside(PathBuf),
    #[error("cannot bring `{}` into the snapshot", .folder.display())]
    Io {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Carried {
    pub(super) fn path(&self) -> RepoPath {
        let plain: PathBuf = self.folder.components().collect();
        RepoPath::from_bytes(plain.as_os_str().as_encoded_bytes())
    }

    pub(super) fn refuse_outside(&self) -> Result<(), CarryError> {
        let mut parts = self.folder.components().peekable();
        let is_plain = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
        if is_plain { Ok(()) } else { Err(CarryError::Outside(self.folder.clone())) }
    }

    /// Brings the folder, if the checkout has it and the commit does not.
    pub(super) fn bring(&self, from: &Path, to: &Path) -> Result<(), CarryError> {
        let (from, to) = (from.join(&self.folder), to.join(&self.folder));
        if !from.is_dir() || fs::symlink_metadata(&to).is_ok() {
            return Ok(());
        }
        let bring = || {
            fs::create_dir_all(to.parent().unwrap_or(&to))?;
            match self.how {
                How::Shared => symlink(fs::canonicalize(&from)?, &to),
                How::Copied => copy_folder(&from, &to),
            }
        };
        bring().map_err(|source| CarryError::Io { folder: self.folder.clone(), source })
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in WalkDir::new(from) {
        let entry = entry?;
        let inside = entry.path().strip_prefix(from).map_err(io::Error::other)?;
        let place = to.join(inside);
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir(&place)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &place)?;
        } else if kind.is_file() {
            copy_file(entry.path(), &place)?;
        }
    }
    Ok(())
}

/// A clone where the file system can, else a copy, with the same mode and the same time of change: build tools compare.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::metadata(from)?;
    reflink_copy::reflink_or_copy(from, to)?;
    fs::set_permissions(to, meta.permissions())?;
    fs::File::open(to)?.set_modified(meta.modified()?).or(Ok(()))
}

/// Makes `to` what `from` is: a file, a link, or nothing.
pub(super) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(to)?,
        Ok(_) => fs::remove_file(to)?,
        Err(_) => {}
    }
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    if meta.is_dir() {
        return Ok(());
    }
    make_room(to.parent().unwrap_or(to))?;
    if meta.is_symlink() { symlink(fs::read_link(from)?, to) } else { copy_file(from, to) }
}

/// Makes the folder, also where a file was.
fn make_room(folder: &Path) -> io::Result<()> {
    if let Some(file) = folder.ancestors().find(|path| fs::symlink_metadata(path).is_ok())
        && !file.is_dir()
    {
        fs::remove_file(file)?;
    }
    fs::create_dir_all(folder)
}
