use clap::Args;
use mala_store::IssueFilter;
use serde_json::json;

use super::{desk, write_issues};
use crate::context::Context;
use crate::error::{CliError, Code};

/// Issues that are not closed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala issue list
  mala issue list --label docs --json")]
pub(crate) struct ListArgs {
    /// Closed ones, too
    #[arg(long)]
    all: bool,
    /// Only those with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

pub(crate) fn cmd_list(args: &ListArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, _) = desk(context)?;
    let issues = store.issues(&IssueFilter {
        status: args.status.clone(),
        all: args.all,
        label: args.label.clone(),
        limit: args.limit,
        ..IssueFilter::default()
    })?;
    context.ui.answer(&json!({ "issues": issues }), |out| write_issues(out, &issues, "no issues"))?;
    Ok(Code::SUCCESS)
}

/// Issues that an agent could start on now, the most urgent first
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala issue ready --limit 5")]
pub(crate) struct ReadyArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value = "100")]
    limit: u32,
}

pub(crate) fn cmd_ready(args: &ReadyArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, _) = desk(context)?;
    let issues = store.ready(None, args.limit)?;
    context.ui.answer(&json!({ "issues": issues }), |out| write_issues(out, &issues, "nothing is ready"))?;
    Ok(Code::SUCCESS)
}
