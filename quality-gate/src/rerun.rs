//! The required commands once more, in a clean snapshot of the commit, by mala itself.
//!
//! What passed is remembered by the tree that was tested and the commands, in a chained log: the same tree is not tested
//! twice. A failure is not remembered, because it may have been the weather.

use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use mala_core::{CheckName, CommandPattern, Owner, Timestamp};
use mala_git::snapshot::{Carried, Snapshot, SnapshotError};
use mala_git::{GitError, Oid, Repo};
use mala_logs::chain::{ChainError, ChainReader, ChainWriter, Order, verify};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::runner::{RunError, Task, Tee, Tie, run};
use crate::serial;
use crate::verdict::{Check, Verdict};

#[derive(Debug, Error)]
pub enum RerunError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the log of reruns cannot be used")]
    Log(#[from] ChainError),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    pub tree: Oid,
    pub commit: Oid,
    #[serde(deserialize_with = "serial::time")]
    pub started_at: Timestamp,
    pub results: Vec<CommandResult>,
    /// It was not run now, but earlier on the same tree.
    #[serde(skip)]
    pub remembered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub command: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub output_sha256: Option<String>,
    pub output_log: String,
}

impl CommandResult {
    pub fn has_passed(&self) -> bool {
        self.exit_code == Some(0)
    }
}

impl Rerun {
    pub fn has_passed(&self) -> bool {
        self.results.iter().all(CommandResult::has_passed)
    }

    fn is_about(&self, tree: &Oid, commands: &[String]) -> bool {
        let ran = self.results.iter().map(|result| &result.command);
        self.tree == *tree && self.has_passed() && ran.eq(commands)
    }

    fn checks(&self) -> Vec<Check> {
        let when = if self.remembered { format!(" (on {})", self.started_at) } else { String::new() };
        let check = |result: &CommandResult| {
            let command = &result.command;
            if result.has_passed() {
                return Check::pass(
                    CheckName::Command,
                    format!("`{command}` passed in a clean snapshot of the commit{when}"),
                );
            }
            let ending = match (result.exit_code, result.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
            };
            let log = &result.output_log;
            Check::fail(
                CheckName::Command,
                format!("`{command}` failed in a clean snapshot of the commit ({ending}): see `{log}`"),
            )
        };
        self.results.iter().map(check).collect()
    }
}

impl Verdict {
    /// The verdict with the commands judged by a rerun instead of by evidence.
    #[must_use]
    pub fn with_rerun(mut self, rerun: &Rerun) -> Self {
        let is_about_runs = |check: &Check| check.name.is_about_runs();
        let mut checks = mem::take(&mut self.checks);
        let at = checks.iter().position(is_about_runs).unwrap_or(checks.len());
        checks.retain(|check| !is_about_runs(check));
        let at = at.min(checks.len());
        checks.splice(at..at, rerun.checks());
        Self::of(self.issue, self.commit, checks)
    }
}

/// What to run, and how.
#[derive(Debug, Clone, Copy)]
pub struct Suite<'a> {
    pub commands: &'a [CommandPattern],
    /// Folders that the snapshot gets besides the commit.
    pub carried: &'a [Carried],
    /// The process that runs it.
    pub owner: &'a Owner,
    pub tie: Tie,
}

/// Runs every command in a snapshot of `commit`, unless that tree has passed them before.
pub fn rerun(repo: &Repo, commit: &Oid, suite: &Suite<'_>, tee: &mut Tee<'_>) -> Result<Rerun, RerunError> {
    let tree = repo.commit(commit)?.tree;
    let words: Vec<String> = suite.commands.iter().map(ToString::to_string).collect();
    let log = repo.scope().state_dir().join("evidence/reruns.jsonl");
    if let Some(earlier) = remembered(&log, &tree, &words)? {
        return Ok(earlier);
    }
    let started_at = Timestamp::now();
    let snapshot = Snapshot::of_commit(repo, commit, suite.owner, suite.carried)?;
    let outputs = log.with_file_name("output");
    fs::create_dir_all(&outputs).map_err(|source| RerunError::Io { path: outputs.clone(), source })?;
    let mut results = Vec::new();
    for (number, command) in words.iter().enumerate() {
        let name = format!("rerun-{}-{:08x}-{number}.log", tree.short(), fastrand::u32(..));
        let (cwd, output) = (snapshot.root(), outputs.join(name));
        let argv: Vec<_> = command.split_whitespace().map(Into::into).collect();
        let ended = run(&Task { argv: &argv, cwd, log: &output }, suite.tie, tee)?;
        results.push(CommandResult {
            command: command.clone(),
            exit_code: ended.exit_code,
            signal: ended.signal,
            output_sha256: ended.output_sha256,
            output_log: output.to_string_lossy().into_owned(),
        });
    }
    let rerun = Rerun { tree, commit: commit.clone(), started_at, results, remembered: false };
    if rerun.has_passed() {
        ChainWriter::open(&log)?.append(&rerun)?;
    }
    Ok(rerun)
}

/// An earlier pass. A log that was changed remembers nothing.
fn remembered(log: &Path, tree: &Oid, commands: &[String]) -> Result<Option<Rerun>, ChainError> {
    match verify(log) {
        Ok(_) => {}
        Err(ChainError::Broken(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    for record in ChainReader::open(log)?.records::<Rerun>(Order::NewestFirst) {
        let record = record?;
        if record.is_about(tree, commands) {
            return Ok(Some(Rerun { remembered: true, ..record }));
        }
    }
    Ok(None)
}
