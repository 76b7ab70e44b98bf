//! Names that come and go: unlink, link, symlink, bind, mkdir, mknod.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::call::At;
use super::session::{Lane, Permit, Session, Side};
use super::{Answer, Rules};
use crate::linux::handle;
use crate::linux::resolve::{self, Found, Given, Last, Object, Place};
use crate::linux::task::hands_down_access;
use crate::linux::zones::Zone;
use crate::{Action, EntryKind, Ruling};

/// The names of `lanes` that the guard is asked about.
pub(super) fn judged<'p>(lanes: &[Lane<'p>]) -> Vec<&'p Path> {
    let names =
        lanes.iter().filter_map(|lane| if let Lane::Judged(name) = lane { Some(*name) } else { None });
    names.collect()
}

/// True for paths that end in `.` or `..`, which no name can be made or taken away at.
fn ends_in_dots(path: &[u8]) -> bool {
    let last = path.split(|byte| *byte == b'/').rfind(|part| !part.is_empty());
    matches!(last, Some(b"." | b".."))
}

/// Gives what was just made at `place` the bits that this process's own mask took away.
fn set_mode(place: &Place, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(place.parent()?, place.name(), flags, Mode::empty())?;
    handle::chmod(&made, mode)
}

/// True if what is made in the folder gets its group or its access list.
fn hands_down(folder: &Path) -> bool {
    rustix::fs::stat(folder).is_ok_and(|stat| stat.st_mode & libc::S_ISGID != 0) || hands_down_access(folder)
}

impl Session<'_> {
    /// The place of a name that is itself changed; none for what has no name.
    pub(super) fn name(&self, given: &Given, if_dots: Errno) -> Result<Option<Place>, Errno> {
        if ends_in_dots(&given.path) {
            return Err(if_dots);
        }
        match self.object(given, Last::Keep)? {
            Object::Named(place) => Ok(Some(place)),
            Object::Nameless(_) => Ok(None),
        }
    }

    pub(super) fn unlink(&self, at: At, flags: i32) -> Result<Answer, Errno> {
        let flags = AtFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::INVAL)?;
        let given = self.read(at)?;
        if let Some(name) = self.exempt_name(&given) {
            if flags.contains(AtFlags::REMOVEDIR) {
                self.rules.folders.change(&name.path);
            }
            return Ok(Answer::Proceed);
        }
        if self.is_granted_file(&given) {
            return Ok(Answer::Proceed);
        }
        // Nobody needs a lock to hear that, and programs clear away many files that are not there.
        if given.is_absent() {
            return Err(Errno::NOENT);
        }
        let Some(place) = self.name(&given, Errno::INVAL)? else { return Ok(Answer::Proceed) };
        if place.found.is_none() {
            return Err(Errno::NOENT);
        }
        if self.rules.zones.carries_fixed(&place.path) {
            return Err(self.refuse_fixed(&place.path));
        }
        if place.is_folder() {
            self.rules.folders.change(&place.path);
        }
        let lane = self.lane(&place)?;
        if lane.is_for_kernel() {
            return Ok(Answer::Proceed);
        }
        self.expect_own_of_git(&place.path, Action::Delete)?;
        // The kernel would refuse it as well, but by then it may be another file.
        match (place.is_folder(), flags.contains(AtFlags::REMOVEDIR)) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            _ => {}
        }
        // An empty folder is nobody's.
        let names = if place.is_folder() { Vec::new() } else { judged(&[lane]) };
        let permit = self.permit(Action::Delete, &names, EntryKind::File)?;
        permit.perform_on(&place, Place::has_unchanged_name, || {
            rustix::fs::unlinkat(place.parent()?, place.name(), flags)
        })?;
        if place.is_folder() {
            self.rules.zones.folder_is_gone();
        }
        Ok(Answer::Done)
    }

    /// True for what is outside the tree, has no names below it, and is the kernel's to take away.
    fn is_granted_file(&self, given: &Given) -> bool {
        let zones = &self.rules.zones;
        let path = given.text.clone().map(|path| zones.unalias(path));
        let path =
            path.filter(|path| zones.of(path) == Zone::Granted && self.judge_place(path) == Ruling::Allow);
        let seen = path.and_then(|path| self.allowed_name(path)).map(|name| name.look());
        matches!(seen, Some(Ok(stat)) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
    }

    pub(super) fn link(&self, from: At, to: At, flags: i32) -> Result<Answer, Errno> {
        let last = if flags & libc::AT_SYMLINK_FOLLOW == 0 { Last::Keep } else { Last::Follow };
        let (from, to) = self.read_both(from, to)?;
        self.rules.folders.link();
        if flags == 0 && self.exempt_name(&from).is_some() && self.exempt_name(&to).is_some() {
            return Ok(Answer::Proceed);
        }
        let object = if from.path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            self.unaliased(resolve::descriptor(self.task, from.dirfd)?)
        } else {
            self.object(&from, last)?
        };
        let to = self.name(&to, Errno::EXIST)?.ok_or(Errno::EXIST)?;
        let target = self.lane(&to)?;
        self.expect_no_fixed_below(&to)?;
        let (found, names) = match &object {
            // Made without a name: the kernel could give it another one where it was made.
            Object::Nameless(found) if self.side_of_nameless(found) != target.side() => {
                return Err(Errno::XDEV);
            }
            Object::Nameless(found) => (found, judged(&[target])),
            Object::Named(place) => {
                let found = place.found.as_ref().ok_or(Errno::NOENT)?;
                let source = self.lane(place)?;
                self.expect_own_of_git(&place.path, Action::Link)?;
                // A name that needs no lock must never lead to a file that does.
                if source.side() != target.side() {
                    return Err(Errno::XDEV);
                }
                if source.is_for_kernel() && target.is_for_kernel() {
                    return Ok(Answer::Proceed);
                }
                (found, judged(&[source, target]))
            }
        };
        if found.kind() == FileType::Directory {
            return Err(Errno::PERM);
        }
        let link = || {
            // The agent itself may have moved it to another side.
            if let Object::Named(place) = &object {
                Self::expect_of_all(&[place], Place::is_unchanged)?;
            }
            Self::expect_of_all(&[&to], Place::has_unchanged_name)?;
            handle::link(&found.fd, to.parent()?, to.name())
        };
        let kind = match found.kind() {
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::File,
        };
        let permit = self.permit(Action::Link, &names, kind)?;
        permit.perform(|| self.rules.links.one_at_a_time(link))?;
        Ok(Answer::Done)
    }

    /// Where something without a name was made.
    fn side_of_nameless(&self, found: &Found) -> Side {
        let name = handle::name(&found.fd).map(PathBuf::from).unwrap_or_default();
        match self.rules.zones.of(&self.rules.zones.unalias(name)) {
            Zone::Exempt => Side::Exempt,
            Zone::Tree(name) if self.ask(|guard| guard.is_exempt(name)) => Side::Loose,
            Zone::Tree(_) => Side::Judged,
            Zone::Git | Zone::Protected => Side::Git,
            Zone::Above | Zone::Granted => Side::Outside,
        }
    }

    pub(super) fn symlink(&self, text: u64, at: At) -> Result<Answer, Errno> {
        let given = self.read(at)?;
        self.rules.folders.link();
        if self.exempt_name(&given).is_some() {
            return Ok(Answer::Proceed);
        }
        let text = self.task.read_path(text)?;
        let Some(place) = self.name(&given, Errno::EXIST)? else { return Ok(Answer::Proceed) };
        let Some(permit) = self.may_create(&place, EntryKind::Symlink)? else { return Ok(Answer::Proceed) };
        permit.perform_on(&place, Place::has_unchanged_name, || {
            rustix::fs::symlinkat(OsStr::from_bytes(&text), place.parent()?, place.name())
        })?;
        Ok(Answer::Done)
    }

    /// A socket's name. In the tree it is a new name like any other, and the broker gives it.
    pub(super) fn bind(&self, socket: i32, address: u64, length: u64) -> Result<Answer, Errno> {
        let Some(path) = self.socket_path(address, length)? else { return Ok(Answer::Proceed) };
        let given = self.given(libc::AT_FDCWD, path);
        if self.exempt_name(&given).is_some() {
            return Ok(Answer::Proceed);
        }
        let place = self.name(&given, Errno::ADDRINUSE)?.ok_or(Errno::ADDRINUSE)?;
        let permit = match self.may_create(&place, EntryKind::File) {
            Ok(Some(permit)) => permit,
            Ok(None) => return Ok(Answer::Proceed),
            Err(Errno::EXIST) => return Err(Errno::ADDRINUSE),
            Err(errno) => return Err(errno),
        };
        permit.perform_on(&place, Place::has_unchanged_name, || {
            handle::bind(&self.task.borrow(socket)?, place.parent()?, &place.name())
        })?;
        if !place.path.parent().is_some_and(hands_down_access) {
            set_mode(&place, Mode::from_raw_mode(0o777 & !self.rules.umasks.of(self.task)))?;
        }
        Ok(Answer::Done)
    }

    /// The path in a socket's address; none if it has another kind of name. If it is another one when the kernel reads it, that
    /// still meets Landlock.
    fn socket_path(&self, address: u64, length: u64) -> Result<Option<Vec<u8>>, Errno> {
        const FAMILY: usize = size_of::<libc::sa_family_t>();
        if !(FAMILY as u64 + 1..=size_of::<libc::sockaddr_un>() as u64).contains(&length) {
            return Ok(None);
        }
        let bytes = self.task.read_bytes(address, length)?;
        let (family, path) = bytes.split_at(FAMILY);
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_path = family == libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or(1).to_ne_bytes()
            && !path.is_empty();
        Ok(is_path.then(|| path.to_vec()))
    }

    /// Folders need no lock: they hold nothing by themselves. But they do not take a name that somebody else has locked.
    pub(super) fn mkdir(&self, at: At, mode: u32) -> Result<Answer, Errno> {
        let given = self.read(at)?;
        if let Some(name) = self.exempt_name(&given) {
            if name.look().err() == Some(Errno::NOENT) {
                self.rules.folders.make(&name.path);
            }
            return Ok(Answer::Proceed);
        }
        let Some(place) = self.name(&given, Errno::EXIST)? else { return Ok(Answer::Proceed) };
        if place.found.is_some() {
            return Err(Errno::EXIST);
        }
        let lane = self.lane(&place)?;
        if lane.is_for_kernel() {
            return Ok(Answer::Proceed);
        }
        let permit = self.permit(Action::Create, &judged(&[lane]), EntryKind::Directory)?;
        permit.perform_on(&place, Place::has_unchanged_name, || self.make_folder(&place, mode))?;
        if self.rules.zones.is_git(&place.path) {
            self.ask(|guard| guard.makes_git_directory(&place.path));
        }
        Ok(Answer::Done)
    }

    fn make_folder(&self, place: &Place, mode: u32) -> Result<(), Errno> {
        let umasks = &self.rules.umasks;
        // The kernel takes no other bits for a folder.
        let mode = mode & 0o1777;
        let masked = Mode::from_raw_mode(mode & !umasks.of(self.task));
        if self.place_spare(place, masked)?.is_some() {
            return Ok(());
        }
        let (mode, needs_more) = umasks.apply(self.task, mode, place.path.parent());
        rustix::fs::mkdirat(place.parent()?, place.name(), mode)?;
        if needs_more {
            set_mode(place, mode)?;
        }
        Ok(())
    }

    /// Makes an exempt folder out of one that Landlock allows. None if it has to be made like any other.
    pub(super) fn place_spare(&self, place: &Place, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
        let Rules { zones, spares, callers, .. } = self.rules;
        let Zone::Tree(name) = zones.of(&place.path) else { return Ok(None) };
        let is_exempt = |name: &Path| !name.as_os_str().is_empty() && self.ask(|guard| guard.is_exempt(name));
        // A spare folder belongs to the supervisor, and has not inherited what a new one would. In another exempt folder
        // nobody would expect a file system of its own.
        if spares.left().is_empty()
            || callers.have_own_rights()
            || zones.carries_fixed(&place.path)
            || place.path.parent().is_none_or(hands_down)
            || name.parent().is_some_and(is_exempt)
            || !self.ask(|guard| guard.is_exempt_folder(name))
        {
            return Ok(None);
        }
        let Some(placed) = spares.place(place.parent()?, &place.path, mode)? else { return Ok(None) };
        let fd = rustix::io::fcntl_dupfd_cloexec(&placed.fd, 0);
        zones.add_exempt(placed);
        fd.map(Some)
    }

    pub(super) fn mknod(&self, at: At, mode: u32, device: u64) -> Result<Answer, Errno> {
        // A mode without a kind makes a regular file.
        let kind = match FileType::from_raw_mode(mode) {
            _ if mode & libc::S_IFMT == 0 => FileType::RegularFile,
            kind => kind,
        };
        let Some(place) = self.name(&self.read(at)?, Errno::EXIST)? else { return Err(Errno::EXIST) };
        let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
        if kind == FileType::BlockDevice {
            return Err(Errno::PERM);
        }
        let Some(permit) = self.may_create(&place, EntryKind::File)? else { return Ok(Answer::Proceed) };
        if is_device {
            return Err(Errno::PERM);
        }
        let (mode, needs_more) = self.rules.umasks.apply(self.task, mode, place.path.parent());
        permit.perform_on(&place, Place::has_unchanged_name, || {
            rustix::fs::mknodat(place.parent()?, place.name(), kind, mode, device)
        })?;
        if needs_more {
            set_mode(&place, mode)?;
        }
        Ok(Answer::Done)
    }

    /// Asks for a new name. None if the kernel shall make it.
    fn may_create(&self, place: &Place, kind: EntryKind) -> Result<Option<Permit<'_>>, Errno> {
        if place.found.is_some() {
            return Err(Errno::EXIST);
        }
        let lane = self.lane(place)?;
        if lane.is_for_kernel() {
            return Ok(None);
        }
        self.expect_no_fixed_below(place)?;
        self.permit(Action::Create, &judged(&[lane]), kind).map(Some)
    }
}
