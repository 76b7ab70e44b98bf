//! Keeps the bytes of files while a hook runs that may change them.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::RepoPath;

/// What some files held.
#[derive(Debug)]
pub(super) struct Backup {
    root: PathBuf,
    files: Vec<Saved>,
}

#[derive(Debug)]
struct Saved {
    path: RepoPath,
    held: Held,
}

#[derive(Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    File { copy: PathBuf, mode: u32 },
    Link(PathBuf),
}

impl Backup {
    /// Copies the files to `folder`, which is new.
    pub(super) fn take(root: &Path, paths: &[RepoPath], folder: &Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let mut files = Vec::with_capacity(paths.len());
        for (number, path) in paths.iter().enumerate() {
            let held = save(&path.within(root), &folder.join(number.to_string()))?;
            files.push(Saved { path: path.clone(), held });
        }
        Ok(Self { root: root.to_owned(), files })
    }

    /// The files that are not as they were.
    pub(super) fn changed(&self) -> io::Result<Vec<RepoPath>> {
        let mut changed = Vec::new();
        for file in &self.files {
            if !is_same(&file.path.within(&self.root), &file.held)? {
                changed.push(file.path.clone());
            }
        }
        Ok(changed)
    }

    /// Gives every changed file its bytes and its mode back. A file is replaced as a whole or not at all.
    pub(super) fn restore(&self) -> io::Result<()> {
        for file in &self.files {
            let path = file.path.within(&self.root);
            if !is_same(&path, &file.held)? {
                restore(&path, &file.held)?;
            }
        }
        Ok(())
    }
}

fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn save(path: &Path, copy: &Path) -> io::Result<Held> {
    Ok(match look(path)? {
        Some(meta) if meta.is_symlink() => Held::Link(fs::read_link(path)?),
        Some(meta) if meta.is_file() => {
            fs::copy(path, copy)?;
            Held::File { copy: copy.to_owned(), mode: meta.permissions().mode() }
        }
        _ => Held::Nothing,
    })
}

fn is_same(path: &Path, held: &Held) -> io::Result<bool> {
    Ok(match (look(path)?, held) {
        (Some(meta), Held::Link(target)) => meta.is_symlink() && fs::read_link(path)? == *target,
        (Some(meta), Held::File { copy, mode }) => {
            meta.is_file() && meta.permissions().mode() == *mode && fs::read(path)? == fs::read(copy)?
        }
        (Some(meta), Held::Nothing) => meta.is_dir(),
        (None, held) => *held == Held::Nothing,
    })
}

fn restore(path: &Path, held: &Held) -> io::Result<()> {
    let Held::Nothing = held else {
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder)?;
        let beside = folder.join(format!(".mala-restore-{:08x}", fastrand::u32(..)));
        match held {
            Held::File { copy, mode } => {
                fs::copy(copy, &beside)?;
                fs::set_permissions(&beside, fs::Permissions::from_mode(*mode))?;
            }
            Held::Link(target) => symlink(target, &beside)?,
            Held::Nothing => {}
        }
        return fs::rename(&beside, path);
    };
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
