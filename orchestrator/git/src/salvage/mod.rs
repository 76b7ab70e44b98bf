//! Saving an agent's uncommitted work to a ref, and giving its files back as they were.
//!
//! Promises, in this order: nothing is restored before it can be recovered from a ref; only the files that are named are
//! touched, in the checkout and in the index; and both steps may be repeated after a kill at any point. A ref that
//! exists is never moved: work that differs from what it holds gets a ref of its own.
//!
//! What a person had left uncommitted when the agent began belongs to the person. It is kept under a ref of the run
//! ([`Before`]), and a file that nobody has committed since goes back to that content, not to the last commit's. What
//! anybody but the agent has staged stays staged ([`Staged`]).

mod baseline;
mod bases;
mod before;
mod raw;
pub(crate) mod refs;
mod restore;
mod staged;
mod unfinished;
mod unlike;
mod unversioned;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use mala_core::{Attempt, IssueId, Owner, RunId};
use thiserror::Error;

use self::before::Untouched;
use self::raw::Taken;
use crate::call::nul_separated;
use crate::commit::{CommitError, change_index};
use crate::content::FileModes;
use crate::landing::{self, Candidate, Stacked};
use crate::retry::Git;
use crate::{Content, Entry, FileChange, GitError, Kind, Oid, Repo, RepoPath, State, TreeEntry};

pub use baseline::{Damage, DamageState};
pub use bases::{Bases, bring_up};
pub use before::{Before, Uncommitted};
pub use raw::{LeftOut, unreadable};
pub use staged::{Changes, Staged};
pub use unfinished::Unfinished;
pub use unlike::Unlike;
pub use unversioned::{Limits, Oversize, Restored, Snapshot};

#[derive(Debug, Error)]
pub enum SalvageError {
    #[error("cannot save or restore files")]
    Git(#[from] GitError),
    #[error("cannot write `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot change git's index")]
    Index(#[from] CommitError),
    #[error("cannot read {0}")]
    LeftOut(LeftOut),
    #[error("git named a commit `{0}`, which is not an object name")]
    Odd(String),
}

/// Where work was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedRef {
    pub name: String,
    pub commit: Oid,
}

impl SavedRef {
    /// The files whose work it holds.
    pub fn files(&self, repo: &Repo) -> Result<BTreeSet<RepoPath>, SalvageError> {
        let changes = repo.changes_of(&repo.commit(&self.commit)?)?;
        Ok(changes.into_iter().map(|change| change.path).collect())
    }

    /// What to type, at the top of the checkout, to get the work back.
    pub fn apply_command(&self) -> String {
        format!("git diff-tree -p --binary --root {} | git apply --whitespace=nowarn", self.name)
    }
}

impl fmt::Display for SavedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.commit.short())
    }
}

/// The ref for an attempt's work.
pub fn attempt_ref(issue: &IssueId, attempt: u32) -> String {
    format!("refs/mala/{}/{attempt}", ref_part(issue.as_str()))
}

/// A text as one part of a ref's name. Plain names stay as they are; other bytes become `%XX`, as git allows.
pub(crate) fn ref_part(text: &str) -> String {
    let mut part = String::new();
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_')
            || (*byte == b'.' && at > 0 && at + 1 < bytes.len() && bytes[at - 1] != b'.');
        if is_plain {
            part.push(char::from(*byte));
        } else {
            part.push_str(&format!("%{byte:02X}"));
        }
    }
    match part.strip_suffix(".lock") {
        Some(stem) => format!("{stem}%2Elock"),
        None => part,
    }
}

/// The files of the checkout that differ from the last commit, staged or not, new ones too. Submodules and repositories
/// inside the checkout are not ours to save or restore.
pub fn dirty(repo: &Repo) -> Result<BTreeSet<RepoPath>, SalvageError> {
    Ok(dirty_since(repo)?.1)
}

/// The same, with the commit that they differ from: git says both at once.
fn dirty_since(repo: &Repo) -> Result<(Option<Oid>, BTreeSet<RepoPath>), SalvageError> {
    let status = repo.status()?;
    let entries = status.entries.into_iter().filter(|entry| entry.kind == Kind::File);
    let (unwatched, seen): (Vec<Entry>, Vec<Entry>) =
        entries.partition(|entry| entry.state == State::Unwatched);
    let mut files: BTreeSet<RepoPath> = seen.into_iter().map(|entry| entry.path).collect();
    files.extend(changed_unseen(repo, status.head.as_ref(), unwatched)?);
    Ok((status.head, files))
}

/// Those that differ of the files that git was told not to look at. One that is not there is none: a sparse checkout leaves
/// most files out.
fn changed_unseen(
    repo: &Repo,
    head: Option<&Oid>,
    unwatched: Vec<Entry>,
) -> Result<Vec<RepoPath>, SalvageError> {
    let is_there =
        |path: &RepoPath| path.within(repo.root()).symlink_metadata().is_ok_and(|found| !found.is_dir());
    let there = unwatched.into_iter().map(|entry| entry.path).filter(is_there).collect();
    let committed = held_at(repo, head, &there)?;
    let mut contents = repo.contents(&there)?;
    contents.retain(|path, content| match (content, committed.get(path)) {
        (Content::Object(now), Some(then)) => *now != then.oid,
        (Content::Absent, _) => false,
        _ => true,
    });
    Ok(contents.into_keys().collect())
}

/// Saves what the checkout holds at `files` under the ref `name`, as a commit on top of the last one. Gives nothing if
/// that is what the last commit holds. If `name` exists and holds the same, that is the answer; if it holds something
/// else, the work goes to `name.2` and so on. None of the files may be [`unreadable`].
pub fn save(
    repo: &Repo,
    name: &str,
    files: &BTreeSet<RepoPath>,
    message: &str,
) -> Result<Option<SavedRef>, SalvageError> {
    save_since(repo, &Bases::default(), name, (files, message))
}

/// The same, as a change of what the files started from.
pub fn save_since(
    repo: &Repo,
    bases: &Bases,
    name: &str,
    (files, message): (&BTreeSet<RepoPath>, &str),
) -> Result<Option<SavedRef>, SalvageError> {
    if files.is_empty() {
        return Ok(None);
    }
    let head = repo.resolve("HEAD")?.map(|head| bases.below(repo, &head)).transpose()?;
    let tree = tree_of(repo, head.as_ref(), files)?;
    if held_at(repo, head.as_ref(), files)? == repo.tree_entries(&tree, files)? {
        return Ok(None);
    }
    keep(repo, name, &Work { head, tree, files, message }).map(Some)
}

/// Saves what the index holds at `files`, as far as it is neither what the last commit holds nor in one of `saved`, as
/// [`save`] saves what the checkout holds.
pub fn save_staged(
    repo: &Repo,
    name: &str,
    files: &BTreeSet<RepoPath>,
    saved: &[SavedRef],
    message: &str,
) -> Result<Option<SavedRef>, SalvageError> {
    let mut staged = repo.staged(None)?;
    staged.retain(|change| files.contains(&change.path));
    for saved in saved {
        let there = repo.tree_entries(&saved.commit, files)?;
        staged.retain(|change| there.get(&change.path) != change.after.as_ref());
    }
    if !staged.is_empty() {
        // Git calls what is in conflict deleted.
        let unmerged = staged::unmerged(repo)?;
        staged.retain(|change| !unmerged.contains_key(&change.path));
    }
    if staged.is_empty() {
        return Ok(None);
    }
    let head = repo.resolve("HEAD")?;
    let tree = tree_with(repo, head.as_ref(), &staged)?;
    let files = &staged.into_iter().map(|change| change.path).collect();
    keep(repo, name, &Work { head, tree, files, message }).map(Some)
}

/// What a commit with unfinished work of an attempt says.
pub fn work_message(attempt: &Attempt, reason: &str) -> String {
    let Attempt { issue, number, agent, run, .. } = attempt;
    format!("{issue}: work of attempt {number} by {agent}\n\n{reason}\n\n{}\n", of_run(run))
}

/// In a store that was begun anew, attempts get numbers that others have had. Their runs tell them apart; dates would not, as
/// clocks can be set.
fn of_run(run: &RunId) -> String {
    format!("Mala-Run: {run}")
}

/// All that was saved under `name`, by whichever run or by this one, the first one first.
pub fn saved_as(repo: &Repo, name: &str, run: Option<&RunId>) -> Result<Vec<SavedRef>, SalvageError> {
    let line = run.map(of_run);
    let mut all = Vec::new();
    for number in 1.. {
        let name = numbered(name, number);
        let Some(commit) = repo.resolve(&name)? else { break };
        let message = repo.commit(&commit)?.message;
        if line.as_ref().is_none_or(|line| message.lines().any(|other| other == line)) {
            all.push(SavedRef { name, commit });
        }
    }
    Ok(all)
}

/// Work that differs from what `name` holds has a ref of its own.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}.{number}") }
}

/// The files whose entries in the index are as an agent has left them.
pub fn staged_by(repo: &Repo, changes: &Changes) -> Result<BTreeSet<RepoPath>, SalvageError> {
    if changes.is_empty() {
        return Ok(BTreeSet::new());
    }
    staged::own(repo, &repo.git_path("index")?, changes)
}

/// Gives the index's entries of `files` back as they were before the agent changed them, if they are still as it has left them.
/// `then` was the last commit when it began.
pub fn restore_staged(
    repo: &Repo,
    owner: &Owner,
    files: &BTreeSet<RepoPath>,
    changes: &Changes,
    then: Option<&Oid>,
) -> Result<(), SalvageError> {
    if files.is_empty() {
        return Ok(());
    }
    change_index(repo, owner, |index| {
        let own = staged::own(repo, index, changes)?.intersection(files).cloned().collect();
        staged::put_back(repo, index, changes, &own, then)
    })
}

/// What a ref is to hold.
struct Work<'a> {
    head: Option<Oid>,
    tree: Oid,
    files: &'a BTreeSet<RepoPath>,
    message: &'a str,
}

/// Points a ref at it, see [`save`].
fn keep(repo: &Repo, name: &str, work: &Work<'_>) -> Result<SavedRef, SalvageError> {
    for number in 1.. {
        let name = numbered(name, number);
        match repo.resolve(&name)? {
            Some(commit) if holds_the_same(repo, &commit, &work.tree, work.files)? => {
                return Ok(SavedRef { name, commit });
            }
            Some(_) => {}
            None => {
                // The ref is created, never moved.
                let commit = commit_tree(repo, work.head.as_slice(), &work.tree, work.message)?;
                refs::keep(repo, &name, &commit, "mala: saved work", Some(""))?;
                return Ok(SavedRef { name, commit });
            }
        }
    }
    unreachable!("some number is free")
}

/// Those of `files` that the checkout holds as `commit` does: what they hold is safe already.
pub fn held_like(
    repo: &Repo,
    commit: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<BTreeSet<RepoPath>, SalvageError> {
    if files.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (now, then) = (repo.contents(files)?, repo.tree_entries(commit, files)?);
    let modes = FileModes::new(repo);
    let is_alike = |path: &&RepoPath| modes.holds(path, now.get(path), then.get(path));
    Ok(files.iter().filter(is_alike).cloned().collect())
}

/// The ref for work that an attempt has put aside for a while. It goes when the work is back.
pub fn aside_ref(issue: &IssueId, attempt: u32) -> String {
    format!("{}.aside", attempt_ref(issue, attempt))
}

/// Forgets saved work that is back in the checkout.
pub fn forget(repo: &Repo, saved: &SavedRef) -> Result<(), SalvageError> {
    refs::update(repo, &saved.name, &["-d", &saved.name, saved.commit.as_str()])
}

/// Puts saved work back into the checkout, all of it or nothing. What was committed since is merged with it, line by line:
/// nothing is put back if the two conflict, or if one of its files is changed in the checkout. True if it is in its place.
pub fn put_in_place(repo: &Repo, saved: &SavedRef) -> Result<bool, SalvageError> {
    put_in_place_without(repo, saved, &BTreeSet::new())
}

/// The same, without some files: a later ref has them.
pub fn put_in_place_without(
    repo: &Repo,
    saved: &SavedRef,
    others: &BTreeSet<RepoPath>,
) -> Result<bool, SalvageError> {
    let mut files = saved.files(repo)?;
    files.retain(|path| !others.contains(path));
    let (base, head) = (repo.commit(&saved.commit)?.parents.into_iter().next(), repo.resolve("HEAD")?);
    if !dirty(repo)?.is_disjoint(&files) {
        return Ok(false);
    }
    let is_committed = held_at(repo, base.as_ref(), &files)? != held_at(repo, head.as_ref(), &files)?;
    let source = if is_committed { merged(repo, saved, base, head) } else { Some(saved.commit.clone()) };
    let Some(source) = source else { return Ok(false) };
    restore::checkout_only(repo, &source, &files)?;
    Ok(true)
}

/// What was saved, on top of the last commit. What cannot be merged, for whatever reason, stays in its ref.
fn merged(repo: &Repo, saved: &SavedRef, base: Option<Oid>, head: Option<Oid>) -> Option<Oid> {
    let (base, head) = (base?, head?);
    let candidate = Candidate { base, head: saved.commit.clone(), message: None };
    match landing::stack(repo, &head, &candidate) {
        Ok(Stacked::Commit(merged)) => Some(merged),
        Ok(Stacked::Nothing) => Some(head),
        Ok(Stacked::Conflict(_)) | Err(_) => None,
    }
}

fn commit_tree(repo: &Repo, parents: &[Oid], tree: &Oid, message: &str) -> Result<Oid, SalvageError> {
    let mut args = vec!["commit-tree", tree.as_str()];
    args.extend(parents.iter().flat_map(|parent| ["-p", parent.as_str()]));
    oid(Git::at(repo.root()).line(&args, message.as_bytes())?)
}

fn holds_the_same(
    repo: &Repo,
    saved: &Oid,
    tree: &Oid,
    files: &BTreeSet<RepoPath>,
) -> Result<bool, SalvageError> {
    Ok(repo.tree_entries(saved, files)? == repo.tree_entries(tree, files)?)
}

/// What a commit holds at `files`, which is nothing before the first one.
fn held_at(
    repo: &Repo,
    commit: Option<&Oid>,
    files: &BTreeSet<RepoPath>,
) -> Result<BTreeMap<RepoPath, TreeEntry>, SalvageError> {
    match commit {
        Some(commit) => Ok(repo.tree_entries(commit, files)?),
        None => Ok(BTreeMap::new()),
    }
}

/// The last commit's tree with what the checkout holds at `files`.
fn tree_of(repo: &Repo, head: Option<&Oid>, files: &BTreeSet<RepoPath>) -> Result<Oid, SalvageError> {
    let update = ["--add", "--remove", "--replace", "-z", "--stdin"];
    match changed_tree(repo, head, &update, &nul_separated(files)) {
        // A filter that fails, for example. What is there counts more than how git would store it.
        Err(SalvageError::Git(GitError::Failed { .. })) => {
            let Taken { changes, left_out, .. } = raw::take(repo, head, files)?;
            match left_out.into_iter().next() {
                Some(left_out) => Err(SalvageError::LeftOut(left_out)),
                None => tree_with(repo, head, &changes),
            }
        }
        tree => tree,
    }
}

/// The last commit's tree with these changes.
fn tree_with(repo: &Repo, head: Option<&Oid>, changes: &[FileChange]) -> Result<Oid, SalvageError> {
    let mut lines = Vec::new();
    for FileChange { path, before, after } in changes {
        let line = match (after, before) {
            (Some(entry), _) => format!("{} {}\t", entry.mode, entry.oid),
            (None, Some(entry)) => format!("0 {}\t", entry.oid),
            (None, None) => continue,
        };
        lines.extend_from_slice(line.as_bytes());
        lines.extend_from_slice(path.as_bytes());
        lines.push(0);
    }
    changed_tree(repo, head, &["-z", "--index-info"], &lines)
}

/// The last commit's tree after `git update-index`.
fn changed_tree(repo: &Repo, head: Option<&Oid>, update: &[&str], input: &[u8]) -> Result<Oid, SalvageError> {
    let index = PrivateIndex::new(repo)?;
    let git = Git::with_index(repo.root(), &index.0);
    match head {
        Some(head) => git.run(&["read-tree", head.as_str()], b"")?,
        None => git.run(&["read-tree", "--empty"], b"")?,
    };
    git.run(&[&["update-index"], update].concat(), input)?;
    oid(git.line(&["write-tree"], b"")?)
}

/// A commit that is on no branch: `base` with these files as they are in the checkout now.
pub fn work_commit(repo: &Repo, base: &Oid, paths: &[RepoPath], message: &str) -> Result<Oid, SalvageError> {
    if paths.is_empty() {
        return Ok(base.clone());
    }
    let update = ["--add", "--remove", "--replace", "-z", "--stdin"];
    let tree = changed_tree(repo, Some(base), &update, &nul_separated(paths))?;
    let git = Git::at(repo.root());
    oid(git.line(&["commit-tree", tree.as_str(), "-p", base.as_str()], message.as_bytes())?)
}

pub fn oid(text: String) -> Result<Oid, SalvageError> {
    Oid::parse(&text).ok_or(SalvageError::Odd(text))
}

/// An index that nobody else sees. Gone when dropped; what a killed process left is removed by [`sweep`].
#[derive(Debug)]
pub struct PrivateIndex(pub PathBuf);

impl PrivateIndex {
    pub fn new(repo: &Repo) -> Result<Self, SalvageError> {
        let dir = folder(repo);
        fs::create_dir_all(&dir).map_err(|source| SalvageError::Io { path: dir.clone(), source })?;
        Ok(Self(dir.join(format!("{}-{:x}.index", std::process::id(), fastrand::u64(..)))))
    }
}

impl Drop for PrivateIndex {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(self.0.with_extension("index.lock"));
    }
}

fn folder(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("salvage")
}

/// Removes what killed processes left behind. Only for the one process that may save work in this repository.
pub fn sweep(repo: &Repo) {
    let mine = format!("{}-", std::process::id());
    for entry in fs::read_dir(folder(repo)).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&mine) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Gives `files` back as they were: to the last commit's content, or to what a person had there when the run began. New
/// files go away, with folders that become empty.
pub fn restore(
    repo: &Repo,
    owner: &Owner,
    files: &BTreeSet<RepoPath>,
    before: &Before,
) -> Result<(), SalvageError> {
    if files.is_empty() {
        return Ok(());
    }
    let mut theirs = before.untouched(repo)?;
    if let Some(theirs) = &mut theirs {
        theirs.files.retain(|path| files.contains(path));
    }
    let others = match &theirs {
        Some(theirs) => files.difference(&theirs.files).cloned().collect(),
        None => files.clone(),
    };
    let head = repo.resolve("HEAD")?;
    // What could be restored counts, so the index takes its place also after a failure.
    let restored = change_index(repo, owner, |index| {
        Ok::<_, SalvageError>(match &head {
            Some(head) => restore::to_commit(repo, index, head, &others),
            None => restore::remove(repo, index, &others),
        })
    });
    let given_back = theirs.map_or(Ok(()), |theirs| give_back(repo, owner, head.as_ref(), &theirs));
    restored.flatten().and(given_back)
}

/// Puts what a person had left uncommitted back, in the index and in the checkout.
fn give_back(repo: &Repo, owner: &Owner, head: Option<&Oid>, theirs: &Untouched) -> Result<(), SalvageError> {
    let in_conflict = theirs.told.unmerged.iter().filter(|(path, _)| theirs.files.contains(*path));
    let mut plain = theirs.files.clone();
    plain.retain(|path| !theirs.told.unmerged.contains_key(path));
    let indexed = change_index(repo, owner, |index| {
        if let Some(commit) = theirs.staged.as_ref().or(head) {
            restore::index_only(repo, index, commit, &plain)?;
        }
        staged::set(repo, index, in_conflict)
    });
    indexed.and(raw::put_back(repo, theirs))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Removes a file and the folders that it leaves empty. What is gone already is fine.
fn remove_file(root: &Path, path: &RepoPath) -> Result<(), SalvageError> {
    let place = path.within(root);
    match fs::remove_file(&place) {
        Ok(()) => {}
        Err(error) if is_missing(&error) => {}
        // A folder where the file was: it holds other files, which are dealt with under their own names.
        Err(_) if place.is_dir() => {}
        Err(source) => return Err(SalvageError::Io { path: place, source }),
    }
    for folder in place.ancestors().skip(1).take_while(|folder| *folder != root && folder.starts_with(root)) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
