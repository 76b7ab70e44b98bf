//! What the sandbox asks and what it is told.

use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::Held;

/// What a tree of processes is kept in.
#[derive(Debug, Clone)]
pub struct Jail {
    /// The checkout, canonical: changes to its files are judged.
    pub root: PathBuf,
    /// Git's common folder, canonical. It needs no lock, wherever it is.
    pub git_dir: PathBuf,
    /// Never writable from inside, whatever the guard says: git's hooks and configuration, mala's own folder.
    /// Absolute; a name that does not exist cannot be created either.
    pub protected: Vec<PathBuf>,
    /// Other folders, canonical, that Landlock closes as well: what the [guard](Guard::judge_place) lets through there, the broker
    /// performs.
    pub closed: Vec<PathBuf>,
    /// Folders of the tree, canonical, that are [exempt](Guard::is_exempt), and of git's folder: the kernel runs calls in them
    /// by itself, which is faster. Those that do not exist, or hold something protected, are left to the broker.
    pub exempt: Vec<PathBuf>,
    /// A folder on the tree's file system, out of the program's reach, in which folders can be made in advance for exempt
    /// ones that are made later. Without it, those are left to the broker.
    pub spares: Option<PathBuf>,
}

/// Decides about changes to files of the tree.
///
/// Called from several threads at once. While it thinks, only the process that asked is waiting.
pub trait Guard: Send + Sync {
    /// May this change happen? The sandbox performs it right after `Allow`, so an answer must hold from then on.
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling;

    /// The call that this thread was last allowed is over: it was performed, or else it failed. Until then, what it was
    /// judged by has to stay so.
    fn is_over(&self, _pid: u32, _is_performed: bool) {}

    /// How often it has allowed something that was not known to be the agent's before. As long as that is the same, names that
    /// are allowed lead to what they led to before it was asked; else they are looked at once more. None if it does not count.
    fn grants(&self) -> Option<u64> {
        None
    }

    /// True for paths of the tree, relative to its root, that need no lock: those that git ignores. A folder is exempt
    /// only if everything below it is: it can then be moved without asking. The answer for a path must stay the same
    /// while the agent runs, or hard links between both kinds could be missed.
    fn is_exempt(&self, path: &Path) -> bool;

    /// True if a folder that is about to be made there would be exempt.
    fn is_exempt_folder(&self, path: &Path) -> bool {
        self.is_exempt(path)
    }

    /// True if this protected path, absolute, may be changed just now after all.
    fn unlocks(&self, _path: &Path) -> bool {
        false
    }

    /// May this name, absolute and canonical, change at all, whatever its lock? Asked for all but git's own files.
    fn judge_place(&self, _pid: u32, _path: &Path) -> Ruling {
        Ruling::Allow
    }

    /// A process of the tree has made this directory in git's, absolute.
    fn makes_git_directory(&self, _path: &Path) {}

    /// Why this protected path, absolute, cannot be changed, as one line for whoever tried. None for the usual words.
    fn explains_protected(&self, _path: &Path) -> Option<String> {
        None
    }

    /// May this program start? For programs whose whole purpose can be told from their arguments. Whatever the answer,
    /// each of its changes is judged, so a caller that swaps the arguments in the last moment has gained nothing.
    fn judge_start(&self, _start: &Start<'_>) -> Ruling {
        Ruling::Allow
    }

    /// A process of the tree makes one of git's lock files. Told before the file has its name, as far as the file system
    /// allows that, so that whoever clears up after a killed git knows whose it was.
    fn makes_git_lock(&self, _lock: &GitLock<'_>) {}

    /// The lock file has its name, so what it locks stays as it is. If this is refused, it is taken away again, and the process is
    /// told that somebody else has the lock.
    fn judge_git_lock(&self, _lock: &GitLock<'_>) -> Ruling {
        Ruling::Allow
    }

    /// One of git's lock files, absolute, is in the way of the process `pid` that wants to make it. True if it was nobody's any
    /// more and is gone now.
    fn clears_git_lock(&self, _pid: u32, _path: &Path) -> bool {
        false
    }

    /// May the process `pid` of the tree give the name `to` in git's folder to what is at `from`? Both are absolute. If so, it has
    /// it next.
    fn replaces_git_file(&self, _pid: u32, _from: &Path, _to: &Path) -> Ruling {
        Ruling::Allow
    }

    /// May this file in git's folder, absolute, change in another way than by being [replaced](Self::replaces_git_file)?
    fn judge_git_file(&self, _pid: u32, _path: &Path, _action: Action) -> Ruling {
        Ruling::Allow
    }

    /// Must this program wait for its turn? Asked when it may start. Dropped without further calls if it does not start,
    /// or if it descends from one that has had its turn and still runs: that one would wait for itself.
    fn hold(&self, _start: &Start<'_>) -> Option<Box<dyn Hold>> {
        None
    }
}

/// A lock file of git, `index.lock` and its like, about to be made.
#[derive(Debug)]
pub struct GitLock<'a> {
    /// The process that makes it.
    pub pid: u32,
    /// Absolute.
    pub path: &'a Path,
    pub identity: FileIdentity,
    /// As long as somebody has it open, no other file gets its identity.
    pub file: BorrowedFd<'a>,
}

/// One file, whatever its name: a number that was used again has another time of birth, unless that was within a few
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    pub device: (u32, u32),
    pub inode: u64,
    /// Seconds and nanoseconds; zero where the file system does not know.
    pub born: (i64, u32),
}

/// A program about to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// The thread that made the call.
    pub pid: u32,
    /// File name of the program, without its folder.
    pub program: &'a OsStr,
    /// What it is told that it is called: the first of its arguments.
    pub called: &'a OsStr,
    args: LazyTexts<'a>,
    env: LazyTexts<'a>,
}

type LazyTexts<'a> = LazyCell<Vec<OsString>, Box<dyn FnOnce() -> Vec<OsString> + 'a>>;

impl<'a> Start<'a> {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn new(
        pid: u32,
        program: &'a OsStr,
        called: &'a OsStr,
        args: impl FnOnce() -> Vec<OsString> + 'a,
        env: impl FnOnce() -> Vec<OsString> + 'a,
    ) -> Self {
        let (args, env) = (LazyCell::new(Box::new(args) as Box<_>), LazyCell::new(Box::new(env) as Box<_>));
        Self { pid, program, called, args, env }
    }

    /// Its arguments, the first of which is its own name; very long lists are cut off. Only read when somebody asks:
    /// linkers have hundreds.
    pub fn args(&self) -> &[OsString] {
        &self.args
    }

    /// A variable of the environment that it starts with. None too if the environment cannot be read, or is very long. Only read when
    /// somebody asks.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let mut texts = self.env.iter().map(|text| text.as_bytes());
        texts.find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).map(OsStr::from_bytes)
    }
}

/// One attempted change.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The thread that made the call.
    pub pid: u32,
    pub action: Action,
    /// The names it touches: canonical, relative to the root, exempt ones left out. A rename has both of its names, a
    /// file with several hard links has all that are in the tree.
    pub paths: &'a [&'a Path],
    pub kind: EntryKind,
}

/// What an attempt is about. Of two that change places, what reaches furthest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Anything that leads nowhere else and has nothing below it.
    File,
    Symlink,
    /// With everything below it, if it is moved or changed. A new one needs no lock: nobody else must have its name.
    Directory,
}

impl Attempt<'_> {
    /// The program's short name, as `ps` shows it. Read when asked for: most attempts are allowed and need none.
    pub fn program(&self) -> OsString {
        let comm = std::fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        OsString::from(String::from_utf8_lossy(comm.trim_ascii_end()).into_owned())
    }
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Opening an existing file for writing, or truncating it.
    Write,
    /// A new name: a file, a symbolic link, a pipe.
    Create,
    Delete,
    Rename,
    /// Two names change places.
    Exchange,
    /// A second name for a file.
    Link,
    /// Permission bits.
    Chmod,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    Allow,
    /// The call goes on, and `message` is written as one line to the process's standard error.
    AllowAndTell {
        message: String,
    },
    /// The call fails with EACCES, and `message`, if there is one, is written as one line to the process's standard
    /// error.
    Refuse {
        message: String,
    },
}

/// What this kernel offers. Everything that the guarantee needs is there; these only make it better.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Support {
    /// Version of Landlock's interface.
    pub landlock: i32,
    /// Signals and abstract sockets to processes outside the tree are held back too.
    pub scopes: bool,
    /// Running as root: the sandbox still holds, but root has ways to change files without naming them.
    pub is_root: bool,
}

/// Why nothing can be enforced here, in words for a person.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Unsupported {
    #[error("the kernel tier needs Linux")]
    NotLinux,
    #[error("the kernel tier knows x86_64 and aarch64 only")]
    Architecture,
    #[error("this process is already inside a sandbox of mala: its rules are enforced there")]
    AlreadyInside,
    #[error("the kernel has no seccomp notifications that survive signals (Linux 5.19 has)")]
    NoNotifications,
    #[error("the kernel has no Landlock, or it is turned off (`lsm=` on the kernel's command line)")]
    NoLandlock,
    #[error("the kernel's Landlock cannot handle renames between folders (Linux 5.19 can)")]
    OldLandlock,
    #[error("the kernel does not list a process's children in /proc (CONFIG_PROC_CHILDREN)")]
    NoChildren,
    /// For whoever knows the tree: the sandbox tells names apart by their bytes.
    #[error("names that differ only in case are one file here, and the kernel tier would take them for two")]
    FoldedNames,
    #[error("cannot start a thread to try the kernel: {0}")]
    Untested(String),
}

/// A process that can write to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub pid: u32,
    /// The program's short name, as `ps` shows it.
    pub program: String,
}

/// How a process ended: the first of a tree, or one that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Exit {
    pub fn success(self) -> bool {
        self.code == Some(0)
    }
}

#[derive(Debug, Error)]
pub enum SandboxError {
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    #[error("cannot prepare the sandbox: {what}")]
    Prepare {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{} a file in the checkout", stream_words(*.stream))]
    StreamInTree { stream: u8 },
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    #[error("the process that keeps the tree was killed; what was left of the tree cannot write")]
    KeeperLost,
    #[error("cannot wait for the program")]
    Wait(#[source] io::Error),
}

impl SandboxError {
    /// True if the program had its chance: it was not mala that kept it from running.
    pub fn is_after_start(&self) -> bool {
        matches!(self, Self::KeeperLost | Self::Wait(_))
    }
}

fn stream_words(stream: u8) -> &'static str {
    match stream {
        0 => "standard input is open for writing and comes from",
        1 => "standard output goes to",
        _ => "standard error goes to",
    }
}

/// A program that waits for its turn just after it was loaded, before it has run any code of its own.
///
/// A [`Guard`](crate::Guard) makes one when a program is about to start. If the start fails, as when a shell tries the
/// folders of `PATH` one after the other, it is dropped unused. Otherwise `wait` is called once, and `ended` once after it.
///
/// While it waits, the program can be killed as usual, and whoever started it goes on: only the program itself is held.
/// Signals that merely stop it, and SIGQUIT, have their effect when the wait is over.
pub trait Hold: Send {
    /// Returns when the program may go on, or must not run at all. Refused, its standard error is told why, and
    /// it ends by SIGTERM, or by SIGKILL if it was started with SIGTERM ignored.
    ///
    /// Called on a thread of its own: it may block as long as it likes. It must return soon after
    /// [`Held::process`] becomes readable: the program died while it waited, and what is returned then does not matter.
    /// If it panics, the program is refused and `ended` is not called.
    fn wait(&mut self, held: &Held) -> Ruling;

    /// The program has ended, whatever `wait` said. None if the kernel could not tell how.
    fn ended(self: Box<Self>, exit: Option<Exit>);
}

/// What becomes of processes that a program leaves running when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// They go on, as in a shell.
    Stay,
    /// They are killed before anybody learns that the program has ended.
    End,
}
