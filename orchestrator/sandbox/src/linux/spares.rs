//! Folders made in advance. Landlock's rules are fixed when a program starts, and they are about files rather than names. So
//! that it can allow what happens in a folder that is made later, such a folder exists from the start elsewhere, and is
//! moved into place when a program makes it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;

use super::handle;
use super::landlock::Allowed;

/// An agent seldom makes more ignored folders; what it makes then works as well, only slower.
const COUNT: usize = 8;

/// What is left of them. Those that were not needed go with the value.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Where they are made. Locked while somebody needs it: what is not locked was left by a supervisor that was killed.
    home: Option<(PathBuf, File)>,
    left: Mutex<Vec<Allowed>>,
}

impl Spares {
    /// Makes spare folders in a folder of their own in `parent`; none if that is not possible.
    pub(crate) fn make(parent: &Path) -> Self {
        Self::try_make(parent).unwrap_or_default()
    }

    fn try_make(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        sweep_spares(parent)?;
        let home = parent.join(std::process::id().to_string());
        fs::create_dir(&home)?;
        let lock = File::open(&home)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let made = Self { home: Some((home.clone(), lock)), left: Mutex::default() };
        for number in 0..COUNT {
            let path = home.join(number.to_string());
            fs::create_dir(&path)?;
            made.left().push(Allowed::open(path)?);
        }
        Ok(made)
    }

    pub(crate) fn left(&self) -> MutexGuard<'_, Vec<Allowed>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves one to `path`, whose folder is `parent`. None if there is none, or it cannot be moved there.
    pub(crate) fn place(&self, parent: &OwnedFd, path: &Path, mode: Mode) -> Result<Option<Allowed>, Errno> {
        let Some(name) = path.file_name() else { return Ok(None) };
        let Some(spare) = self.left().pop() else { return Ok(None) };
        handle::chmod(&spare.fd, mode)?;
        match rustix::fs::renameat_with(CWD, &spare.path, parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(Allowed { path: path.to_path_buf(), ..spare })),
            Err(errno) => {
                self.left().push(spare);
                if errno == Errno::EXIST { Err(errno) } else { Ok(None) }
            }
        }
    }
}

impl Spares {
    /// Removes those that were not needed.
    pub(crate) fn end(&self) {
        if let Some((home, _lock)) = &self.home {
            let _swept_later = remove(home);
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes what killed supervisors have left in [`Jail::spares`](crate::Jail::spares).
pub fn sweep_spares(parent: &Path) -> io::Result<()> {
    // Each is locked until it is gone.
    left(parent)?.iter().try_for_each(|(home, _lock)| remove(home))
}

/// What [`sweep_spares`] would remove.
pub fn left_spares(parent: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(left(parent)?.into_iter().map(|(home, _lock)| home).collect())
}

fn left(parent: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_left = |home: &File| rustix::fs::flock(home, FlockOperation::NonBlockingLockExclusive).is_ok();
    let locked = |home: PathBuf| File::open(&home).ok().filter(is_left).map(|lock| (home, lock));
    Ok(entries.flatten().filter_map(|entry| locked(entry.path())).collect())
}

/// Removes a folder, also if somebody has put folders into it that cannot be looked into.
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder).or_else(|_| {
        open_up(folder)?;
        fs::remove_dir_all(folder)
    })
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    #[test]
    fn what_cannot_be_looked_into_is_removed_all_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("1234");
        fs::create_dir_all(left.join("0/closed/deeper")).unwrap();
        fs::write(left.join("0/closed/deeper/file"), "").unwrap();
        for folder in ["0/closed/deeper", "0/closed"] {
            fs::set_permissions(left.join(folder), Permissions::from_mode(0o300)).unwrap();
        }
        sweep_spares(parent.path()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn a_spare_folder_becomes_the_one_that_is_wanted_once() {
        let tree = tempfile::tempdir().unwrap();
        let parent = tree.path().join("spares");
        let spares = Spares::make(&parent);
        let wanted = tree.path().join("target");
        let place = || spares.place(&open(tree.path()), &wanted, Mode::from_raw_mode(0o751));
        let placed = place().unwrap().unwrap();
        let mode = fs::metadata(&wanted).unwrap().permissions().mode() & 0o7777;
        assert_eq!((placed.path.as_path(), mode), (wanted.as_path(), 0o751));
        assert_eq!(place().unwrap_err(), Errno::EXIST);
        assert_eq!(spares.left().len(), COUNT - 1);
        drop(spares);
        assert!(wanted.exists());
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
    }

    #[test]
    fn on_another_file_system_it_is_not_moved() {
        let (tree, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let spares = Spares::make(parent.path());
        let place = |path: &Path| spares.place(&open(path), &path.join("x"), Mode::RWXU).unwrap();
        assert!(place(tree.path()).is_none() && !tree.path().join("x").exists());
        assert!(place(parent.path()).is_some(), "it is still there for another");
    }

    #[test]
    fn what_a_killed_supervisor_left_is_swept_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir_all(parent.path().join("1/0")).unwrap();
        let used = parent.path().join("2");
        fs::create_dir_all(used.join("0")).unwrap();
        let lock = File::open(&used).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let spares = Spares::make(parent.path());
        assert_eq!(spares.left().len(), COUNT);
        assert!(!parent.path().join("1").exists() && used.join("0").exists());
    }

    #[test]
    fn without_a_place_for_them_there_are_none() {
        let spares = Spares::make(Path::new("/proc/nowhere"));
        assert!(spares.left().is_empty());
        let tree = tempfile::tempdir().unwrap();
        let none = spares.place(&open(tree.path()), &tree.path().join("x"), Mode::RWXU);
        assert!(none.unwrap().is_none());
    }
}
