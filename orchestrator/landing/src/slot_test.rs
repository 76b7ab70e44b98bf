//! What an agent or a person wants to try: in a slot, on a commit of the branch plus exactly their own changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use mala_core::{Actor, Oid};
use mala_gate::TestRun;
use mala_gate::evidence::{Evidence, Launch, Place, lossy};
use mala_gate::runner::{Manner, Tee};
use mala_git::landing::{Candidate, Stacked, stack};
use mala_git::salvage::{Bases, work_commit};
use mala_git::{Content, Ownership, Repo, RepoPath, own_changes};
use mala_logs::telemetry::spans::{self, Span};
use mala_store::Party;

use crate::queue::list;
use crate::setup::Preparation;
use crate::slots::{Placed, Pool, Slots};
use crate::validation::{Requirements, Validate, Validation, ValidationError, last_green, last_verdict};

/// What is tried: a commit of the branch plus somebody's own changes, as a commit that is on no branch.
#[derive(Debug, Clone)]
pub struct Work {
    pub base: Oid,
    pub commit: Oid,
    /// What should be known of the base, in words.
    pub remark: Option<String>,
}

impl Work {
    /// What the agent's work comes to right now, on the last commit. Nothing before the first one.
    pub fn of(repo: &Repo, who: &Actor, ownership: &dyn Ownership) -> Result<Option<Self>, ValidationError> {
        let Some(base) = repo.resolve("HEAD")? else { return Ok(None) };
        let own = own_changes(repo, &who.agent, ownership)?;
        let message = format!("what {} is working on\n", who.agent);
        let commit = work_commit(repo, &base, &own, &message)?;
        Ok(Some(Self { base, commit, remark: None }))
    }

    /// The same, where the branch has moved on below some of the files since they were taken: merged with what has landed in them. If
    /// the two do not merge, this is on what the files started from.
    pub fn since(self, repo: &Repo, bases: &Bases) -> Result<Self, ValidationError> {
        let own = bases.rebased(repo, &self.commit)?;
        let Some(base) = repo.commit(&own)?.parents.into_iter().next().filter(|_| own != self.commit) else {
            return Ok(self);
        };
        let candidate = Candidate { base: base.clone(), head: own.clone(), message: None };
        Ok(match stack(repo, &self.base, &candidate)? {
            Stacked::Commit(commit) => Self { commit, ..self },
            Stacked::Nothing => Self { commit: self.base.clone(), ..self },
            Stacked::Conflict(paths) => {
                let remark = format!(
                    "your changes to {} do not merge with what has landed there since you took it: this runs without that",
                    list(&paths)
                );
                Self { base, commit: own, remark: Some(remark) }
            }
        })
    }

    /// The files of it.
    pub fn paths(&self, repo: &Repo) -> Result<Vec<RepoPath>, ValidationError> {
        let changes = repo.changes_between(&self.base, &self.commit)?;
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// The same on the newest commit that is proven, where the last one is not: what is wrong with the branch is not this agent's
    /// doing, and would hide what is. Stays on the last one where the changes do not fit anywhere else.
    pub fn on_last_green(self, repo: &Repo, requirements: &Requirements) -> Result<Self, ValidationError> {
        let Some(green) = last_green(repo, requirements, &self.base)? else { return Ok(self) };
        if green == self.base {
            return Ok(self);
        }
        let verdict = last_verdict(repo, requirements, &repo.commit(&self.base)?.tree)?;
        let is = if verdict == Some(false) { "is red" } else { "is not proven yet" };
        let (tip, known) = (self.base.short(), green.short());
        let candidate = Candidate { base: self.base.clone(), head: self.commit.clone(), message: None };
        let commit = match stack(repo, &green, &candidate)? {
            Stacked::Commit(commit) => commit,
            Stacked::Nothing => green.clone(),
            Stacked::Conflict(paths) => {
                let remark = format!(
                    "the last commit {tip} {is}, and your changes to {} do not fit on {known}, the last one that passed: this runs on {tip}",
                    list(&paths)
                );
                return Ok(Self { remark: Some(remark), ..self });
            }
        };
        let remark = format!(
            "the last commit {tip} {is}: this runs on {known}, the last one that passed, plus your changes; to try it on {tip}: \
             mala test --wait 10m -- COMMAND"
        );
        Ok(Self { base: green, commit, remark: Some(remark) })
    }

    fn files(&self, repo: &Repo) -> Result<BTreeMap<RepoPath, Content>, ValidationError> {
        let changes = repo.changes_between(&self.base, &self.commit)?.into_iter();
        let content = |after: Option<mala_git::TreeEntry>| {
            after.map_or(Content::Absent, |entry| Content::Object(entry.oid))
        };
        Ok(changes.map(|change| (change.path, content(change.after))).collect())
    }
}

/// A test in a slot: on what, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct SlotTest<'a> {
    pub repo: &'a Repo,
    pub slots: &'a Slots,
    pub requirements: &'a Requirements,
    pub work: &'a Work,
    pub party: &'a Party,
    /// What the test is a part of, for a collector.
    pub span: &'a Span,
    /// Becomes readable when nobody waits for the answer any more.
    pub asker: Option<BorrowedFd<'a>>,
}

impl SlotTest<'_> {
    /// Runs one command as if it had been typed in the directory `cwd` of the checkout. A pass of the only command that is required
    /// proves the tree like any validation.
    pub fn command(
        &self,
        argv: &[OsString],
        cwd: &Path,
        tee: &mut Tee<'_>,
    ) -> Result<Evidence, ValidationError> {
        let Self { repo, slots, requirements, work, .. } = *self;
        let tree = repo.commit(&work.commit)?.tree;
        let placed = slots.take(Pool::Test, Some(&work.commit), None)?.place(&work.commit)?;
        let inside = cwd.strip_prefix(repo.root()).unwrap_or(Path::new(""));
        if !placed.root().join(inside).is_dir() {
            let (directory, top) = (inside.to_owned(), repo.root().to_owned());
            return Err(ValidationError::NoDirectory { directory, top });
        }
        let deadline = Instant::now() + requirements.timeout();
        if let Some(preparation) = Preparation::of(&placed, &tree, requirements.setup())? {
            preparation.run(repo, &placed, (deadline, None), tee)?;
        }
        let evidence = self.run(&placed, (argv, inside), deadline, tee)?;
        requirements.remember_if_whole(repo, (&tree, &work.commit), (argv, inside), &evidence)?;
        Ok(evidence)
    }

    /// Runs all required commands, unless the tree has passed them before.
    pub fn required(&self, tee: &mut Tee<'_>) -> Result<Validation, ValidationError> {
        let Self { repo, slots, requirements, asker, .. } = *self;
        let validate = Validate { repo, slots, pool: Pool::Test, requirements, asker };
        validate.commit_as_test(&self.work.commit, self, tee)
    }

    /// One command in a slot that is ready, recorded as this party's test.
    pub(crate) fn run(
        &self,
        placed: &Placed,
        (argv, inside): (&[OsString], &Path),
        deadline: Instant,
        tee: &mut Tee<'_>,
    ) -> Result<Evidence, ValidationError> {
        let Self { repo, work, party, span, asker, .. } = *self;
        let place = Place::Slot {
            base: work.base.clone(),
            tree: repo.commit(&work.commit)?.tree,
            files: work.files(repo)?,
            waited: placed.take_wait(),
        };
        let launch = Launch { argv: argv.to_vec(), cwd: repo.root().join(inside), mutex: None, place };
        let span = span.in_scope(|| spans::test(None, &lossy(argv)));
        let confinement = placed.confinement();
        let timeout = deadline.saturating_duration_since(Instant::now());
        let manner = Manner::Slot { confinement: &confinement, timeout, asker };
        let test = TestRun::begin((repo.scope(), placed.repo()), party, launch, span)?;
        Ok(test.run(&placed.root().join(inside), manner, tee)?)
    }
}
