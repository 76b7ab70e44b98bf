//! The pool of slots: where a command runs so that its result means something.
//!
//! Slots lie in the user's cache directory, below no checkout and no `.git`: tools look for settings and dependencies in the
//! directories above, and a checkout's ignored `.cargo/config.toml` or `node_modules` would decide the result. A slot has build
//! directories, a home and a temporary directory of its own, shared with no tree and no other slot. Who has a slot holds a
//! file lock on it, which ends with its process.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mala_config::{Settings, Variables, format_size};
use mala_core::{Oid, Scope};
use mala_gate::runner::Confinement;
use mala_git::Repo;
use mala_git::slot::{Slot, SlotError};
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use crate::company::Company;
use crate::disk::{self, SlotUse, shown_size};
use crate::environment::{self, Homes};
use crate::share::{LeasedShare, NoFreePorts};

/// Enough for every agent to have one of its own: nobody waits to try something.
const MAX_TEST_SLOTS: u64 = 64;

/// How often a free slot is looked for, in milliseconds.
const POLL_INTERVAL: u8 = 50;
/// The trees that a slot has run since it was emptied, one to a line.
const TREES: &str = "trees";

#[derive(Debug, Error)]
pub enum SlotsError {
    #[error(
        "there is no place for slots: neither XDG_CACHE_HOME nor HOME is set; name one with `queue.directory` in the settings"
    )]
    NoCache,
    #[error(
        "slots cannot lie in `{}`, which is inside the checkout or its repository: name another directory with \
         `queue.directory` in the settings", .0.display()
    )]
    Inside(PathBuf),
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(
        "a single slot takes {}, which is more than `queue.max_disk` = \"{}\" allows: raise it in the settings",
         shown_size(*.size), format_size(*.bound)
    )]
    TooLarge { size: u64, bound: u64 },
    #[error(transparent)]
    Share(#[from] NoFreePorts),
    #[error("nobody waits for the slot any more")]
    Forsaken,
    #[error("cannot use `{}` for slots; name another directory with `queue.directory` in the settings", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SlotsError {
    let path = path.to_owned();
    move |source| SlotsError::Io { path, source }
}

/// What a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Proving what is to be landed.
    Validation,
    /// What agents and people try.
    Test,
}

impl Pool {
    fn name(self, number: u64) -> String {
        match self {
            Self::Validation => format!("v{number}"),
            Self::Test => format!("t{number}"),
        }
    }
}

/// The slots of one repository.
#[derive(Debug, Clone)]
pub struct Slots {
    repo: Repo,
    directory: PathBuf,
    keep: Vec<String>,
    validations: u64,
    /// In bytes; zero is no bound.
    max_disk: u64,
    env: Variables,
    company: Arc<Company>,
}

impl Slots {
    pub fn of(repo: &Repo, settings: &Settings) -> Result<Self, SlotsError> {
        let scope = repo.scope();
        let directory = slots_directory(scope, settings).ok_or(SlotsError::NoCache)?;
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let directory = directory.canonicalize().map_err(at(&directory))?;
        if directory.starts_with(scope.root()) || directory.starts_with(scope.git_dir()) {
            return Err(SlotsError::Inside(directory));
        }
        let keep = settings.build_directories();
        let (validations, max_disk) = (settings.queue.slots, settings.queue.max_disk);
        Ok(Self {
            repo: repo.clone(),
            directory,
            keep,
            validations,
            max_disk,
            env: settings.env.clone(),
            company: Arc::default(),
        })
    }

    /// How many validations run at a time at most.
    pub(crate) fn validations(&self) -> usize {
        usize::try_from(self.validations).unwrap_or(usize::MAX)
    }

    /// The validations that this process has under way.
    pub(crate) fn company(&self) -> &Company {
        &self.company
    }

    /// Waits for a slot. One that holds `near` already is the best, for nothing has to be built again. Without one, the slot is going
    /// to be emptied, and the one that was used least recently is. Waits until `asker` becomes readable at the longest.
    pub fn take(
        &self,
        pool: Pool,
        near: Option<&Oid>,
        asker: Option<BorrowedFd<'_>>,
    ) -> Result<Lease, SlotsError> {
        let mut waiting_since: Option<Instant> = None;
        loop {
            let most = match pool {
                Pool::Validation => self.validations,
                Pool::Test => MAX_TEST_SLOTS,
            };
            let places = (1..=most).map(|number| self.directory.join(pool.name(number)));
            let (made, unmade): (Vec<PathBuf>, Vec<PathBuf>) = places.partition(|dir| dir.is_dir());
            let mut free = Vec::new();
            for dir in made {
                free.extend(self.try_take(&dir)?);
            }
            // Further ones are only made when they are needed.
            if let Some(next) = unmade.first().filter(|_| free.is_empty()) {
                free.extend(self.try_take(next)?);
            }
            free.sort_by_key(|lease| match near {
                Some(near) => (!lease.holds(near), None),
                None => (false, disk::last_used(&lease.dir)),
            });
            if !free.is_empty() {
                let lease = free.swap_remove(0);
                drop(free);
                lease.waited.set(waiting_since.map(|since| since.elapsed()).unwrap_or_default());
                self.make_room(&lease)?;
                return Ok(lease);
            }
            waiting_since = waiting_since.or_else(|| Some(Instant::now()));
            wait(asker)?;
        }
    }

    /// Empties slots that nobody uses, those first that were used least recently, until all of them fit. Then this one.
    fn make_room(&self, mine: &Lease) -> Result<(), SlotsError> {
        let mut excess = self.excess()?;
        if excess == 0 {
            return Ok(());
        }
        let mut idle = disk::all(&self.directory)?;
        idle.retain(|slot| slot.path != mine.dir);
        idle.sort_by_key(|slot| slot.used);
        for slot in idle {
            if excess == 0 {
                return Ok(());
            }
            if let Some(lease) = self.try_take(&slot.path)? {
                lease.empty()?;
                excess = excess.saturating_sub(slot.size);
            }
        }
        if excess > 0 { mine.empty() } else { Ok(()) }
    }

    /// Empties the slots that nobody uses. Gives what they were.
    pub fn empty_idle(&self) -> Result<Vec<SlotUse>, SlotsError> {
        let mut emptied = Vec::new();
        for slot in disk::all(&self.directory)? {
            if let Some(lease) = self.try_take(&slot.path)? {
                lease.empty()?;
                emptied.push(slot);
            }
        }
        Ok(emptied)
    }

    /// By how much all slots are too large.
    fn excess(&self) -> Result<u64, SlotsError> {
        if self.max_disk == 0 {
            return Ok(0);
        }
        let all: u64 = disk::all(&self.directory)?.iter().map(|slot| slot.size).sum();
        Ok(all.saturating_sub(self.max_disk))
    }

    /// Gives a slot back. What it has built may be too much for all slots together.
    pub(crate) fn give_back(&self, placed: &Placed) -> Result<(), SlotsError> {
        self.make_room(&placed.lease)
    }

    /// Slots for validations that ran a tree which never became part of a branch, as far as `has_landed` knows: what such a tree has
    /// left there may have decided something since.
    pub(crate) fn tainted(&self, has_landed: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let places = (1..=self.validations).map(|number| self.directory.join(Pool::Validation.name(number)));
        // Its first slots are made first.
        let made = places.take_while(|dir| dir.is_dir());
        let is_tainted = |dir: &PathBuf| {
            let trees = fs::read_to_string(dir.join(TREES)).unwrap_or_default();
            trees.lines().any(|tree| !has_landed(tree))
        };
        made.filter(is_tainted).collect()
    }

    fn try_take(&self, dir: &Path) -> Result<Option<Lease>, SlotsError> {
        fs::create_dir_all(dir).map_err(at(dir))?;
        // By this the slots of a repository that is gone can be told.
        let note = self.directory.join("repository");
        fs::write(&note, self.repo.scope().git_dir().as_os_str().as_encoded_bytes()).map_err(at(&note))?;
        let path = dir.join("lock");
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Lease {
                dir: dir.to_owned(),
                slots: self.clone(),
                waited: Cell::default(),
                _lock: lock,
            })),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(at(&path)(error.into())),
        }
    }
}

/// Fails if nobody waits any more.
fn wait(asker: Option<BorrowedFd<'_>>) -> Result<(), SlotsError> {
    let mut fds: Vec<PollFd<'_>> = asker.iter().map(|asker| PollFd::new(*asker, PollFlags::POLLIN)).collect();
    // Interrupted, it is looked again, and that is all.
    let ready = poll(&mut fds, PollTimeout::from(POLL_INTERVAL)).unwrap_or(0);
    if ready > 0 { Err(SlotsError::Forsaken) } else { Ok(()) }
}

/// Where the slots of a repository lie.
pub fn slots_directory(scope: &Scope, settings: &Settings) -> Option<PathBuf> {
    mala_git::slot::directory(scope, &settings.queue.directory)
}

/// Slots of repositories that are gone: nobody will use them again.
pub fn orphaned_slots(scope: &Scope, settings: &Settings) -> Vec<PathBuf> {
    let Some(own) = slots_directory(scope, settings) else { return Vec::new() };
    let all = own.parent().and_then(Path::parent).map(fs::read_dir).and_then(Result::ok);
    let is_gone = |directory: &PathBuf| {
        let note = fs::read(directory.join("slots/repository")).ok();
        note.is_some_and(|path| !Path::new(OsStr::from_bytes(&path)).exists())
    };
    all.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_gone).collect()
}

/// Removes slots of a repository that is gone.
pub fn remove_slots(directory: &Path) -> Result<(), SlotsError> {
    mala_git::slot::remove_all(directory).map_err(at(directory))
}

/// A slot that belongs to this process.
#[derive(Debug)]
pub struct Lease {
    dir: PathBuf,
    slots: Slots,
    /// How long it was waited for, until somebody has counted that.
    waited: Cell<Duration>,
    _lock: Flock<File>,
}

impl Lease {
    fn holds(&self, commit: &Oid) -> bool {
        fs::read_to_string(self.dir.join("git/HEAD")).is_ok_and(|head| head.trim_end() == commit.as_str())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// As [`Pool::name`] made it.
    fn name(&self) -> String {
        self.dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Removes all that earlier trees have left, but the lock.
    pub(crate) fn empty(&self) -> Result<(), SlotsError> {
        for entry in fs::read_dir(&self.dir).map_err(at(&self.dir))? {
            let path = entry.map_err(at(&self.dir))?.path();
            if path.is_dir() && !path.is_symlink() {
                mala_git::slot::remove_all(&path).map_err(at(&path))?;
            } else if path.file_name() != Some(OsStr::new("lock")) {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// Makes the slot's files those of `commit`, ready for commands.
    pub fn place(self, commit: &Oid) -> Result<Placed, SlotsError> {
        let slot = Slot::place(&self.slots.repo, &self.dir, commit, &self.slots.keep)?;
        let homes = Homes::make(&self.dir)?;
        let bound = self.slots.max_disk;
        let size = if bound == 0 { 0 } else { disk::size(&self.dir)? };
        if size > bound {
            self.empty()?;
            return Err(SlotsError::TooLarge { size, bound });
        }
        let share = LeasedShare::lease(self.name());
        let variables = share.variables(&self.slots.env)?;
        Ok(Placed { lease: self, slot, homes, variables, _share: share })
    }
}

/// A slot that holds a commit.
#[derive(Debug)]
pub struct Placed {
    lease: Lease,
    slot: Slot,
    homes: Homes,
    /// What no other slot has.
    variables: Vec<(String, String)>,
    _share: LeasedShare,
}

impl Placed {
    pub fn root(&self) -> &Path {
        self.slot.root()
    }

    /// The slot as a repository, for asking git.
    pub fn repo(&self) -> &Repo {
        self.slot.repo()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.lease.dir()
    }

    /// How long the slot was waited for; whoever asks first counts it.
    pub(crate) fn take_wait(&self) -> Duration {
        self.lease.waited.take()
    }

    /// Remembers what is going to run here, before it does.
    pub(crate) fn note_tree(&self, tree: &Oid) -> Result<(), SlotsError> {
        let path = self.dir().join(TREES);
        let noted = fs::read_to_string(&path).unwrap_or_default();
        if noted.lines().any(|line| line == tree.as_str()) {
            return Ok(());
        }
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(at(&path))?;
        writeln!(file, "{tree}").map_err(at(&path))
    }

    pub(crate) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// How commands run here: with mala's environment as it would be in the checkout, and writing nowhere else.
    pub fn confinement(&self) -> Confinement {
        let scope = self.lease.slots.repo.scope();
        let (own, given) = (std::env::vars_os(), &self.variables);
        let variables = environment::variables(own, given, scope.root(), self.root(), &self.homes);
        // Not its git directory, nor what mala keeps beside its files.
        let mut writable: Vec<PathBuf> = ["tree", "home", "tmp"].map(|name| self.lease.dir.join(name)).into();
        writable.extend(["/dev", "/proc"].map(PathBuf::from));
        // Where the checkout or other slots lie in a temporary directory, that one is not for everybody to write to.
        let mine = [scope.root(), scope.git_dir(), &self.lease.slots.directory];
        let is_common = |path: &PathBuf| !mine.iter().any(|place| place.starts_with(path));
        writable.extend(["/tmp", "/var/tmp"].map(PathBuf::from).into_iter().filter(is_common));
        Confinement { variables, writable }
    }
}
