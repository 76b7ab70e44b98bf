//! The static half: writing is allowed everywhere except in the tree, enforced by the kernel even if the supervisor is
//! gone.
//!
//! Landlock can only allow, so the rules name everything beside the tree: the siblings along the way from `/` down to it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::zones::Granted;

/// A rule set that the child puts on itself, and the folders and files outside the tree that it allows.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) ruleset: OwnedFd,
    pub(crate) granted: Granted,
}

/// A folder that is allowed although it is in the tree.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) path: PathBuf,
    pub(crate) fd: OwnedFd,
    /// Device and inode: the permission belongs to the folder, not to its name.
    pub(crate) identity: (u64, u64),
}

impl Allowed {
    /// The folder that has exactly this name, reached without any link.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { path, fd, identity: (stat.st_dev, stat.st_ino) })
    }
}

/// Every right that changes a file system, except truncation: whether a file may be truncated would be looked up at every
/// open, also for reading. So the broker performs every call that truncates and does not also open for writing.
/// Reading and running stay free, and so do device ioctls and sockets.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V2)
}

/// Rules that allow writing except at or below `denied`, and in what is `allowed` there.
pub(crate) fn rules<'a>(
    denied: &[PathBuf],
    allowed: impl IntoIterator<Item = &'a Allowed>,
) -> io::Result<Rules> {
    let mut ruleset = empty().map_err(io::Error::other)?;
    let mut granted = Granted::new();
    let mut folders = vec![PathBuf::from("/")];
    while let Some(folder) = folders.pop() {
        // A folder that cannot be listed grants nothing; the broker performs what happens there.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) || denied.contains(&path) {
                continue;
            }
            if denied.iter().any(|name| name.starts_with(&path)) {
                folders.push(path);
            } else if let Ok(fd) = PathFd::new(&path) {
                let stat = rustix::fs::fstat(fd.as_fd())?;
                ruleset = ruleset.add_rule(PathBeneath::new(fd, writing())).map_err(io::Error::other)?;
                granted.insert(path, (stat.st_dev, stat.st_ino));
            }
        }
    }
    for folder in allowed {
        ruleset = ruleset.add_rule(PathBeneath::new(&folder.fd, writing())).map_err(io::Error::other)?;
    }
    let ruleset: Option<OwnedFd> = ruleset.into();
    let ruleset = ruleset.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    Ok(Rules { ruleset, granted })
}

fn empty() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        // What must hold, and then what newer kernels add.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(writing())?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(ABI::V6))?
        .create()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_beside_the_tree_is_granted_and_nothing_above_or_in_it() {
        let world = tempfile::tempdir().unwrap();
        let base = world.path().canonicalize().unwrap();
        for folder in ["a/tree/src", "a/beside", "b"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let tree = base.join("a/tree");
        let rules = rules(std::slice::from_ref(&tree), []).unwrap();
        for granted in ["a/beside", "b"] {
            assert!(rules.granted.contains_key(&base.join(granted)), "{granted}");
        }
        assert!(rules.granted.keys().all(|path| !tree.starts_with(path) && !path.starts_with(&tree)));
    }
}
