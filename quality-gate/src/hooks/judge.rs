//! What the hooks check: cheap, in milliseconds, before a commit exists.

use std::path::Path;

use mala_core::{AgentId, IssueId};
use mala_git::commit::NotYours;
use mala_git::{FileChange, Ownership, Repo, Standing, standing};
use thiserror::Error;

use crate::rules::{GateError, IssuePattern};

/// The staged files that must not be committed: for an agent, those that are not its own; for a person, those that an
/// agent holds. `index` is what git gave the hook in `GIT_INDEX_FILE`.
pub fn pre_commit(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: Option<&AgentId>,
    index: Option<&Path>,
) -> Result<Vec<NotYours>, GateError> {
    let mut offending = Vec::new();
    for FileChange { path, .. } in repo.staged(index)? {
        let holder = match agent {
            Some(agent) => match standing(&path, repo, agent, ownership)? {
                Standing::Own => continue,
                Standing::Foreign { holder } => holder,
            },
            None => match ownership.holder(&repo.key(&path), None)? {
                None => continue,
                Some(holder) => Some(holder.agent.to_string()),
            },
        };
        offending.push(NotYours { path, holder });
    }
    Ok(offending)
}

/// A commit message that does not name its issue.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageProblem {
    #[error(
        "the commit message does not name `{token}` as a word of its own: add it, for example `{token}: what changes`"
    )]
    NotNamed { token: String },
    #[error("the commit message names no issue: write one as `{pattern}`")]
    NoIssue { pattern: IssuePattern },
}

/// Checks the text of a message file: it must name `issue` or, if none is known, some issue.
pub fn commit_msg(text: &str, pattern: &IssuePattern, issue: Option<&IssueId>) -> Result<(), MessageProblem> {
    let message: Vec<&str> =
        text.lines().take_while(|line| !is_scissors(line)).filter(|line| !is_comment(line)).collect();
    let message = message.join("\n");
    match issue {
        Some(issue) if pattern.names(&message, issue) => Ok(()),
        Some(issue) => Err(MessageProblem::NotNamed { token: pattern.token(issue) }),
        None if pattern.names_any(&message) => Ok(()),
        None => Err(MessageProblem::NoIssue { pattern: pattern.clone() }),
    }
}

/// Git's own remarks; `#12` at the beginning of a line is none.
fn is_comment(line: &str) -> bool {
    line == "#" || line.starts_with("# ") || line.starts_with("#\t")
}

/// Below it comes the diff.
fn is_scissors(line: &str) -> bool {
    line.starts_with("# ") && line.contains("------------------------ >8 ------------------------")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_must_name_its_issue() {
        let pattern = IssuePattern::default();
        let issue = IssueId::new("proj-1").unwrap();
        assert_eq!(commit_msg("bd-proj-1: x", &pattern, Some(&issue)), Ok(()));
        let error = commit_msg("bd-proj-12: x", &pattern, Some(&issue)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the commit message does not name `bd-proj-1` as a word of its own: add it, for example \
             `bd-proj-1: what changes`"
        );
        assert_eq!(commit_msg("bd-other-9: x", &pattern, None), Ok(()));
        assert!(commit_msg("x", &pattern, None).unwrap_err().to_string().contains("`bd-<id>`"));
    }

    #[test]
    fn remarks_and_the_diff_below_do_not_count() {
        let pattern = IssuePattern::default();
        let issue = IssueId::new("proj-1").unwrap();
        let text =
            "x\n# On branch bd-proj-1\n# ------------------------ >8 ------------------------\n+bd-proj-1\n";
        assert!(commit_msg(text, &pattern, Some(&issue)).is_err());
        let pattern: IssuePattern = "#<id>".parse().unwrap();
        let issue = IssueId::new("12").unwrap();
        assert_eq!(commit_msg("#12 fixed", &pattern, Some(&issue)), Ok(()));
    }
}
