//! Git's lock files that processes of agents have made, and which of them are nobody's any more.
//!
//! While `X.lock` exists, no git touches `X`. A git that is killed leaves it behind, and everybody else's commits fail. A lock
//! file is removed only if all of this is certain:
//!
//! - A process of an agent's tree made it. The supervisor makes these files on behalf of the tree, and writes down the
//!   maker and the file's identity (device, inode, birth) before the file has its name. Locks of a person's git, or of
//!   anything else outside of agents' trees, are in no record, so they are never touched.
//! - The very same file is still there. One that was made since has another identity, also under a number used again: it is born
//!   later, because the supervisor has the first one open for a moment longer than such times differ by.
//! - Its maker is dead. Git's locks belong to the process that made them: it alone renames or removes them.
//! - Nobody else removes locks at the same moment: those who do take turns, so none removes a file made after its look.
//!
//! Records are one file per supervisor, for the case that it is killed itself. Agents cannot write there.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::ports::Liveness;
use mala_core::{Life, Owner, Scope};
use mala_git::RepoPath;
use mala_sandbox::{FileIdentity, GitLock, identity_of, remove_name};
use mala_store::process::{self, Process, ProcessTable};
use serde::{Deserialize, Serialize};

/// A file of records that grows beyond this is begun anew as soon as nothing in it counts any more.
const LONG: u64 = 64 << 10;

/// Files are born in steps of some milliseconds.
const SAME_MOMENT: Duration = Duration::from_millis(100);
/// To make so many takes longer than such a step, too. Git locks thousands of branches at once, and descriptors are few.
const MOST_OPEN: usize = 128;
/// So many lock files are remembered before those that are gone are forgotten.
const MANY: usize = 64;

/// How long to wait for a turn, which takes no longer than to look at a few files.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What one supervisor knows about its tree's lock files.
#[derive(Debug)]
pub struct GitLocks {
    folder: PathBuf,
    path: PathBuf,
    made: Mutex<Made>,
}

#[derive(Debug)]
struct Made {
    file: File,
    /// Those that may still be there.
    locks: Vec<MadeLock>,
    /// With so many, those that are gone are forgotten. To look for them each time would take longer and longer.
    full: usize,
    /// The last of them, kept open: a file that got the same number in the same moment would be taken for one of these.
    open: VecDeque<(Instant, OwnedFd)>,
}

impl Made {
    fn new(file: File) -> Self {
        Self { file, locks: Vec::new(), full: MANY, open: VecDeque::new() }
    }

    fn add(&mut self, record: Record, file: Option<OwnedFd>) {
        if self.locks.len() >= self.full {
            self.forget_gone();
        }
        let at = Instant::now();
        self.locks.push(MadeLock { record, at });
        self.open.extend(file.map(|file| (at, file)));
        self.close_old();
    }

    fn forget_gone(&mut self) {
        self.locks.retain(MadeLock::is_of_interest);
        self.full = MANY.max(2 * self.locks.len());
    }

    fn close_old(&mut self) {
        let is_old = |(at, _): &(Instant, OwnedFd)| at.elapsed() >= SAME_MOMENT;
        while self.open.len() > MOST_OPEN || self.open.front().is_some_and(is_old) {
            self.open.pop_front();
        }
    }
}

#[derive(Debug)]
struct MadeLock {
    record: Record,
    at: Instant,
}

impl MadeLock {
    fn is_of_interest(&self) -> bool {
        self.at.elapsed() < SAME_MOMENT || self.record.is_there()
    }
}

/// One lock file, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    path: RepoPath,
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
    host: String,
    boot_id: String,
    pid: u32,
    start_time: u64,
    #[serde(default)]
    node: Option<String>,
}

impl Record {
    fn of(lock: &GitLock<'_>, maker: Owner) -> Self {
        let FileIdentity { device, inode, born } = lock.identity;
        let Owner { host, boot_id, pid, start_time, node } = maker;
        let path = RepoPath::from_bytes(lock.path.as_os_str().as_encoded_bytes());
        Self { path, device, inode, born, host, boot_id, pid, start_time, node }
    }

    fn identity(&self) -> FileIdentity {
        let Self { device, inode, born, .. } = *self;
        FileIdentity { device, inode, born }
    }

    /// Where files have no time of birth, nobody can tell.
    fn is_there(&self) -> bool {
        self.born != (0, 0) && identity_of(self.path.as_path()) == Some(self.identity())
    }

    fn is_left(&self) -> bool {
        self.is_there() && self.is_nobodys()
    }

    fn is_nobodys(&self) -> bool {
        let Self { host, boot_id, pid, start_time, node, .. } = self.clone();
        ProcessTable.of(&Owner { host, boot_id, pid, start_time, node }) == Life::Dead
    }
}

impl GitLocks {
    /// Begins the records of this process.
    pub fn open(scope: &Scope) -> io::Result<Self> {
        let folder = folder(scope);
        fs::create_dir_all(&folder)?;
        let path = folder.join(file_name(&process::current()));
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(Self { folder, path, made: Mutex::new(Made::new(file)) })
    }

    /// Writes down who makes this lock file.
    pub fn note(&self, lock: &GitLock<'_>) {
        let Some(maker) = Process::find(lock.pid) else { return };
        let record = Record::of(lock, maker.owner());
        let Ok(mut line) = serde_json::to_vec(&record) else { return };
        line.push(b'\n');
        let mut made = self.made();
        // Without a record the lock is merely never removed by mala, as if there were none.
        let _ = made.file.write_all(&line);
        made.add(record, lock.file.try_clone_to_owned().ok());
    }

    /// Removes what killed processes of this tree have left.
    pub fn clear(&self) {
        let mut made = self.made();
        made.forget_gone();
        made.close_old();
        if made.locks.is_empty() {
            if made.file.metadata().is_ok_and(|file| file.len() > LONG) {
                let _ = made.file.set_len(0);
            }
            return;
        }
        if made.locks.iter().any(|lock| lock.record.is_nobodys())
            && let Ok(_turn) = turn(&self.folder)
        {
            made.locks.retain(|lock| !remove(&lock.record));
        }
    }

    /// Removes what the tree, which is dead by now, has left, and the records unless they are still needed.
    pub fn end(&self) {
        self.clear();
        if !self.made().locks.iter().any(|lock| lock.record.is_there()) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Removes the lock at `path` if it is nobody's, whichever supervisor knows about it.
    pub fn clear_at(&self, path: &Path) -> bool {
        let Ok(_turn) = turn(&self.folder) else { return false };
        let is_it = |record: &Record| record.path.as_path() == path;
        records(&self.folder).iter().flat_map(|(_, found)| found).filter(|record| is_it(record)).any(remove)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GitLocks {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes what trees left whose supervisor was killed, too. Gives the lock files that are gone now.
pub fn sweep(scope: &Scope) -> Vec<PathBuf> {
    let folder = folder(scope);
    let Ok(_turn) = turn(&folder) else { return Vec::new() };
    let mut removed = Vec::new();
    for (file, found) in records(&folder) {
        let is_written = is_of_a_living(&file);
        let (gone, kept): (Vec<Record>, Vec<Record>) = found.into_iter().partition(remove);
        removed.extend(gone.iter().map(|record| record.path.as_path().to_owned()));
        // A maker that dies only now is for the next sweep, so its record has to stay.
        if !is_written && !kept.iter().any(Record::is_there) {
            // Somebody else may have been faster.
            let _ = fs::remove_file(file);
        }
    }
    removed
}

/// The lock files that [`sweep`] would remove.
pub fn left(scope: &Scope) -> Vec<PathBuf> {
    let records = records(&folder(scope)).into_iter().flat_map(|(_, found)| found);
    records.filter(Record::is_left).map(|record| record.path.as_path().to_owned()).collect()
}

/// Removes one lock file, if it is the one that was written down and nobody's. Only in one's turn.
fn remove(record: &Record) -> bool {
    record.is_left() && remove_name(record.path.as_path(), record.identity())
}

fn folder(scope: &Scope) -> PathBuf {
    scope.state_dir().join("git-locks")
}

fn file_name(owner: &Owner) -> String {
    format!("{}-{}.jsonl", owner.pid, owner.start_time)
}

/// True if the supervisor that writes this file is still there.
fn is_of_a_living(file: &Path) -> bool {
    let pid = file.file_name().and_then(|name| name.to_str()?.split('-').next()?.parse().ok());
    let writer = pid.and_then(Process::find);
    writer.is_some_and(|writer| file.ends_with(file_name(&writer.owner())))
}

/// Everything that is written down. A last line that its writer did not come to finish says nothing.
fn records(folder: &Path) -> Vec<(PathBuf, Vec<Record>)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let found = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (path, found)
    };
    files.map(read).collect()
}

/// The turn of those who remove lock files; it ends with the value, or with the process. Whoever can read the file can hold
/// it as long as they like, so a turn that does not come soon is an error: then nothing is removed.
fn turn(folder: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(folder.join("turn"))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < LONGEST_WAIT => thread::sleep(LOOK_AGAIN),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    fn repository() -> (TempDir, GitLocks) {
        let dir = tempfile::tempdir().unwrap();
        assert!(Command::new("git").args(["init", "-q"]).current_dir(&dir).status().unwrap().success());
        let locks = GitLocks::open(&Scope::discover(dir.path()).unwrap()).unwrap();
        (dir, locks)
    }

    /// This process makes a lock file.
    fn make(locks: &GitLocks, path: &Path) -> FileIdentity {
        let file = File::create_new(path).unwrap();
        let identity = identity_of(path).unwrap();
        locks.note(&GitLock { pid: std::process::id(), path, identity, file: file.as_fd() });
        identity
    }

    #[test]
    fn of_many_locks_at_once_few_are_kept_open_and_all_are_known() {
        let (dir, locks) = repository();
        let opened = || {
            let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let links = links.filter_map(|link| fs::read_link(link.path()).ok());
            links.filter(|link| link.starts_with(&dir) && link.to_string_lossy().contains(".lock")).count()
        };
        for number in 0..1_000 {
            make(&locks, &dir.path().join(format!(".git/{number}.lock")));
        }
        assert!(opened() <= MOST_OPEN);
        assert_eq!(locks.made().locks.len(), 1_000);
        assert_eq!(locks.made().full, 1_024, "they were looked through a few times, not each time");
        thread::sleep(SAME_MOMENT);
        locks.clear();
        assert_eq!(opened(), 0);
    }

    #[test]
    fn a_lock_that_is_made_right_after_another_is_not_taken_for_it() {
        let (dir, locks) = repository();
        let path = dir.path().join(".git/index.lock");
        for _ in 0..200 {
            let identity = make(&locks, &path);
            fs::remove_file(&path).unwrap();
            File::create_new(&path).unwrap();
            assert_ne!(identity_of(&path), Some(identity));
            fs::remove_file(&path).unwrap();
        }
    }
}
