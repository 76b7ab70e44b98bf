use clap::Args;
use mala_core::{IssueId, NameError};
use mala_git::saved_work::{self, SavedWork};
use mala_git::{Repo, RepoPath};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Show saved, offered or rejected work of an issue
///
/// Prints a patch against the commit that the work began at: what the attempt has offered, and what it has changed after that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala diff bd-12
  mala diff bd-12/2 --stat")]
pub(crate) struct DiffArgs {
    /// The issue, and which attempt at it [default: the newest that has left work]
    #[arg(value_name = "ISSUE[/N]")]
    work: WorkArg,
    /// Only how much each file changes
    #[arg(long)]
    stat: bool,
}

/// An issue, and perhaps the number of an attempt at it.
#[derive(Debug, Clone)]
pub(super) struct WorkArg {
    pub(super) issue: IssueId,
    attempt: Option<u32>,
}

impl std::str::FromStr for WorkArg {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let numbered = text.rsplit_once('/').and_then(|(issue, number)| Some((issue, number.parse().ok()?)));
        let (issue, attempt) = numbered.map_or((text, None), |(issue, attempt)| (issue, Some(attempt)));
        Ok(Self { issue: IssueId::new(issue)?, attempt })
    }
}

impl WorkArg {
    pub(super) fn find(&self, repo: &Repo) -> Result<SavedWork, CliError> {
        let Self { issue, attempt } = self;
        let found = saved_work::find(repo, issue, *attempt).map_err(CliError::failed)?;
        found.ok_or_else(|| {
            let whose = match attempt {
                Some(attempt) => format!("attempt {attempt} at {issue}"),
                None => format!("any attempt at {issue}"),
            };
            CliError::usage(format!("no work of {} is saved or offered", plain(whose))).hint(
                "see which attempts there were: mala logs list runs; which issues: mala issue list --all",
            )
        })
    }
}

/// Where the work lies.
pub(super) fn refs_json(work: &SavedWork) -> Vec<Value> {
    let parts = work.parts.iter().map(|part| {
        let files: Vec<&RepoPath> = part.changes.iter().map(|change| &change.path).collect();
        json!({ "ref": part.saved.name, "commit": part.saved.commit, "files": files })
    });
    parts.collect()
}

pub(crate) fn cmd_diff(args: &DiffArgs, context: &Context) -> Result<Code, CliError> {
    let repo = Repo::new(context.scope()?).without_hooks();
    let work = args.work.find(&repo)?;
    let shown = if args.stat { work.stat(&repo) } else { work.patch(&repo) }.map_err(CliError::failed)?;
    let body = json!({
        "issue": args.work.issue, "attempt": work.attempt, "refs": refs_json(&work),
        "patch": String::from_utf8_lossy(&shown),
    });
    context.ui.answer(&body, |out| out.write_all(&shown))?;
    Ok(Code::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_a_number_after_the_last_slash() {
        let parts = |text: &str| {
            let WorkArg { issue, attempt } = text.parse().unwrap();
            (issue.to_string(), attempt)
        };
        assert_eq!(parts("bd-1"), ("bd-1".to_owned(), None));
        assert_eq!(parts("bd-1/12"), ("bd-1".to_owned(), Some(12)));
        assert!("".parse::<WorkArg>().is_err());
    }
}
