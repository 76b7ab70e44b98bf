use clap::Args;
use mala_core::AgentId;
use serde_json::json;

use crate::commands::status::write_lock_table;
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::json;

/// List all locks of this checkout
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock list --json")]
pub(crate) struct ListArgs {
    /// Only what this agent holds
    #[arg(long, value_name = "NAME")]
    agent: Option<AgentId>,
}

pub(super) fn cmd_list(args: &ListArgs, context: &Context) -> Result<Code, CliError> {
    let mut locks = open(&context.scope()?)?.locks()?;
    locks.retain(|lock| args.agent.as_ref().is_none_or(|agent| lock.agent == *agent));
    context.ui.answer(&json!({ "locks": json::locks(&locks) }), |out| {
        if locks.is_empty() {
            return writeln!(out, "nothing is locked");
        }
        write_lock_table(out, &locks)
    })?;
    Ok(Code::SUCCESS)
}
