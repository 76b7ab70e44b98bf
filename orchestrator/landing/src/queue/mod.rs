//! The landing queue of one branch.
//!
//! A round takes the entries that are first in line, puts one commit for each on the tip of the branch, validates the whole of
//! it, and moves the branch to the longest part that is green. What is red above that is found by halves, and nobody is
//! blamed unless the tree before was green and the tree with it is red, twice. Exactly one process works a branch at a time;
//! that is for the caller to see to.

mod blame;
mod land;
mod search;

use std::io;
use std::os::fd::BorrowedFd;

use mala_core::{AgentId, CheckName, Entry, EntryState, IssueId, Mode, Oid, Owner, Target, Want};
use mala_gate::runner::{RunError, Tee};
use mala_git::landing::{self, LandError, Stacked};
use mala_git::{GitError, Repo, RepoPath};
use mala_store::{EntryChange, EntryFilter, EventKind, Party, Store, StoreError};
use serde_json::json;
use thiserror::Error;

use crate::slots::{Pool, Slots};
use crate::validation::{Requirements, Validate, Validation, ValidationError};

use blame::Confirmed;
use search::{HISTORY, longest_green, window};

/// An entry whose validations have killed mala so often is given up.
const MAX_KILLS: u32 = 2;
/// Who asks whether a file is held when an entry is nobody's.
const NOBODY: &str = "nobody-in-particular";

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
        matches!(self, Self::Validation(ValidationError::Run(RunError::Forsaken(_))))
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
    /// Becomes readable when the round is to end at once.
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
    /// Works one round off.
    ///
    /// # Errors
    ///
    /// When git, the store or a slot fails. The entries wait for the next round then.
    pub fn round(&self, store: &mut Store) -> Result<Round, QueueError> {
        let mut round = Round::default();
        let _lock = self.lock()?;
        self.finish_killed(store, &mut round)?;
        if store.queue_pause(self.branch)?.is_some() {
            return Ok(round);
        }
        round.failure = self.work_off(store, &mut round).err();
        Ok(round)
    }

    fn work_off(&self, store: &mut Store, round: &mut Round) -> Result<(), QueueError> {
        self.settle_killed(store, round)?;
        let Some(tip) = self.repo.resolve(self.branch)? else {
            return Err(QueueError::NoBranch(self.branch.to_owned()));
        };
        // What a person is in the way of, and what has killed mala once, is tried when nothing else is to do and alone, so that
        // it holds nobody up.
        let (alone, together): (Vec<Entry>, Vec<Entry>) = self
            .open(store)?
            .into_iter()
            .filter(|entry| entry.is_ready)
            .partition(|entry| entry.state == EntryState::Held || entry.kills > 0);
        let most = self.size(store)?;
        let layers = self.stack(store, &tip, (together, most), round)?;
        self.work(store, &tip, &layers, round)?;
        for entry in alone {
            if !layers.is_empty() || round.has_progress() {
                return Ok(());
            }
            let layers = self.stack(store, &tip, (vec![entry], 1), round)?;
            self.work(store, &tip, &layers, round)?;
        }
        Ok(())
    }

    /// Validates and lands. If something fails, the entries wait for the next round.
    fn work(
        &self,
        store: &mut Store,
        tip: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<(), QueueError> {
        if layers.is_empty() {
            return Ok(());
        }
        let done = self.validate_and_land(store, tip, layers, round);
        if done.is_err() {
            self.put_back(store, layers)?;
        }
        done
    }

    fn validate_and_land(
        &self,
        store: &mut Store,
        tip: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<(), QueueError> {
        // What cannot land now is not worth a validation.
        if self.hold_ahead(store, tip, layers, round)? {
            return Ok(());
        }
        for layer in layers {
            self.advance(store, &layer.entry, EntryState::Validating, None)?;
        }
        let mut last_red = None;
        let found = longest_green(layers.len(), |count| {
            let validation = self.validate(&layers[count - 1].commit)?;
            let is_green = validation.as_ref().is_none_or(Validation::has_passed);
            if !is_green {
                last_red = validation.map(|validation| (count, validation));
            }
            Ok::<_, QueueError>(is_green)
        })?;
        let green = match self.confirm(store, tip, (layers, found, last_red), round)? {
            Confirmed::Green(count) => {
                let (green, rest) = layers.split_at(count);
                self.put_back(store, rest)?;
                green.to_vec()
            }
            Confirmed::RedBase(why) => {
                let mended = self.what_mends(tip, &layers[1..])?;
                self.wait_for_green(store, (layers, mended.as_ref()), &why, round)?;
                mended.into_iter().collect()
            }
        };
        self.land(store, tip, &green, round)
    }

    /// The required commands on a commit; nothing if none are required, so that nothing is proven.
    fn validate(&self, commit: &Oid) -> Result<Option<Validation>, QueueError> {
        if self.requirements.is_empty() {
            return Ok(None);
        }
        // What the commands print is in their logs.
        let (mut out, mut err) = (io::sink(), io::sink());
        Ok(Some(self.validation().commit(commit, &mut Tee { out: &mut out, err: &mut err })?))
    }

    fn validation(&self) -> Validate<'_> {
        let Self { repo, slots, requirements, hangup: asker, .. } = *self;
        Validate { repo, slots, pool: Pool::Validation, requirements, asker }
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

    /// The first `most` of these entries that can take part, one commit each on top of the tip.
    fn stack(
        &self,
        store: &mut Store,
        tip: &Oid,
        (entries, most): (Vec<Entry>, usize),
        round: &mut Round,
    ) -> Result<Vec<Layer>, QueueError> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut top = tip.clone();
        for entry in entries {
            if layers.len() >= most {
                break;
            }
            let held = match self.held_paths(store, &entry) {
                // No later round would find it either.
                Err(QueueError::Git(_)) if self.repo.resolve(entry.head.as_str())?.is_none() => {
                    let why = format!(
                        "its commit {} is not in the repository any more, nor is {}: offer it again",
                        entry.head.short(),
                        entry.pin
                    );
                    let entry = self.advance(store, &entry, EntryState::Failed, Some(&why))?;
                    round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
                    continue;
                }
                held => held?,
            };
            if let Some(why) = held {
                round.waiting.push((entry, why));
                continue;
            }
            let entry = match entry.state {
                EntryState::Held => self.advance(store, &entry, EntryState::Waiting, None)?,
                _ => entry,
            };
            let stacked = match self.put_on(&top, &entry) {
                // An object of it was written over: that is nothing a later round could mend.
                Err(QueueError::Land(LandError::Git(error @ GitError::Forged { .. }))) => {
                    let why = error.to_string();
                    let entry = self.advance(store, &entry, EntryState::Failed, Some(&why))?;
                    round.settled.push(Settled { entry, outcome: Outcome::Failed(why) });
                    continue;
                }
                stacked => stacked?,
            };
            match stacked {
                Stacked::Commit(commit) => {
                    top = commit.clone();
                    layers.push(Layer { entry, commit });
                }
                // By the others of this round, perhaps, which may be red; then it is the next one's.
                Stacked::Nothing if top != *tip && !matches!(self.put_on(tip, &entry)?, Stacked::Nothing) => {
                }
                Stacked::Nothing => self.already_there(store, &entry, tip, round)?,
                // The same holds for a conflict.
                Stacked::Conflict(_)
                    if top != *tip && !matches!(self.put_on(tip, &entry)?, Stacked::Conflict(_)) => {}
                Stacked::Conflict(files) => {
                    let why = format!("the branch has changed {} since", list(&files));
                    let entry = self.advance(store, &entry, EntryState::Conflict, Some(&why))?;
                    self.record(store, &entry, &entry.head, &[CheckName::Outcome])?;
                    round.settled.push(Settled { entry, outcome: Outcome::Conflict(files) });
                }
            }
        }
        Ok(layers)
    }

    fn put_on(&self, onto: &Oid, entry: &Entry) -> Result<Stacked, QueueError> {
        let candidate =
            landing::Candidate { base: entry.base.clone(), head: entry.head.clone(), message: None };
        Ok(landing::stack(self.repo, onto, &candidate)?)
    }

    /// The branch has all of it: that is as good as landed.
    fn already_there(
        &self,
        store: &mut Store,
        entry: &Entry,
        tip: &Oid,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let why = "the branch had all of it already";
        let green = self.advance(store, entry, EntryState::Green, Some(why))?;
        self.record_landing(store, tip, tip, &[(green.clone(), tip.clone())])?;
        round.settled.push(Settled { entry: green, outcome: Outcome::Landed(tip.clone()) });
        Ok(())
    }

    /// How many entries a round takes.
    fn size(&self, store: &mut Store) -> Result<usize, QueueError> {
        let filter = EntryFilter { branch: Some(self.branch.to_owned()), ..EntryFilter::default() };
        let mut settled = store.entries(&filter)?;
        settled.retain(|entry| matches!(entry.state, EntryState::Landed | EntryState::Red));
        settled.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.since));
        settled.truncate(HISTORY);
        let red = settled.iter().filter(|entry| entry.state == EntryState::Red).count();
        Ok(window(settled.len(), red, self.window))
    }

    /// Who holds a file that the entry changes, in words.
    fn held_paths(&self, store: &mut Store, entry: &Entry) -> Result<Option<String>, QueueError> {
        let nobody = || AgentId::new(NOBODY).expect("it is a name");
        let agent = entry.agent.clone().unwrap_or_else(nobody);
        let changes = self.repo.changes_between(&entry.base, &entry.head)?;
        let want = |path: &RepoPath| Want {
            target: Target::File(self.repo.key(path)),
            aliases: Vec::new(),
            mode: Mode::Exclusive,
        };
        let wants: Vec<Want> = changes.iter().map(|change| want(&change.path)).collect();
        let conflicts = store.check(&agent, &wants)?;
        let names: Vec<String> = conflicts
            .iter()
            .map(|conflict| format!("`{}` of `{}`", conflict.contended(), conflict.holder.agent))
            .collect();
        Ok((!names.is_empty()).then(|| format!("it waits for {}", names.join(", "))))
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

    /// Lets entries wait for the next round.
    fn put_back(&self, store: &mut Store, layers: &[Layer]) -> Result<(), QueueError> {
        for layer in layers {
            let state = store.entry(layer.entry.id)?.map(|entry| entry.state);
            if matches!(state, Some(EntryState::Validating | EntryState::Green)) {
                self.advance(store, &layer.entry, EntryState::Waiting, None)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn list(paths: &[RepoPath]) -> String {
    paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}
