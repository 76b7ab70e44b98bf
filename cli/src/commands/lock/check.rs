use clap::Args;
use mala_core::{Mode, Want};
use serde_json::json;

use super::explain_conflicts;
use crate::context::{Caller, Context, Paths};
use crate::error::{CliError, Code, REFUSED};
use crate::json;
use crate::ui::plain;

/// Tell whether files could be locked now, without locking them
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock check src/main.rs --agent alice && echo free")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    caller: Caller,
    /// Ask for a shared lock
    #[arg(long)]
    shared: bool,
}

pub(super) fn cmd_check(args: &CheckArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mode = if args.shared { Mode::Shared } else { Mode::Exclusive };
    let wants = context.wants(&scope, &args.paths, mode)?;
    let mut store = context.store(&scope)?;
    let agent = args.caller.agent(context, &mut store)?;
    let conflicts = store.check(&agent, &wants)?;
    let body = json!({ "available": conflicts.is_empty(), "conflicts": json::conflicts(&conflicts) });
    context.ui.answer(&body, |out| {
        let blocked = |want: &Want| conflicts.iter().any(|conflict| conflict.want == *want);
        wants
            .iter()
            .filter(|want| !blocked(want))
            .try_for_each(|want| writeln!(out, "`{}` is available", plain(&want.target)))
    })?;
    explain_conflicts(&context.ui, &conflicts);
    Ok(if conflicts.is_empty() { Code::SUCCESS } else { Code::from(REFUSED) })
}
