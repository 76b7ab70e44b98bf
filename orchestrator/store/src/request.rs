//! What callers ask of the store and what they get back.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use mala_core::{AgentId, Conflict, IssueId, Key, Lock, Owner, RunId, Target, Want};

/// Who asks: the agent, and the process its locks live and die with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    pub agent: AgentId,
    pub owner: Owner,
    /// True if a supervisor stands behind the owner. Its leases then never run out while the owner lives.
    pub supervised: bool,
    pub issue: Option<IssueId>,
    pub run: Option<RunId>,
}

/// A wish to hold several targets, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub party: Party,
    pub wants: Vec<Want>,
    pub ttl: Duration,
    pub reason: Option<String>,
}

impl Request {
    /// The wants in key order, each target once, in its strongest mode. Two names of one file are one target.
    pub(crate) fn sorted_wants(&self) -> Vec<Want> {
        let mut wants = self.wants.clone();
        wants.sort_by(|a, b| {
            (crate::rows::kind_of(&a.target), a.target.as_bytes(), std::cmp::Reverse(a.mode)).cmp(&(
                crate::rows::kind_of(&b.target),
                b.target.as_bytes(),
                std::cmp::Reverse(b.mode),
            ))
        });
        wants.dedup_by(|later, first| later.target == first.target);
        if wants.iter().any(|want| !want.aliases.is_empty()) { join_links(wants) } else { wants }
    }
}

/// Makes one want of those that name the same file.
fn join_links(wants: Vec<Want>) -> Vec<Want> {
    let mut joined: Vec<Want> = Vec::with_capacity(wants.len());
    for want in wants {
        match joined.iter_mut().find(|first| files(first).any(|name| files(&want).any(|other| name == other)))
        {
            Some(first) => {
                first.mode = first.mode.max(want.mode);
                let is_new = |name: &&Key| files(first).all(|known| known != *name);
                let names: Vec<Key> = files(&want).filter(is_new).cloned().collect();
                first.aliases.extend(names);
            }
            None => joined.push(want),
        }
    }
    joined
}

/// All names of the file that is wanted; none if it is not a file.
fn files(want: &Want) -> impl Iterator<Item = &Key> {
    let name = match &want.target {
        Target::File(key) => Some(key),
        Target::Pattern(_) | Target::Name(_) => None,
    };
    name.into_iter().chain(&want.aliases)
}

/// How long to queue for what is held.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'fd> {
    pub longest: Duration,
    /// The process on whose behalf one waits: once it has ended, so has the wait.
    pub on_behalf_of: Option<BorrowedFd<'fd>>,
    /// Say again what is in the way after this time, and whenever it is somebody else.
    pub remind_every: Option<Duration>,
}

impl From<Duration> for Wait<'_> {
    fn from(longest: Duration) -> Self {
        Self { longest, on_behalf_of: None, remind_every: None }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was wanted is held now.
    Granted(Vec<Lock>),
    /// Nothing was taken.
    Refused(Refusal),
}

/// Why nothing was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub cause: Cause,
    /// Every wanted target that somebody else holds, with that lock.
    pub conflicts: Vec<Conflict>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Somebody else holds it, and the caller did not want to wait.
    Held,
    /// The wait ended without success.
    TimedOut,
    /// The process on whose behalf one waited has ended.
    GivenUp,
    /// Waiting would close this circle: each agent waits for the next, the last one for the first.
    Deadlock(Vec<AgentId>),
}

/// Which of an agent's locks an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All files and patterns. Names belong to the command that runs under them.
    All,
    These(Vec<Want>),
}
