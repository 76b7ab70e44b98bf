//! The kernel tier of mala: while an agent runs, no process of its tree changes a file that another agent holds.
//!
//! [`run`] starts a program and stays until its whole tree of processes is gone. Every attempt to change a file of the
//! checkout, by whichever program and however named, is put to a [`Guard`]. The guard allows it, or the call fails with
//! `EACCES` and the program's standard error says why. Reads cost nothing. No privileges are needed.
//!
//! # Theory of operation
//!
//! ```text
//! supervisor (this process: broker threads, unrestricted)
//!   └─ keeper (subreaper: collects orphans, ends the tree)
//!        └─ program ─ its children ...   under Landlock + seccomp, no new privileges
//! ```
//!
//! Two rules are put on the program between `fork` and `exec`, and everything it starts inherits them:
//!
//! 1. **Landlock** allows writing everywhere except in the tree. It is static: it needs nobody to enforce it, so
//!    when the supervisor dies the tree stays closed.
//! 2. **A seccomp filter** sends every call that could change a file by name to the broker, and refuses the few that
//!    would get around it (`io_uring`, namespaces, mounts, file handles, 32-bit calls, calls newer than its table).
//!
//! The broker reads the call's path from the caller's memory, once, and resolves it the way the caller's own call would:
//! its current folder, its descriptors, its `/proc/self`. The result is a descriptor of the folder and of the
//! file, and one canonical name. By that name the call takes one of these ways:
//!
//! | where | who decides | who performs |
//! | --- | --- | --- |
//! | a file of the checkout | [`Guard::judge`] | the broker |
//! | exempt files ([`Guard::is_exempt`]), git's folder | nobody | the broker |
//! | in exempt folders that Landlock allows ([`Jail::exempt`], [`Jail::spares`]) | nobody | the kernel |
//! | [`Jail::protected`] | always refused | |
//! | folders above the checkout, and what is new in them | nobody | the broker |
//! | everywhere else | nobody | the kernel |
//!
//! *The broker performs* is the point: it acts on the descriptors it has judged and hands the opened file to the caller.
//! If it merely let the call continue, another thread could swap the path, the folder or a link between the check and the
//! use. Where the kernel performs, that race exists, but whoever wins it meets Landlock. Landlock is not asked about
//! truncation, which would make it look at every read: what truncates a file without opening it for writing is
//! performed by the broker everywhere, and so is `openat2`, whose flags the kernel would read again. The exception is /proc:
//! what it shows of other processes depends on who opens it, so nobody but the kernel does that.
//!
//! Landlock's rules are about folders, not about their names, and cannot be added to. So a folder that it allows must stay
//! in its place, or the permission would come along, and folders for exempt names that do not exist yet are made
//! beforehand and moved into place. What is in an allowed folder can be written by whoever wins a race, so nothing that needs
//! a lock may come to have a name there.
//!
//! Every call that the broker answers costs two changes of the running process, and the kernel wakes every thread that
//! waits for calls. So one thread waits and answers, on the core of its caller, and others wait in line for the case that an
//! answer takes long. Opens that wait for the other end of a pipe, maybe for ever, are tried again and again by one more
//! thread. What it needs to know about a caller (its directory, its creation mask, its rights) is kept, and the calls that
//! change these are sent to the broker too, which lets the kernel run them. It opens files for all processes of the tree, so
//! its own process may have as many open as it can be allowed; the program gets the limit of before.
//!
//! The guard judges names, and between the look at a name and the answer others may have moved the file. So names are
//! looked at once more when the answer has made them the agent's ([`Guard::grants`]), and the guard hears when the call is
//! over ([`Guard::is_over`]).
//!
//! What a program does with a descriptor is not looked at: `write`, `mmap` and `ftruncate` need one that was opened for
//! writing, and that open was judged. Inherited descriptors are closed, and standard streams into the tree refused.
//!
//! One file can have several names. Symbolic links, `..` and `/proc` disappear in the canonical name. Hard links are
//! looked up when a file with several is about to change, and the guard is asked about all names in the tree. A file that needs
//! a lock and has a name elsewhere could be reached there in a race, so as long as it is not known that there is none, the
//! broker performs what the kernel would.
//! Second mounts of the tree are mapped back to it. Files that need a lock, exempt ones, those in folders that Landlock allows,
//! git's and those outside are like five file systems. No file has names in two of them: links between them answer
//! `EXDEV`, and so do renames, unless it is a file with one name that moves within the tree, and not out of an allowed folder.
//! Programs then copy.
//!
//! The broker's own descriptor of a file that it hands over is open a little longer than the caller needs to go on, and a file
//! that is open for writing cannot be run. So programs start after what was handed over before is closed.
//!
//! Whatever the broker opens it closes as well, and with that ends the locks that its process has on the file in the old way of
//! `fcntl`. SQLite locks its files in that way unless it is told otherwise ([`keep_sqlite_locks`]).
//!
//! # Turns
//!
//! A guard can make a program wait for its turn ([`Guard::hold`]). The program is recognized when it is about to
//! start, but held when it has been loaded, at its first steps: by then whoever started it has its answer, so neither a
//! parent in `vfork` nor an event loop nor a time limit is held up. While it waits it can be killed as usual. [`Hold`] learns
//! how it ended, signals included, and can have its output copied into a log ([`Held::capture`]).
//!
//! A program that has had its turn, and all that descends from it, never waits again while it lives, or nested commands
//! would wait for each other. Descent is told by a mark that processes inherit, a limit that the kernel keeps
//! but does not enforce, so it also holds for daemons whose parents are gone.
//!
//! Turns are for honest programs. One that renames itself, or that swaps its arguments while it starts, does not wait; what it
//! changes is judged all the same.
//!
//! # Who still writes
//!
//! A descriptor outlives the lock it was opened under. [`has_writers`] asks the kernel whether anybody can still write to a
//! file, [`writers`] finds out who.
//!
//! # Git's lock files
//!
//! Git keeps others out of a file `X` by making `X.lock`, and a git that is killed leaves it behind. Names in git's folder are
//! made by the broker, so it can tell the [`Guard`] which process made which lock file. When another process finds one in
//! its way, the guard is asked whether it belongs to anybody.
//!
//! # Life and death
//!
//! The keeper inherits every orphan of the tree, so a daemon that forks twice and starts its own session is still its
//! child. When the first process ends, the keeper kills until it has no children, and only then [`run`] returns. When
//! the supervisor dies, however suddenly, the keeper notices by its closed socket and does the same. When the keeper
//! itself is killed from outside, the first process dies with it and the rest cannot write to the tree any more.
//!
//! [`tie`] gives a keeper to a program that nothing is enforced on, and [`confine`] limits what a program may write to a few
//! directories, without a supervisor.
//!
//! # What it does not do
//!
//! - It cannot reach deputies: a container daemon, a terminal multiplexer or a service that was running before and does
//!   work for whoever asks. Descriptors that such a process hands in are not judged either.
//! - Owner, times and extended attributes other than access lists are not judged: they are neither content nor kept by git.
//! - A hard link outside the tree, or in an allowed folder, to a file inside, that somebody outside makes while the program
//!   runs, can be written in a race, if the program knows it and swaps names at the right moment.
//! - As root it holds, but root has ways to change files without naming them: run agents as an ordinary user.
//! - The last lines of a program whose output is copied into a log may be overtaken by what its parent prints itself
//!   right after its end. On kernels that tell no exit status through a handle (Linux 6.15 does), the status of a
//!   program that is collected at once can be missing.
//! - A call that a signal interrupts before the broker has received it fails with `EINTR` in programs that asked for
//!   that. It has not run, and running it again is right.
//! - `sudo` and other programs with the set-user-id bit gain nothing inside, and programs that sandbox themselves with
//!   namespaces or Landlock are told that there is no such thing.

mod guard;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod other;

pub use guard::{
    Action, Attempt, EntryKind, Exit, FileIdentity, GitLock, Guard, Hold, Jail, Orphans, Ruling,
    SandboxError, Start, Support, Unsupported, Writer,
};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use linux::{
    Capture, Held, Leash, confine, expect_children, has_writers, identity_of, identity_of_open,
    keep_sqlite_locks, left_spares, probe, remove_name, run, run_unprotected, sweep_spares, take_signals,
    tie, writers,
};
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use other::{
    Capture, Held, Leash, confine, expect_children, has_writers, identity_of, identity_of_open,
    keep_sqlite_locks, left_spares, probe, remove_name, run, run_unprotected, sweep_spares, take_signals,
    tie, writers,
};
