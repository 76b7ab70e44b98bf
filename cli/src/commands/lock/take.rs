use clap::Args;
use mala_core::AskId;
use mala_git::salvage::SavedRef;
use mala_session::take;
use mala_store::{Answered, Authority, Store};
use serde_json::json;

use super::asks::parse_id;
use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::json::{self, AskJson};
use crate::ui::plain;

/// Take what you asked for from a holder that does not answer
///
/// Only an overdue ask, and only from a holder that is gone, or that has long been silent and has no uncommitted change there.
/// A person can decide otherwise with `--force`. Uncommitted changes are saved to a ref first, and the holder is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock take x1y2
  mala lock take x1y2 --force")]
pub(crate) struct TakeArgs {
    /// The ask, as `mala lock asks` shows it
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: AskId,
    #[command(flatten)]
    caller: Caller,
    /// Take it whatever the holder does; for people, not for agents
    #[arg(long)]
    force: bool,
}

pub(super) fn cmd_take(args: &TakeArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    if args.force
        && let Some(party) = context.bound_party(&mut store)?
    {
        let message =
            format!("`{}` is an agent: only a person can force a lock out of somebody's hands", party.agent);
        return Err(
            CliError::refused(message).hint("without `--force` the rules decide; or work on something else")
        );
    }
    let by = args.caller.agent(context, &mut store)?;
    store.escalate_due()?;
    let authority = if args.force { Authority::Force } else { Authority::Rules };
    let (taken, saved) = take(&scope, &mut store, (&by, &args.id), settings.asks.idle, authority)?;
    answer(context, &mut store, &taken, saved.as_ref())
}

fn answer(
    context: &Context,
    store: &mut Store,
    taken: &Answered,
    saved: Option<&SavedRef>,
) -> Result<Code, CliError> {
    let Answered { ask, granted } = taken;
    let name = saved.map(|saved| &saved.name);
    let body =
        json!({ "ask": AskJson::new(ask, store.now()), "granted": json::locks(granted), "saved_ref": name });
    context.ui.answer(&body, |out| {
        let path = plain(&ask.want.target);
        let (asker, holder) = (&ask.asker, &ask.holder);
        let what = match granted.is_empty() {
            false => format!("`{path}` belongs to `{asker}` now, taken from `{holder}`"),
            true => format!("`{path}` was taken from `{holder}`; something else is still in the way"),
        };
        writeln!(out, "{what}")?;
        match saved {
            Some(saved) => {
                writeln!(
                    out,
                    "its uncommitted changes are in {saved}; get them back, at the top of the checkout: {}",
                    saved.apply_command()
                )
            }
            None => Ok(()),
        }
    })?;
    Ok(Code::SUCCESS)
}
