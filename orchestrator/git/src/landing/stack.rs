//! A candidate on top of a commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::index::{PrivateIndex, parents};
use super::proof::{Merge, prove_lines};
use super::{LandError, SUBMODULE, new_blobs};
use crate::call::{failed, nul_parts};
use crate::commit::index_info;
use crate::{Commit, FileChange, GitError, Oid, Repo, RepoPath, TreeEntry};

/// What is added to a directory stays in it, also if the other side has renamed the directory.
const NO_DIRECTORY_RENAMES: &[&str] = &["merge.directoryRenames=false"];

/// What is offered to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What it started from.
    pub base: Oid,
    pub head: Oid,
    /// The message of the new commit; that of `head` if there is none.
    pub message: Option<String>,
}

/// What putting a candidate on top of a commit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stacked {
    Commit(Oid),
    /// Both sides changed these files.
    Conflict(Vec<RepoPath>),
    /// The branch has all of it already.
    Nothing,
}

/// Puts what `candidate` changes against its base on top of `onto`, as one commit that is on no branch. Needs git 2.40 if both
/// changed the same files.
pub fn stack(repo: &Repo, onto: &Oid, candidate: &Candidate) -> Result<Stacked, LandError> {
    let (base, head) = (repo.commit(&candidate.base)?, repo.commit(&candidate.head)?);
    let tip = repo.commit(onto)?;
    let offered = repo.tree_changes(&base.tree, &head.tree)?;
    repo.check_blobs(&new_blobs(&offered))?;
    let since = repo.tree_changes(&base.tree, &tip.tree)?;
    let tree = match beside(&offered, &since) {
        Some(rest) => edited(repo, &tip, &rest)?,
        None => {
            let merge = Merge { base: &base, tip: &tip, head: &head, offered: &offered };
            match merged(repo, &merge, &since)? {
                Merged::Tree(tree) => tree,
                Merged::Conflict(paths) => return Ok(Stacked::Conflict(paths)),
            }
        }
    };
    if tree == tip.tree {
        return Ok(Stacked::Nothing);
    }
    let says_the_same = candidate.message.as_ref().is_none_or(|message| *message == head.message);
    if tree == head.tree && head.parents == [onto.clone()] && says_the_same {
        return Ok(Stacked::Commit(head.id));
    }
    written(repo, &tip, &tree, candidate).map(Stacked::Commit)
}

/// What `commit` holds, with its author and message, as a commit on top of `onto`.
pub fn recommit(repo: &Repo, onto: &Oid, commit: &Oid) -> Result<Oid, LandError> {
    let tree = repo.commit(commit)?.tree;
    let candidate = Candidate { base: onto.clone(), head: commit.clone(), message: None };
    written(repo, &repo.commit(onto)?, &tree, &candidate)
}

/// What is left to change if both sides changed different files: those that the branch has already are left out. Nothing if
/// they meet somewhere, also where one has a file and the other a directory of that name.
fn beside(offered: &[FileChange], since: &[FileChange]) -> Option<Vec<FileChange>> {
    let theirs: BTreeMap<&RepoPath, Option<&TreeEntry>> =
        since.iter().map(|change| (&change.path, change.after.as_ref())).collect();
    let mut rest = Vec::new();
    for change in offered {
        match theirs.get(&change.path) {
            Some(after) if *after == change.after.as_ref() => continue,
            Some(_) => return None,
            None => {}
        }
        let inner = RepoPath::from_bytes([change.path.as_bytes(), b"/"].concat());
        let below = theirs.range::<RepoPath, _>(&inner..).next();
        let is_above = below.is_some_and(|(path, _)| path.is_within(&change.path));
        if is_above || parents(&change.path).any(|parent| theirs.contains_key(&parent)) {
            return None;
        }
        rest.push(change.clone());
    }
    Some(rest)
}

/// The files that no merge of lines can settle: one side has removed what the other has changed, both have added them, or one
/// has a file where the other has a directory.
///
/// Git would look for what a removed file was renamed to, and change that instead: a file that the candidate has never seen.
fn collisions(offered: &[FileChange], since: &[FileChange]) -> Vec<RepoPath> {
    let theirs: BTreeMap<&RepoPath, &FileChange> =
        since.iter().map(|change| (&change.path, change)).collect();
    let collides = |change: &&FileChange| {
        if let Some(other) = theirs.get(&change.path) {
            let is_everywhere = change.before.is_some() && change.after.is_some() && other.after.is_some();
            return change.after != other.after && !is_everywhere;
        }
        let inner = RepoPath::from_bytes([change.path.as_bytes(), b"/"].concat());
        let below =
            theirs.range::<RepoPath, _>(&inner..).take_while(|(path, _)| path.is_within(&change.path));
        let above = parents(&change.path).filter_map(|parent| theirs.get(&parent).copied());
        let mut others = below.map(|(_, other)| *other).chain(above);
        change.after.is_some() && others.any(|other| other.after.is_some())
    };
    offered.iter().filter(collides).map(|change| change.path.clone()).collect()
}

/// The tip's tree with these changes and, by its content, no other ones.
fn edited(repo: &Repo, tip: &Commit, changes: &[FileChange]) -> Result<Oid, LandError> {
    if changes.is_empty() {
        return Ok(tip.tree.clone());
    }
    let index = PrivateIndex::new(repo)?;
    repo.git("read-tree").index(index.path()).arg(&tip.tree).output()?;
    let update = repo.git("update-index").index(index.path());
    update.args(["--add", "--replace", "-z", "--index-info"]).input(index_info(changes)).output()?;
    let tree = parse("write-tree", &repo.git("write-tree").index(index.path()).line()?)?;
    let made = repo.tree_changes(&tip.tree, &tree)?;
    // Both are in the order of paths.
    if made == changes {
        return Ok(tree);
    }
    let odd = |one: &[FileChange], other: &[FileChange]| {
        one.iter().find(|change| !other.contains(change)).map(|change| change.path.clone())
    };
    let path =
        odd(&made, changes).or_else(|| odd(changes, &made)).unwrap_or_else(|| RepoPath::from_bytes(""));
    Err(LandError::Unproven { path, what: "another content than the candidate has" })
}

enum Merged {
    Tree(Oid),
    Conflict(Vec<RepoPath>),
}

/// A three-way merge whose every line is the candidate's or the tip's.
fn merged(repo: &Repo, merge: &Merge<'_>, since: &[FileChange]) -> Result<Merged, LandError> {
    // What is merged is read by git, which does not hash.
    let is_offered = |change: &&FileChange| {
        merge.offered.binary_search_by(|offered| offered.path.cmp(&change.path)).is_ok()
    };
    let changes = merge.offered.iter().chain(since.iter().filter(is_offered));
    let entries = changes.flat_map(|change| change.before.iter().chain(&change.after));
    let blobs: Vec<Oid> =
        entries.filter(|entry| entry.mode != SUBMODULE).map(|entry| entry.oid.clone()).collect();
    repo.check_blobs(&blobs)?;
    let call = repo.git_with(NO_DIRECTORY_RENAMES, "merge-tree").args([
        "--write-tree",
        "-z",
        "--name-only",
        "--no-messages",
    ]);
    let call = call.arg(format!("--merge-base={}", merge.base.id)).arg(&merge.tip.id).arg(&merge.head.id);
    let output = call.finish()?;
    let mut parts = nul_parts(&output.stdout);
    let tree = parts.next().and_then(Oid::from_bytes);
    let mut paths: Vec<RepoPath> = parts.map(RepoPath::from_bytes).collect();
    paths.extend(collisions(merge.offered, since));
    paths.sort();
    paths.dedup();
    match (output.status.code(), tree) {
        (Some(0), Some(tree)) if paths.is_empty() => {
            prove_lines(repo, merge, &tree)?;
            Ok(Merged::Tree(tree))
        }
        // Git says 1 for a name that it does not know, too, but then it has merged nothing.
        (Some(0 | 1), Some(_)) if !paths.is_empty() => Ok(Merged::Conflict(paths)),
        _ => Err(failed("git merge-tree".to_owned(), &output).into()),
    }
}

/// A commit of this tree on top of the tip, from whom the candidate is.
fn written(repo: &Repo, tip: &Commit, tree: &Oid, candidate: &Candidate) -> Result<Oid, LandError> {
    let object = repo.commit_object(&candidate.head)?;
    let author = Author::of(&object).ok_or_else(|| GitError::answer("cat-file commit", &object))?;
    let message = match &candidate.message {
        Some(message) => message.as_bytes(),
        None => body(&object),
    };
    let mut call = repo.plain_git("commit-tree").arg(tree).arg("-p").arg(&tip.id);
    if repo.signs_commits()? {
        call = call.arg("-S");
    }
    if let Some(encoding) = header(&object, b"encoding ").filter(|_| candidate.message.is_none()) {
        call = call
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "i18n.commitEncoding")
            .env("GIT_CONFIG_VALUE_0", OsStr::from_bytes(encoding));
    }
    let call = call
        .env("GIT_AUTHOR_NAME", OsStr::from_bytes(author.name))
        .env("GIT_AUTHOR_EMAIL", OsStr::from_bytes(author.mail))
        .env("GIT_AUTHOR_DATE", OsStr::from_bytes(&[b"@", author.date].concat()));
    let id = parse("commit-tree", &call.input(message).line()?)?;
    let commit = repo.commit(&id)?;
    let is_as_asked = commit.tree == *tree && commit.parents == [tip.id.clone()];
    if is_as_asked { Ok(id) } else { Err(LandError::OtherCommit { commit: id }) }
}

fn parse(command: &str, text: &str) -> Result<Oid, GitError> {
    Oid::parse(text).ok_or_else(|| GitError::answer(command, text.as_bytes()))
}

/// `author name <mail> seconds zone`
struct Author<'a> {
    name: &'a [u8],
    mail: &'a [u8],
    date: &'a [u8],
}

impl<'a> Author<'a> {
    fn of(object: &'a [u8]) -> Option<Self> {
        let line = header(object, b"author ")?;
        let open = line.iter().position(|byte| *byte == b'<')?;
        let close = line.iter().rposition(|byte| *byte == b'>')?;
        let (name, mail) = (line[..open].trim_ascii(), line.get(open + 1..close)?);
        Some(Self { name, mail, date: line[close + 1..].trim_ascii() })
    }
}

/// The rest of the header line that begins like this.
fn header<'a>(object: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let lines = object.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    lines.into_iter().find_map(|line| line.strip_prefix(start))
}

fn body(object: &[u8]) -> &[u8] {
    let end = object.windows(2).position(|pair| pair == b"\n\n");
    end.map_or(&[], |end| &object[end + 2..])
}
