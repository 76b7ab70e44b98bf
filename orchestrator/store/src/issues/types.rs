//! What callers ask about issues, what they get back, and why they may be refused.

use mala_core::{AgentId, Issue, IssueId, NameError, PatternError, Priority, Timestamp, Who};
use serde::Serialize;
use thiserror::Error;

use super::permit::{MAX_ADDED_DEPTH, MAX_ADDED_IN_A_RUN};

/// What a new issue is called.
#[derive(Debug, Clone)]
pub enum IssueName {
    Given(IssueId),
    /// `PREFIX-1`, `PREFIX-2` and so on.
    Numbered {
        prefix: String,
    },
}

/// An issue to be added.
#[derive(Debug, Clone)]
pub struct NewIssue {
    pub name: IssueName,
    pub title: String,
    pub description: String,
    pub design: String,
    pub acceptance: String,
    pub priority: Priority,
    pub kind: String,
    pub labels: Vec<String>,
    /// Issues that must be closed first.
    pub needs: Vec<IssueId>,
    /// Hints: paths and patterns.
    pub files: Vec<String>,
    pub parent: Option<IssueId>,
}

/// Which issues to list.
#[derive(Debug, Clone, Default)]
pub struct IssueFilter {
    /// Only this status; without one, all that are not closed or deleted.
    pub status: Option<String>,
    pub all: bool,
    pub label: Option<String>,
    pub kind: Option<String>,
    pub parent: Option<IssueId>,
    pub assignee: Option<String>,
    /// Only issues that come after this one.
    pub after: Option<IssueId>,
    pub limit: Option<u32>,
}

/// Something said about an issue. Notes are appended, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IssueNote {
    /// 1 is the first.
    pub seq: u32,
    pub at: Timestamp,
    pub author: Who,
    pub text: String,
    /// The attempt it was left by, if any.
    pub attempt: Option<u32>,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    pub added: Vec<IssueId>,
    pub changed: Vec<IssueId>,
    pub unchanged: usize,
    /// Issues that need another one which nobody knows: they will not become ready.
    pub dangling: Vec<(IssueId, IssueId)>,
}

/// Why something about an issue was refused.
#[derive(Debug, Error)]
pub enum IssueError {
    #[error("no issue `{id}` is known")]
    Unknown { id: IssueId },
    #[error("there is an issue `{id}` already")]
    Exists { id: IssueId },
    #[error("the title is empty: say in one line what is to be done")]
    NoTitle,
    #[error("the note is empty: say something")]
    EmptyNote,
    #[error("`{id}` cannot need `{other}`, which needs it already")]
    Circle { id: IssueId, other: IssueId },
    #[error("these issues need each other, so none could ever begin: {}", circle(.issues))]
    ImportedCircle { issues: Vec<IssueId> },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("bad {what}")]
    Word {
        what: &'static str,
        #[source]
        source: NameError,
    },
    #[error("`{text}` is neither a path nor a pattern")]
    BadFile {
        text: String,
        #[source]
        source: PatternError,
    },
    #[error(
        "no agent of a run {what}: `{agent}` may add issues, and write notes on the issue that it works on"
    )]
    NotForAgents { agent: AgentId, what: &'static str },
    #[error(
        "the agents of this run have added {MAX_ADDED_IN_A_RUN} issues, or this one would be the result of {MAX_ADDED_DEPTH} \
         others that agents have added: `{agent}` adds no more"
    )]
    TooManyAdded { agent: AgentId },
    #[error("`{id}` is {status}{}", assigned(.assignee.as_ref()))]
    NotOpen { id: IssueId, status: String, assignee: Option<String> },
    #[error("`{id}` is an epic: work on the issues that belong to it")]
    Epic { id: IssueId },
    #[error("`{id}` needs issues that are not closed: {}", names(.by))]
    Blocked { id: IssueId, by: Vec<IssueId> },
}

/// `a needs b needs a`
fn circle(issues: &[IssueId]) -> String {
    let all = issues.iter().chain(issues.first());
    all.map(|id| format!("`{id}`")).collect::<Vec<_>>().join(" needs ")
}

fn assigned(assignee: Option<&String>) -> String {
    assignee.map_or_else(String::new, |name| format!(", by `{name}`"))
}

fn names(ids: &[IssueId]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

/// An issue and whether this call changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updated {
    pub issue: Issue,
    pub is_changed: bool,
}
