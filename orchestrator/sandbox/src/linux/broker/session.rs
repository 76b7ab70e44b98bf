//! One call from its arrival to its answer: what all kinds of calls share.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::call::{At, Call};
use super::{Answer, Rules};
use crate::linux::disguise::Disguise;
use crate::linux::notify::{Listener, Request};
use crate::linux::resolve::{self, Found, Given, Last, Object, Place};
use crate::linux::task::Task;
use crate::linux::zones::Zone;
use crate::{Action, Attempt, EntryKind, Guard, Ruling};

/// Times a name may come to mean something else under our hands before we give up.
const RETRIES: u32 = 64;
/// A name means something else than what was judged, so the call is looked at anew. No errno that the kernel has.
const CHANGED: Errno = Errno::from_raw_os_error(1024);

/// Who performs a call on a name, and whether the guard is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane<'p> {
    /// In the tree: the guard first, then the broker.
    Judged(&'p Path),
    /// In git's folder: the broker.
    Free,
    /// In the tree, but no lock is needed: the broker.
    Loose,
    /// The same where Landlock says yes: the kernel.
    Exempt,
    /// Outside the tree where Landlock says no: the broker.
    Above,
    /// Outside the tree: the kernel.
    Kernel,
}

/// What is like a file system of its own: no file has names in two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Judged,
    Git,
    Loose,
    /// Whoever wins a race can write what has a name here, give it another one, and keep a way to it when its last name
    /// here is gone. So nothing leaves.
    Exempt,
    Outside,
}

impl Side {
    /// True if something that has one name only may move from here to `to`.
    pub(super) fn leads_to(self, to: Self) -> bool {
        let is_inside = |side: Self| !matches!(side, Self::Exempt | Self::Outside);
        self == to || is_inside(self) && (is_inside(to) || to == Self::Exempt)
    }
}

/// A name in a folder that Landlock allows.
#[derive(Debug)]
pub(super) struct AllowedName {
    pub(super) folder: Arc<OwnedFd>,
    pub(super) path: PathBuf,
}

impl AllowedName {
    /// What has the name, itself and not what it points to.
    pub(super) fn look(&self) -> Result<Stat, Errno> {
        let name = self.path.file_name().ok_or(Errno::NOENT)?;
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Lane<'_> {
    pub(super) fn side(self) -> Side {
        match self {
            Self::Judged(_) => Side::Judged,
            Self::Free => Side::Git,
            Self::Loose => Side::Loose,
            Self::Exempt => Side::Exempt,
            Self::Above | Self::Kernel => Side::Outside,
        }
    }

    pub(super) fn is_for_kernel(self) -> bool {
        matches!(self, Self::Exempt | Self::Kernel)
    }
}

pub(super) struct Session<'a> {
    pub(super) rules: &'a Rules,
    listener: &'a Listener,
    request: &'a Request,
    pub(super) task: Task,
    disguise: Option<Disguise>,
    /// See [`Guard::grants`], before anything was looked at.
    grants: Option<u64>,
}

/// A call that may be performed. The guard is told when it is over.
#[must_use]
pub(super) struct Permit<'s> {
    session: &'s Session<'s>,
    is_judged: bool,
    is_performed: bool,
}

impl Permit<'_> {
    pub(super) fn perform<T>(mut self, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let done = work();
        self.is_performed = done.is_ok();
        done
    }

    /// The same for a call about the name or the file there, as `is_still` says, unless that has changed since it was looked at.
    pub(super) fn perform_on<T>(
        self,
        place: &Place,
        is_still: fn(&Place) -> bool,
        work: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (session, is_judged) = (self.session, self.is_judged);
        self.perform(|| {
            if is_judged {
                session.expect(&[place], is_still)?;
            }
            work()
        })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_judged {
            self.session.ask(|guard| guard.is_over(self.session.task.tid, self.is_performed));
        }
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(rules: &'a Rules, listener: &'a Listener, request: &'a Request) -> Result<Self, Errno> {
        let task = Task { tid: request.tid };
        let (disguise, grants) = (Disguise::of(task, &rules.callers)?, rules.guard.grants());
        Ok(Self { rules, listener, request, task, disguise, grants })
    }

    /// Asks the guard, with the supervisor's rights: what it needs to look at may not be the caller's to see.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&dyn Guard) -> T) -> T {
        let ask = || question(&*self.rules.guard);
        match &self.disguise {
            Some(disguise) => disguise.lifted(ask),
            None => ask(),
        }
    }

    pub(super) fn decide(&self, call: Call) -> Result<Answer, Errno> {
        for _ in 0..RETRIES {
            match self.try_to_decide(call) {
                Err(CHANGED) => {}
                answer => return answer,
            }
        }
        Err(Errno::ACCESS)
    }

    fn try_to_decide(&self, call: Call) -> Result<Answer, Errno> {
        match call {
            Call::Open { at, flags, mode } => self.open(at, flags, mode),
            Call::OpenHow { at, how, size } => self.open_how(at, how, size),
            Call::Rename { from, to, flags } => self.rename(from, to, flags),
            Call::Unlink { at, flags } => self.unlink(at, flags),
            Call::Link { from, to, flags } => self.link(from, to, flags),
            Call::Symlink { text, at } => self.symlink(text, at),
            Call::Mkdir { at, mode } => self.mkdir(at, mode),
            Call::Mknod { at, mode, device } => self.mknod(at, mode, device),
            Call::Truncate { at, length } => self.truncate(at, length),
            Call::Chmod { at, mode, flags } => self.chmod(at, mode, flags),
            Call::Fchmod { fd, mode } => self.fchmod(fd, mode),
            Call::Attribute { of, name, change } => self.attribute(of, name, change),
            Call::Bind { socket, address, length } => self.bind(socket, address, length),
            Call::Umask { mask } => {
                self.rules.umasks.changes(self.task, mask);
                Ok(Answer::Proceed)
            }
            Call::Folder => {
                self.rules.folders.go();
                Ok(Answer::Proceed)
            }
            Call::Rights => {
                self.rules.callers.rights_change();
                Ok(Answer::Proceed)
            }
            Call::Limits { pid, new } if new == 0 || self.task.is_kin(pid) => Ok(Answer::Proceed),
            Call::Limits { .. } | Call::Mark => Err(Errno::PERM),
            Call::Priority { of } => self.priority(of),
            Call::Begin => Ok(Answer::Proceed),
            Call::Exec { path, args, env } => self.exec(path, args, env),
        }
    }

    /// A path argument, read from the caller once.
    pub(super) fn read(&self, at: At) -> Result<Given, Errno> {
        Ok(self.given(at.dirfd, self.task.read_path(at.path)?))
    }

    /// Two path arguments, both read from the caller once, mostly in one step.
    pub(super) fn read_both(&self, one: At, other: At) -> Result<(Given, Given), Errno> {
        match <[_; 2]>::try_from(self.task.read_texts(&[one.path, other.path])) {
            Ok([first, second]) => Ok((self.given(one.dirfd, first), self.given(other.dirfd, second))),
            Err(_unreadable) => Ok((self.read(one)?, self.read(other)?)),
        }
    }

    pub(super) fn given(&self, dirfd: i32, path: Vec<u8>) -> Given {
        let Rules { folders, callers, .. } = self.rules;
        Given::new(dirfd, path, || folders.name(callers, self.task.tid, dirfd))
    }

    /// What a path leads to.
    pub(super) fn object(&self, given: &Given, last: Last) -> Result<Object, Errno> {
        resolve::resolve(self.task, given, last).map(|object| self.unaliased(object))
    }

    /// Gives a name in a second mount of the tree its name in the tree.
    pub(super) fn unaliased(&self, object: Object) -> Object {
        match object {
            Object::Named(mut place) => {
                place.path = self.rules.zones.unalias(place.path);
                Object::Named(place)
            }
            nameless @ Object::Nameless(_) => nameless,
        }
    }

    /// The name in an exempt folder that was given, if that can be told from its text and the folder it is in: the kernel
    /// may run whatever a call does to it.
    pub(super) fn exempt_name(&self, given: &Given) -> Option<AllowedName> {
        let zones = &self.rules.zones;
        let path = zones.unalias(given.text.clone()?);
        if !zones.is_exempt(&path) || zones.carries_fixed(&path) || zones.carries_exempt(&path) {
            return None;
        }
        self.allowed_name(path)
    }

    /// This name, which Landlock allows if it is canonical. None if it is not.
    pub(super) fn allowed_name(&self, path: PathBuf) -> Option<AllowedName> {
        let folder = self.rules.folders.open(path.parent()?).ok()?;
        Some(AllowedName { folder, path })
    }

    /// Which way a name goes; an error if nobody may change it.
    pub(super) fn lane<'p>(&self, place: &'p Place) -> Result<Lane<'p>, Errno> {
        let zone = self.rules.zones.of(&place.path);
        if !matches!(zone, Zone::Protected | Zone::Git) {
            self.obey(&self.judge_place(&place.path))?;
        }
        match zone {
            Zone::Protected if self.ask(|guard| guard.unlocks(&place.path)) => Ok(Lane::Free),
            Zone::Protected => Err(self.refuse_fixed(&place.path)),
            Zone::Tree(name) if name.as_os_str().is_empty() => Ok(Lane::Free),
            Zone::Tree(name) if self.ask(|guard| guard.is_exempt(name)) => Ok(Lane::Loose),
            Zone::Tree(name) => Ok(Lane::Judged(name)),
            Zone::Exempt => Ok(Lane::Exempt),
            Zone::Git => Ok(Lane::Free),
            Zone::Above => Ok(Lane::Above),
            Zone::Granted => Ok(Lane::Kernel),
        }
    }

    pub(super) fn judge_place(&self, path: &Path) -> Ruling {
        self.ask(|guard| guard.judge_place(self.task.tid, path))
    }

    /// For a name that must stay as it is.
    pub(super) fn refuse_fixed(&self, path: &Path) -> Errno {
        let usual = || {
            let shown = path.strip_prefix(self.rules.zones.root()).unwrap_or(path);
            format!("mala: `{}` is protected: agents cannot change it", shown.display())
        };
        self.task.tell(&self.ask(|guard| guard.explains_protected(path)).unwrap_or_else(usual));
        Errno::ACCESS
    }

    /// An error for a new name, of anything but a folder, at which something protected may lie below one day: a link there would
    /// lead to what is not protected, and a file would keep it from being made.
    pub(super) fn expect_no_fixed_below(&self, place: &Place) -> Result<(), Errno> {
        let path = &place.path;
        let is_new = place.found.is_none();
        match is_new && self.rules.zones.carries_fixed(path) && !self.ask(|guard| guard.unlocks(path)) {
            true => Err(self.refuse_fixed(path)),
            false => Ok(()),
        }
    }

    /// The names that a change to the content or the mode of an existing file is about.
    pub(super) fn names(&self, found: &Found, lane: Lane<'_>) -> Vec<PathBuf> {
        let Rules { zones, links, .. } = self.rules;
        let linked = found.kind() == FileType::RegularFile && found.stat.st_nlink > 1;
        match lane {
            Lane::Judged(name) => {
                let mut names = if linked {
                    self.ask(|guard| links.now(found.identity(), zones, guard))
                } else {
                    Vec::new()
                };
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_path_buf());
                }
                names
            }
            _ if linked => self.ask(|guard| links.behind(found.identity(), zones, guard)),
            _ => Vec::new(),
        }
    }

    /// An error, and words for the caller, if this is a refusal.
    pub(super) fn obey(&self, ruling: &Ruling) -> Result<(), Errno> {
        if self.is_refused(ruling) { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// An error for a change to a file of git that only git itself makes, in another way.
    pub(super) fn expect_own_of_git(&self, path: &Path, action: Action) -> Result<(), Errno> {
        if !self.rules.zones.is_git(path) {
            return Ok(());
        }
        self.obey(&self.ask(|guard| guard.judge_git_file(self.task.tid, path, action)))
    }

    /// Asks the guard, unless no name needs a lock. Afterwards the caller is known to be still there: what was
    /// resolved through its number was its own.
    pub(super) fn permit(
        &self,
        action: Action,
        names: &[&Path],
        kind: EntryKind,
    ) -> Result<Permit<'_>, Errno> {
        let is_judged = !names.is_empty();
        if is_judged {
            let attempt = Attempt { pid: self.task.tid, action, paths: names, kind };
            self.obey(&self.ask(|guard| guard.judge(&attempt)))?;
        }
        let permit = Permit { session: self, is_judged, is_performed: false };
        if self.is_waiting() { Ok(permit) } else { Err(Errno::SRCH) }
    }

    /// Tells the caller what the guard has to say. True if it said no.
    pub(super) fn is_refused(&self, ruling: &Ruling) -> bool {
        match ruling {
            Ruling::Allow => false,
            Ruling::AllowAndTell { message } => {
                self.task.tell(message);
                false
            }
            Ruling::Refuse { message } => {
                self.task.tell(message);
                true
            }
        }
    }

    /// An error if a name does not lead any more to what it led to when it was looked at. Whoever had it then may have moved
    /// the file, and what is judged is the name. What the agent has had since before cannot have been moved by others.
    pub(super) fn expect(&self, places: &[&Place], is_still: fn(&Place) -> bool) -> Result<(), Errno> {
        if self.grants.is_some() && self.rules.guard.grants() == self.grants {
            return Ok(());
        }
        Self::expect_of_all(places, is_still)
    }

    /// The same, whoever could have moved it.
    pub(super) fn expect_of_all(places: &[&Place], is_still: fn(&Place) -> bool) -> Result<(), Errno> {
        if places.iter().all(|place| is_still(place)) { Ok(()) } else { Err(CHANGED) }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.listener.is_waiting(self.request)
    }
}
