//! Resolving a path the way the caller's own call would.
//!
//! The result is not a string but a descriptor of the folder plus a name, and a descriptor of the file if there is
//! one: the broker acts on these, so nothing that is swapped later matters. The canonical path next to them is what
//! rules are about.
//!
//! Most paths are canonical but for the folder they start at. Put together as texts, such a name is tried on the kernel with
//! the order to follow no link: what it finds has that name. Other paths are resolved in steps, and those in
//! /proc part by part, because `/proc/self` means the *caller*.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::handle;
use super::task::Task;
use crate::EntryKind;

/// Links followed before a path counts as a loop; the kernel's own limit.
const MAX_LINKS: u32 = 40;
const PROC_MAGIC: i64 = 0x9fa0;

/// Whether a link in the last place is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Object {
    Named(Place),
    /// A pipe, a deleted file, an anonymous one, or `/`: nothing that a name could be locked for.
    Nameless(Found),
}

/// A name in a folder, with or without a file.
#[derive(Debug)]
pub(crate) struct Place {
    parent: OnceCell<OwnedFd>,
    /// Canonical and absolute.
    pub(crate) path: PathBuf,
    pub(crate) found: Option<Found>,
    /// The caller's path ended in a slash.
    slash: bool,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

impl Found {
    fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Device and inode: what makes it this file, whatever it is called.
    pub(crate) fn identity(&self) -> (u64, u64) {
        identity(&self.stat)
    }

    /// True for what is in /proc. No device is behind that, so what is on one needs no further look.
    pub(crate) fn is_proc(&self) -> bool {
        rustix::fs::major(self.stat.st_dev) == 0 && is_proc(&self.fd)
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl Place {
    /// The last part, with the caller's slash: the kernel then says what it would have said.
    pub(crate) fn name(&self) -> OsString {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        if self.slash {
            name.push("/");
        }
        name
    }

    /// True if the caller's path ended in a slash, which only folders may have.
    pub(crate) fn has_slash(&self) -> bool {
        self.slash
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match self.is_folder() {
            true => EntryKind::Directory,
            false => EntryKind::File,
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.kind() == FileType::Directory)
    }

    /// The folder that the name is in. Opened by its name if it was not needed before: the name is what was judged.
    pub(crate) fn parent(&self) -> Result<&OwnedFd, Errno> {
        if let Some(parent) = self.parent.get() {
            return Ok(parent);
        }
        let folder = self.path.parent().ok_or(Errno::ACCESS)?;
        let parent = open_folder(folder)?;
        Ok(self.parent.get_or_init(|| parent))
    }

    /// A name that something may be at.
    pub(crate) fn unseen(path: PathBuf) -> Self {
        Self { parent: OnceCell::new(), path, found: None, slash: false }
    }

    /// What is at the path, if no link leads there.
    pub(crate) fn look(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(open_canonical(&self.path, OFlags::empty())?)
    }

    /// True if the name leads to the same as when it was looked at, in the same folder.
    pub(crate) fn is_unchanged(&self) -> bool {
        let is_as_found = match (self.look(), &self.found) {
            (Ok(now), Some(found)) => identity(&now) == found.identity(),
            (Err(errno), None) => errno == Errno::NOENT,
            _ => false,
        };
        is_as_found && self.is_in_place()
    }

    /// The same for calls that are about the name: files may have replaced each other, but no folder.
    pub(crate) fn has_unchanged_name(&self) -> bool {
        let folder = |stat: &Stat| {
            (FileType::from_raw_mode(stat.st_mode) == FileType::Directory).then(|| identity(stat))
        };
        let now = match self.look() {
            Ok(stat) => folder(&stat),
            Err(Errno::NOENT) => None,
            Err(_unknown) => return false,
        };
        now == self.found.as_ref().and_then(|found| folder(&found.stat)) && self.is_in_place()
    }

    /// True if the folder, if it is open, still has its name.
    fn is_in_place(&self) -> bool {
        let Some(parent) = self.parent.get() else { return true };
        let by_name = || rustix::fs::fstat(open_folder(self.path.parent().ok_or(Errno::ACCESS)?)?);
        match (by_name(), rustix::fs::fstat(parent)) {
            (Ok(by_name), Ok(open)) => identity(&by_name) == identity(&open),
            _ => false,
        }
    }

    fn new(parent: OwnedFd, name: &OsStr, found: Option<Found>) -> Result<Self, Errno> {
        let folder = canonical_name(&parent)?;
        Ok(Self { parent: parent.into(), path: folder.join(name), found, slash: false })
    }

    /// What is at the canonical `path`. None if that is another file's name for it, or cannot be told.
    fn by_name(path: PathBuf, last: Last) -> Result<Option<Self>, Errno> {
        let place = |path, found| Self { found, ..Self::unseen(path) };
        match open_canonical(&path, OFlags::empty()) {
            Ok(fd) => {
                let found = Found::new(fd)?;
                let is_link = found.kind() == FileType::Symlink && last == Last::Follow;
                Ok((!is_link).then(|| place(path, Some(found))))
            }
            Err(Errno::NOENT) => {
                let absent = place(path, None);
                Ok(absent.parent().is_ok().then_some(absent))
            }
            Err(_another) => Ok(None),
        }
    }
}

/// Opens the folder that has exactly this name.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    open_canonical(path, OFlags::DIRECTORY)
}

/// Opens what has exactly this name, without following a link anywhere.
fn open_canonical(path: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// The one name of an open folder. A name that leads elsewhere (a deleted folder, a detached mount) is no name.
fn canonical_name(folder: &OwnedFd) -> Result<PathBuf, Errno> {
    let name = handle::name(folder)?;
    let by_name = rustix::fs::stat(&name);
    let itself = rustix::fs::fstat(folder)?;
    match by_name {
        Ok(stat) if (stat.st_dev, stat.st_ino) == (itself.st_dev, itself.st_ino) => Ok(PathBuf::from(name)),
        _ if itself.st_nlink == 0 => Err(Errno::NOENT),
        _ => Err(Errno::ACCESS),
    }
}

fn link_text(folder: impl AsFd, name: &OsStr) -> Result<OsString, Errno> {
    let text = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(text.into_bytes()))
}

/// A path as a caller gave it, with the descriptor of the folder it starts at.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) dirfd: i32,
    pub(crate) path: Vec<u8>,
    /// Put together with the name of that folder, if the result may be canonical.
    pub(crate) text: Option<PathBuf>,
}

impl Given {
    /// `start` tells the name of the folder it starts at.
    pub(crate) fn new(dirfd: i32, path: Vec<u8>, start: impl FnOnce() -> Option<PathBuf>) -> Self {
        let text = if own_descriptor(&path).is_some() { None } else { as_text(&path, start) };
        Self { dirfd, path, text }
    }

    /// True if there is nothing of that name, as far as a quick look tells. In /proc, names may mean something else to others.
    pub(crate) fn is_absent(&self) -> bool {
        let is_nothing = |path: &Path| rustix::fs::lstat(path).err() == Some(Errno::NOENT);
        self.text.as_ref().is_some_and(|path| !path.starts_with("/proc") && is_nothing(path))
    }
}

/// Resolves what `task` gave.
pub(crate) fn resolve(task: Task, given: &Given, last: Last) -> Result<Object, Errno> {
    let Given { dirfd, path, text } = given;
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if last == Last::Follow
        && let Some(fd) = own_descriptor(path)
        && let Ok(object) = descriptor(Task { tid: task.process()? }, fd)
    {
        return Ok(object);
    }
    if let Some(path) = text
        && let Some(place) = Place::by_name(path.clone(), last)?
    {
        return Ok(Object::Named(place));
    }
    let start = start(task, *dirfd, path)?;
    let slash = path.ends_with(b"/");
    let mut object = match quick_parent(&start, path) {
        Some((parent, name)) => Walk { task, last }.run(parent, name)?,
        None => Walk { task, last }.run(start, path)?,
    };
    if let Object::Named(place) = &mut object {
        place.slash = slash;
    }
    Ok(object)
}

/// The path with the name of the folder it starts at, if the result may be canonical.
fn as_text(path: &[u8], start: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    let parts = || path.split(|byte| *byte == b'/');
    // A `.` in the last place, like a slash there, wants a folder; elsewhere it changes nothing.
    if parts().next_back().is_none_or(|last| matches!(last, b"" | b".")) || parts().any(|part| part == b"..")
    {
        return None;
    }
    let has_idle_parts = parts().skip(1).any(|part| matches!(part, b"" | b".")) || path.starts_with(b"./");
    let path = Path::new(OsStr::from_bytes(path));
    let text = if path.is_absolute() { path.to_owned() } else { start()?.join(path) };
    let is_text = text.is_absolute() && text.file_name().is_some();
    is_text.then(|| if has_idle_parts { text.components().collect() } else { text })
}

/// The number in a path that names a descriptor of whoever uses it. Part by part, it is a long way.
fn own_descriptor(path: &[u8]) -> Option<i32> {
    static IS_LINK: LazyLock<bool> = LazyLock::new(|| {
        rustix::fs::readlink("/dev/fd", Vec::new()).is_ok_and(|text| text.as_bytes() == b"/proc/self/fd")
    });
    let number = match path.strip_prefix(b"/dev/fd/") {
        Some(number) if *IS_LINK => number,
        _ => path.strip_prefix(b"/proc/self/fd/")?,
    };
    let fd: u32 = str::from_utf8(number).ok()?.parse().ok()?;
    // The kernel knows no other way to write it.
    if fd.to_string().as_bytes() == number { i32::try_from(fd).ok() } else { None }
}

/// What a descriptor of the caller refers to.
pub(crate) fn descriptor(task: Task, fd: i32) -> Result<Object, Errno> {
    object(task.descriptor(fd)?)
}

/// Resolves for `openat2` with restrictions: the kernel applies them, starting at the caller's folder. A link that
/// leads to nothing is answered with `dangling`.
pub(crate) fn resolve_within(
    task: Task,
    dirfd: i32,
    path: &[u8],
    flags: ResolveFlags,
    dangling: Errno,
) -> Result<Object, Errno> {
    let base = if dirfd == libc::AT_FDCWD { task.cwd()? } else { task.descriptor(dirfd)? };
    let path = OsStr::from_bytes(path);
    let open = OFlags::PATH | OFlags::CLOEXEC;
    // Doors would open to the broker that are closed to the caller.
    let flags = flags | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&base, path, open, Mode::empty(), flags) {
        Ok(fd) => object(fd),
        Err(Errno::NOENT) => {
            let path = Path::new(path);
            let name = path.file_name().ok_or(Errno::NOENT)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let open = open | OFlags::DIRECTORY;
            let parent = rustix::fs::openat2(&base, folder, open, Mode::empty(), flags)?;
            match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(Object::Named(Place::new(parent, name, None)?)),
                Err(error) => Err(error),
                Ok(_link) => Err(dangling),
            }
        }
        Err(error) => Err(error),
    }
}

fn start(task: Task, dirfd: i32, path: &[u8]) -> Result<OwnedFd, Errno> {
    if path.starts_with(b"/") {
        open_root()
    } else if dirfd == libc::AT_FDCWD {
        task.cwd()
    } else {
        task.descriptor(dirfd)
    }
}

fn open_root() -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The folder of `path`, resolved by the kernel in one step, and the last part. None if that could go wrong.
fn quick_parent<'a>(start: &OwnedFd, path: &'a [u8]) -> Option<(OwnedFd, &'a [u8])> {
    let cut = path.iter().rposition(|byte| *byte == b'/')?;
    let (folder, name) = (&path[..cut], &path[cut + 1..]);
    if folder.is_empty() || matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let folder = OsStr::from_bytes(folder);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent =
        rustix::fs::openat2(start, folder, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).ok()?;
    // In /proc, `self` was this process.
    (!is_proc(&parent)).then_some((parent, name))
}

fn is_proc(fd: &OwnedFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|stat| stat.f_type == PROC_MAGIC)
}

/// The object behind a descriptor, by the name it has now.
fn object(fd: OwnedFd) -> Result<Object, Errno> {
    let found = Found::new(fd)?;
    let path = PathBuf::from(handle::name(&found.fd)?);
    if !path.is_absolute() || path.file_name().is_none() {
        return Ok(Object::Nameless(found));
    }
    // The kernel's name for it has no links in it.
    match rustix::fs::lstat(&path) {
        Ok(by_name) if identity(&by_name) == found.identity() => {
            Ok(Object::Named(Place { found: Some(found), ..Place::unseen(path) }))
        }
        // A file or folder that exists under a name that cannot be found: nothing is known about it.
        _ if found.stat.st_nlink > 0 && is_stored(&found) => Err(Errno::ACCESS),
        _ => Ok(Object::Nameless(found)),
    }
}

fn is_stored(found: &Found) -> bool {
    matches!(found.kind(), FileType::RegularFile | FileType::Directory | FileType::Symlink)
}

/// A walk by component.
struct Walk {
    task: Task,
    last: Last,
}

/// Where a link leads.
enum Link {
    Text(OsString),
    /// A link of /proc that is a door rather than a text.
    Door(OwnedFd),
}

impl Walk {
    fn run(&self, start: OwnedFd, path: &[u8]) -> Result<Object, Errno> {
        let mut here = start;
        let mut links = 0;
        let mut pending: Vec<OsString> = parts(path);
        while let Some(part) = pending.pop() {
            let is_last = pending.is_empty();
            if part == "." {
                continue;
            }
            if part == ".." {
                here = step(&here, &part, OFlags::DIRECTORY)?;
                continue;
            }
            let found = match step(&here, &part, OFlags::NOFOLLOW) {
                Ok(fd) => Found::new(fd)?,
                Err(Errno::NOENT) if is_last => return named(here, &part, None),
                Err(error) => return Err(error),
            };
            if found.kind() != FileType::Symlink {
                if is_last {
                    return named(here, &part, Some(found));
                }
                here = found.fd;
                continue;
            }
            if is_last && self.last == Last::Keep {
                return named(here, &part, Some(found));
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            match self.follow(&here, &part)? {
                Link::Door(fd) if is_last => return object(fd),
                Link::Door(fd) => here = fd,
                Link::Text(text) => {
                    if text.as_bytes().starts_with(b"/") {
                        here = open_root()?;
                    }
                    pending.extend(parts(text.as_bytes()));
                }
            }
        }
        object(here)
    }

    fn follow(&self, here: &OwnedFd, name: &OsStr) -> Result<Link, Errno> {
        if !is_proc(here) {
            return Ok(Link::Text(link_text(here, name)?));
        }
        if matches!(name.as_bytes(), b"self" | b"thread-self") && canonical_name(here)? == Path::new("/proc")
        {
            let process = self.task.process()?;
            let text = if name == "self" {
                format!("{process}")
            } else {
                format!("{process}/task/{}", self.task.tid)
            };
            return Ok(Link::Text(text.into()));
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::openat2(here, name, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::LOOP) if self.may_pass(here)? => Ok(Link::Door(step(here, name, OFlags::empty())?)),
            Err(Errno::LOOP) => Err(Errno::ACCESS),
            _ => Ok(Link::Text(link_text(here, name)?)),
        }
    }

    /// True if the doors in this folder of /proc are open to the caller: the broker could pass through all of them.
    fn may_pass(&self, here: &OwnedFd) -> Result<bool, Errno> {
        Ok(owner_in_proc(here)?.is_some_and(|pid| self.task.is_kin(pid)))
    }
}

/// The process that a folder or file in /proc is about.
pub(crate) fn owner_in_proc(fd: &OwnedFd) -> Result<Option<u32>, Errno> {
    let name = PathBuf::from(handle::name(fd)?);
    Ok(name.iter().find_map(|part| part.to_str()?.parse().ok()))
}

fn named(parent: OwnedFd, name: &OsStr, found: Option<Found>) -> Result<Object, Errno> {
    Ok(Object::Named(Place::new(parent, name, found)?))
}

fn step(here: &OwnedFd, name: &OsStr, extra: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(here, name, OFlags::PATH | OFlags::CLOEXEC | extra, Mode::empty())
}

/// The parts of a path, last first.
fn parts(path: &[u8]) -> Vec<OsString> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.rev().map(|part| OsString::from_vec(part.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_known_by_their_paths() {
        assert_eq!(own_descriptor(b"/proc/self/fd/7"), Some(7));
        assert_eq!(own_descriptor(b"/dev/fd/12"), Some(12));
        for path in ["/dev/fd/", "/dev/fd/07", "/dev/fd/+7", "/dev/fd/-1", "/dev/fd/7/x", "/proc/1/fd/7", "7"]
        {
            assert_eq!(own_descriptor(path.as_bytes()), None, "{path}");
        }
    }
}
