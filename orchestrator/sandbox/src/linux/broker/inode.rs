//! Changes to a file that need no descriptor: its length, its mode and its attributes.
//!
//! Always performed here, also outside the tree: Landlock does not see modes and attributes, and older kernels' Landlock
//! does not see lengths, so letting the kernel look the name up again would open a race.

use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::Answer;
use super::call::{At, AttributeChange, Owner};
use super::session::{Permit, Session};
use crate::linux::handle;
use crate::linux::resolve::{self, Found, Last, Object, Place};
use crate::{Action, EntryKind};

/// The kernel's limits.
const ATTRIBUTE_NAME_MOST: usize = 255;
const ATTRIBUTE_MOST: u64 = 64 << 10;

impl Session<'_> {
    pub(super) fn truncate(&self, at: At, length: i64) -> Result<Answer, Errno> {
        let length = u64::try_from(length).map_err(|_negative| Errno::INVAL)?;
        let object = self.object(&self.read(at)?, Last::Follow)?;
        let (found, permit) = self.may_change(&object, Action::Write)?;
        match found.kind() {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        permit.perform(|| {
            let file = handle::reopen(&found.fd, OFlags::WRONLY | OFlags::NOCTTY, Mode::empty())?;
            rustix::fs::ftruncate(&file, length)
        })?;
        Ok(Answer::Done)
    }

    pub(super) fn chmod(&self, at: At, mode: u32, flags: i32) -> Result<Answer, Errno> {
        let last = if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { Last::Follow } else { Last::Keep };
        let given = self.read(at)?;
        let object = match (given.path.is_empty() && flags & libc::AT_EMPTY_PATH != 0, at.dirfd) {
            (true, libc::AT_FDCWD) => self.object(&self.given(at.dirfd, b".".to_vec()), last)?,
            (true, fd) => self.unaliased(resolve::descriptor(self.task, fd)?),
            (false, _) => self.object(&given, last)?,
        };
        self.change_mode(&object, mode)
    }

    pub(super) fn fchmod(&self, fd: i32, mode: u32) -> Result<Answer, Errno> {
        let object = self.unaliased(resolve::descriptor(self.task, fd)?);
        self.change_mode(&object, mode)
    }

    fn change_mode(&self, object: &Object, mode: u32) -> Result<Answer, Errno> {
        // Nobody could work in the checkout any more.
        if let Object::Named(place) = object
            && place.path == self.rules.zones.root()
            && mode & 0o700 != 0o700
        {
            return Err(self.refuse_fixed(&place.path));
        }
        let (found, permit) = self.may_change(object, Action::Chmod)?;
        if found.kind() == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        permit.perform(|| handle::chmod(&found.fd, Mode::from_raw_mode(mode & 0o7777)))?;
        Ok(Answer::Done)
    }

    /// Access lists are judged as modes are. Other attributes are neither content nor kept by git.
    pub(super) fn attribute(&self, of: Owner, name: u64, change: AttributeChange) -> Result<Answer, Errno> {
        let name = self.task.read_text(name, ATTRIBUTE_NAME_MOST).map_err(|errno| match errno {
            Errno::NAMETOOLONG => Errno::RANGE,
            errno => errno,
        })?;
        let value = match change {
            AttributeChange::Set { size, .. } if size > ATTRIBUTE_MOST => return Err(Errno::TOOBIG),
            AttributeChange::Set { value, size, .. } => self.task.read_bytes(value, size)?,
            AttributeChange::Remove => Vec::new(),
        };
        let object = match of {
            Owner::Named(at) => self.object(&self.read(at)?, Last::Follow)?,
            Owner::NamedLink(at) => self.object(&self.read(at)?, Last::Keep)?,
            Owner::Open(fd) => self.unaliased(resolve::descriptor(self.task, fd)?),
        };
        let (found, permit) = if name.starts_with(b"system.") {
            self.may_change(&object, Action::Chmod)?
        } else {
            let permit = self.permit(Action::Chmod, &[], EntryKind::File)?;
            match &object {
                Object::Named(place) => (place.found.as_ref().ok_or(Errno::NOENT)?, permit),
                Object::Nameless(found) => (found, permit),
            }
        };
        if found.kind() == FileType::Symlink {
            return Err(Errno::PERM);
        }
        permit.perform(|| match change {
            AttributeChange::Set { flags, .. } => {
                let flags = XattrFlags::from_bits(flags).ok_or(Errno::INVAL)?;
                handle::set_attribute(&found.fd, &name, &value, flags)
            }
            AttributeChange::Remove => handle::remove_attribute(&found.fd, &name),
        })?;
        Ok(Answer::Done)
    }

    /// Asks for a change to an existing file under all of its names.
    fn may_change<'o>(&self, object: &'o Object, action: Action) -> Result<(&'o Found, Permit<'_>), Errno> {
        let place = match object {
            Object::Nameless(found) => return Ok((found, self.permit(action, &[], EntryKind::File)?)),
            Object::Named(place) => place,
        };
        let found = place.found.as_ref().ok_or(Errno::NOENT)?;
        let names = self.names(found, self.lane(place)?);
        self.expect_own_of_git(&place.path, action)?;
        let names: Vec<&Path> = names.iter().map(|name| name.as_path()).collect();
        let permit = self.permit(action, &names, place.kind())?;
        if !names.is_empty() {
            self.expect(&[place], Place::is_unchanged)?;
        }
        Ok((found, permit))
    }
}
