//! Whether a command ran on the very content that was committed.
//!
//! A record knows the commit it began on and every file that differed from it, so the content of any file at that time is
//! known. Three kinds of files are compared with the commit: those the commit changes, the agent's own other changes, and
//! everybody else's. What the agent itself changed must have been tested as it is in the commit's tree, committed here,
//! earlier or not at all; only others' files may have been different.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mala_core::Fence;
use mala_git::{Content, FileChange, GitError, Oid, Ownership, Repo, RepoPath, TreeEntry};
use memchr::memmem::Finder;

use super::{Foreign, GateError};
use crate::Evidence;
use crate::evidence::Sighting;

/// The mode of a file that is neither a link nor to be run.
const PLAIN_MODE: &str = "100644";

/// How a record relates to a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It ran on what was committed. Others' files that were different are named.
    Fits { foreign: Vec<RepoPath> },
    /// A committed file held something else.
    Differs(RepoPath),
    /// A committed file was changed while it ran, so nobody knows what it ran on.
    Unsteady(RepoPath),
    /// The agent's own change to this file was there too, and was never committed.
    Leftover(RepoPath),
    /// Somebody else's file was different, and the rules do not allow that.
    Foreign(RepoPath),
}

/// What is compared with records: a commit, or one in the making.
#[derive(Clone, Copy)]
pub(crate) struct CommitContext<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) ownership: &'a dyn Ownership,
    /// Nothing as long as it is in the making.
    pub(crate) commit: Option<&'a Oid>,
    pub(crate) tree: &'a Oid,
    /// The commit it was made on; the first one has none.
    pub(crate) base: Option<&'a Oid>,
    pub(crate) changes: &'a [FileChange],
    pub(crate) claimed: Option<Fence>,
}

/// A commit, ready to be compared with many records.
pub(crate) struct Committed<'a> {
    subject: CommitContext<'a>,
    changes: BTreeMap<&'a RepoPath, Content>,
    /// How a record says that it ran on each of the changes, in the same order.
    written: Vec<Finder<'static>>,
    /// What other commits hold at the changed paths.
    known: HashMap<Oid, BTreeMap<RepoPath, TreeEntry>>,
}

impl<'a> Committed<'a> {
    pub(crate) fn new(subject: CommitContext<'a>) -> Self {
        let content = |change: &'a FileChange| match &change.after {
            Some(entry) => Content::Object(entry.oid.clone()),
            None => Content::Absent,
        };
        let changes = subject.changes.iter().map(|change| (&change.path, content(change)));
        let changes: BTreeMap<_, _> = changes.collect();
        let written = changes.iter().map(|(path, content)| Finder::new(&member(path, content)).into_owned());
        let written = written.collect();
        Self { subject, changes, written, known: HashMap::new() }
    }

    /// False if the record certainly does not fit, as its bytes say without being decoded.
    pub(crate) fn can_fit(&mut self, sighting: &Sighting<'_>) -> Result<bool, GitError> {
        let Some(mut rest) = sighting.files() else { return Ok(true) };
        let head = sighting.head.commit.as_ref();
        self.learn(head)?;
        for ((path, committed), written) in self.changes.iter().zip(&self.written) {
            match find_member(rest, written) {
                // The members of a record are in order too.
                Some(at) => rest = &rest[at + written.needle().len()..],
                None if self.in_commit(head, path) == *committed => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    pub(crate) fn compare(&mut self, evidence: &Evidence, foreign: Foreign) -> Result<Fit, GateError> {
        self.learn(evidence.head.as_ref())?;
        for (path, committed) in &self.changes {
            if evidence.after.contains_key(path) {
                return Ok(Fit::Unsteady((*path).clone()));
            }
            if self.at_start(evidence, path) != *committed {
                return Ok(Fit::Differs((*path).clone()));
            }
        }
        let another_mode = self.subject.changes.iter().find(|change| !self.has_mode(evidence, change));
        if let Some(change) = another_mode {
            return Ok(Fit::Differs(change.path.clone()));
        }
        match self.own_commits(evidence)? {
            Some(unfit) => Ok(unfit),
            None => Ok(self.compare_rest(evidence, foreign)?),
        }
    }

    /// What the agent itself committed between the commit that was tested and this one, either way.
    fn own_commits(&self, evidence: &Evidence) -> Result<Option<Fit>, GateError> {
        let CommitContext { repo, ownership, commit, tree, base, claimed, .. } = self.subject;
        let is_other = |head: &&Oid| Some(*head) != commit && Some(*head) != base;
        let Some(head) = evidence.head.as_ref().filter(is_other) else { return Ok(None) };
        let was_later = commit.map_or(Ok(false), |commit| repo.is_ancestor(commit, head))?;
        // After the test it can have changed only what it held since then.
        let began = || ownership.test_events(&evidence.agent, &evidence.id).map(|test| test.began);
        let since = if was_later { claimed } else { began()? };
        for FileChange { path, .. } in repo.changes_between(head, tree)? {
            if !self.changes.contains_key(&path)
                && !evidence.files.contains_key(&path)
                && ownership.owned(&evidence.agent, &repo.key(&path), since)?.is_some()
            {
                return Ok(Some(if was_later { Fit::Leftover(path) } else { Fit::Differs(path) }));
            }
        }
        Ok(None)
    }

    /// The files that the commit does not touch.
    fn compare_rest(&self, evidence: &Evidence, foreign: Foreign) -> Result<Fit, GitError> {
        let is_rest = |path: &&RepoPath| !self.changes.contains_key(*path);
        let touched: BTreeSet<&RepoPath> =
            evidence.files.keys().chain(evidence.after.keys()).filter(is_rest).collect();
        let committed = self.subject.repo.entries_in(self.subject.tree, touched.iter().copied())?;
        let mut named = Vec::new();
        for path in touched {
            let in_commit = object(committed.get(path));
            let was_same = evidence.files.get(path).is_none_or(|content| *content == in_commit);
            let was_changed = evidence.after.contains_key(path);
            match (was_same, was_changed, evidence.is_foreign(path)) {
                (false, _, true) | (true, true, true) => named.push(path.clone()),
                (false, _, false) => return Ok(Fit::Leftover(path.clone())),
                (true, true, false) if foreign == Foreign::Refused => return Ok(Fit::Unsteady(path.clone())),
                (true, ..) => {}
            }
        }
        self.judge_foreign(evidence, foreign, named)
    }

    fn judge_foreign(
        &self,
        evidence: &Evidence,
        foreign: Foreign,
        named: Vec<RepoPath>,
    ) -> Result<Fit, GitError> {
        if foreign == Foreign::Named {
            return Ok(Fit::Fits { foreign: named });
        }
        if let Some(path) = named.into_iter().next() {
            return Ok(Fit::Foreign(path));
        }
        // What others committed in between counts as well: the whole tree must be the tested one.
        let Some(head) = &evidence.head else { return Ok(Fit::Fits { foreign: Vec::new() }) };
        let moved = self.subject.repo.changes_between(head, self.subject.tree)?;
        let untested = moved.into_iter().find(|change| {
            !self.changes.contains_key(&change.path) && !evidence.files.contains_key(&change.path)
        });
        Ok(untested.map_or(Fit::Fits { foreign: Vec::new() }, |change| Fit::Foreign(change.path)))
    }

    /// True if a changed file had the mode it was committed with when the command started.
    fn has_mode(&self, evidence: &Evidence, change: &FileChange) -> bool {
        let Some(after) = &change.after else { return true };
        let head = evidence.head.as_ref().and_then(|head| self.known.get(head)?.get(&change.path));
        match (&evidence.modes, evidence.files.contains_key(&change.path)) {
            (Some(modes), true) => modes.get(&change.path).map_or(PLAIN_MODE, String::as_str) == after.mode,
            (None, true) => !change.changes_mode(),
            (_, false) => head.is_none_or(|head| head.mode == after.mode),
        }
    }

    /// What a changed file held when the command started.
    fn at_start(&self, evidence: &Evidence, path: &RepoPath) -> Content {
        match evidence.files.get(path) {
            Some(content) => content.clone(),
            None => self.in_commit(evidence.head.as_ref(), path),
        }
    }

    /// What a commit that has been learnt holds at a changed path.
    fn in_commit(&self, commit: Option<&Oid>, path: &RepoPath) -> Content {
        object(commit.and_then(|commit| self.known.get(commit)?.get(path)).map(|entry| &entry.oid))
    }

    fn learn(&mut self, head: Option<&Oid>) -> Result<(), GitError> {
        if let Some(head) = head
            && !self.known.contains_key(head)
        {
            let entries = self.subject.repo.tree_entries(head, self.changes.keys().copied())?;
            self.known.insert(head.clone(), entries);
        }
        Ok(())
    }
}

/// One member of `files` as it stands in a record, without what separates it from the others.
fn member(path: &RepoPath, content: &Content) -> Vec<u8> {
    let object = serde_json::to_vec(&BTreeMap::from([(path, content)])).expect("text becomes JSON");
    object[1..object.len() - 1].to_vec()
}

/// Where a member begins. A longer name may end like the one that is looked for, after an escaped quote.
fn find_member(members: &[u8], written: &Finder<'_>) -> Option<usize> {
    written.find_iter(members).find(|at| at.checked_sub(1).is_none_or(|before| members[before] != b'\\'))
}

fn object(oid: Option<&Oid>) -> Content {
    oid.map_or(Content::Absent, |oid| Content::Object(oid.clone()))
}
