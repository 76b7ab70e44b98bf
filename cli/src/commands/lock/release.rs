use clap::Args;
use mala_core::{AgentId, Key, Target, Want};
use mala_store::{Released, Store, Which};
use serde_json::json;

use super::explain_conflicts;
use crate::context::{Caller, Context, Selection};
use crate::enforce::drain;
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
    let leaving = leaving(context, &mut store, &agent, &which)?;
    let _closed =
        context.supervised.as_ref().map(|supervised| supervised.guard.leave(&leaving)).transpose()?;
    drain(&scope, &leaving)?;
    match store.release(&agent, &which)? {
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

/// The files that are about to be released and may still be open: what is locked by name, and what a supervisor has seen
/// being opened under a pattern.
pub(super) fn leaving(
    context: &Context,
    store: &mut Store,
    agent: &AgentId,
    which: &Which,
) -> Result<Vec<Key>, CliError> {
    let held = store.locks()?.into_iter().filter(|lock| lock.agent == *agent && !lock.is_named());
    let held = held.map(|lock| Want { target: lock.target, aliases: lock.aliases, mode: lock.mode });
    let wants: Vec<Want> = match which {
        Which::All => held.collect(),
        Which::These(wants) => {
            held.filter(|want| wants.iter().any(|wanted| wanted.target == want.target)).collect()
        }
    };
    let named = wants.iter().filter_map(|want| match &want.target {
        Target::File(key) => Some(key.clone()),
        Target::Pattern(_) | Target::Name(_) => None,
    });
    let mut keys: Vec<Key> = named.collect();
    if let Some(supervised) = &context.supervised {
        keys.extend(supervised.guard.opened(&wants));
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}
