//! Opening files.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::call::At;
use super::pipes::Pipe;
use super::session::{Lane, Session};
use super::{Answer, Effect, Opened, Rules};
use crate::linux::folders::Left;
use crate::linux::resolve::{self, Found, Given, Last, Object, Place};
use crate::linux::zones::Zone;
use crate::linux::{handle, identity};
use crate::{Action, EntryKind, GitLock, Ruling};

/// Times a file may appear or vanish under our hands before we give up.
const RETRIES: u32 = 16;
/// How long a git waits for another one's lock file, and how often it looks.
const GIT_PATIENCE: Duration = Duration::from_secs(1);
const GIT_PAUSE: Duration = Duration::from_millis(5);
/// The lock was free, but the guard says no.
const TOO_LATE: Errno = Errno::STALE;
/// How the names of git's lock files end.
const GIT_LOCK: &[u8] = b".lock";
/// What programs open most often.
const NOTHING: &str = "/dev/null";
/// Size of `struct open_how` when it was introduced, and the most the kernel takes.
const HOW_SIZE: u64 = 24;
const HOW_MOST: u64 = 4096;

/// Who may perform an open outside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Performer {
    /// The kernel too: if the path leads into the tree by then, Landlock says no.
    Anyone,
    /// Landlock would not notice.
    Broker,
}

/// Whether a program may make another call instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interface {
    Common,
    /// `openat2`, for which programs have to do without on older kernels.
    Newer,
}

/// What the caller asked for.
#[derive(Debug, Clone, Copy)]
struct Wish {
    flags: OFlags,
    mode: u32,
    performer: Performer,
    interface: Interface,
}

impl Wish {
    /// From registers, which cannot change any more.
    fn new(flags: i32, mode: u32) -> Self {
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let writes = matches!(flags & OFlags::RWMODE, OFlags::WRONLY | OFlags::RDWR);
        let seen = writes || !flags.contains(OFlags::TRUNC) || flags.contains(OFlags::PATH);
        let performer = if seen { Performer::Anyone } else { Performer::Broker };
        Self { flags, mode, performer, interface: Interface::Common }
    }

    /// From memory, which the kernel would read again.
    fn from_memory(flags: i32, mode: u32) -> Self {
        Self { performer: Performer::Broker, interface: Interface::Newer, ..Self::new(flags, mode) }
    }

    fn reads(self) -> bool {
        self.flags.contains(OFlags::PATH) || !(self.changes() || self.creates())
    }

    fn creates(self) -> bool {
        self.flags.contains(OFlags::CREATE)
    }

    fn is_exclusive(self) -> bool {
        self.flags.contains(OFlags::CREATE | OFlags::EXCL)
    }

    fn changes(self) -> bool {
        self.flags.intersects(OFlags::RWMODE | OFlags::TRUNC)
    }

    fn is_nameless(self) -> bool {
        self.flags.contains(OFlags::TMPFILE)
    }

    fn last(self) -> Last {
        if self.flags.contains(OFlags::NOFOLLOW) || self.is_exclusive() { Last::Keep } else { Last::Follow }
    }
}

impl Session<'_> {
    pub(super) fn open(&self, at: At, flags: i32, mode: u32) -> Result<Answer, Errno> {
        let wish = Wish::new(flags, mode);
        if wish.flags.contains(OFlags::PATH) {
            return Ok(Answer::Proceed);
        }
        let path = match self.rules.memory.read_text(self.task, at.path) {
            Some(path) => path,
            None => self.task.read_path(at.path)?,
        };
        if path == NOTHING.as_bytes() && self.leaves_nothing_to_kernel(wish) {
            return Ok(Answer::Proceed);
        }
        if let Some(left) =
            at.is_known(&path).then(|| self.rules.folders.left(self.task.tid, &path)).flatten()
            && self.is_left_to_kernel(wish, &left, last_part(&path))
        {
            return Ok(Answer::Proceed);
        }
        let given = self.given(at.dirfd, path);
        if let Some(answer) = self.open_quickly(wish, at, &given)? {
            return Ok(answer);
        }
        self.open_again(wish, || self.object(&given, wish.last()))
    }

    /// True if the kernel may open `/dev/null`. Whatever that may be, Landlock keeps the tree.
    fn leaves_nothing_to_kernel(&self, wish: Wish) -> bool {
        wish.performer == Performer::Anyone && self.rules.zones.of(Path::new(NOTHING)) == Zone::Granted
    }

    /// Where no lock is needed, in as few steps as possible: builds and installers make thousands of files. None if it
    /// takes a closer look.
    fn open_quickly(&self, wish: Wish, at: At, given: &Given) -> Result<Option<Answer>, Errno> {
        let Rules { folders, zones, .. } = self.rules;
        if let Some(name) = self.exempt_name(given) {
            let left = match name.path.parent() {
                Some(folder) if at.is_known(&given.path) => {
                    folders.leave(self.task.tid, &given.path, folder, &name.folder)
                }
                _ => Left { folder: name.folder, is_new: false },
            };
            let proceeds = self.is_left_to_kernel(wish, &left, last_part(&given.path));
            return Ok(proceeds.then_some(Answer::Proceed));
        }
        let Some(path) = &given.text else { return Ok(None) };
        let path = zones.unalias(path.clone());
        match zones.of(&path) {
            Zone::Granted
                if self.leaves_to_kernel(wish, None) && self.judge_place(&path) == Ruling::Allow =>
            {
                let is_plain = self.allowed_name(path).is_some_and(|name| is_plain(name.look()));
                Ok(is_plain.then_some(Answer::Proceed))
            }
            Zone::Tree(name)
                if wish.creates()
                    && self.ask(|guard| guard.is_exempt(name))
                    && self.judge_place(&path) == Ruling::Allow =>
            {
                let place = Place::unseen(path);
                if place.parent().is_err() {
                    return Ok(None);
                }
                match self.create(wish, &place, Lane::Loose) {
                    Err(Errno::EXIST) => Ok(None),
                    answer => answer.map(Some),
                }
            }
            _ => Ok(None),
        }
    }

    /// True if the kernel may open this name in an exempt folder: it is no way to anything else.
    fn is_left_to_kernel(&self, wish: Wish, left: &Left, name: &[u8]) -> bool {
        // What must be new follows no link, but may be a lock file of git.
        let is_way = || match wish.is_exclusive() {
            true => name.ends_with(GIT_LOCK),
            false => {
                !left.is_new && !is_plain(rustix::fs::statat(&left.folder, name, AtFlags::SYMLINK_NOFOLLOW))
            }
        };
        !matches!(name, b"" | b"." | b"..") && self.leaves_to_kernel(wish, None) && !is_way()
    }

    /// True if the kernel may perform it where Landlock says yes, whatever the name means by then. `found` is what it meant
    /// when it was looked at.
    fn leaves_to_kernel(&self, wish: Wish, found: Option<&Found>) -> bool {
        let Rules { links, zones, .. } = self.rules;
        match wish.performer {
            Performer::Broker => false,
            Performer::Anyone if !wish.changes() => true,
            Performer::Anyone => match links.lead_out_yet() {
                Some(lead_out) => !lead_out,
                // The broker could not open it, so this waits until it is known.
                None if found.is_some_and(|found| is_terminal(found) || found.is_proc()) => {
                    !self.ask(|guard| links.lead_out(zones, guard))
                }
                None => false,
            },
        }
    }

    pub(super) fn open_how(&self, at: At, how: u64, size: u64) -> Result<Answer, Errno> {
        if !(HOW_SIZE..=HOW_MOST).contains(&size) {
            return Err(if size < HOW_SIZE { Errno::INVAL } else { Errno::TOOBIG });
        }
        let [flags, mode, restrictions] = self.task.read_words(how)?;
        let (Ok(flags), Ok(mode)) = (u32::try_from(flags), u32::try_from(mode)) else {
            return Err(Errno::INVAL);
        };
        let wish = Wish::from_memory(flags.cast_signed(), mode);
        let restrictions = ResolveFlags::from_bits_retain(restrictions);
        if restrictions.contains(ResolveFlags::CACHED) {
            return Err(Errno::AGAIN);
        }
        let given = self.read(at)?;
        let answer = self.open_again(wish, || {
            if restrictions.is_empty() {
                return self.object(&given, wish.last());
            }
            let last =
                if wish.last() == Last::Keep { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
            let dangling = if wish.creates() { Errno::LOOP } else { Errno::NOENT };
            let flags = restrictions | last;
            let object = resolve::resolve_within(self.task, at.dirfd, &given.path, flags, dangling)?;
            Ok(self.unaliased(object))
        });
        match answer {
            // A link itself, see `mere_path`.
            Err(Errno::LOOP) if wish.flags.contains(OFlags::PATH) => Err(Errno::NOSYS),
            answer => answer,
        }
    }

    /// Opens what `object` finds, and looks again if a file came or went in between.
    fn open_again(&self, wish: Wish, object: impl Fn() -> Result<Object, Errno>) -> Result<Answer, Errno> {
        for _ in 0..RETRIES {
            let (answer, changed) = match object()? {
                object if wish.reads() => return self.open_to_read(wish, object),
                Object::Named(place) => (self.open_place(wish, &place), Errno::EXIST),
                Object::Nameless(found) => return self.open_nameless(wish, &found),
            };
            match answer {
                Err(errno) if errno == changed && !wish.is_exclusive() => {}
                answer => return answer,
            }
        }
        Err(Errno::ACCESS)
    }

    /// Anyone may read. Performed here all the same, because the caller could change its wish before the kernel reads it.
    fn open_to_read(&self, wish: Wish, object: Object) -> Result<Answer, Errno> {
        let found = match object {
            Object::Named(place) if place.has_slash() && !place.is_folder() => return Err(Errno::NOTDIR),
            Object::Named(place) => place.found.ok_or(Errno::NOENT)?,
            Object::Nameless(found) => found,
        };
        let _permit = self.permit(Action::Write, &[], EntryKind::File)?;
        match found.kind() {
            _ if wish.flags.contains(OFlags::PATH) => self.mere_path(wish, &found),
            FileType::Symlink => Err(Errno::LOOP),
            FileType::Fifo => open_fifo(wish, &found),
            _ => self.reopen(wish, &found),
        }
    }

    /// A deleted file may be in the tree's folders as far as Landlock knows, but it is nobody's.
    fn open_nameless(&self, wish: Wish, found: &Found) -> Result<Answer, Errno> {
        match found.kind() {
            FileType::RegularFile => {}
            _ if self.leaves_to_kernel(wish, Some(found)) => return Ok(Answer::Proceed),
            FileType::Fifo => return open_fifo(wish, found),
            _ => {}
        }
        self.permit(Action::Write, &[], EntryKind::File)?.perform(|| self.reopen(wish, found))
    }

    fn open_place(&self, wish: Wish, place: &Place) -> Result<Answer, Errno> {
        let leaves_to_kernel = || self.leaves_to_kernel(wish, place.found.as_ref());
        let lane = match self.lane(place)? {
            Lane::Kernel if !leaves_to_kernel() => Lane::Above,
            Lane::Exempt if !leaves_to_kernel() => Lane::Loose,
            lane => lane,
        };
        if wish.is_exclusive() && self.is_git_lock(&place.path) {
            return self.take_git_lock(wish, place);
        }
        let Some(found) = &place.found else { return self.create(wish, place, lane) };
        match found.kind() {
            _ if wish.is_exclusive() => return Err(Errno::EXIST),
            FileType::Symlink => return Err(Errno::LOOP),
            FileType::Directory if wish.is_nameless() => {
                return self.open_unnamed_in(wish, &place.path, found, lane);
            }
            // Nothing of the tree has a name there, but all of it may be on it.
            FileType::BlockDevice if wish.changes() => return Err(Errno::ACCESS),
            FileType::RegularFile if place.has_slash() => return Err(Errno::NOTDIR),
            FileType::RegularFile => {}
            _ if lane.is_for_kernel() => return Ok(Answer::Proceed),
            FileType::Directory => return Err(Errno::ISDIR),
            FileType::Fifo => return open_fifo(wish, found),
            _ => return self.reopen(wish, found),
        }
        if wish.changes() {
            self.expect_own_of_git(&place.path, Action::Write)?;
        }
        let names = if wish.changes() { self.names(found, lane) } else { Vec::new() };
        if lane.is_for_kernel() && names.is_empty() {
            return Ok(Answer::Proceed);
        }
        let names: Vec<&Path> = names.iter().map(|name| name.as_path()).collect();
        self.permit(Action::Write, &names, EntryKind::File)?
            .perform_on(place, Place::is_unchanged, || self.reopen(wish, found))
    }

    fn create(&self, wish: Wish, place: &Place, lane: Lane<'_>) -> Result<Answer, Errno> {
        if !wish.creates() {
            return Err(Errno::NOENT);
        }
        self.expect_no_fixed_below(place)?;
        let permit = match lane {
            Lane::Kernel | Lane::Exempt => return Ok(Answer::Proceed),
            Lane::Judged(name) => self.permit(Action::Create, &[name], EntryKind::File)?,
            Lane::Free | Lane::Loose | Lane::Above => self.permit(Action::Create, &[], EntryKind::File)?,
        };
        permit.perform_on(place, Place::has_unchanged_name, || self.make_file(wish, place))
    }

    fn make_file(&self, wish: Wish, place: &Place) -> Result<Answer, Errno> {
        let (mode, needs_more) = self.rules.umasks.apply(self.task, wish.mode, place.path.parent());
        let flags = wish.flags | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = if wish.is_exclusive() && self.is_git_lock(&place.path) {
            self.create_git_lock(place, flags, mode)?
        } else {
            rustix::fs::openat(place.parent()?, place.name(), flags, mode)?
        };
        if needs_more {
            rustix::fs::fchmod(&fd, mode)?;
        }
        Ok(opened(wish, fd, Effect::Created(place.path.clone())))
    }

    fn is_git_lock(&self, path: &Path) -> bool {
        path.as_os_str().as_bytes().ends_with(GIT_LOCK) && self.rules.zones.is_git(path)
    }

    /// Makes a lock file of git. Whoever has it now is mostly done in a moment, but git gives up at once.
    fn take_git_lock(&self, wish: Wish, place: &Place) -> Result<Answer, Errno> {
        let begin = Instant::now();
        let clear = || -> Result<bool, Errno> {
            let pid = self.task.process()?;
            Ok(self.ask(|guard| guard.clears_git_lock(pid, &place.path)))
        };
        loop {
            match self.create(wish, place, Lane::Free) {
                Err(Errno::EXIST) if clear()? => {}
                Err(Errno::EXIST) if begin.elapsed() < GIT_PATIENCE => thread::sleep(GIT_PAUSE),
                Err(TOO_LATE) => return Err(Errno::EXIST),
                answer => return answer,
            }
        }
    }

    /// Makes a lock file of git and tells the guard which file it is. Without a name at first: a supervisor that is killed
    /// before it could tell anybody leaves nothing behind.
    fn create_git_lock(&self, place: &Place, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let unnamed = flags.difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW) | OFlags::TMPFILE;
        let (fd, has_name) = match rustix::fs::openat(place.parent()?, c".", unnamed, mode) {
            Ok(fd) => (fd, false),
            // This file system makes no files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                (rustix::fs::openat(place.parent()?, place.name(), flags, mode)?, true)
            }
            Err(errno) => return Err(errno),
        };
        let (pid, identity) = (self.task.process()?, identity::of_open(&fd)?);
        let lock = GitLock { pid, path: &place.path, identity, file: fd.as_fd() };
        self.ask(|guard| guard.makes_git_lock(&lock));
        if !has_name {
            handle::link(&fd, place.parent()?, place.name())?;
        }
        if self.is_refused(&self.ask(|guard| guard.judge_git_lock(&lock))) {
            identity::remove_name(lock.path, lock.identity);
            return Err(TOO_LATE);
        }
        Ok(fd)
    }

    /// `O_TMPFILE`: a file without a name, until `linkat` gives it one.
    fn open_unnamed_in(
        &self,
        wish: Wish,
        folder: &Path,
        found: &Found,
        lane: Lane<'_>,
    ) -> Result<Answer, Errno> {
        if lane.is_for_kernel() {
            return Ok(Answer::Proceed);
        }
        let _permit = self.permit(Action::Create, &[], EntryKind::File)?;
        let (mode, _) = self.rules.umasks.apply(self.task, wish.mode, Some(folder));
        Ok(opened(wish, handle::reopen(&found.fd, wish.flags, mode)?, Effect::None))
    }

    /// Opens the very file that was judged, whatever its name means by now.
    fn reopen(&self, wish: Wish, found: &Found) -> Result<Answer, Errno> {
        if found.is_proc() && !self.is_about_itself(wish, found) {
            return Err(if wish.interface == Interface::Newer { Errno::NOSYS } else { Errno::ACCESS });
        }
        let not_again = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = wish.flags.difference(not_again) | OFlags::NOCTTY;
        let writes = matches!(flags & OFlags::RWMODE, OFlags::WRONLY | OFlags::RDWR);
        let is_full = found.kind() == FileType::RegularFile && found.stat.st_size > 0;
        let (flags, effect) = if flags.contains(OFlags::TRUNC) && writes && is_full {
            (flags.difference(OFlags::TRUNC), Effect::Truncated)
        } else {
            (flags, Effect::None)
        };
        Ok(opened(wish, handle::reopen(&found.fd, flags, Mode::empty())?, effect))
    }

    /// True for a file in /proc that is about the caller's own process, or to be read and about none. What one may see and change
    /// of others depends on who opens it, and the broker may do everything.
    fn is_about_itself(&self, wish: Wish, found: &Found) -> bool {
        let process = resolve::owner_in_proc(&found.fd).ok().flatten();
        process.map_or(wish.reads(), |pid| self.task.process() == Ok(pid))
    }

    /// `openat2` with `O_PATH`. Such a descriptor cannot be handed over, so the caller gets one for reading, which can do all
    /// that the other can, or is told that there is no such call: then it makes the older one, of which nothing is in memory.
    fn mere_path(&self, wish: Wish, found: &Found) -> Result<Answer, Errno> {
        if !matches!(found.kind(), FileType::RegularFile | FileType::Directory) {
            return Err(Errno::NOSYS);
        }
        let flags = wish.flags.difference(OFlags::PATH);
        match self.reopen(Wish { flags, ..wish }, found) {
            Err(Errno::ACCESS) => Err(Errno::NOSYS),
            answer => answer,
        }
    }
}

/// Opens a pipe, if its other end is open or the caller does not care.
fn open_fifo(wish: Wish, found: &Found) -> Result<Answer, Errno> {
    match Pipe::open(&found.fd, wish.flags) {
        Err(Errno::NXIO) if !wish.flags.contains(OFlags::NONBLOCK) => {
            let fd = rustix::io::fcntl_dupfd_cloexec(&found.fd, 0)?;
            Ok(Answer::Awaits(Pipe { fd, flags: wish.flags }))
        }
        opened => opened.map(Answer::Opened),
    }
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// True for what is no way to anything else: a file with one name, a device like `/dev/null`, or nothing.
fn is_plain(seen: Result<Stat, Errno>) -> bool {
    match seen.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_nlink)) {
        Ok((FileType::RegularFile, names)) => names == 1,
        Ok((kind, _)) => kind == FileType::CharacterDevice,
        Err(errno) => errno == Errno::NOENT,
    }
}

/// True for character devices other than `/dev/null` and its like: for the broker, it may be another one.
fn is_terminal(found: &Found) -> bool {
    const MEMORY: u32 = 1;
    found.kind() == FileType::CharacterDevice && rustix::fs::major(found.stat.st_rdev) != MEMORY
}

fn opened(wish: Wish, fd: OwnedFd, effect: Effect) -> Answer {
    Answer::Opened(Opened { fd, cloexec: wish.flags.contains(OFlags::CLOEXEC), effect })
}
