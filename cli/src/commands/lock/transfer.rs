use std::ffi::OsString;

use clap::Args;
use mala_core::{AgentId, Mode};
use mala_session::transfer;
use mala_store::Which;

use crate::context::{Context, Paths, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Hand locks from one agent to another, all or none
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock transfer --from alice --to bob
  mala lock transfer --from alice --to bob src/main.rs")]
pub(crate) struct TransferArgs {
    /// Agent that gives
    #[arg(long, value_name = "NAME")]
    from: AgentId,
    /// Agent that receives; it must be running
    #[arg(long, value_name = "NAME")]
    to: AgentId,
    /// Files, folders or patterns, as they were locked [default: everything]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Take every character of a path for itself, also `*`, `?` and `[`
    #[arg(long)]
    literal: bool,
}

pub(super) fn cmd_transfer(args: &TransferArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    if context.bound_party(&mut store)?.is_some_and(|party| party.agent != args.from) {
        let message = format!("only `{}` can hand over its locks", args.from);
        return Err(
            CliError::refused(message).hint("queue for what you need: mala lock acquire PATH --wait 5m")
        );
    }
    let which = if args.paths.is_empty() {
        Which::All
    } else {
        let paths = Paths { paths: args.paths.clone(), literal: args.literal };
        Which::These(context.wants(&scope, &paths, Mode::Exclusive)?)
    };
    let hands = (&args.from, &args.to);
    let moved = transfer(&scope, &mut store, context.supervised.as_ref(), hands, &which)?;
    super::answer_renewed(context, "transferred", &args.from, &moved, |out, locks| {
        locks.iter().try_for_each(|lock| {
            writeln!(out, "`{}` now belongs to `{}` (fence {})", plain(&lock.target), lock.agent, lock.fence)
        })
    })
}
