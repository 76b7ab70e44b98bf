use std::path::PathBuf;

use clap::Args;
use mala_core::file::MESSAGE;
use mala_gate::hooks;
use serde_json::json;

use super::{Judged, Opened};
use crate::context::Context;
use crate::error::{CliError, Code};

/// Check that a commit message names its issue; git's `commit-msg` hook calls this
///
/// Agents must; people are asked to only if `gate.people = true`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala gate commit-msg .git/COMMIT_EDITMSG --issue bd-12")]
pub(crate) struct CommitMsgArgs {
    #[command(flatten)]
    judged: Judged,
    /// File with the message
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn cmd_commit_msg(args: &CommitMsgArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let Opened::Known(_, subject) = args.judged.open(context, &scope, settings.gate.people)? else {
        return checked(false, context);
    };
    if subject.agent.is_none() && subject.issue.is_none() && !settings.gate.people {
        return checked(false, context);
    }
    let text = context.read(&args.file, MESSAGE)?;
    let pattern = settings.gate.issue_pattern.parse().map_err(CliError::usage)?;
    hooks::commit_msg(&String::from_utf8_lossy(&text), &pattern, subject.issue.as_ref())
        .map_err(CliError::refused)?;
    checked(true, context)
}

/// Git's users see nothing of a message that is fine.
fn checked(is_checked: bool, context: &Context) -> Result<Code, CliError> {
    context.ui.answer(&json!({ "checked": is_checked }), |_| Ok(()))?;
    Ok(Code::SUCCESS)
}
