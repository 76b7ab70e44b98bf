//! What callers tell the landing queue, and why it may refuse.

use std::path::PathBuf;

use mala_core::{
    AgentId, AttemptId, Conflict, EntryId, EntryState, IssueId, Key, Life, Oid, Owner, Priority, RunId,
    Timestamp,
};
use thiserror::Error;

use crate::landing::freed::FreedFile;

/// A candidate that is offered for a branch.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// Where it is to land, as the full name of a ref.
    pub branch: String,
    /// The commit that the candidate was made on.
    pub base: Oid,
    /// The candidate.
    pub head: Oid,
    /// The ref that keeps the candidate.
    pub pin: String,
    /// Issue, agent and run are those of the attempt where they are not given.
    pub issue: Option<IssueId>,
    pub agent: Option<AgentId>,
    pub run: Option<RunId>,
    pub attempt: Option<AttemptId>,
    /// The lowest is served first.
    pub priority: i64,
}

impl NewEntry {
    /// The priority of what belongs to no issue.
    pub fn default_priority() -> i64 {
        i64::from(Priority::NORMAL.number())
    }
}

/// Which entries to read.
#[derive(Debug, Clone, Default)]
pub struct EntryFilter {
    pub branch: Option<String>,
    pub attempt: Option<AttemptId>,
    pub issue: Option<IssueId>,
    /// Only those that are not over.
    pub open: bool,
}

/// What goes with a step of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// Why it is there now. Without one, the last reason goes.
    pub reason: Option<String>,
    /// How many more validations of it were killed together with the process that ran them.
    pub kills_add: u32,
}

/// A branch that is about to move.
#[derive(Debug, Clone)]
pub struct NewLanding {
    /// The full name of its ref.
    pub branch: String,
    pub from: Oid,
    pub to: Oid,
    /// The checkout that moves along, if the branch is checked out anywhere.
    pub directory: Option<PathBuf>,
    /// What lands, with the commit that each becomes, the lowest first. All of it is green.
    pub entries: Vec<(EntryId, Oid)>,
    /// The files that each of them changes, so that agents can be told what is new in those that they have read.
    pub changes: Vec<(EntryId, Key)>,
    /// Those of the entries whose files are free, in the order of `entries`.
    pub freed: Vec<FreedFile>,
    /// The process that moves the branch.
    pub owner: Owner,
}

/// A branch that is being moved, or was when its owner died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingRow {
    /// The full name of its ref.
    pub branch: String,
    pub from: Oid,
    pub to: Oid,
    /// The checkout that moves along.
    pub directory: Option<PathBuf>,
    /// The root of the scope that the landing was begun in.
    pub scope: PathBuf,
    pub owner: Owner,
    /// Whether the owner still runs. What a dead one has left is to be finished or undone.
    pub life: Life,
    pub started_at: Timestamp,
    /// What lands, with the commit that each becomes, the lowest first.
    pub entries: Vec<(EntryId, Oid)>,
}

/// Why the landing queue refused.
#[derive(Debug, Error)]
pub enum LandingError {
    #[error("no entry {id} is known in the landing queue")]
    UnknownEntry { id: EntryId },
    #[error("the entry {id} is {found}, not {expected}")]
    NotInState { id: EntryId, expected: EntryState, found: EntryState },
    #[error("the entry {id} is {from} and does not become {to} next")]
    NoSuchStep { id: EntryId, from: EntryState, to: EntryState },
    #[error("the entry {id} is landing on `{branch}` at this moment")]
    EntryLanding { id: EntryId, branch: String },
    #[error("the entry {id} was replaced: the entry {by} is in the queue instead")]
    Replaced { id: EntryId, by: EntryId },
    #[error("the entry {id} is for `{branch}`")]
    OtherBranch { id: EntryId, branch: String },
    #[error("others hold files of it")]
    FilesHeld { conflicts: Vec<Conflict> },
    #[error("`{branch}` is being moved already ({owner})")]
    LandingUnderWay { branch: String, owner: Box<Owner> },
}
