//! The landing queue of one branch.
//!
//! A round takes the entries that are first in line, puts one commit for each on the tip of the branch, validates the whole of
//! it and, where there is room, parts of it, and moves the branch to the longest part that is green. What is red above that is
//! found by halves, and nobody is blamed unless the tree before was green and the tree with it is red, twice. Exactly one
//! process works a branch at a time: the one that holds the branch's file lock.

mod audit;
mod blame;
mod crew;
mod land;
mod room;
mod search;
mod stack;
mod work;

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::{io, thread};

use mala_core::{CheckName, Entry, EntryId, EntryState, IssueId, Oid, Owner};
use mala_gate::runner::RunError;
use mala_git::landing::LandError;
use mala_git::{GitError, Repo, RepoPath};
use mala_store::{EntryChange, EntryFilter, EventKind, Party, Store, StoreError};
use serde_json::json;
use thiserror::Error;

use crate::slots::{Slots, SlotsError};
use crate::validation::{Requirements, Validation, ValidationError};

pub use audit::Audited;
use crew::Crew;
pub use land::is_worked;
pub use room::{CoreTimes, Cores, Machine};
use work::Worker;

/// An entry whose validations have killed mala so often is given up.
const MAX_KILLS: u32 = 2;

/// A round, or a part of one, came to nothing: the entries wait for the next one.
#[derive(Debug, Error)]
pub enum QueueError {
    #[error("the branch `{0}` does not exist any more")]
    NoBranch(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Land(#[from] LandError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Validation(#[from] ValidationError),
    #[error("another process works the landing queue of `{0}`: see `mala status`")]
    Busy(String),
    #[error("`{branch}` is being landed on by {owner}")]
    UnderWay { branch: String, owner: Box<Owner> },
    #[error("what was validated could not be put on `{0}` once more")]
    Restacked(String),
    #[error("nobody waits for the landing queue any more")]
    Stopped,
    #[error("a validation could not be started or followed")]
    Thread(#[source] io::Error),
    #[error("a validation failed inside mala: {0}")]
    Panic(String),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: std::path::PathBuf,
        #[source]
        source: io::Error,
    },
}

impl QueueError {
    /// True if somebody else does the work.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::UnderWay { .. })
    }

    /// True if nobody wanted the answer any more.
    pub fn is_stopped(&self) -> bool {
        use ValidationError::{Run, Slots};
        matches!(
            self,
            Self::Stopped | Self::Validation(Run(RunError::Forsaken(_)) | Slots(SlotsError::Forsaken))
        )
    }
}

/// The queue of one branch, and the means to work it off.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    /// Without hooks.
    pub repo: &'a Repo,
    pub slots: &'a Slots,
    pub requirements: &'a Requirements,
    /// The full name of the ref.
    pub branch: &'a str,
    /// The process that works it off.
    pub owner: &'a Owner,
    /// Entries that a round takes at most.
    pub window: usize,
    /// What tells whether a further validation would find an idle core.
    pub cores: &'a dyn Cores,
    /// Becomes readable when the work is to end at once.
    pub hangup: Option<BorrowedFd<'a>>,
}

/// What a round has come to.
#[derive(Debug, Default)]
pub struct Round {
    /// Entries with a verdict, in order.
    pub settled: Vec<Settled>,
    /// Entries that could not take part, and why.
    pub waiting: Vec<(Entry, String)>,
    /// Commands that failed and passed on the same tree.
    pub flaky: Vec<String>,
    /// The branch itself is red, in words.
    pub red_base: Option<String>,
    /// Files that an earlier landing, which was cut off, has left alone.
    pub left_alone: Vec<RepoPath>,
    /// Of the landings before.
    pub audits: Vec<Audited>,
    /// The branch is no longer where the round began, by somebody else's doing.
    pub was_overtaken: bool,
    /// Why it was cut short: git, the store or a slot has failed, and nobody is to blame. What is settled stays settled.
    pub failure: Option<QueueError>,
}

impl Round {
    /// True if another round may come to something else at once.
    pub fn has_progress(&self) -> bool {
        !self.settled.is_empty() || self.was_overtaken
    }

    /// True if there is nothing to say about it.
    fn is_empty(&self) -> bool {
        let Self { settled, waiting, flaky, red_base, left_alone, audits, was_overtaken, failure } = self;
        let is_silent = settled.is_empty() && waiting.is_empty() && flaky.is_empty() && left_alone.is_empty();
        is_silent && audits.is_empty() && red_base.is_none() && !was_overtaken && failure.is_none()
    }
}

/// An entry that is over, or has to wait for a person.
#[derive(Debug)]
pub struct Settled {
    pub entry: Entry,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// It is on the branch as this commit.
    Landed(Oid),
    /// The branch has changed these files differently since.
    Conflict(Vec<RepoPath>),
    Red(Box<Rejection>),
    Failed(String),
}

/// Why an entry is red.
#[derive(Debug)]
pub struct Rejection {
    pub validation: Validation,
    /// What was below it in the stack and not on the branch yet.
    pub below: Vec<IssueId>,
}

/// An entry as one commit on those before it.
#[derive(Debug, Clone)]
struct Layer {
    entry: Entry,
    commit: Oid,
}

impl Queue<'_> {
    /// Works until nothing in the queue can move any more. Each round is told as soon as it has come to something; with
    /// [`ControlFlow::Break`] it is the last one, and what is under way is cancelled.
    ///
    /// # Errors
    ///
    /// When another process does the work, or the store fails. What fails in a round is told with the round.
    pub fn work(
        &self,
        store: &mut Store,
        tell: &mut dyn FnMut(Round) -> ControlFlow<()>,
    ) -> Result<(), QueueError> {
        let _lock = self.lock()?;
        let mut round = Round::default();
        self.finish_killed(store, &mut round)?;
        if store.queue_pause(self.branch)?.is_none() {
            self.settle_killed(store, &mut round)?;
        }
        if !round.is_empty() && tell(round).is_break() {
            return Ok(());
        }
        let worked = thread::scope(|scope| {
            let crew = Crew::new(scope, *self)?;
            Worker::new(*self, store, crew).run(tell)
        });
        // Nothing is under way any more.
        let put_back = self.put_back(store);
        worked.and(put_back)
    }

    /// Validates what has landed once more in an emptied slot, if that can make a difference, and tells what it does. Something
    /// red there pauses the queue.
    ///
    /// # Errors
    ///
    /// As for [`Queue::work`].
    pub fn audit(
        &self,
        store: &mut Store,
        tell: &mut dyn FnMut(Round) -> ControlFlow<()>,
    ) -> Result<(), QueueError> {
        let _lock = self.lock()?;
        thread::scope(|scope| {
            let crew = Crew::new(scope, *self)?;
            Worker::new(*self, store, crew).audit(tell)
        })
    }

    /// Entries whose process was killed wait again, or are given up if they have killed it twice.
    fn settle_killed(&self, store: &mut Store, round: &mut Round) -> Result<(), QueueError> {
        for entry in self.open(store)? {
            let was_validated = entry.state == EntryState::Validating;
            if !was_validated && entry.state != EntryState::Green {
                continue;
            }
            let kills = entry.kills + u32::from(was_validated);
            let change = EntryChange { kills_add: u32::from(was_validated), ..EntryChange::default() };
            let waiting = store.advance_entry(entry.id, entry.state, EntryState::Waiting, &change)?;
            if kills >= MAX_KILLS {
                let why = "its validation was killed twice together with mala; look at what it runs, then: mala queue retry";
                let why = format!("{why} {}", entry.id);
                let entry = self.advance(store, &waiting, EntryState::Failed, Some(&why))?;
                round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
            }
        }
        Ok(())
    }

    fn open(&self, store: &mut Store) -> Result<Vec<Entry>, QueueError> {
        let filter =
            EntryFilter { branch: Some(self.branch.to_owned()), open: true, ..EntryFilter::default() };
        Ok(store.entries(&filter)?)
    }

    /// Records the verdict on an agent's work.
    fn record(
        &self,
        store: &mut Store,
        entry: &Entry,
        commit: &Oid,
        failed: &[CheckName],
    ) -> Result<(), QueueError> {
        let Some(agent) = entry.agent.clone() else { return Ok(()) };
        let party = Party {
            agent,
            owner: self.owner.clone(),
            supervised: true,
            issue: entry.issue.clone(),
            run: entry.run.clone(),
        };
        let kind = if failed.is_empty() { EventKind::GatePassed } else { EventKind::GateFailed };
        store.record_fact(&party, kind, None, &json!({ "commit": commit, "failed": failed }))?;
        Ok(())
    }

    fn advance(
        &self,
        store: &mut Store,
        entry: &Entry,
        to: EntryState,
        reason: Option<&str>,
    ) -> Result<Entry, QueueError> {
        let change = EntryChange { reason: reason.map(str::to_owned), ..EntryChange::default() };
        let from = store.entry(entry.id)?.map_or(entry.state, |entry| entry.state);
        Ok(store.advance_entry(entry.id, from, to, &change)?)
    }

    /// One step of an entry, if it is still where it is believed to be: a person may have dropped it.
    fn advance_if(
        &self,
        store: &mut Store,
        id: EntryId,
        from: EntryState,
        to: EntryState,
    ) -> Result<(), QueueError> {
        if store.entry(id)?.is_some_and(|entry| entry.state == from) {
            store.advance_entry(id, from, to, &EntryChange::default())?;
        }
        Ok(())
    }

    /// Lets all entries wait that are not over.
    fn put_back(&self, store: &mut Store) -> Result<(), QueueError> {
        for entry in self.open(store)? {
            if matches!(entry.state, EntryState::Validating | EntryState::Green) {
                self.advance_if(store, entry.id, entry.state, EntryState::Waiting)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn list(paths: &[RepoPath]) -> String {
    paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}
