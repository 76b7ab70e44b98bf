//! What differs between the last commit, the index and the files.
//!
//! Renames are never guessed: a moved file is one deletion and one addition, so both of its names are seen whatever
//! git's idea of similarity is. Files that the index was told not to look at (`assume-unchanged`, `skip-worktree`) are
//! looked at all the same. Git itself looks no further into submodules than at their commits; see [`Inner`].

use std::thread;

use crate::call::nul_parts;
use crate::inner::Inner;
use crate::{GitError, Oid, Repo, RepoPath};

/// The state of a checkout at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Nothing before the first commit.
    pub head: Option<Oid>,
    /// In git's order.
    pub entries: Vec<Entry>,
}

/// One file that is not the same in the last commit, the index and the checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: RepoPath,
    pub state: State,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In the index or in the last commit.
    Tracked { staged: Option<Change>, unstaged: Option<Change> },
    /// Known to neither, and not ignored.
    Untracked,
    /// Left undecided by a merge.
    Unmerged,
    /// The index was told not to look at this file, so it may or may not have changed.
    Unwatched,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    /// Its content or its mode.
    Modified,
    Deleted,
    /// A file became a link, or the like.
    TypeChanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Submodule,
    /// An untracked folder that is a repository of its own.
    NestedRepository,
}

impl Status {
    pub fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        self.entries.iter().map(|entry| &entry.path)
    }

    pub fn is_clean(&self) -> bool {
        self.entries.iter().all(|entry| entry.state == State::Unwatched)
    }
}

impl Repo {
    /// Everything that differs. Never takes git's index lock.
    pub fn status(&self) -> Result<Status, GitError> {
        thread::scope(|scope| {
            // Without a thread to spare, one after the other.
            let more = thread::Builder::new().spawn_scoped(scope, || self.not_looked_at()).ok();
            let output = self
                .git("status")
                .args(["--porcelain=v2", "-z", "--branch", "--untracked-files=all"])
                .args(["--ignored=no", "--no-renames", "--ignore-submodules=dirty", "--no-ahead-behind"])
                .output()?;
            let mut status = parse(&output)?;
            let more = match more {
                Some(more) => more.join().expect("reading a list does not panic")?,
                None => self.not_looked_at()?,
            };
            let is_known = |entry: &Entry| {
                entry.kind == Kind::Submodule && status.paths().any(|path| *path == entry.path)
            };
            let more: Vec<Entry> = more.into_iter().filter(|entry| !is_known(entry)).collect();
            status.entries.extend(more);
            status.entries.retain(|entry| !self.apart.iter().any(|apart| entry.path.is_within(apart)));
            Ok(status)
        })
    }

    /// Files that the index was told not to look at, and submodules with changes of their own.
    fn not_looked_at(&self) -> Result<Vec<Entry>, GitError> {
        let entries = self.index_entries()?;
        let seen = entries.iter().filter_map(|entry| {
            let path = entry.path();
            let is_changed = |inner: Inner| !inner.is_clean(self);
            if entry.is_skipped() || entry.is_assumed_unchanged() {
                Some(Entry { path, state: State::Unwatched, kind: Kind::File })
            } else if entry.is_submodule() && Inner::at(&path.within(self.root())).is_some_and(is_changed) {
                let state = State::Tracked { staged: None, unstaged: Some(Change::Modified) };
                Some(Entry { path, state, kind: Kind::Submodule })
            } else {
                None
            }
        });
        Ok(seen.collect())
    }
}

fn parse(output: &[u8]) -> Result<Status, GitError> {
    let mut status = Status { head: None, entries: Vec::new() };
    for line in nul_parts(output) {
        let odd = || GitError::answer("status", line);
        match line[0] {
            b'#' => status.head = head(line).or(status.head),
            b'?' => status.entries.push(untracked(line.get(2..).ok_or_else(odd)?)),
            b'1' => status.entries.push(changed(line).ok_or_else(odd)?),
            b'u' => status.entries.push(unmerged(line).ok_or_else(odd)?),
            _ => return Err(odd()),
        }
    }
    Ok(status)
}

fn head(line: &[u8]) -> Option<Oid> {
    Oid::from_bytes(line.strip_prefix(b"# branch.oid ")?)
}

fn untracked(path: &[u8]) -> Entry {
    let (path, kind) = match path.strip_suffix(b"/") {
        Some(folder) => (folder, Kind::NestedRepository),
        None => (path, Kind::File),
    };
    Entry { path: RepoPath::from_bytes(path), state: State::Untracked, kind }
}

/// `1 XY sub mH mI mW hH hI path`
fn changed(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.splitn(9, |byte| *byte == b' ').collect();
    let [_, xy, sub, _, _, _, _, _, path] = fields.as_slice() else { return None };
    let [staged, unstaged] = **xy else { return None };
    let state = State::Tracked { staged: change(staged)?, unstaged: change(unstaged)? };
    Some(Entry { path: RepoPath::from_bytes(*path), state, kind: kind(sub) })
}

/// `u XY sub m1 m2 m3 mW h1 h2 h3 path`
fn unmerged(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.splitn(11, |byte| *byte == b' ').collect();
    let [_, _, sub, .., path] = fields.as_slice() else { return None };
    (fields.len() == 11).then(|| Entry {
        path: RepoPath::from_bytes(*path),
        state: State::Unmerged,
        kind: kind(sub),
    })
}

fn kind(sub: &[u8]) -> Kind {
    if sub.first() == Some(&b'S') { Kind::Submodule } else { Kind::File }
}

fn change(letter: u8) -> Option<Option<Change>> {
    Some(match letter {
        b'.' => None,
        b'A' => Some(Change::Added),
        b'M' => Some(Change::Modified),
        b'D' => Some(Change::Deleted),
        b'T' => Some(Change::TypeChanged),
        _ => return None,
    })
}
