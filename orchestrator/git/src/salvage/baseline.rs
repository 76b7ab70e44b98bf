//! What the refs of people's uncommitted work were made to hold, written down where agents cannot write.
//!
//! A ref may be deleted and a disk may lose an object. Without a second place nobody would notice: a ref that is not there
//! looks as if nothing had been uncommitted.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::before::SUBMODULE;
use super::{SalvageError, SavedRef, ref_part, refs};
use crate::retry::Git;
use crate::{Oid, Repo, RepoPath};

/// A ref that does not hold what it was made to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub name: String,
    /// The files whose uncommitted content it held.
    pub files: Vec<RepoPath>,
    pub state: DamageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageState {
    /// The commit was still there: the ref holds it again.
    Mended,
    /// Its commit cannot be read any more.
    Lost,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    commit: Oid,
    files: Vec<RepoPath>,
}

fn directory(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("baselines")
}

fn place(repo: &Repo, name: &str) -> PathBuf {
    directory(repo).join(ref_part(name))
}

/// Writes down what a ref holds.
pub(super) fn record(repo: &Repo, saved: &SavedRef, files: Vec<RepoPath>) -> Result<(), SalvageError> {
    let place = place(repo, &saved.name);
    let record = Record { name: saved.name.clone(), commit: saved.commit.clone(), files };
    let text = serde_json::to_vec(&record).expect("plain data");
    // The names of agents have dots in them, and several are written down at a time.
    let next = directory(repo).join(format!("{}.next", ref_part(&saved.name)));
    let written = fs::create_dir_all(directory(repo)).and_then(|()| {
        let mut file = fs::File::create(&next)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&next, &place)
    });
    written.map_err(|source| SalvageError::Io { path: place, source })
}

/// Holds a ref against what was written down, and points it back to its commit if that is still there.
pub(super) fn check(repo: &Repo, name: &str) -> Result<Option<Damage>, SalvageError> {
    let place = place(repo, name);
    let text = match fs::read(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|source| SalvageError::Io { path: place.clone(), source })?,
    };
    let record: Record = serde_json::from_slice(&text)
        .map_err(|error| SalvageError::Io { path: place, source: io::Error::other(error) })?;
    let state = match is_readable(repo, &record.commit)? {
        true if repo.resolve(name)?.as_ref() == Some(&record.commit) => return Ok(None),
        true => {
            refs::update(repo, name, &["-m", "mala: uncommitted work", name, record.commit.as_str()])?;
            DamageState::Mended
        }
        false => DamageState::Lost,
    };
    Ok(Some(Damage { name: record.name, files: record.files, state }))
}

/// True if the commit and every blob that it changes is there.
fn is_readable(repo: &Repo, commit: &Oid) -> Result<bool, SalvageError> {
    let Ok(changes) = repo.commit(commit).and_then(|commit| repo.changes_of(&commit)) else {
        return Ok(false);
    };
    let held = changes.into_iter().filter_map(|change| change.after);
    let blobs: Vec<String> =
        held.filter(|entry| entry.mode != SUBMODULE).map(|entry| entry.oid.to_string()).collect();
    let found = Git::at(repo.root()).line(&["cat-file", "--batch-check"], blobs.join("\n").as_bytes())?;
    Ok(found.lines().all(|line| !line.ends_with(" missing")))
}

/// What `name` held is not needed any more.
pub(super) fn forget(repo: &Repo, name: &str) {
    // What stays is forgotten with the next run.
    let _ = fs::remove_file(place(repo, name));
}

/// The names of all refs of which something is written down.
pub(super) fn names(repo: &Repo) -> Vec<String> {
    let places = fs::read_dir(directory(repo)).into_iter().flatten().flatten().map(|entry| entry.path());
    let records = places.filter_map(|place| serde_json::from_slice::<Record>(&fs::read(place).ok()?).ok());
    records.map(|record| record.name).collect()
}
