//! Recording: what a command runs on, before and after.
//!
//! Only files that differ from the last commit are hashed: everything else is what that commit says. A file counts as
//! the agent's own if the agent has held it alone and nobody else holds it now.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mala_core::text::plain;
use mala_core::{Actor, EvidenceId, LockName, Timestamp};
use mala_git::{Content, GitError, Oid, Ownership, OwnershipError, Repo, RepoPath, Standing, standing};
use mala_logs::chain::ChainError;
use mala_logs::secrets::mask_args;
use thiserror::Error;

use super::anchoring::AnchorError;
use super::log::EvidenceLog;
use super::output::{file_of, folder_of};
use super::record::{Evidence, Strength};

#[derive(Debug, Error)]
pub enum EvidenceError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("the evidence log cannot be used")]
    Log(#[from] ChainError),
    #[error("the store, which knows how the evidence log ends, cannot be used")]
    Store(#[from] mala_store::StoreError),
    #[error("cannot use the saved output `{}`", .path.display())]
    Output {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl From<AnchorError> for EvidenceError {
    fn from(error: AnchorError) -> Self {
        match error {
            AnchorError::Log(error) => error.into(),
            AnchorError::Store(error) => error.into(),
        }
    }
}

/// What is about to be run.
#[derive(Debug, Clone)]
pub struct Launch {
    pub argv: Vec<OsString>,
    /// The folder of the checkout it runs in, or that its folder in a snapshot stands for.
    pub cwd: PathBuf,
    pub mutex: Option<LockName>,
    pub place: Place,
}

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the checkout that everybody shares.
    Shared,
    /// In a slot, which holds nobody else's changes: the commit `base` with `files` changed, which is `tree`, whatever git says
    /// of the slot. `waited`: until a slot was free.
    Slot { base: Oid, tree: Oid, files: BTreeMap<RepoPath, Content>, waited: Duration },
}

/// A command line as it is shown and noted, without secrets.
pub fn command_line(args: &[OsString]) -> String {
    mask_args(&lossy(args)).iter().map(plain).collect::<Vec<_>>().join(" ")
}

/// Arguments as text.
pub fn lossy(args: &[OsString]) -> Vec<String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Nothing if the output could not be saved, as when it went to a terminal.
    pub output_sha256: Option<String>,
}

/// A command that is running.
#[derive(Debug)]
pub struct Recording {
    repo: Repo,
    who: Actor,
    launch: Launch,
    id: EvidenceId,
    output: OutputFile,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    start: Scene,
}

/// What differs from the last commit, at one moment.
#[derive(Debug, Clone)]
struct Scene {
    head: Option<Oid>,
    files: BTreeMap<RepoPath, Content>,
    modes: Option<BTreeMap<RepoPath, String>>,
}

impl Recording {
    /// To be called right before the command starts. `repo` is the checkout that it will see.
    pub fn begin(repo: &Repo, who: Actor, launch: Launch) -> Result<Self, EvidenceError> {
        let started_at = Timestamp::now();
        let start = match &launch.place {
            Place::Shared => Scene::of(repo)?,
            Place::Slot { base, files, .. } => {
                let modes = repo.unplain_modes(files.keys())?;
                Scene { head: Some(base.clone()), files: files.clone(), modes }
            }
        };
        let (id, output) = reserve_output(&folder_of(repo.scope()))?;
        let repo = repo.clone();
        Ok(Self { repo, who, launch, id, output, started_at, ended_at: None, start })
    }

    pub fn id(&self) -> &EvidenceId {
        &self.id
    }

    pub(crate) fn argv(&self) -> &[OsString] {
        &self.launch.argv
    }

    /// The file that the command's output is to be saved in; it exists and is empty.
    pub fn output_log(&self) -> &Path {
        &self.output.path
    }

    /// The file that the command's output is to be saved in, whatever has its name by now.
    pub fn output(&self) -> io::Result<File> {
        self.output.file.try_clone()
    }

    /// The command has ended just now, and [`Recording::finish`] may have to wait for its output.
    pub fn note_end(&mut self) {
        self.ended_at = Some(Timestamp::now());
    }

    /// To be called right after the command has ended. The record is in the log when this returns.
    pub fn finish(mut self, ended: Ended, ownership: &dyn Ownership) -> Result<Evidence, EvidenceError> {
        let ended_at = self.ended_at.unwrap_or_else(Timestamp::now);
        let after = self.start.differences(&Scene::of(&self.repo)?, &self.repo)?;
        let tree = match &self.launch.place {
            Place::Shared => None,
            Place::Slot { tree, .. } => Some(tree.clone()),
        };
        let mut evidence = Evidence {
            id: self.id,
            agent: self.who.agent,
            issue: self.who.issue,
            run: self.who.run,
            argv: mask_args(&lossy(&self.launch.argv)),
            cwd: RepoPath::from_bytes(self.launch.cwd.as_os_str().as_bytes()).to_text(),
            started_at: self.started_at,
            ended_at,
            exit_code: ended.exit_code,
            signal: ended.signal,
            strength: Strength::Observed,
            isolated: tree.is_some(),
            mutex: self.launch.mutex,
            output_log: ended.output_sha256.as_ref().map(|_| self.output.path.to_string_lossy().into_owned()),
            output_sha256: ended.output_sha256,
            head: self.start.head,
            tree,
            files: self.start.files,
            modes: self.start.modes,
            after,
            foreign: Vec::new(),
            holders: BTreeMap::new(),
        };
        if evidence.tree.is_none() {
            name_foreign(&mut evidence, &self.repo, ownership)?;
        }
        EvidenceLog::of(self.repo.scope()).append(&evidence)?;
        self.output.is_recorded = evidence.output_log.is_some();
        Ok(evidence)
    }
}

impl Scene {
    fn of(repo: &Repo) -> Result<Self, GitError> {
        let status = repo.status()?;
        let mut files = repo.contents(status.paths())?;
        drop_unchanged(repo, &status, &mut files)?;
        let modes = repo.unplain_modes(files.keys())?;
        Ok(Self { head: status.head, files, modes })
    }

    /// The files that hold something else in `later`, with what they hold there.
    fn differences(&self, later: &Self, repo: &Repo) -> Result<BTreeMap<RepoPath, Content>, GitError> {
        let mut suspects: BTreeSet<RepoPath> = self.files.keys().chain(later.files.keys()).cloned().collect();
        if let (Some(before), Some(after)) = (&self.head, &later.head)
            && before != after
        {
            suspects.extend(repo.changes_between(before, after)?.into_iter().map(|change| change.path));
        }
        let before = self.contents(&suspects, repo)?;
        let after = later.contents(&suspects, repo)?;
        Ok(after.into_iter().filter(|(path, content)| before.get(path) != Some(content)).collect())
    }

    fn contents(
        &self,
        paths: &BTreeSet<RepoPath>,
        repo: &Repo,
    ) -> Result<BTreeMap<RepoPath, Content>, GitError> {
        let clean: Vec<&RepoPath> = paths.iter().filter(|path| !self.files.contains_key(path)).collect();
        let mut committed = match &self.head {
            Some(head) if !clean.is_empty() => repo.entries_in(head, clean)?,
            _ => BTreeMap::new(),
        };
        let mut content = |path: &RepoPath| match self.files.get(path) {
            Some(content) => content.clone(),
            None => committed.remove(path).map_or(Content::Absent, Content::Object),
        };
        Ok(paths.iter().map(|path| (path.clone(), content(path))).collect())
    }
}

/// Files the index was told not to look at are in the status whether they changed or not; keep those that did.
fn drop_unchanged(
    repo: &Repo,
    status: &mala_git::Status,
    files: &mut BTreeMap<RepoPath, Content>,
) -> Result<(), GitError> {
    let unwatched = status.entries.iter().filter(|entry| entry.state == mala_git::State::Unwatched);
    let unwatched: Vec<&RepoPath> = unwatched.map(|entry| &entry.path).collect();
    let Some(head) = status.head.as_ref().filter(|_| !unwatched.is_empty()) else { return Ok(()) };
    let committed = repo.entries_in(head, unwatched.iter().copied())?;
    let is_sparse = repo.is_sparse()?;
    for path in unwatched {
        let is_same = match (committed.get(path), files.get(path)) {
            (Some(committed), Some(Content::Object(found))) => committed == found,
            // In a sparse checkout most files are absent, and that says nothing.
            (Some(_), Some(Content::Absent)) => is_sparse,
            _ => false,
        };
        if is_same {
            files.remove(path);
        }
    }
    Ok(())
}

fn name_foreign(
    evidence: &mut Evidence,
    repo: &Repo,
    ownership: &dyn Ownership,
) -> Result<(), OwnershipError> {
    let paths: BTreeSet<&RepoPath> = evidence.files.keys().chain(evidence.after.keys()).collect();
    for path in paths {
        if let Standing::Foreign { holder } = standing(path, repo, &evidence.agent, ownership)? {
            evidence.foreign.push(path.clone());
            evidence.holders.extend(holder.map(|holder| (path.clone(), holder)));
        }
    }
    Ok(())
}

/// Where an output is saved, open since it was made. Gone when dropped, unless a record names it.
#[derive(Debug)]
struct OutputFile {
    path: PathBuf,
    file: File,
    is_recorded: bool,
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.is_recorded {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// A new output file, whose name makes the id unique.
fn reserve_output(folder: &Path) -> Result<(EvidenceId, OutputFile), EvidenceError> {
    let failed = |path: &Path, source| EvidenceError::Output { path: path.to_owned(), source };
    fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    loop {
        let id = EvidenceId::random();
        let path = file_of(folder, &id);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((id, OutputFile { path, file, is_recorded: false })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed(&path, source)),
        }
    }
}
