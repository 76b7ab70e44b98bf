//! Gits that are about to write what is older than the index that is there.
//!
//! Most of git's commands lock the index before they read it. Some, such as `git commit`, read it first: if somebody else writes it
//! between that and their lock, they put back what they have read, and their commit takes out what others have just
//! committed. Git mostly gives up before it comes to that, because the lock is not free. The gits of agents wait for each
//! other, so whoever has waited gets the lock only if nothing has changed since it began.
//!
//! A plain `git commit` reads the index once more after its `pre-commit` hook, without a lock. What others stage after the hook has
//! judged would be committed unseen, so such a commit does not get the lock on its branch.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{iter, mem};

use mala_core::file::open_regular;
use mala_sandbox::{FileIdentity, GitLock, identity_of, identity_of_open};
use mala_store::process::Process;

/// How much is remembered: few gits of an agent run at once.
const MOST: usize = 64;
/// How far above its judge a git is looked for.
const HIGHEST: usize = 16;

/// What is known about the gits of one tree.
#[derive(Debug)]
pub(super) struct StaleIndex {
    index: PathBuf,
    lock: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By process.
    programs: HashMap<u32, Program>,
    /// The last indexes that the tree has locked in order to write them, the newest first.
    own: VecDeque<Own>,
}

#[derive(Debug)]
struct Program {
    reading: Reading,
    judged: Judged,
}

/// What a hook of a program has judged, until it is known to be what is committed.
#[derive(Debug)]
enum Judged {
    Nothing,
    Index(Seen),
    /// Somebody else has changed it since, and the program was told so.
    Outdated,
}

/// How what a program knows relates to the index that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexView {
    Current,
    Behind,
    /// It has heard of it and tries again.
    StillBehind,
}

/// When a program may have read the index, and what it was then.
#[derive(Debug)]
enum Reading {
    AfterItsLock,
    SinceItsStart(Seen),
    /// Nobody knows what it does, but it has waited for the lock.
    BeforeItWaited(Seen),
}

/// A lock file of the tree, and the index that it takes the place of.
#[derive(Debug)]
struct Own {
    lock: FileIdentity,
    replaces: Option<FileIdentity>,
}

/// An index, if there was one, kept open so that no other file gets its number.
#[derive(Debug)]
pub(crate) struct Seen(Option<File>);

impl Seen {
    fn is(&self, index: Option<FileIdentity>) -> bool {
        self.0.as_ref().map(identity_of_open) == index.map(Some)
    }
}

impl Known {
    /// True if nobody but the tree itself has written since `seen` was the index.
    fn leads_to(&self, seen: &Seen, mut index: Option<FileIdentity>) -> bool {
        for own in &self.own {
            if seen.is(index) {
                return true;
            }
            if index == Some(own.lock) {
                index = own.replaces;
            }
        }
        seen.is(index)
    }
}

impl StaleIndex {
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
                    forget_dead(programs);
                }
                programs.insert(pid, Program { reading, judged: Judged::Nothing });
            }
            None => drop(programs.remove(&pid)),
        }
    }

    /// Lets go of what the dead have seen: an index that is kept open takes its place on the disk.
    pub(super) fn forget_dead(&self) {
        forget_dead(&mut self.known().programs);
    }

    /// A program begins to judge what is staged, for the git that is above it.
    pub(super) fn judges(&self, pid: u32) {
        let seen = self.see();
        let above = |pid: &u32| Process::find(*pid).map(|process| process.parent);
        let mut known = self.known();
        let git =
            iter::successors(above(&pid), above).take(HIGHEST).find(|pid| known.programs.contains_key(pid));
        if let Some(program) = git.and_then(|git| known.programs.get_mut(&git)) {
            program.judged = Judged::Index(seen);
        }
    }

    /// A program has to wait for this lock.
    pub(super) fn waits(&self, pid: u32, lock: &Path) {
        if lock == self.lock {
            let waits = || Program { reading: Reading::BeforeItWaited(self.see()), judged: Judged::Nothing };
            self.known().programs.entry(pid).or_insert_with(waits);
        }
    }

    /// What the maker of this lock, which is in place, may know of the index.
    pub(super) fn knowledge(&self, lock: &GitLock<'_>) -> IndexView {
        let mut known = self.known();
        if lock.path == self.lock {
            self.before_index(lock, &mut known)
        } else {
            self.before_others(lock, &mut known)
        }
    }

    /// Of a program that is about to write the index.
    fn before_index(&self, lock: &GitLock<'_>, known: &mut Known) -> IndexView {
        let now = identity_of(&self.index);
        let reading = known.programs.get(&lock.pid).map(|program| &program.reading);
        let is_current = match reading {
            Some(Reading::SinceItsStart(seen)) => known.leads_to(seen, now),
            Some(Reading::BeforeItWaited(seen)) => seen.is(now),
            Some(Reading::AfterItsLock) | None => true,
        };
        if let Some(Reading::BeforeItWaited(_)) = reading {
            known.programs.remove(&lock.pid);
        }
        if !is_current {
            return IndexView::Behind;
        }
        known.own.truncate(MOST - 1);
        known.own.push_front(Own { lock: lock.identity, replaces: now });
        if let Some(Program { reading: Reading::SinceItsStart(seen), .. }) = known.programs.get_mut(&lock.pid)
        {
            *seen = self.see();
        }
        IndexView::Current
    }

    /// Of a program that is about to write something else: a commit has been put together then. Git tries such locks several times.
    fn before_others(&self, lock: &GitLock<'_>, known: &mut Known) -> IndexView {
        let Some(program) = known.programs.get_mut(&lock.pid) else { return IndexView::Current };
        let (judged, knowledge) = match mem::replace(&mut program.judged, Judged::Nothing) {
            Judged::Index(seen) if !known.leads_to(&seen, identity_of(&self.index)) => {
                (Judged::Outdated, IndexView::Behind)
            }
            Judged::Outdated => (Judged::Outdated, IndexView::StillBehind),
            Judged::Index(_) | Judged::Nothing => (Judged::Nothing, IndexView::Current),
        };
        if let Some(program) = known.programs.get_mut(&lock.pid) {
            program.judged = judged;
        }
        knowledge
    }

    /// What a program takes was looked at before it began, when the index was the one that was `seen`.
    pub(super) fn judged_at_start(&self, pid: u32, seen: Seen) {
        if let Some(program) = self.known().programs.get_mut(&pid) {
            program.judged = Judged::Index(seen);
        }
    }

    pub(super) fn see(&self) -> Seen {
        Seen(open_regular(&self.index).ok())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_dead(programs: &mut HashMap<u32, Program>) {
    programs.retain(|pid, _| Process::find(*pid).is_some());
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
        outdated: StaleIndex,
        /// Kept open: the number of a file that is gone could be used again within the same tick of the clock.
        written: RefCell<Vec<File>>,
    }

    impl Repository {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let outdated = StaleIndex::new(folder.path().join("index"));
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
            let gets = self.outdated.knowledge(&lock) == IndexView::Current;
            if gets { fs::rename(&path, self.folder.path().join("index")) } else { fs::remove_file(&path) }
                .unwrap();
            gets
        }

        /// What a process knows that locks the branch.
        fn locks_head(&self, pid: u32) -> IndexView {
            let path = self.folder.path().join("HEAD.lock");
            let file = File::open(self.folder.path()).unwrap();
            let identity = identity_of(self.folder.path()).unwrap();
            self.outdated.knowledge(&GitLock { pid, path: &path, identity, file: file.as_fd() })
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
    fn what_others_write_between_two_writes_of_the_tree_is_seen() {
        let repository = Repository::new();
        repository.begins(1, "git commit -m x");
        repository.write();
        repository.begins(2, "git add x");
        assert!(repository.locks(2) && !repository.locks(1));
    }

    #[test]
    fn a_git_that_has_locked_it_many_times_still_knows_it() {
        let repository = Repository::new();
        repository.begins(1, "git rebase main");
        assert!((0..2 * MOST).all(|_| repository.locks(1)));
        repository.write();
        assert!(!repository.locks(1));
    }

    #[test]
    fn what_is_staged_after_the_hook_has_judged_is_not_committed() {
        let repository = Repository::new();
        // The judge is this very process, called by its parent.
        let git = Process::find(std::process::id()).unwrap().parent;
        repository.begins(git, "git commit -m x");
        repository.write();
        assert_eq!(repository.locks_head(git), IndexView::Current, "no hook has judged anything");
        repository.outdated.judges(std::process::id());
        repository.begins(2, "git add x");
        assert!(repository.locks(2));
        assert_eq!(
            repository.locks_head(git),
            IndexView::Current,
            "the tree itself has changed it, as hooks do"
        );
        repository.outdated.judges(std::process::id());
        repository.write();
        let tries = [IndexView::Behind, IndexView::StillBehind, IndexView::StillBehind];
        assert_eq!(tries.map(|_| repository.locks_head(git)), tries);
        repository.begins(git, "git commit -m x");
        assert_eq!(repository.locks_head(git), IndexView::Current);
    }

    #[test]
    fn what_is_remembered_about_the_dead_is_forgotten() {
        let repository = Repository::new();
        let none = u32::MAX - 1_000;
        (0..10 * MOST as u32).for_each(|number| repository.begins(none + number % 1_000, "git commit"));
        assert!(repository.outdated.known().programs.len() <= MOST);
        repository.begins(std::process::id(), "git commit");
        repository.begins(none, "git commit");
        repository.outdated.forget_dead();
        assert!(repository.outdated.known().programs.keys().eq([&std::process::id()]));
    }
}
