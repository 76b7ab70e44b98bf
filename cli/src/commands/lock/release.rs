use clap::Args;
use mala_session::release;
use mala_store::Released;
use serde_json::json;

use super::explain_conflicts;
use crate::context::{Caller, Context, Selection};
use crate::error::{CliError, Code, REFUSED};
use crate::json;
use crate::ui::plain;

/// Give locks back
///
/// Releasing what is not held is no error. What somebody else holds stays with them, and then nothing is released.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock release src/main.rs --agent alice
  mala lock release --all --agent alice")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    caller: Caller,
}

pub(super) fn cmd_release(args: &ReleaseArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let which = args.selection.resolve(context, &scope)?;
    let mut store = context.store(&scope)?;
    let agent = args.caller.agent(context, &mut store)?;
    match release(&scope, &mut store, context.supervised.as_ref(), &agent, &which)? {
        Released::Done(locks) => {
            let body = json!({ "released": json::locks(&locks), "conflicts": [] });
            context.ui.answer(&body, |out| match locks.as_slice() {
                [] => writeln!(out, "nothing to release: `{agent}` holds none of it"),
                locks => {
                    locks.iter().try_for_each(|lock| writeln!(out, "released `{}`", plain(&lock.target)))
                }
            })?;
            Ok(Code::SUCCESS)
        }
        Released::NotYours(conflicts) => {
            let body = json!({ "released": [], "conflicts": json::conflicts(&conflicts) });
            context.ui.answer(&body, |_| Ok(()))?;
            explain_conflicts(&context.ui, &conflicts);
            context
                .ui
                .hint(&format!("only its holder releases a lock; you act as `{agent}` (see `--agent`)"));
            Ok(Code::from(REFUSED))
        }
    }
}
