//! Which tracker serves a checkout.
//!
//! `br` and `bd` both keep their issues in a folder `.beads`, so the folder says that there is a tracker, and the programs
//! on PATH say which. Nothing is guessed: if both programs are there, a person has to choose.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::Serialize;
use thiserror::Error;

use crate::beads::Beads;
use crate::error::{IssueError, Result};
use crate::program::{self, Limits};
use crate::tracker::Tracker;

/// The folder both trackers keep their issues in.
const FOLDER: &str = ".beads";

/// A tracker that could serve a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    pub kind: Tracker,
    pub program: PathBuf,
    /// As far as it can be understood.
    pub version: Option<Version>,
}

/// What serves a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// No other tracker: the one built into mala.
    BuiltIn,
    Tracker(Found),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChoiceError {
    #[error(
        "`{}` can be read by `br` and by `bd`, and both are installed: set `issues.source` to \"br\", \"bd\" or \"builtin\"",
        .folder.display()
    )]
    Several { folder: PathBuf },
    #[error(
        "`{}` holds issues, but neither `br` nor `bd` is installed: install one with `{}` or `{}`, or set `issues.source` \
         to \"builtin\"",
        .folder.display(), Tracker::Br.install(), Tracker::Bd.install()
    )]
    NoProgram { folder: PathBuf },
}

impl Found {
    /// The source for the issues in `root`, if the program can be used.
    pub fn open(&self, root: &Path, limits: Limits) -> Result<Beads> {
        match (self.kind.oldest(), &self.version) {
            (Some(needed), Some(found)) if *found < needed => {
                Err(IssueError::TooOld { tracker: self.kind, found: found.clone(), needed })
            }
            _ => Ok(Beads::new(self.kind, &self.program, root, limits)),
        }
    }
}

/// The trackers whose program is found on `path`, the value of PATH, if the folder `root` has issues of theirs.
pub fn detect(root: &Path, path: &OsStr) -> Vec<Found> {
    if !root.join(FOLDER).is_dir() {
        return Vec::new();
    }
    Tracker::ALL.into_iter().filter_map(|kind| find(kind, path).ok()).collect()
}

/// The program of one tracker, whether or not there are issues for it.
pub fn find(kind: Tracker, path: &OsStr) -> Result<Found> {
    // An entry of PATH that is relative means another program in every folder: it is not used.
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let candidates = std::env::join_paths(folders).ok();
    let program = which::which_in_global(kind.program(), candidates).ok().and_then(|mut found| found.next());
    let program = program.ok_or(IssueError::NotInstalled { tracker: kind })?;
    let version = program::version_line(&program).and_then(|line| version(&line));
    Ok(Found { kind, program, version })
}

/// What serves `root` when nobody has said which tracker to use.
pub fn choose(root: &Path, path: &OsStr) -> Result<Choice, ChoiceError> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Ok(Choice::BuiltIn);
    }
    let mut found = detect(root, path);
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(Choice::Tracker(only)),
        (Some(_), false) => Err(ChoiceError::Several { folder }),
        (None, _) => Err(ChoiceError::NoProgram { folder }),
    }
}

/// The first word of `br 0.7.6` or `bd version 1.3.0 (dev)` that is a version.
fn version(line: &str) -> Option<Version> {
    line.split_whitespace().find_map(|word| Version::parse(word.trim_start_matches('v')).ok())
}
