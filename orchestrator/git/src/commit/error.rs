//! Why nothing was committed, in words for whoever typed the command.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::{GitError, IndexLockError, Oid, OwnershipError, RepoPath, Unfit};

/// A file that the agent may not commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotYours {
    pub path: RepoPath,
    /// Who holds it, if anybody does.
    pub holder: Option<String>,
}

/// Nothing was committed. The index, the files and everybody's staged work are as they were.
#[derive(Debug, Error)]
pub enum CommitError {
    #[error("the commit message is empty: say what changes, with `-m`")]
    EmptyMessage,
    #[error("nothing to commit: {0}")]
    Nothing(String),
    #[error("nothing has changed at `{0}`, or git ignores it: see `git status`")]
    Unchanged(RepoPath),
    #[error("{}", not_yours(.0))]
    NotYours(Vec<NotYours>),
    #[error("`{0}` is a submodule or a repository of its own: commit in there")]
    Submodule(RepoPath),
    #[error("`{0}` has merge conflicts: resolve them and `git add` it first")]
    Conflicts(RepoPath),
    #[error(
        "the repository has no commit yet, so there is no branch to land on: make the first commit yourself"
    )]
    Unborn,
    #[error("{} in this checkout; {}", .0.why, .0.hint)]
    InProgress(Unfit),
    #[error("the hook `{name}` refused the commit ({status}){}", said(.output))]
    Hook { name: &'static str, status: String, output: String },
    #[error("the hook `{hook}` added files to the commit that are not yours: {}", not_yours(.files))]
    HookAdded { hook: &'static str, files: Vec<NotYours> },
    #[error("somebody else committed `{}` meanwhile, in {}: look at it with `git show {}` and try again",
        .path, .by.short(), .by.short())]
    Overtaken { path: RepoPath, by: Oid },
    #[error("the checkout was moved to another branch meanwhile: try again")]
    Switched,
    #[error("the branch moved {0} times while this was committed: try again")]
    Restless(usize),
    #[error("{} is not the last commit any more: leave it to a person (`git revert {}`)", .0.short(), .0.short())]
    NotLast(Oid),
    #[error("{} is the first commit of its branch, so there is none to go back to: leave it to a person \
        (`git update-ref -d HEAD` makes the branch empty again, with all files staged)", .0.short())]
    First(Oid),
    #[error("{} is a merge: leave it to a person (`git revert -m 1 {}`)", .0.short(), .0.short())]
    Merge(Oid),
    #[error("somebody has taken files of this commit since, and would get your changes with them: {}", held(.0))]
    PassedOn(Vec<NotYours>),
    #[error("git does not know who commits: {} not set", unset(.0))]
    NoIdentity(Vec<&'static str>),
    #[error(transparent)]
    IndexLock(#[from] IndexLockError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl CommitError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

fn said(output: &str) -> String {
    let output = output.trim();
    if output.is_empty() { " and gave no reason".to_owned() } else { format!(":\n{output}") }
}

fn unset(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", quoted.join(" and "), if names.len() == 1 { "is" } else { "are" })
}

fn not_yours(files: &[NotYours]) -> String {
    listed(files.iter().map(NotYours::sentence).collect())
}

fn held(files: &[NotYours]) -> String {
    listed(files.iter().map(NotYours::fact).collect())
}

fn listed(mut lines: Vec<String>) -> String {
    const SHOWN: usize = 10;
    if lines.len() > SHOWN {
        let rest = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("and {rest} more"));
    }
    lines.join("; ")
}

impl NotYours {
    /// Whose it is and what to do about it, in words.
    pub fn sentence(&self) -> String {
        let remedy = if self.holder.is_some() { "leave it out, or ask for it" } else { "take it first" };
        format!("{}: {remedy}", self.fact())
    }

    fn fact(&self) -> String {
        match &self.holder {
            Some(holder) => format!("`{}` is held by `{holder}`", self.path),
            None => format!("you have never held `{}`", self.path),
        }
    }
}
