//! Which issue is next. Plain data: nothing here asks a tracker, a store or a clock.
//!
//! Promises: an issue is given out at most once at a time; never before the issues it waits for are closed; one that shares a
//! file hint with one that runs only when there is nothing else; and of all that could be given out, the most urgent. As
//! long as anything can be given out, something is.

use std::collections::{BTreeSet, HashMap, HashSet};

use mala_core::{Issue, IssueId, Priority, Target, Timestamp};

/// An issue with what matters for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyIssue {
    pub issue: Issue,
    /// The files it will touch, as far as its author knew.
    pub files: Vec<Target>,
    /// Issues of this run that must be closed first.
    pub waits_for: BTreeSet<IssueId>,
}

impl ReadyIssue {
    /// The first file or pattern that both mean to touch.
    pub fn shares_with(&self, files: &[Target]) -> Option<&Target> {
        self.files.iter().find(|mine| files.iter().any(|theirs| mine.overlaps(theirs)))
    }
}

/// What the order is made of, the most important first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Attempts in this run: what failed already comes after what has not been tried.
    tried: u32,
    /// Place in the list that was asked for, if one was.
    place: usize,
    priority: Priority,
    created_at: Option<Timestamp>,
    id: IssueId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    issue: ReadyIssue,
    tried: u32,
    /// Not before something has changed: it could not be begun when it was tried.
    is_held_back: bool,
    /// Not before somebody calls [`ReadyIssues::wake`].
    is_resting: bool,
}

/// The issues that wait and those that run.
#[derive(Debug, Default)]
pub struct ReadyIssues {
    /// Issues in the order somebody asked for; empty for "whatever is most urgent".
    listed: HashMap<IssueId, usize>,
    waiting: HashMap<IssueId, Entry>,
    order: BTreeSet<Rank>,
    running: HashMap<IssueId, (ReadyIssue, u32)>,
    closed: HashSet<IssueId>,
    /// Will not be given out again in this run.
    settled: HashSet<IssueId>,
}

impl ReadyIssues {
    pub fn new(listed: &[IssueId]) -> Self {
        let listed = listed.iter().enumerate().map(|(place, id)| (id.clone(), place)).collect();
        Self { listed, ..Self::default() }
    }

    /// What is ready now. Issues that wait and are not among `ready` are forgotten: somebody else has taken or closed
    /// them. Those that run or are settled stay as they are.
    pub fn refresh(&mut self, ready: Vec<ReadyIssue>) {
        let mut before = std::mem::take(&mut self.waiting);
        self.order.clear();
        for issue in ready {
            let id = issue.issue.id.clone();
            if self.settled.contains(&id) || self.running.contains_key(&id) {
                continue;
            }
            let (tried, is_held_back, is_resting) = match before.remove(&id) {
                Some(entry) => (entry.tried, entry.is_held_back, entry.is_resting),
                None => (0, false, false),
            };
            self.insert(Entry { issue, tried, is_held_back, is_resting });
        }
    }

    /// The issue that [`ReadyIssues::take_next`] would give out.
    pub fn peek(&self) -> Option<&ReadyIssue> {
        self.first().map(|rank| &self.waiting[&rank.id].issue)
    }

    /// The next issue, which counts as running from now on.
    pub fn take_next(&mut self) -> Option<ReadyIssue> {
        let rank = self.first()?.clone();
        self.order.remove(&rank);
        let entry = self.waiting.remove(&rank.id)?;
        self.running.insert(rank.id, (entry.issue.clone(), entry.tried));
        Some(entry.issue)
    }

    /// It could not begin: it waits again, until something has changed.
    pub fn put_back(&mut self, id: &IssueId) {
        self.return_to_waiting(id, 0, true);
    }

    /// It waits, and is not given out before [`ReadyIssues::wake`] is called for it.
    pub fn rest(&mut self, id: &IssueId) {
        self.return_to_waiting(id, 0, false);
        if let Some(entry) = self.waiting.get_mut(id) {
            entry.is_resting = true;
        }
    }

    pub fn wake(&mut self, id: &IssueId) {
        if let Some(entry) = self.waiting.get_mut(id) {
            entry.is_resting = false;
        }
    }

    /// True if something waits that is merely resting.
    pub fn has_resting(&self) -> bool {
        self.waiting.values().any(|entry| entry.is_resting)
    }

    /// How often it failed in this run.
    pub fn tried(&self, id: &IssueId) -> u32 {
        self.waiting.get(id).map(|entry| entry.tried).or(self.running.get(id).map(|it| it.1)).unwrap_or(0)
    }

    /// It failed and may be tried again, after those that have not been tried so often.
    pub fn try_again(&mut self, issue: ReadyIssue) {
        let id = issue.issue.id.clone();
        if let Some(running) = self.running.get_mut(&id) {
            running.0 = issue;
        }
        self.return_to_waiting(&id, 1, false);
        self.release_held_back();
    }

    /// Its files are free although it is not over.
    pub fn free_files(&mut self, id: &IssueId) {
        if let Some((issue, _)) = self.running.get_mut(id) {
            issue.files.clear();
        }
    }

    /// It is over for this run, closed or not.
    pub fn settle(&mut self, id: &IssueId, is_closed: bool) {
        self.running.remove(id);
        if let Some(entry) = self.waiting.remove(id) {
            self.order.remove(&self.rank(&entry));
        }
        self.settled.insert(id.clone());
        if is_closed {
            self.closed.insert(id.clone());
        }
        self.release_held_back();
    }

    /// Something has changed: what was held back may be tried again.
    pub fn release_held_back(&mut self) {
        for entry in self.waiting.values_mut() {
            entry.is_held_back = false;
        }
    }

    pub fn running(&self) -> impl Iterator<Item = &ReadyIssue> {
        self.running.values().map(|(issue, _)| issue)
    }

    pub fn waiting(&self) -> impl Iterator<Item = &ReadyIssue> {
        self.order.iter().map(|rank| &self.waiting[&rank.id].issue)
    }

    pub fn held_back(&self) -> impl Iterator<Item = &ReadyIssue> {
        let held_back = |rank: &&Rank| self.waiting[&rank.id].is_held_back;
        self.order.iter().filter(held_back).map(|rank| &self.waiting[&rank.id].issue)
    }

    pub fn is_settled(&self, id: &IssueId) -> bool {
        self.settled.contains(id)
    }

    /// Issues that are over for this run and that a tracker may nevertheless still call ready.
    pub fn settled_open_count(&self) -> usize {
        self.settled.len() - self.closed.len()
    }

    /// Issues that wait for one that is not closed and will not be tried again.
    pub fn stranded(&self) -> Vec<(&ReadyIssue, &IssueId)> {
        let hopeless = |id: &&IssueId| self.settled.contains(*id) && !self.closed.contains(*id);
        self.waiting().filter_map(|it| Some((it, it.waits_for.iter().find(hopeless)?))).collect()
    }

    /// Hints are soft: one that collides with work under way would wait for a file, but better so than not at all.
    fn first(&self) -> Option<&Rank> {
        let eligible = || self.order.iter().filter(|rank| self.is_eligible(&self.waiting[&rank.id]));
        eligible().find(|rank| !self.collides(&self.waiting[&rank.id])).or_else(|| eligible().next())
    }

    fn collides(&self, entry: &Entry) -> bool {
        self.running().any(|running| entry.issue.shares_with(&running.files).is_some())
    }

    fn is_eligible(&self, entry: &Entry) -> bool {
        !entry.is_held_back
            && !entry.is_resting
            && entry.issue.waits_for.iter().all(|id| self.closed.contains(id))
    }

    fn return_to_waiting(&mut self, id: &IssueId, more_tries: u32, is_held_back: bool) {
        if let Some((issue, tried)) = self.running.remove(id) {
            let tried = tried + more_tries;
            self.insert(Entry { issue, tried, is_held_back, is_resting: false });
        }
    }

    fn insert(&mut self, entry: Entry) {
        self.order.insert(self.rank(&entry));
        self.waiting.insert(entry.issue.issue.id.clone(), entry);
    }

    fn rank(&self, entry: &Entry) -> Rank {
        let issue = &entry.issue.issue;
        Rank {
            tried: entry.tried,
            place: self.listed.get(&issue.id).copied().unwrap_or(0),
            priority: issue.priority,
            created_at: issue.created_at,
            id: issue.id.clone(),
        }
    }
}

/// Pairs of issues that mean to touch the same file, for people who want to see collisions before they happen.
pub fn collisions<'a>(issues: &[&'a ReadyIssue]) -> Vec<(&'a IssueId, &'a IssueId, &'a Target)> {
    let mut pairs = Vec::new();
    for (at, first) in issues.iter().enumerate() {
        for second in &issues[at + 1..] {
            if let Some(target) = first.shares_with(&second.files) {
                pairs.push((&first.issue.id, &second.issue.id, target));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests;
