use clap::Args;
use mala_core::IssueId;
use serde_json::json;

use super::desk;
use crate::context::Context;
use crate::error::{CliError, Code};

/// Close an issue
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala issue close bd-1 --reason 'done by hand'")]
pub(crate) struct CloseArgs {
    /// The issue
    id: IssueId,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) fn cmd_close(args: &CloseArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, who) = desk(context)?;
    let updated = store.close_issue(&who, &args.id, args.reason.as_deref())?;
    let said = if updated.is_changed { "closed" } else { "was closed already" };
    context.ui.answer(&json!({ "issue": updated.issue, "changed": updated.is_changed }), |out| {
        writeln!(out, "{} {said}", args.id)
    })?;
    Ok(Code::SUCCESS)
}

/// Open an issue again: closed, blocked, or claimed by somebody who will not finish it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala issue reopen bd-1")]
pub(crate) struct ReopenArgs {
    /// The issue
    id: IssueId,
}

pub(crate) fn cmd_reopen(args: &ReopenArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, who) = desk(context)?;
    let updated = store.reopen_issue(&who, &args.id)?;
    let said = if updated.is_changed { "is open again" } else { "is open" };
    context.ui.answer(&json!({ "issue": updated.issue, "changed": updated.is_changed }), |out| {
        writeln!(out, "{} {said}", args.id)
    })?;
    Ok(Code::SUCCESS)
}
