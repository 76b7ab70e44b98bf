//! Gits that are about to write an index which is older than the one that is there.
//!
//! Most of git's commands lock the index before they read it. Some, such as `git commit`, read it first: if somebody else writes it
//! between that and their lock, they put back what they have read, and their commit takes out what others have just
//! committed. Git mostly gives up before it comes to that, because the lock is not free. The gits of agents wait for each
//! other, so whoever has waited gets the lock only if nothing has changed since it began.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mala_core::file::open_regular;
use mala_sandbox::{FileIdentity, GitLock, identity_of, identity_of_open};
use mala_store::process::Process;

/// How much is remembered: few gits of an agent run at once.
const MOST: usize = 64;

/// What is known about the gits of one tree.
#[derive(Debug)]
pub(super) struct Outdated {
    index: PathBuf,
    lock: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By process.
    programs: HashMap<u32, Reading>,
    /// Lock files of the tree, which become the index; the last ones.
    own: VecDeque<FileIdentity>,
}

/// When a program may have read the index, and what it was then, if there was one.
#[derive(Debug)]
enum Reading {
    AfterItsLock,
    SinceItsStart(Option<Seen>),
    /// Nobody knows what it does, but it has waited for the lock.
    BeforeItWaited(Option<Seen>),
}

/// An index, kept open so that no other file gets its number.
#[derive(Debug)]
struct Seen(File);

impl Seen {
    fn is(&self, index: Option<FileIdentity>) -> bool {
        index.is_some() && identity_of_open(&self.0) == index
    }
}

impl Outdated {
    pub(super) fn new(index: PathBuf) -> Self {
        let lock = index.with_extension("lock");
        Self { index, lock, known: Mutex::default() }
    }

    /// A program begins; `git` are its arguments if it is one.
    pub(super) fn begins(&self, pid: u32, git: Option<&[OsString]>) {
        let reading = git.map(|args| match mala_agents::git::locks_first(args) {
            true => Reading::AfterItsLock,
            false => Reading::SinceItsStart(self.see()),
        });
        let programs = &mut self.known().programs;
        match reading {
            Some(reading) => {
                if programs.len() >= MOST {
                    programs.retain(|pid, _| Process::find(*pid).is_some());
                }
                programs.insert(pid, reading);
            }
            None => drop(programs.remove(&pid)),
        }
    }

    /// A program has to wait for this lock.
    pub(super) fn waits(&self, pid: u32, lock: &Path) {
        if lock == self.lock {
            let waits = || Reading::BeforeItWaited(self.see());
            self.known().programs.entry(pid).or_insert_with(waits);
        }
    }

    /// True if the maker of this lock, which is in place, may have read the index before somebody else wrote it.
    pub(super) fn is_behind(&self, lock: &GitLock<'_>) -> bool {
        if lock.path != self.lock {
            return false;
        }
        let now = identity_of(&self.index);
        let mut known = self.known();
        let is_own = now.is_some_and(|now| known.own.contains(&now));
        let is_other = |seen: &Option<Seen>| match seen {
            Some(seen) => !seen.is(now),
            None => now.is_some(),
        };
        let is_behind = match known.programs.get(&lock.pid) {
            Some(Reading::SinceItsStart(seen)) => !is_own && is_other(seen),
            Some(Reading::BeforeItWaited(seen)) => {
                let is_behind = is_other(seen);
                known.programs.remove(&lock.pid);
                is_behind
            }
            Some(Reading::AfterItsLock) | None => false,
        };
        if !is_behind {
            known.own.truncate(MOST - 1);
            known.own.push_front(lock.identity);
        }
        is_behind
    }

    fn see(&self) -> Option<Seen> {
        open_regular(&self.index).ok().map(Seen)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::fd::AsFd;

    use tempfile::TempDir;

    use super::*;

    struct Repository {
        folder: TempDir,
        outdated: Outdated,
        /// Kept open: the number of a file that is gone could be used again within the same tick of the clock.
        written: RefCell<Vec<File>>,
    }

    impl Repository {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let outdated = Outdated::new(folder.path().join("index"));
            let repository = Self { folder, outdated, written: RefCell::default() };
            repository.write();
            repository
        }

        fn make_lock(&self) -> (PathBuf, FileIdentity) {
            let path = self.folder.path().join("index.lock");
            self.written.borrow_mut().push(File::create(&path).unwrap());
            let identity = identity_of(&path).unwrap();
            (path, identity)
        }

        /// Makes another file the index, and says which.
        fn write(&self) -> FileIdentity {
            let (lock, identity) = self.make_lock();
            fs::rename(lock, self.folder.path().join("index")).unwrap();
            identity
        }

        fn begins(&self, pid: u32, command: &str) {
            let args: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            self.outdated.begins(pid, Some(&args));
        }

        /// Whether this process gets the lock; if so, it writes the index.
        fn locks(&self, pid: u32) -> bool {
            let (path, identity) = self.make_lock();
            let file = File::open(&path).unwrap();
            let lock = GitLock { pid, path: &path, identity, file: file.as_fd() };
            let gets = !self.outdated.is_behind(&lock);
            if gets { fs::rename(&path, self.folder.path().join("index")) } else { fs::remove_file(&path) }
                .unwrap();
            gets
        }
    }

    #[test]
    fn who_read_the_index_before_others_wrote_it_does_not_write_it() {
        let repository = Repository::new();
        for (command, gets) in [("git commit -m x", false), ("git -C . add x", true), ("git reset", false)] {
            repository.begins(1, command);
            assert!(repository.locks(1), "nothing has changed: {command}");
            assert!(repository.locks(1), "it has changed it itself: {command}");
            repository.begins(1, command);
            repository.write();
            assert_eq!(repository.locks(1), gets, "{command}");
        }
    }

    #[test]
    fn what_the_tree_wrote_itself_is_no_surprise() {
        let repository = Repository::new();
        repository.begins(1, "git rebase main");
        repository.begins(2, "git commit -m x");
        assert!(repository.locks(2) && repository.locks(1));
    }

    #[test]
    fn a_program_that_nobody_knows_is_behind_if_the_index_changed_while_it_waited() {
        let repository = Repository::new();
        let lock = repository.folder.path().join("index.lock");
        repository.outdated.begins(1, None);
        repository.write();
        assert!(repository.locks(1), "it did not wait");
        repository.outdated.waits(1, &lock);
        assert!(repository.locks(1));
        repository.outdated.waits(1, &lock);
        repository.write();
        assert!(!repository.locks(1));
        assert!(repository.locks(1), "it has heard of it");
    }

    #[test]
    fn other_locks_are_not_its_business() {
        let repository = Repository::new();
        repository.begins(1, "git commit -m x");
        let path = repository.folder.path().join("HEAD.lock");
        let identity = repository.write();
        let file = File::open(repository.folder.path().join("index")).unwrap();
        let lock = GitLock { pid: 1, path: &path, identity, file: file.as_fd() };
        assert!(!repository.outdated.is_behind(&lock));
    }

    #[test]
    fn what_is_remembered_about_the_dead_is_forgotten() {
        let repository = Repository::new();
        let none = u32::MAX - 1_000;
        (0..10 * MOST as u32).for_each(|number| repository.begins(none + number % 1_000, "git commit"));
        assert!(repository.outdated.known().programs.len() <= MOST);
    }
}
