//! A person's files that git does not hold: ignored files, repositories inside the checkout, empty directories.
//!
//! Agents write ignored files without a lock, so nobody can say whose change one is. A [`Snapshot`] is therefore taken when a
//! run begins, before any agent works. What is missing when an attempt ends is put back. What merely holds something else
//! stays as it is, since a person's own program may have written it; its earlier content is kept and named.
//!
//! Left out are build directories, which a build makes again, and files that only mean something to a running process (a journal
//! of SQLite put back beside a newer database would corrupt it: <https://www.sqlite.org/howtocorrupt.html>). What is too large is named, so
//! that a person can move it away before agents begin.

mod scan;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mala_core::RunId;
use serde::{Deserialize, Serialize};

use super::{SalvageError, is_missing, raw, ref_part};
use crate::{Repo, RepoPath};

pub use scan::{Limits, Oversize};
use scan::{Scan, Unversioned};

const MANIFEST: &str = "manifest.jsonl";
/// Present once a copy was named to a person: the directory outlives its run then.
const NAMED: &str = "named";

/// Copies of unversioned files, in a directory that agents cannot write.
#[derive(Debug)]
pub struct Snapshot {
    directory: PathBuf,
    records: Vec<Record>,
}

/// One line of the manifest. A later line about the same path replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    path: RepoPath,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    EmptyDirectory,
    Symlink { target: Vec<u8> },
    File(Copy),
}

/// A file as it was, and the number of the directory that holds its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Copy {
    number: usize,
    bytes: u64,
    modified_ns: u64,
    permissions: u32,
}

/// What an attempt has left of a person's unversioned files.
#[derive(Debug, Default)]
pub struct Restored {
    /// Was missing and is there again.
    pub put_back: Vec<RepoPath>,
    /// Holds something else now; where its earlier content is.
    pub changed: Vec<(RepoPath, PathBuf)>,
    /// Is missing and cannot be put back, and why.
    pub lost: Vec<(RepoPath, String)>,
}

impl Snapshot {
    /// Copies what there is for a run that begins, and names what is too large to be copied. `build` are the names of build
    /// directories, or their paths from the top with a slash in front.
    pub fn take(
        repo: &Repo,
        run: &RunId,
        limits: &Limits,
        build: &[String],
    ) -> Result<(Self, Vec<Oversize>), SalvageError> {
        let Scan { found, mut oversize } = scan::scan(repo, build)?;
        let (kept, more) = limits.choose(found);
        oversize.extend(more);
        let directory = directory_of(repo, run);
        let at = |source| SalvageError::Io { path: directory.clone(), source };
        fs::create_dir_all(&directory).map_err(at)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).map_err(at)?;
        let mut snapshot = Self { directory, records: Vec::new() };
        let mut new = Vec::new();
        for unversioned in kept {
            // What is gone again, or cannot be read, is no reason not to begin.
            new.extend(snapshot.copy(repo, &unversioned, new.len()).ok());
        }
        snapshot.append(new)?;
        Ok((snapshot, oversize))
    }

    /// What was copied for a run; empty if nothing was.
    pub fn of(repo: &Repo, run: &RunId) -> Result<Self, SalvageError> {
        let directory = directory_of(repo, run);
        let manifest = directory.join(MANIFEST);
        let at = |source| SalvageError::Io { path: manifest.clone(), source };
        let mut records = Vec::new();
        match File::open(&manifest) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    // A last line that a kill has cut off is of a copy that nobody relies on.
                    records.extend(serde_json::from_str(&line.map_err(at)?).ok());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(error)),
        }
        Ok(Self { directory, records })
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Copies anew what has changed since, before another agent begins: a person goes on working.
    pub fn refresh(&mut self, repo: &Repo, limits: &Limits) -> Result<(), SalvageError> {
        let mut new = Vec::new();
        for Record { path, what } in self.latest() {
            let What::File(copy) = what else { continue };
            let Ok(found) = path.within(repo.root()).symlink_metadata() else { continue };
            let is_same = found.len() == copy.bytes && modified_ns(&found) == copy.modified_ns;
            if !is_same && found.is_file() && found.len() <= limits.file_bytes {
                let unversioned =
                    Unversioned { path: path.clone(), kind: scan::Kind::File, bytes: found.len() };
                new.extend(self.copy(repo, &unversioned, self.records.len() + new.len()).ok());
            }
        }
        self.append(new)
    }

    /// Puts back what is missing, and says what else has become of it.
    pub fn restore(&self, repo: &Repo) -> Restored {
        let mut restored = Restored::default();
        let living = self.living_repositories(repo);
        for Record { path, what } in self.latest() {
            if git_dir_of(path).is_some_and(|git_dir| living.contains(&git_dir)) {
                continue;
            }
            match path.within(repo.root()).symlink_metadata() {
                Ok(found) => {
                    if let What::File(copy) = what
                        && let Some(earlier) = self.earlier_content(repo, path, copy, &found)
                    {
                        restored.changed.push((path.clone(), earlier));
                    }
                }
                Err(error) if is_missing(&error) => match self.put_back(repo, path, what) {
                    Ok(()) => restored.put_back.push(path.clone()),
                    Err(error) => restored.lost.push((path.clone(), error.to_string())),
                },
                Err(error) => restored.lost.push((path.clone(), error.to_string())),
            }
        }
        restored
    }

    /// Keeps the copies when the run is over: a person was told where they are.
    pub fn keep(&self) -> Result<(), SalvageError> {
        let mark = self.directory.join(NAMED);
        File::create(&mark).map(|_| ()).map_err(|source| SalvageError::Io { path: mark, source })
    }

    /// Removes the copies of runs that are over, except for those that a person was told of.
    pub fn forget_others(repo: &Repo, keep: &[RunId]) -> Result<(), SalvageError> {
        let keep: Vec<PathBuf> = keep.iter().map(|run| directory_of(repo, run)).collect();
        for entry in fs::read_dir(all(repo)).into_iter().flatten().flatten() {
            let directory = entry.path();
            if !keep.contains(&directory) {
                forget(&directory)?;
            }
        }
        Ok(())
    }

    /// The run is over.
    pub fn forget(repo: &Repo, run: &RunId) -> Result<(), SalvageError> {
        forget(&directory_of(repo, run))
    }

    /// Copies that a person was told of, and when.
    pub fn named(repo: &Repo) -> Vec<(PathBuf, SystemTime)> {
        let directories = fs::read_dir(all(repo)).into_iter().flatten().flatten().map(|entry| entry.path());
        let since =
            |directory: &PathBuf| directory.join(NAMED).metadata().and_then(|mark| mark.modified()).ok();
        directories.filter_map(|directory| since(&directory).map(|since| (directory, since))).collect()
    }

    /// The last record of each path, in the order of the first ones.
    fn latest(&self) -> impl Iterator<Item = &Record> {
        let mut last = HashMap::new();
        for (at, record) in self.records.iter().enumerate() {
            last.insert(&record.path, at);
        }
        self.records
            .iter()
            .enumerate()
            .filter(move |(at, record)| last[&record.path] == *at)
            .map(|(_, record)| record)
    }

    fn copy(&self, repo: &Repo, unversioned: &Unversioned, number: usize) -> io::Result<Record> {
        let path = unversioned.path.clone();
        let place = path.within(repo.root());
        let what = match unversioned.kind {
            scan::Kind::EmptyDirectory => What::EmptyDirectory,
            scan::Kind::Symlink => {
                What::Symlink { target: fs::read_link(&place)?.into_os_string().into_vec() }
            }
            scan::Kind::File => {
                let found = place.symlink_metadata()?;
                let to = self.place_of(&path, number);
                fs::create_dir_all(to.parent().expect("it has a number"))?;
                fs::copy(&place, &to)?;
                // Nobody needs to run it here.
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600))?;
                What::File(Copy {
                    number,
                    bytes: to.metadata()?.len(),
                    modified_ns: modified_ns(&found),
                    permissions: found.permissions().mode() & 0o7777,
                })
            }
        };
        Ok(Record { path, what })
    }

    /// Below its number a copy has its own name, so that a person can tell it.
    fn place_of(&self, path: &RepoPath, number: usize) -> PathBuf {
        let name = path.as_path().file_name().unwrap_or_default();
        self.directory.join(number.to_string()).join(name)
    }

    fn append(&mut self, new: Vec<Record>) -> Result<(), SalvageError> {
        if new.is_empty() {
            return Ok(());
        }
        let manifest = self.directory.join(MANIFEST);
        let lines: Vec<String> =
            new.iter().map(|record| serde_json::to_string(record).expect("plain data") + "\n").collect();
        let written =
            OpenOptions::new().create(true).append(true).mode(0o600).open(&manifest).and_then(|mut file| {
                file.write_all(lines.concat().as_bytes())?;
                file.sync_all()
            });
        written.map_err(|source| SalvageError::Io { path: manifest, source })?;
        self.records.extend(new);
        Ok(())
    }

    /// The directories of repositories that are still there. Git moves and removes files in them all the time, so nothing in
    /// one is put back; a repository that is gone is put back as a whole.
    fn living_repositories(&self, repo: &Repo) -> HashSet<RepoPath> {
        let known: HashSet<RepoPath> =
            self.records.iter().filter_map(|record| git_dir_of(&record.path)).collect();
        known.into_iter().filter(|git_dir| git_dir.within(repo.root()).join("HEAD").exists()).collect()
    }

    /// Where the earlier content of a file is that holds something else now.
    fn earlier_content(
        &self,
        repo: &Repo,
        path: &RepoPath,
        copy: &Copy,
        found: &fs::Metadata,
    ) -> Option<PathBuf> {
        if found.is_file() && found.len() == copy.bytes && modified_ns(found) == copy.modified_ns {
            return None;
        }
        let earlier = self.place_of(path, copy.number);
        let is_same = found.is_file()
            && found.len() == copy.bytes
            && fs::read(path.within(repo.root())).ok() == fs::read(&earlier).ok();
        (!is_same).then_some(earlier)
    }

    fn put_back(&self, repo: &Repo, path: &RepoPath, what: &What) -> io::Result<()> {
        match what {
            What::EmptyDirectory => raw::put_directory(repo.root(), path),
            What::Symlink { target } => raw::put(repo.root(), path, raw::LINK, target, None),
            What::File(copy) => {
                let bytes = fs::read(self.place_of(path, copy.number))?;
                if bytes.len() as u64 != copy.bytes {
                    return Err(io::Error::other("its copy is damaged"));
                }
                raw::put(repo.root(), path, "100644", &bytes, Some(copy.permissions))?;
                // Builds go by it; without it the file is there all the same.
                let modified = UNIX_EPOCH + Duration::from_nanos(copy.modified_ns);
                let _ = File::open(path.within(repo.root())).and_then(|file| file.set_modified(modified));
                Ok(())
            }
        }
    }
}

/// The directory of git that a path lies in, if it does.
fn git_dir_of(path: &RepoPath) -> Option<RepoPath> {
    let parts: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    let at = parts.iter().position(|part| *part == b".git")?;
    Some(RepoPath::from_bytes(parts[..=at].join(&b'/')))
}

fn all(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("unversioned")
}

fn directory_of(repo: &Repo, run: &RunId) -> PathBuf {
    all(repo).join(ref_part(run.as_str()))
}

fn forget(directory: &Path) -> Result<(), SalvageError> {
    if directory.join(NAMED).exists() {
        return Ok(());
    }
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SalvageError::Io { path: directory.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// For comparisons only: nothing is said about order.
fn modified_ns(found: &fs::Metadata) -> u64 {
    let since =
        found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
