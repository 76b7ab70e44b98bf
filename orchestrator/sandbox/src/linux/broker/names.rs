//! Names that come, go and move: rename, unlink, link, symlink, mkdir, mknod.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::call::At;
use super::session::{Lane, Permit, Session, Side};
use super::{Answer, Rules};
use crate::Action;
use crate::linux::handle;
use crate::linux::resolve::{self, Found, Given, Last, Object, Place};
use crate::linux::task::hands_down_access;
use crate::linux::zones::Zone;

/// A folder with more in it is renamed rather than moved in parts.
const FEW: usize = 4;
/// A folder that is deeper is not looked through: every level takes a descriptor.
const DEEPEST: usize = 100;

/// The names of `lanes` that the guard is asked about.
fn judged<'p>(lanes: &[Lane<'p>]) -> Vec<&'p Path> {
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

/// True for a file with several links, and for a folder with such a file in it. As it is now: a link may just have been made.
/// Looked at in the very folder that it is moved from: a path may lead elsewhere.
fn has_further_names(place: &Place) -> Result<bool, Errno> {
    let stat = rustix::fs::statat(place.parent()?, place.name(), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(stat.st_nlink > 1);
    }
    let folder = open_below(place.parent()?, &place.name())?;
    // What cannot be looked at may have them.
    Ok(has_linked_files(&folder, DEEPEST).unwrap_or(true))
}

fn has_linked_files(folder: &OwnedFd, depth: usize) -> Result<bool, Errno> {
    let depth = depth.checked_sub(1).ok_or(Errno::LOOP)?;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name)
            || !matches!(entry.file_type(), FileType::RegularFile | FileType::Directory | FileType::Unknown)
        {
            continue;
        }
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        let is_linked = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => stat.st_nlink > 1,
            FileType::Directory => {
                has_linked_files(&open_below(folder, OsStr::from_bytes(name.to_bytes()))?, depth)?
            }
            _ => false,
        };
        if is_linked {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_below(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// What is in a folder, if that is not much.
fn few_names_in(folder: &OwnedFd) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::new(open_below(folder, OsStr::new(".")).ok()?).ok()? {
        let entry = entry.ok()?;
        if !is_dots(entry.file_name()) {
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        }
        if names.len() > FEW {
            return None;
        }
    }
    Some(names)
}

/// True if what is made in the folder gets its group or its access list.
fn hands_down(folder: &Path) -> bool {
    rustix::fs::stat(folder).is_ok_and(|stat| stat.st_mode & libc::S_ISGID != 0) || hands_down_access(folder)
}

impl Session<'_> {
    /// The place of a name that is itself changed; none for what has no name.
    fn name(&self, given: &Given, if_dots: Errno) -> Result<Option<Place>, Errno> {
        if ends_in_dots(&given.path) {
            return Err(if_dots);
        }
        match self.object(given, Last::Keep)? {
            Object::Named(place) => Ok(Some(place)),
            Object::Nameless(_) => Ok(None),
        }
    }

    pub(super) fn rename(&self, from: At, to: At, flags: u32) -> Result<Answer, Errno> {
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        if flags.contains(RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        let (from, to) = self.read_both(from, to)?;
        if flags.is_empty()
            && let Some(name) = self.exempt_name(&from)
            && name.look().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            && self.exempt_name(&to).is_some()
        {
            return Ok(Answer::Proceed);
        }
        self.rules.folders.link();
        let (from, to) = (self.name(&from, Errno::BUSY)?, self.name(&to, Errno::BUSY)?);
        let (Some(from), Some(to)) = (from, to) else { return Err(Errno::BUSY) };
        if from.found.is_none() {
            return Err(Errno::NOENT);
        }
        let is_fixed = |place: &&Place| {
            let path = &place.path;
            self.rules.zones.carries_fixed(path) && !self.ask(|guard| guard.unlocks(path))
        };
        if let Some(fixed) = [&from, &to].into_iter().find(is_fixed) {
            return Err(self.refuse_fixed(&fixed.path));
        }
        // The kernel would refuse it as well, and nobody needs a lock to hear that.
        if to.found.is_some() && !flags.contains(RenameFlags::EXCHANGE) {
            match (from.is_folder(), to.is_folder()) {
                _ if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                _ => {}
            }
        }
        let is_folder = from.is_folder() || to.is_folder();
        if is_folder {
            self.rules.folders.change();
        }
        let lanes = [self.lane(&from)?, self.lane(&to)?];
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        let moving = if exchanges { vec![&from, &to] } else { vec![&from] };
        let sides = lanes.map(Lane::side);
        if !sides[0].leads_to(sides[1])
            || exchanges && !sides[1].leads_to(sides[0])
            || moving.iter().any(|place| self.rules.zones.carries_exempt(&place.path))
        {
            return Err(Errno::XDEV);
        }
        if lanes.iter().all(|lane| lane.is_for_kernel()) {
            return Ok(Answer::Proceed);
        }
        let action = if exchanges { Action::Exchange } else { Action::Rename };
        let rename = || {
            if sides[0] == sides[1] {
                self.expect(&[&from, &to], Place::has_unchanged_name)?;
            } else {
                Self::expect_of_all(&[&from, &to], Place::has_unchanged_name)?;
            }
            let from_folder = from.parent()?;
            let to_folder = if from.path.parent() == to.path.parent() { from_folder } else { to.parent()? };
            for place in moving {
                // What has further names would have them on both sides.
                if sides[0] != sides[1] && has_further_names(place)? {
                    return Err(Errno::XDEV);
                }
            }
            if self.adopt(&from, &to)? {
                return Ok(());
            }
            if self.rules.zones.is_git(&to.path) {
                self.ask(|guard| guard.replaces_git_file(&from.path, &to.path));
            }
            rustix::fs::renameat_with(from_folder, from.name(), to_folder, to.name(), flags)
        };
        let permit = self.permit(action, &judged(&lanes), is_folder)?;
        permit.perform(|| self.rules.links.one_at_a_time(rename))?;
        if to.is_folder() {
            self.rules.zones.folder_is_gone();
        }
        Ok(Answer::Done)
    }

    pub(super) fn unlink(&self, at: At, flags: i32) -> Result<Answer, Errno> {
        let flags = AtFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::INVAL)?;
        let given = self.read(at)?;
        if self.exempt_name(&given).is_some() {
            if flags.contains(AtFlags::REMOVEDIR) {
                self.rules.folders.change();
            }
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
            self.rules.folders.change();
        }
        let lane = self.lane(&place)?;
        if lane.is_for_kernel() {
            return Ok(Answer::Proceed);
        }
        // The kernel would refuse it as well, but by then it may be another file.
        match (place.is_folder(), flags.contains(AtFlags::REMOVEDIR)) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            _ => {}
        }
        // An empty folder is nobody's.
        let names = if place.is_folder() { Vec::new() } else { judged(&[lane]) };
        let permit = self.permit(Action::Delete, &names, false)?;
        permit.perform_on(&place, Place::has_unchanged_name, || {
            rustix::fs::unlinkat(place.parent()?, place.name(), flags)
        })?;
        if place.is_folder() {
            self.rules.zones.folder_is_gone();
        }
        Ok(Answer::Done)
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
        let (found, names) = match &object {
            // Made without a name: the kernel could give it another one where it was made.
            Object::Nameless(found) if self.side_of_nameless(found) != target.side() => {
                return Err(Errno::XDEV);
            }
            Object::Nameless(found) => (found, judged(&[target])),
            Object::Named(place) => {
                let found = place.found.as_ref().ok_or(Errno::NOENT)?;
                let source = self.lane(place)?;
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
        let permit = self.permit(Action::Link, &names, false)?;
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
        let Some(permit) = self.may_create(&place)? else { return Ok(Answer::Proceed) };
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
        let permit = match self.may_create(&place) {
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
        let permit = self.permit(Action::Create, &judged(&[lane]), true)?;
        permit.perform_on(&place, Place::has_unchanged_name, || self.make_folder(&place, mode))?;
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
    fn place_spare(&self, place: &Place, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
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

    /// Renames a folder to what is an exempt one then, by moving what is in it into a spare one: cargo makes its folder under
    /// another name. False if it has to be renamed like any other; with much in it, nobody should see it half moved.
    fn adopt(&self, from: &Place, to: &Place) -> Result<bool, Errno> {
        let Some(folder) = from.found.as_ref().filter(|_| from.is_folder() && to.found.is_none()) else {
            return Ok(false);
        };
        let Some(names) = few_names_in(&folder.fd) else { return Ok(false) };
        let mode = Mode::from_raw_mode(folder.stat.st_mode & 0o7777);
        if has_further_names(from)? {
            return Ok(false);
        }
        let Some(spare) = self.place_spare(to, mode)? else { return Ok(false) };
        let move_all = |from: &OwnedFd, to: &OwnedFd| {
            names.iter().try_for_each(|name| rustix::fs::renameat(from, name, to, name))
        };
        let remove = |place: &Place| rustix::fs::unlinkat(place.parent()?, place.name(), AtFlags::REMOVEDIR);
        let moved = move_all(&folder.fd, &spare).and_then(|()| remove(from));
        if moved.is_err() {
            let _what_was_moved = move_all(&spare, &folder.fd);
            let _empty = remove(to);
        }
        moved.map(|()| true)
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
        let Some(permit) = self.may_create(&place)? else { return Ok(Answer::Proceed) };
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
    fn may_create(&self, place: &Place) -> Result<Option<Permit<'_>>, Errno> {
        if place.found.is_some() {
            return Err(Errno::EXIST);
        }
        let lane = self.lane(place)?;
        if lane.is_for_kernel() {
            return Ok(None);
        }
        self.permit(Action::Create, &judged(&[lane]), false).map(Some)
    }
}
