use clap::Args;
use mala_config::Override;

use super::write_locks;
use crate::context::{Caller, Context, Selection, open};
use crate::error::{CliError, Code};

/// Start leases anew
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock renew src/main.rs --agent alice --ttl 1h
  mala lock renew --all --agent alice")]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    caller: Caller,
    /// New lease, e.g. 10m [default: as long as before]
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
}

pub(super) fn cmd_renew(args: &RenewArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let ttl = args.ttl.iter().map(|ttl| Override {
        key: "lock.ttl".into(),
        value: ttl.clone(),
        typed: format!("--ttl {ttl}"),
    });
    let settings = context.settings(&scope, ttl.collect())?;
    let which = args.selection.resolve(context, &scope)?;
    let mut store = open(&scope)?;
    let agent = args.caller.agent(context, &mut store)?;
    let renewed = store.renew(&agent, &which, args.ttl.as_ref().map(|_| settings.lock.ttl))?;
    super::answer_renewed(context, "renewed", &agent, &renewed, |out, locks| {
        write_locks(out, "renewed", locks)
    })
}
