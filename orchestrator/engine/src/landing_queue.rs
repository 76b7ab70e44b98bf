//! The seam to the queue that moves the branch, and the queue behind it.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use mala_config::Settings;
use mala_core::{EntryId, Owner, Scope};
use mala_git::{Oid, Repo, RepoPath};
use mala_landing::queue::{Machine, Queue, Round};
use mala_landing::{Requirements, Slots};
use mala_store::{EntryFilter, Store};

use crate::error::{EngineError, Result};

/// The seam to what moves the branch.
pub trait LandingQueue: Send + Sync {
    /// Works until nothing can move any more, and tells each round; ends early when `hangup` becomes readable.
    fn work(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()>;

    /// Validates what has landed once more in an emptied slot, if that can make a difference, and tells what it does; ends early
    /// when `hangup` becomes readable.
    fn audit(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()>;

    /// Finishes or undoes what a killed landing has left. Gives the files that somebody has written since.
    fn repair(&self) -> Result<Vec<RepoPath>>;
}

/// The queue of the branch that is checked out.
#[derive(Debug)]
pub struct CheckoutQueue {
    repo: Repo,
    requirements: Requirements,
    slots: Slots,
    window: usize,
    owner: Owner,
    /// What the last round could do nothing about, because the branch is red.
    stuck: Mutex<Option<Sight>>,
}

/// What a round sees: where the branch is, and which entries wait. The same sight of a red branch is not worth another round.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    tip: Option<Oid>,
    entries: Vec<EntryId>,
}

impl CheckoutQueue {
    pub fn new(scope: &Scope, settings: &Settings, owner: Owner) -> Result<Self> {
        let repo = Repo::new(scope.clone()).without_hooks();
        let slots = Slots::of(&repo, settings)?;
        let window = usize::try_from(settings.queue.window).unwrap_or(usize::MAX);
        let (requirements, stuck) = (Requirements::of(settings), Mutex::default());
        Ok(Self { repo, requirements, slots, window, owner, stuck })
    }

    fn sight(&self, store: &mut Store, branch: &str) -> Result<Sight> {
        let filter = EntryFilter { branch: Some(branch.to_owned()), open: true, ..EntryFilter::default() };
        let ready = store.entries(&filter)?.into_iter().filter(|entry| entry.is_ready);
        Ok(Sight { tip: self.repo.resolve(branch)?, entries: ready.map(|entry| entry.id).collect() })
    }

    fn with<T>(
        &self,
        hangup: Option<BorrowedFd<'_>>,
        work: impl FnOnce(&Queue<'_>, &mut Store) -> Result<T>,
    ) -> Result<T> {
        let branch = self.repo.branch()?.ok_or(EngineError::NoBranch)?;
        let Self { repo, requirements, slots, window, owner, .. } = self;
        let (branch, window, cores) = (branch.as_str(), *window, &Machine);
        let queue = Queue { repo, slots, requirements, branch, owner, window, cores, hangup };
        work(&queue, &mut Store::open(repo.scope())?)
    }
}

impl LandingQueue for CheckoutQueue {
    fn work(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()> {
        self.with(Some(hangup), |queue, store| {
            let sight = self.sight(store, queue.branch)?;
            let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
            if stuck.as_ref() == Some(&sight) {
                return Ok(());
            }
            let (mut is_red, mut has_progress) = (false, false);
            let worked = queue.work(store, &mut |round| {
                is_red |= round.red_base.is_some();
                has_progress |= round.has_progress();
                tell(round)
            });
            *stuck = (is_red && !has_progress).then_some(sight);
            Ok(worked?)
        })
    }

    fn audit(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()> {
        self.with(Some(hangup), |queue, store| Ok(queue.audit(store, tell)?))
    }

    fn repair(&self) -> Result<Vec<RepoPath>> {
        match self.with(None, |queue, store| Ok(queue.repair(store)?)) {
            // A checkout without a branch is somebody else's to complain of.
            Err(EngineError::NoBranch) => Ok(Vec::new()),
            // Who lands makes it good.
            Err(EngineError::Queue(error)) if error.is_busy() => Ok(Vec::new()),
            done => done,
        }
    }
}
