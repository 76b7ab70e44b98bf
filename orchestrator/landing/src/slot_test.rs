//! A command that an agent or a person wants to try: in a slot, on the last commit plus exactly their own changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mala_core::{Actor, EvidenceId, Oid};
use mala_gate::evidence::{Ended, Evidence, Launch, Place, Recording};
use mala_gate::runner::{Manner, RunError, Task, Tee, run};
use mala_git::salvage::work_commit;
use mala_git::{Content, Ownership, Repo, RepoPath, own_changes};

use crate::setup::Preparation;
use crate::slots::{Placed, Pool, Slots};
use crate::validation::{Requirements, ValidationError};

/// What is tried: the last commit plus somebody's own changes, as a commit that is on no branch.
#[derive(Debug, Clone)]
pub struct Work {
    pub base: Oid,
    pub commit: Oid,
}

impl Work {
    /// What the agent's work comes to right now. Nothing before the first commit.
    pub fn of(repo: &Repo, who: &Actor, ownership: &dyn Ownership) -> Result<Option<Self>, ValidationError> {
        let Some(base) = repo.resolve("HEAD")? else { return Ok(None) };
        let own = own_changes(repo, &who.agent, ownership)?;
        let message = format!("what {} is working on\n", who.agent);
        let commit = work_commit(repo, &base, &own, &message)?;
        Ok(Some(Self { base, commit }))
    }

    fn files(&self, repo: &Repo) -> Result<BTreeMap<RepoPath, Content>, ValidationError> {
        let changes = repo.changes_between(&self.base, &self.commit)?.into_iter();
        let content = |after: Option<mala_git::TreeEntry>| {
            after.map_or(Content::Absent, |entry| Content::Object(entry.oid))
        };
        Ok(changes.map(|change| (change.path, content(change.after))).collect())
    }
}

/// A command that somebody wants to try.
#[derive(Debug)]
pub struct TestRequest<'a> {
    pub repo: &'a Repo,
    pub slots: &'a Slots,
    pub requirements: &'a Requirements,
    pub work: &'a Work,
    pub who: Actor,
    pub argv: Vec<OsString>,
    /// The directory of the checkout that it was typed in.
    pub cwd: &'a Path,
}

/// A command that is about to run in a slot.
#[derive(Debug)]
pub struct SlotTest {
    placed: Placed,
    recording: Recording,
    argv: Vec<OsString>,
    cwd: PathBuf,
    timeout: Duration,
}

impl SlotTest {
    /// Makes a slot ready.
    pub fn prepare(request: TestRequest<'_>, tee: &mut Tee<'_>) -> Result<Self, ValidationError> {
        let TestRequest { repo, slots, requirements, work, who, argv, cwd } = request;
        let tree = repo.commit(&work.commit)?.tree;
        let placed = slots.take(Pool::Test, Some(&work.commit))?.place(&work.commit)?;
        let inside = cwd.strip_prefix(repo.root()).unwrap_or(Path::new(""));
        let place = placed.root().join(inside);
        if !place.is_dir() {
            let (directory, top) = (inside.to_owned(), repo.root().to_owned());
            return Err(ValidationError::NoDirectory { directory, top });
        }
        let deadline = Instant::now() + requirements.timeout();
        if let Some(preparation) = Preparation::of(&placed, &tree, requirements.setup())? {
            preparation.run(repo, &placed, deadline, tee)?;
        }
        let launch = Launch { argv: argv.clone(), cwd: cwd.to_owned(), mutex: None, place: Place::Isolated };
        let files = work.files(repo)?;
        let recording = Recording::begin_in_slot(placed.repo(), who, launch, work.base.clone(), files)?;
        Ok(Self { placed, recording, argv, cwd: place, timeout: requirements.timeout() })
    }

    pub fn id(&self) -> &EvidenceId {
        self.recording.id()
    }

    /// Runs the command and records what it said.
    pub fn run(
        self,
        ownership: &dyn Ownership,
        asker: Option<BorrowedFd<'_>>,
        tee: &mut Tee<'_>,
    ) -> Result<Evidence, ValidationError> {
        let confinement = self.placed.confinement();
        let manner = Manner::Slot { confinement: &confinement, timeout: self.timeout, asker };
        let log = self.recording.output_log().to_owned();
        let ended = match run(&Task { argv: &self.argv, cwd: &self.cwd, log: &log, manner }, tee) {
            Err(RunError::Timeout) => Ended { exit_code: None, signal: Some(9), output_sha256: None },
            ended => ended?,
        };
        Ok(self.recording.finish(ended, ownership)?)
    }
}
