//! What an agent has done to git's index, as nothing in the index tells.
//!
//! Whoever watches over the agent keeps the index from before and after each of its changes ([`Staged::keep`]), as hard
//! links: git replaces an index and never writes to one. What differs between the two was the agent's doing, what
//! changes otherwise was not. Changes that follow each other are one, and older ones are summed up in a list.

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mala_core::{AgentId, Key, Scope};
use serde::{Deserialize, Serialize};

use super::{SalvageError, held_at, restore};
use crate::retry::Git;
use crate::{GitError, Oid, Repo, RepoPath};

/// What the index holds at a path, as `git ls-files --stage` tells it; several lines during a merge, none if there is no entry.
type Entry = Vec<String>;
pub(super) type Entries = BTreeMap<RepoPath, Entry>;

/// What an agent has made of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    before: Entry,
    after: Entry,
}

pub type Changes = BTreeMap<RepoPath, Change>;

/// What was summed up.
#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    /// The last change that is in it.
    last: u64,
    changes: Changes,
}

/// The changes of one agent.
#[derive(Debug, Clone)]
pub struct Staged {
    folder: PathBuf,
}

impl Staged {
    pub fn of(scope: &Scope, agent: &AgentId) -> Self {
        let name = format!("{}-{}", checkout_id(scope), short_id(agent.as_str().as_bytes()));
        Self { folder: all(scope).join(name) }
    }

    /// Forgets what agents of this checkout have changed that are gone, except for those in `keep`.
    pub fn forget_others(scope: &Scope, keep: &[AgentId]) {
        let keep: Vec<PathBuf> = keep.iter().map(|agent| Self::of(scope, agent).folder).collect();
        let mine = format!("{}-", checkout_id(scope));
        for entry in fs::read_dir(all(scope)).into_iter().flatten().flatten() {
            let is_mine = entry.file_name().to_string_lossy().starts_with(&mine);
            if is_mine && !keep.contains(&entry.path()) {
                // What stays is tried again when the next run begins.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The agent is about to put `next` in the place of `index`.
    pub fn keep(&self, index: &Path, next: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let last = self.pairs()?.pop_last();
        let pair = match last {
            Some(pair) if is_same(&self.after(pair), index) => pair,
            last => {
                let pair = last.map_or_else(|| self.list().map(|list| list.last), Ok)? + 1;
                self.link(index, &self.before(pair))?;
                pair
            }
        };
        self.link(next, &self.after(pair))
    }

    /// Sums up all changes but the last, which may go on.
    pub fn sum_up(&self, repo: &Repo) -> Result<(), SalvageError> {
        let mut pairs = self.pairs().map_err(self.io())?;
        pairs.pop_last();
        self.sum_up_these(repo, &pairs).map(|_| ())
    }

    /// All changes of an agent that is gone.
    pub fn changes(&self, repo: &Repo) -> Result<Changes, SalvageError> {
        self.sum_up_these(repo, &self.pairs().map_err(self.io())?)
    }

    /// They are of no more use.
    pub fn forget(&self) -> Result<(), SalvageError> {
        absent(fs::remove_dir_all(&self.folder)).map_err(self.io())
    }

    /// Repeated after a kill, it comes to the same.
    fn sum_up_these(&self, repo: &Repo, pairs: &BTreeSet<u64>) -> Result<Changes, SalvageError> {
        let mut list = self.list().map_err(self.io())?;
        let Some(last) = pairs.last() else { return Ok(list.changes) };
        for pair in pairs.iter().filter(|pair| **pair > list.last) {
            let (before, after) = (listed(repo, &self.before(*pair)), listed(repo, &self.after(*pair)));
            match (before, after) {
                (Ok(before), Ok(after)) => add(&mut list.changes, &before, &after),
                // An agent may have written something there that git cannot read, which tells nothing.
                (Err(GitError::Failed { .. }), _) | (_, Err(GitError::Failed { .. })) => {}
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            }
        }
        list.last = list.last.max(*last);
        let next = self.folder.join("list.next");
        let text = serde_json::to_vec(&list).map_err(|error| self.io()(error.into()))?;
        fs::write(&next, text).and_then(|()| fs::rename(&next, self.list_file())).map_err(self.io())?;
        for path in pairs.iter().flat_map(|pair| [self.after(*pair), self.before(*pair)]) {
            // What is still there is known to be summed up.
            let _ = fs::remove_file(path);
        }
        Ok(list.changes)
    }

    fn list(&self) -> io::Result<List> {
        match fs::read(self.list_file()) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(List::default()),
            Err(error) => Err(error),
        }
    }

    fn list_file(&self) -> PathBuf {
        self.folder.join("list.json")
    }

    fn before(&self, pair: u64) -> PathBuf {
        self.folder.join(format!("{pair}.before"))
    }

    fn after(&self, pair: u64) -> PathBuf {
        self.folder.join(format!("{pair}.after"))
    }

    /// Changes that were kept whole.
    fn pairs(&self) -> io::Result<BTreeSet<u64>> {
        let names = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            names => names?,
        };
        let number = |name: &str| name.strip_suffix(".after")?.parse().ok();
        Ok(names.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect())
    }

    /// Makes `to` a name of what is at `from`, or no name of anything if nothing is there.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let new = self.folder.join("new");
        absent(fs::remove_file(&new))?;
        match fs::hard_link(from, &new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => absent(fs::remove_file(to)),
            linked => linked.and_then(|()| fs::rename(&new, to)),
        }
    }

    fn io(&self) -> impl Fn(io::Error) -> SalvageError + '_ {
        |source| SalvageError::Io { path: self.folder.clone(), source }
    }
}

fn all(scope: &Scope) -> PathBuf {
    scope.state_dir().join("staged")
}

fn short_id(text: &[u8]) -> String {
    Key::from_stored(text.to_vec()).short_id()
}

fn checkout_id(scope: &Scope) -> String {
    short_id(scope.root().as_os_str().as_encoded_bytes())
}

/// What is gone already is removed.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// The lines of `git ls-files` for the index at `index`.
fn listed(repo: &Repo, index: &Path) -> Result<Vec<Vec<u8>>, GitError> {
    let output = Git::with_index(repo.root(), index).run(&["ls-files", "--stage", "-z"], b"")?;
    Ok(output.split(|byte| *byte == 0).filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
}

fn parsed(line: &[u8]) -> Option<(RepoPath, String)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    Some((RepoPath::from_bytes(&line[tab + 1..]), String::from_utf8_lossy(&line[..tab]).into_owned()))
}

fn add(changes: &mut Changes, before: &[Vec<u8>], after: &[Vec<u8>]) {
    let without = |lines: &[Vec<u8>], others: &[Vec<u8>]| {
        let others: HashSet<&Vec<u8>> = others.iter().collect();
        collected(lines.iter().filter(|line| !others.contains(line)).map(Vec::as_slice))
    };
    let (mut old, mut new) = (without(before, after), without(after, before));
    let paths: BTreeSet<RepoPath> = old.keys().chain(new.keys()).cloned().collect();
    for path in paths {
        let (before, after) = (old.remove(&path).unwrap_or_default(), new.remove(&path).unwrap_or_default());
        match changes.entry(path) {
            Place::Vacant(place) => _ = place.insert(Change { before, after }),
            Place::Occupied(mut known) => {
                let known = known.get_mut();
                // Somebody else has changed it in between.
                if known.after != before {
                    known.before = before;
                }
                known.after = after;
            }
        }
    }
}

fn collected<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Entries {
    let mut entries = Entries::new();
    for (path, line) in lines.into_iter().filter_map(parsed) {
        entries.entry(path).or_default().push(line);
    }
    entries
}

fn entries(repo: &Repo, index: &Path) -> Result<Entries, SalvageError> {
    Ok(collected(listed(repo, index)?.iter().map(Vec::as_slice)))
}

/// What is in conflict in the checkout's own index.
pub(super) fn unmerged(repo: &Repo) -> Result<Entries, SalvageError> {
    let output = Git::at(repo.root()).run(&["ls-files", "--unmerged", "-z"], b"")?;
    Ok(collected(output.split(|byte| *byte == 0)))
}

/// Makes the entries in the index at `index` these, and no others.
pub(super) fn set<'a>(
    repo: &Repo,
    index: &Path,
    entries: impl Iterator<Item = (&'a RepoPath, &'a Entry)> + Clone,
) -> Result<(), SalvageError> {
    let files: BTreeSet<RepoPath> = entries.clone().map(|(path, _)| path.clone()).collect();
    if files.is_empty() {
        return Ok(());
    }
    restore::drop_from_index(repo, index, &files)?;
    let mut lines = Vec::new();
    for (path, entry) in entries {
        for line in entry {
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\t');
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        }
    }
    Git::with_index(repo.root(), index).run(&["update-index", "-z", "--index-info"], &lines)?;
    Ok(())
}

/// What stands in the index at `index` as the agent has left it.
pub(super) fn own(repo: &Repo, index: &Path, changes: &Changes) -> Result<BTreeSet<RepoPath>, SalvageError> {
    let now = entries(repo, index)?;
    let is_own = |path: &RepoPath, change: &Change| {
        let now = now.get(path).map_or(&[][..], Vec::as_slice);
        now == change.after && now != change.before
    };
    let own = changes.iter().filter(|(path, change)| is_own(path, change));
    Ok(own.map(|(path, _)| path.clone()).collect())
}

/// Makes the entries of `files` what they were before the agent changed them, or what the last commit holds if they were
/// committed since `then`.
pub(super) fn put_back(
    repo: &Repo,
    index: &Path,
    changes: &Changes,
    files: &BTreeSet<RepoPath>,
    then: Option<&Oid>,
) -> Result<(), SalvageError> {
    let head = repo.resolve("HEAD")?;
    let (old, new) = (held_at(repo, then, files)?, held_at(repo, head.as_ref(), files)?);
    let (untouched, committed): (BTreeSet<RepoPath>, BTreeSet<RepoPath>) =
        files.iter().cloned().partition(|path| old.get(path) == new.get(path));
    if let Some(head) = &head {
        restore::index_only(repo, index, head, &committed)?;
    }
    set(repo, index, untouched.iter().map(|path| (path, &changes[path].before)))
}
