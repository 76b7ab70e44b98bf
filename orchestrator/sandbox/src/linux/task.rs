//! The process that made a call, looked at from outside: its memory, its folders, its mask, its standard error.

use std::collections::HashMap;
use std::fs;
use std::io::{IoSlice, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::c_void;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::process::{is_in_tree, raw_pid};

const PAGE: u64 = 4096;

/// A thread that waits for an answer. What is read through its number is only its own while it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) tid: u32,
}

/// User, group and further groups that decide what a thread may do to files.
#[derive(Debug)]
pub(crate) struct Rights {
    pub(crate) user: libc::uid_t,
    pub(crate) group: libc::gid_t,
    pub(crate) groups: Vec<libc::gid_t>,
}

impl Task {
    /// A path from the caller's memory, read once.
    pub(crate) fn read_path(self, address: u64) -> Result<Vec<u8>, Errno> {
        self.read_text(address, libc::PATH_MAX as usize - 1)
    }

    /// A C string of at most so many bytes from the caller's memory, read once.
    pub(crate) fn read_text(self, address: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let mut path = Vec::new();
        let mut at = address;
        while path.len() <= most {
            // Few are longer.
            let mut chunk = [0_u8; 256];
            // Never beyond the page: what follows need not be mapped.
            let room = rest_of_page(at).min(chunk.len());
            let length = self.read(at, &mut chunk[..room])?;
            if let Some(end) = chunk[..length].iter().position(|byte| *byte == 0) {
                path.extend_from_slice(&chunk[..end]);
                return if path.len() <= most { Ok(path) } else { Err(Errno::NAMETOOLONG) };
            }
            path.extend_from_slice(&chunk[..length]);
            at += length as u64;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Exactly so many bytes from the caller's memory, read once.
    pub(crate) fn read_bytes(self, address: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; usize::try_from(length).map_err(|_too_many| Errno::INVAL)?];
        if !bytes.is_empty() && self.read(address, &mut bytes)? != bytes.len() {
            return Err(Errno::FAULT);
        }
        Ok(bytes)
    }

    /// `COUNT` numbers from the caller's memory, read once.
    pub(crate) fn read_words<const COUNT: usize>(self, address: u64) -> Result<[u64; COUNT], Errno> {
        let bytes = self.read_bytes(address, 8 * COUNT as u64)?;
        let mut words = [0_u64; COUNT];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        }
        Ok(words)
    }

    /// Some numbers from the caller's memory, read once: at least one, and not beyond the page.
    pub(crate) fn read_list(self, address: u64) -> Result<Vec<u64>, Errno> {
        const MOST: usize = 32;
        let room = rest_of_page(address) / 8;
        if room == 0 {
            return self.read_words::<1>(address).map(Vec::from);
        }
        let mut bytes = [0_u8; 8 * MOST];
        let length = self.read(address, &mut bytes[..8 * room.min(MOST)])?;
        Ok(bytes[..length]
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
            .collect())
    }

    /// Paths from the caller's memory, most of them in one step. None of them if one cannot be read.
    pub(crate) fn read_texts(self, addresses: &[u64]) -> Vec<Vec<u8>> {
        self.read_all_texts(addresses, libc::PATH_MAX as usize - 1).unwrap_or_default()
    }

    /// C strings of at most so many bytes from the caller's memory, most of them in one step.
    pub(crate) fn read_all_texts(self, addresses: &[u64], most: usize) -> Result<Vec<Vec<u8>>, Errno> {
        /// Few arguments are longer, and those are read alone.
        const EACH: usize = 256;
        let mut rooms = Vec::with_capacity(addresses.len());
        let mut pieces = Vec::with_capacity(addresses.len());
        for &address in addresses {
            let room = rest_of_page(address).min(EACH);
            rooms.push(room);
            pieces.push(libc::iovec { iov_base: address as *mut c_void, iov_len: room });
        }
        let mut bytes = vec![0_u8; rooms.iter().sum()];
        let length = self.read_pieces(&pieces, &mut bytes).unwrap_or(0);
        let mut rest = &bytes[..length];
        let mut texts = Vec::with_capacity(addresses.len());
        for (&address, room) in addresses.iter().zip(rooms) {
            let (piece, after) = rest.split_at(room.min(rest.len()));
            rest = after;
            let whole = piece.iter().position(|byte| *byte == 0).map(|end| piece[..end].to_vec());
            texts.push(whole.map_or_else(|| self.read_text(address, most), Ok)?);
        }
        Ok(texts)
    }

    fn read(self, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: into.len() };
        self.read_pieces(&[remote], into)
    }

    /// Reads pieces of the caller's memory one after the other into `into`. A piece that cannot be read ends it.
    fn read_pieces(self, pieces: &[libc::iovec], into: &mut [u8]) -> Result<usize, Errno> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let tid = libc::pid_t::try_from(self.tid).map_err(|_too_big| Errno::SRCH)?;
        let count = pieces.len() as libc::c_ulong;
        // SAFETY: `local` describes `into`; the other addresses are only used in the other process.
        let length = unsafe { libc::process_vm_readv(tid, &raw const local, 1, pieces.as_ptr(), count, 0) };
        match usize::try_from(length) {
            Ok(0) => Err(Errno::FAULT),
            Ok(length) => Ok(length),
            Err(_negative) => Err(last_errno()),
        }
    }

    /// The caller's current folder.
    pub(crate) fn cwd(self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, format!("/proc/{}/cwd", self.tid), flags, Mode::empty())
    }

    /// What the caller's descriptor `fd` refers to.
    pub(crate) fn descriptor(self, fd: i32) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let opened = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })
    }

    fn status(self) -> Result<String, Errno> {
        // The standard library would begin with small pieces, each of which the kernel makes anew.
        let mut text = Vec::with_capacity(4096);
        let file = fs::File::open(format!("/proc/{}/status", self.tid));
        let read = file.and_then(|file| file.take(u64::MAX).read_to_end(&mut text));
        read.map_err(|error| why_unknown(Errno::from_io_error(&error).unwrap_or(Errno::SRCH)))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The caller's rights to files.
    pub(crate) fn rights(self) -> Result<Rights, Errno> {
        let status = self.status()?;
        // Real, effective, saved, and the one for files.
        let for_files = |name| field(&status, name)?.split_whitespace().nth(3)?.parse().ok();
        let (Some(user), Some(group)) = (for_files("Uid"), for_files("Gid")) else { return Err(Errno::SRCH) };
        let groups = field(&status, "Groups").unwrap_or_default().split_whitespace();
        Ok(Rights { user, group, groups: groups.filter_map(|group| group.parse().ok()).collect() })
    }

    fn umask(self) -> Option<u32> {
        u32::from_str_radix(field(&self.status().ok()?, "Umask")?, 8).ok()
    }

    /// True if a signal waits for the thread that it does not block. One for its whole process counts if it is this thread
    /// that gets it: the only one, or the first, which the kernel prefers.
    pub(crate) fn has_signal(self) -> bool {
        let Ok(status) = self.status() else { return false };
        let set =
            |name| field(&status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        let is_first = field(&status, "Tgid").and_then(|number| number.parse().ok()) == Some(self.tid);
        let for_all = if is_first { set("ShdPnd") } else { 0 };
        (set("SigPnd") | for_all) & !set("SigBlk") & !set("SigIgn") != 0
    }

    /// The process the thread belongs to: what `/proc/self` means to it.
    pub(crate) fn process(self) -> Result<u32, Errno> {
        // There is such a handle of the first thread alone, whose number is that of the process.
        if pidfd_open(raw_pid(self.tid)?, PidfdFlags::empty()).is_ok() {
            return Ok(self.tid);
        }
        let status = self.status()?;
        field(&status, "Tgid").and_then(|number| number.parse().ok()).ok_or(Errno::SRCH)
    }

    /// True for the caller's own process and those of its tree.
    pub(crate) fn is_kin(self, pid: u32) -> bool {
        self.process() == Ok(pid) || is_in_tree(pid)
    }

    /// Writes one line to the caller's standard error, if that is possible at once.
    ///
    /// The descriptor itself is borrowed instead of opening the file it names: a file that the caller can only read
    /// must not be written on its behalf.
    pub(crate) fn tell(self, message: &str) {
        if message.is_empty() {
            return;
        }
        let line = format!("{}\n", message.replace('\n', " "));
        let Some(stderr) = self.standard_error() else { return };
        let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
        if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1)
            || !polled[0].revents().contains(PollFlags::OUT)
        {
            return;
        }
        let buffers = [IoSlice::new(line.as_bytes())];
        let at_its_offset = u64::MAX;
        // Terminals know no such flag; one that can take output was found above.
        if rustix::io::pwritev2(&stderr, &buffers, at_its_offset, ReadWriteFlags::NOWAIT)
            == Err(Errno::OPNOTSUPP)
        {
            let _full = rustix::io::write(&stderr, line.as_bytes());
        }
    }

    fn standard_error(self) -> Option<OwnedFd> {
        self.borrow(libc::STDERR_FILENO).ok()
    }

    /// The caller's descriptor itself, not only what it refers to.
    pub(crate) fn borrow(self, fd: i32) -> Result<OwnedFd, Errno> {
        let handle = pidfd_open(raw_pid(self.process()?)?, PidfdFlags::empty())?;
        pidfd_getfd(handle, fd, PidfdGetfdFlags::empty())
    }
}

/// How many bytes there are to the end of the page.
pub(crate) fn rest_of_page(address: u64) -> usize {
    usize::try_from(PAGE - address % PAGE).expect("at most a page")
}

/// The value of a line of `/proc/TID/status`.
fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// A thread about which nothing can be read is gone, unless this process can open nothing more.
fn why_unknown(errno: Errno) -> Errno {
    if matches!(errno, Errno::MFILE | Errno::NFILE) { errno } else { Errno::SRCH }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Creation masks of processes. Reading one costs more than the rest of an open, so they are kept for a moment.
#[derive(Debug)]
pub(crate) struct Umasks {
    known: Mutex<HashMap<u32, (u32, Instant)>>,
    /// Everybody's until somebody changes its own. The kernel also applies it to what the broker creates.
    ours: u32,
    is_one_changed: AtomicBool,
}

impl Umasks {
    const KEPT: Duration = Duration::from_secs(1);
    const MOST: usize = 4096;

    pub(crate) fn new() -> Self {
        let ours = Task { tid: std::process::id() }.umask().unwrap_or(0o777);
        Self { known: Mutex::default(), ours, is_one_changed: AtomicBool::new(false) }
    }

    pub(crate) fn of(&self, task: Task) -> u32 {
        if !self.is_one_changed.load(Ordering::SeqCst) {
            return self.ours;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((mask, since)) = known.get(&task.tid)
            && since.elapsed() < Self::KEPT
        {
            return *mask;
        }
        let mask = task.umask().unwrap_or(0o077);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(task.tid, (mask, Instant::now()));
        mask
    }

    /// A process is about to change its mask. Its other threads share it, so all are forgotten.
    pub(crate) fn changes(&self, task: Task, mask: u32) {
        self.is_one_changed.store(true, Ordering::SeqCst);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clear();
        known.insert(task.tid, (mask & 0o777, Instant::now()));
    }

    /// The mode to make a new file in `folder` with, and whether the kernel, with this process's mask, would give it less.
    pub(crate) fn apply(&self, task: Task, mode: u32, folder: Option<&Path>) -> (Mode, bool) {
        let (mode, mask) = (mode & 0o7777, self.of(task));
        // The kernel knows best: where a folder hands down an access list, it applies no mask.
        if mask == self.ours || folder.is_some_and(hands_down_access) {
            return (Mode::from_raw_mode(mode), false);
        }
        let wanted = mode & !mask;
        (Mode::from_raw_mode(wanted), wanted & self.ours != 0)
    }
}

/// True if what is made in the folder gets an access list from it.
pub(crate) fn hands_down_access(folder: &Path) -> bool {
    rustix::fs::getxattr(folder, c"system.posix_acl_default", &mut [0_u8; 0][..]).is_ok()
}
