//! What is remembered of folders for a moment: which one a thread is in, those that files come and go in, and those that
//! are new.
//!
//! What was seen is still so if in that time no folder moved or was taken away and, where names start at a thread's folder,
//! nobody went elsewhere. All that is known before it happens, so after it takes as long until what is seen is believed to
//! last. What has a name of its own is only concerned by what happens to that name and those above it: builds take
//! many folders away.
//!
//! A folder that the tree has just made holds no links, as long as the tree makes none there. Somebody outside could, but
//! would have to know it already. Whoever opens such a link for writing within that time is refused by Landlock.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::callers::Callers;
use super::resolve;

/// How long what was seen is believed.
const SETTLED: Duration = Duration::from_millis(20);
/// How long nobody else knows a folder that was just made.
const NEW: Duration = Duration::from_secs(2);
/// Threads, and folders that are new or about to change, are not told apart when there are more.
const MOST: usize = 64;
/// How many folders are kept open. To look through them takes less than to open one.
const OPEN: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<Remembered>);

/// An exempt folder: the kernel runs calls in it by itself.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) folder: Arc<OwnedFd>,
    /// It is new, and has no links in it.
    pub(crate) is_new: bool,
}

#[derive(Debug, Default)]
struct Remembered {
    current: HashMap<u32, Seen<PathBuf>>,
    /// By their names, the latest first.
    open: VecDeque<Seen<(PathBuf, Arc<OwnedFd>)>>,
    left: Option<Seen<Way>>,
    new: VecDeque<Seen<PathBuf>>,
    went: Option<Instant>,
    /// Folders that are about to move or vanish, the latest last.
    moving: Vec<Seen<PathBuf>>,
}

/// How a thread gave the folder of a name, up to the last slash, and which one that was.
#[derive(Debug)]
struct Way {
    tid: u32,
    given: Vec<u8>,
    leads_to: Left,
}

#[derive(Debug)]
struct Seen<T> {
    what: T,
    since: Instant,
}

impl<T> Seen<T> {
    fn is_believed(&self) -> bool {
        is_recent(self.since)
    }
}

fn is_recent(since: Instant) -> bool {
    since.elapsed() < SETTLED
}

impl Remembered {
    /// No folder is about to move.
    fn is_settled(&self) -> bool {
        !self.moving.last().is_some_and(Seen::is_believed)
    }

    /// Neither this one, nor one that it is in.
    fn stays(&self, folder: &Path) -> bool {
        !self.moving.iter().any(|moving| moving.is_believed() && folder.starts_with(&moving.what))
    }

    fn open(&self, name: &Path) -> Option<&Seen<(PathBuf, Arc<OwnedFd>)>> {
        self.open.iter().find(|seen| seen.is_believed() && seen.what.0.as_os_str() == name.as_os_str())
    }

    /// Nor is a thread about to go elsewhere.
    fn is_quiet(&self) -> bool {
        self.is_settled() && !self.went.is_some_and(is_recent)
    }

    /// When what leads from the thread to this folder was seen, if it was a moment ago.
    fn since(&self, tid: u32, path: &[u8], folder: &Arc<OwnedFd>) -> Option<Instant> {
        let open = self.open.iter().find(|seen| Arc::ptr_eq(&seen.what.1, folder))?.since;
        if path.starts_with(b"/") { Some(open) } else { Some(self.current.get(&tid)?.since.min(open)) }
    }

    fn is_new(&self, name: &Path) -> bool {
        self.new.iter().any(|folder| folder.since.elapsed() < NEW && folder.what == name)
    }
}

/// Up to the last slash; empty for a name in the current folder.
fn folder_part(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)]
}

impl Folders {
    /// What the thread's current folder, or its descriptor `dirfd`, is called.
    pub(crate) fn name(&self, callers: &Callers, tid: u32, dirfd: i32) -> Option<PathBuf> {
        if dirfd != libc::AT_FDCWD {
            return callers.descriptor(tid, dirfd);
        }
        if let Some(seen) = self.remembered().current.get(&tid).filter(|seen| seen.is_believed()) {
            return Some(seen.what.clone());
        }
        let since = Instant::now();
        let what = callers.current_folder(tid)?;
        let mut remembered = self.remembered();
        if remembered.is_quiet() {
            if remembered.current.len() >= MOST {
                remembered.current.clear();
            }
            remembered.current.insert(tid, Seen { what: what.clone(), since });
        }
        Some(what)
    }

    /// The folder with this canonical name. Mostly it is one of those that were asked for last.
    pub(crate) fn open(&self, name: &Path) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(known) = self.remembered().open(name) {
            return Ok(Arc::clone(&known.what.1));
        }
        let since = Instant::now();
        let fd = Arc::new(resolve::open_folder(name)?);
        let mut remembered = self.remembered();
        if remembered.stays(name) {
            remembered.open.retain(|seen| seen.what.0.as_os_str() != name.as_os_str());
            remembered.open.truncate(OPEN - 1);
            remembered.open.push_front(Seen { what: (name.to_owned(), Arc::clone(&fd)), since });
        }
        Ok(fd)
    }

    /// The folder of this path, if the thread gave it in the same way a moment ago and it was [left](Self::leave) to the kernel.
    pub(crate) fn left(&self, tid: u32, path: &[u8]) -> Option<Left> {
        let remembered = self.remembered();
        let way = &remembered.left.as_ref().filter(|seen| seen.is_believed())?.what;
        (way.tid == tid && way.given == folder_part(path)).then(|| way.leads_to.clone())
    }

    /// The kernel runs calls in this folder, whose canonical name is `name` and which the thread gave as that of `path`.
    pub(crate) fn leave(&self, tid: u32, path: &[u8], name: &Path, folder: &Arc<OwnedFd>) -> Left {
        let mut remembered = self.remembered();
        let is_new = remembered.is_new(name);
        let leads_to = Left { folder: Arc::clone(folder), is_new };
        // To be believed no longer than what it was seen by.
        if let Some(since) = remembered.since(tid, path, folder).filter(|_| remembered.is_quiet()) {
            let what = Way { tid, given: folder_part(path).to_vec(), leads_to: leads_to.clone() };
            remembered.left = Some(Seen { what, since });
        }
        leads_to
    }

    /// A folder is about to be made where there is nothing.
    pub(crate) fn make(&self, name: &Path) {
        let mut remembered = self.remembered();
        if remembered.is_settled() {
            remembered.new.truncate(MOST - 1);
            remembered.new.push_front(Seen { what: name.to_owned(), since: Instant::now() });
        }
    }

    /// A link is about to get a name somewhere.
    pub(crate) fn link(&self) {
        let mut remembered = self.remembered();
        remembered.new.clear();
        remembered.left = None;
    }

    /// A thread is about to go to another folder.
    pub(crate) fn go(&self) {
        let mut remembered = self.remembered();
        remembered.current.clear();
        remembered.left = None;
        remembered.went = Some(Instant::now());
    }

    /// A folder is about to move or vanish, or another one to take its canonical `name`.
    pub(crate) fn change(&self, name: &Path) {
        let mut remembered = self.remembered();
        let Remembered { mut open, mut moving, went, .. } = std::mem::take(&mut *remembered);
        moving.retain(Seen::is_believed);
        let mut what = name;
        if moving.len() >= MOST {
            moving.clear();
            what = Path::new("/");
        }
        open.retain(|seen| !seen.what.0.starts_with(what));
        moving.push(Seen { what: what.to_owned(), since: Instant::now() });
        *remembered = Remembered { open, moving, went, ..Remembered::default() };
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use rustix::fs::AtFlags;
    use tempfile::TempDir;

    use super::*;

    /// A process in a folder that can be moved, and what is known of it.
    struct Caller {
        folders: Folders,
        callers: Callers,
        process: Child,
        world: TempDir,
    }

    impl Caller {
        fn new() -> Self {
            let world = tempfile::tempdir().unwrap();
            fs::create_dir(world.path().join("one")).unwrap();
            let mut cat = Command::new("cat");
            let process = cat.current_dir(world.path().join("one")).stdin(Stdio::piped()).spawn().unwrap();
            Self { folders: Folders::default(), callers: Callers::default(), process, world }
        }

        fn moves_to(&self, name: &str) {
            fs::rename(self.world.path().join("one"), self.world.path().join(name)).unwrap();
        }

        fn name(&self) -> Option<PathBuf> {
            self.folders.name(&self.callers, self.process.id(), libc::AT_FDCWD)
        }

        fn is_in(&self, name: &str) -> bool {
            self.name().unwrap() == self.world.path().canonicalize().unwrap().join(name)
        }
    }

    impl Drop for Caller {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    /// A machine that is busy with something else may come too late for what is tried: none then.
    fn is_ever_right(is_right: impl Fn() -> Option<bool>) -> bool {
        (0..100).find_map(|_| is_right()).expect("a machine with a moment to spare")
    }

    #[test]
    fn a_folder_is_looked_at_again_after_a_moment() {
        let caller = Caller::new();
        assert!(caller.is_in("one"));
        caller.moves_to("two");
        thread::sleep(2 * SETTLED);
        assert!(caller.is_in("two"));
    }

    #[test]
    fn nothing_is_remembered_across_a_change() {
        assert!(is_ever_right(|| {
            let caller = Caller::new();
            assert!(caller.is_in("one"));
            let begin = Instant::now();
            caller.folders.change(&caller.world.path().join("one"));
            // Seen before the change takes effect.
            assert!(caller.is_in("one"));
            let is_early = begin.elapsed() < SETTLED;
            caller.moves_to("two");
            is_early.then(|| caller.is_in("two"))
        }));
    }

    #[test]
    fn nobody_is_taken_for_the_dead() {
        let mut caller = Caller::new();
        assert!(caller.is_in("one"));
        caller.folders.change(Path::new("/"));
        drop(caller.process.stdin.take());
        caller.process.wait().unwrap();
        assert_eq!(caller.name(), None);
    }

    #[test]
    fn a_folder_stays_open_until_it_changes() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().canonicalize().unwrap().join("folder");
        let is_there = |folders: &Folders, name: &str| {
            let fd = folders.open(&folder).unwrap();
            rustix::fs::statat(&*fd, name, AtFlags::empty()).is_ok()
        };
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            fs::create_dir(&folder).unwrap();
            let begin = Instant::now();
            let first = folders.open(&folder).unwrap();
            let is_same = Arc::ptr_eq(&first, &folders.open(&folder).unwrap());
            let is_early = begin.elapsed() < SETTLED;
            folders.change(&folder);
            // Still open for a call that is under way when it is replaced.
            let _old = folders.open(&folder).unwrap();
            fs::remove_dir(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("new"), "").unwrap();
            let is_new = is_there(&folders, "new");
            fs::remove_dir_all(&folder).unwrap();
            is_early.then_some(is_same && is_new)
        }));
    }

    #[test]
    fn a_change_concerns_what_is_there_and_below() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        let folder = |name: &str| root.join(name);
        fs::create_dir_all(folder("gone/below")).unwrap();
        fs::create_dir_all(folder("gone-not")).unwrap();
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            let begin = Instant::now();
            let open = |name: &str| folders.open(&folder(name)).unwrap();
            let is_kept = |name: &str| Arc::ptr_eq(&open(name), &open(name));
            let stays = open("gone-not");
            let all = ["", "gone", "gone/below", "gone-not"];
            let are_kept = all.map(is_kept) == [true; 4];
            folders.change(&folder("gone"));
            // Seen before the change takes effect.
            let are_concerned = all.map(is_kept) == [true, false, false, true];
            let is_same = Arc::ptr_eq(&stays, &open("gone-not"));
            (begin.elapsed() < SETTLED).then_some(are_kept && are_concerned && is_same)
        }));
    }

    #[test]
    fn of_too_many_changes_each_may_concern_everything() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            let begin = Instant::now();
            let is_kept = || Arc::ptr_eq(&folders.open(&root).unwrap(), &folders.open(&root).unwrap());
            let change = || folders.change(Path::new("/another"));
            (0..MOST).for_each(|_| change());
            let is_kept_at_first = is_kept();
            (0..MOST / 2).for_each(|_| change());
            let is_kept_at_last = is_kept();
            let is_bounded = folders.remembered().moving.len() <= MOST;
            (begin.elapsed() < SETTLED).then_some(is_kept_at_first && !is_kept_at_last && is_bounded)
        }));
    }

    #[test]
    fn few_folders_are_kept_open() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        let folders = Folders::default();
        for n in 0..2 * OPEN {
            fs::create_dir(root.join(n.to_string())).unwrap();
            folders.open(&root.join(n.to_string())).unwrap();
        }
        assert_eq!(folders.remembered().open.len(), OPEN);
    }

    #[test]
    fn the_way_to_a_folder_is_known_to_who_took_it_until_something_changes() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().canonicalize().unwrap();
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            let begin = Instant::now();
            let fd = folders.open(&folder).unwrap();
            let leave = || folders.leave(1, b"/sub/one", &folder, &fd);
            let knows = |tid, path: &[u8]| folders.left(tid, path).is_some();
            leave();
            let is_known =
                [knows(1, b"/sub/two"), !knows(2, b"/sub/two"), !knows(1, b"/two"), !knows(1, b"/su/two")];
            let changes: [&dyn Fn(); 3] = [&|| folders.link(), &|| folders.go(), &|| folders.change(&folder)];
            let is_forgotten = changes.map(|change| {
                leave();
                change();
                !knows(1, b"/sub/two")
            });
            // Seen before the change takes effect.
            leave();
            let is_believed = knows(1, b"/sub/two");
            let is_early = begin.elapsed() < SETTLED;
            is_early.then(|| is_known == [true; 4] && is_forgotten == [true; 3] && !is_believed)
        }));
    }

    #[test]
    fn the_way_to_a_folder_is_believed_no_longer_than_what_it_was_seen_by() {
        assert!(is_ever_right(|| {
            let caller = Caller::new();
            let (folders, tid) = (&caller.folders, caller.process.id());
            let folder = caller.name().unwrap();
            let seen = Instant::now();
            thread::sleep(SETTLED / 2);
            let left = Instant::now();
            folders.leave(tid, b"file", &folder, &folders.open(&folder).unwrap());
            let is_known = folders.left(tid, b"file").is_some();
            let is_early = seen.elapsed() < SETTLED;
            thread::sleep(SETTLED.saturating_sub(seen.elapsed()));
            let is_forgotten = folders.left(tid, b"file").is_none();
            (is_early && left.elapsed() < SETTLED).then_some(is_known && is_forgotten)
        }));
    }

    #[test]
    fn a_folder_is_new_until_a_link_comes_or_a_folder_moves() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().canonicalize().unwrap();
        let folders = Folders::default();
        let fd = folders.open(&folder).unwrap();
        let is_new = || folders.leave(1, b"one", &folder, &fd).is_new;
        assert!(!is_new());
        folders.make(&folder);
        assert!(is_new());
        folders.link();
        assert!(!is_new());
        folders.make(&folder);
        folders.change(&folder);
        assert!(!is_new());
        assert!(is_ever_right(|| {
            let folders = Folders::default();
            let begin = Instant::now();
            folders.change(&folder);
            // Another folder may be about to get that name.
            folders.make(&folder);
            let is_believed = folders.leave(1, b"one", &folder, &fd).is_new;
            (begin.elapsed() < SETTLED).then_some(!is_believed)
        }));
        for _ in 0..MOST {
            folders.make(Path::new("/another"));
        }
        assert!(folders.remembered().new.len() <= MOST);
    }
}
