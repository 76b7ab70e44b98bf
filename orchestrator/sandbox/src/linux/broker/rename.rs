//! Names that move.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Answer;
use super::call::At;
use super::names::judged;
use super::session::{Lane, Session, Side};
use crate::linux::resolve::{Given, Place};
use crate::{Action, EntryKind};

/// A folder with more in it is renamed rather than moved in parts.
const FEW: usize = 4;
/// A folder that is deeper is not looked through: every level takes a descriptor.
const DEEPEST: usize = 100;

/// A rename, with what its names lead to.
struct Move {
    from: Place,
    to: Place,
    flags: RenameFlags,
}

impl Move {
    fn places(&self) -> [&Place; 2] {
        [&self.from, &self.to]
    }

    /// What gets another name.
    fn moving(&self) -> Vec<&Place> {
        if self.exchanges() { vec![&self.from, &self.to] } else { vec![&self.from] }
    }

    fn exchanges(&self) -> bool {
        self.flags.contains(RenameFlags::EXCHANGE)
    }

    fn concerns_folders(&self) -> bool {
        self.from.is_folder() || self.to.is_folder()
    }

    fn kind(&self) -> EntryKind {
        let is_link =
            |place: &&Place| place.found.as_ref().is_some_and(|found| found.kind() == FileType::Symlink);
        match self.concerns_folders() {
            true => EntryKind::Directory,
            false if self.moving().iter().any(is_link) => EntryKind::Symlink,
            false => EntryKind::File,
        }
    }

    /// The kernel would refuse it as well, and nobody needs a lock to hear that.
    fn check_kinds(&self) -> Result<(), Errno> {
        if self.to.found.is_none() || self.exchanges() {
            return Ok(());
        }
        match (self.from.is_folder(), self.to.is_folder()) {
            _ if self.flags.contains(RenameFlags::NOREPLACE) => Err(Errno::EXIST),
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            _ => Ok(()),
        }
    }

    fn perform(&self) -> Result<(), Errno> {
        let from = self.from.parent()?;
        let to = if self.from.path.parent() == self.to.path.parent() { from } else { self.to.parent()? };
        rustix::fs::renameat_with(from, self.from.name(), to, self.to.name(), self.flags)
    }
}

impl Session<'_> {
    pub(super) fn rename(&self, from: At, to: At, flags: u32) -> Result<Answer, Errno> {
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        if flags.contains(RenameFlags::WHITEOUT) {
            return Err(Errno::INVAL);
        }
        let (from, to) = self.read_both(from, to)?;
        if flags.is_empty() && self.is_exempt_file(&from) && self.exempt_name(&to).is_some() {
            return Ok(Answer::Proceed);
        }
        self.rules.folders.link();
        let (from, to) = (self.name(&from, Errno::BUSY)?, self.name(&to, Errno::BUSY)?);
        let (Some(from), Some(to)) = (from, to) else { return Err(Errno::BUSY) };
        if from.found.is_none() {
            return Err(Errno::NOENT);
        }
        self.judge_move(&Move { from, to, flags })
    }

    fn is_exempt_file(&self, given: &Given) -> bool {
        self.exempt_name(given).is_some_and(|name| {
            name.look().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        })
    }

    fn judge_move(&self, change: &Move) -> Result<Answer, Errno> {
        let is_fixed = |place: &&Place| {
            let path = &place.path;
            self.rules.zones.carries_fixed(path) && !self.ask(|guard| guard.unlocks(path))
        };
        if let Some(fixed) = change.places().into_iter().find(is_fixed) {
            return Err(self.refuse_fixed(&fixed.path));
        }
        change.check_kinds()?;
        if change.concerns_folders() {
            for place in change.places() {
                self.rules.folders.change(&place.path);
            }
        }
        let lanes = [self.lane(&change.from)?, self.lane(&change.to)?];
        let sides = lanes.map(Lane::side);
        for place in change.moving() {
            self.expect_own_of_git(&place.path, Action::Rename)?;
        }
        if !self.may_cross(change, sides) {
            return Err(Errno::XDEV);
        }
        if lanes.iter().all(|lane| lane.is_for_kernel()) {
            return Ok(Answer::Proceed);
        }
        let action = if change.exchanges() { Action::Exchange } else { Action::Rename };
        let permit = self.permit(action, &judged(&lanes), change.kind())?;
        permit.perform(|| self.rules.links.one_at_a_time(|| self.perform_move(change, sides)))?;
        if change.to.is_folder() {
            self.rules.zones.folder_is_gone();
        }
        Ok(Answer::Done)
    }

    /// False if what moves would come to a side where it has no business.
    fn may_cross(&self, change: &Move, [from, to]: [Side; 2]) -> bool {
        from.leads_to(to)
            && (!change.exchanges() || to.leads_to(from))
            && !change.moving().iter().any(|place| self.rules.zones.carries_exempt(&place.path))
    }

    fn perform_move(&self, change: &Move, [from, to]: [Side; 2]) -> Result<(), Errno> {
        if from == to {
            self.expect(&change.places(), Place::has_unchanged_name)?;
        } else {
            Self::expect_of_all(&change.places(), Place::has_unchanged_name)?;
            for place in change.moving() {
                // What has further names would have them on both sides.
                if has_further_names(place)? {
                    return Err(Errno::XDEV);
                }
            }
        }
        if self.adopt(&change.from, &change.to)? {
            return Ok(());
        }
        if self.rules.zones.is_git(&change.to.path) {
            let (from, to) = (&change.from.path, &change.to.path);
            self.obey(&self.ask(|guard| guard.replaces_git_file(self.task.tid, from, to)))?;
        }
        change.perform()
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
