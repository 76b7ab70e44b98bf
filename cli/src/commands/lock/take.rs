use std::collections::BTreeSet;

use clap::Args;
use mala_core::{Ask, AskId, Key, Lock, Mode, Target, Want};
use mala_git::salvage::{self, SavedRef};
use mala_git::{Repo, RepoPath};
use mala_session::wait_for_writers;
use mala_store::{Answered, Authority, Changes, Guard, Store};
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
    let ask = store.find_ask(&args.id)?;
    let repo = Repo::new(scope.clone());
    let lock = store.locks()?.into_iter().find(|lock| lock.id == ask.lock);
    let dirty = dirty(&repo, lock.as_ref(), &ask)?;
    let mut guard = Guard {
        lock: ask.lock.clone(),
        fence: ask.fence,
        idle: settings.asks.idle,
        changes: if dirty.is_empty() { Changes::None } else { Changes::Uncommitted },
        authority: if args.force { Authority::Force } else { Authority::Rules },
        saved: None,
    };
    store.may_take(&by, &ask.id, &guard)?;
    // A descriptor outlives its lock: nothing is taken while somebody still writes through one.
    let keys: Vec<Key> =
        dirty.iter().map(|path| repo.key(path)).chain(ask.want.target.file().cloned()).collect();
    wait_for_writers(&scope, &keys)?;
    let saved = save(&repo, &ask, &dirty)?;
    guard.saved = saved.as_ref().map(|saved| saved.name.clone());
    let taken = store.take_asked(&by, &ask.id, &guard)?;
    answer(context, &mut store, &taken, saved.as_ref())
}

/// Files with uncommitted changes that the lock, or else the ask, covers.
fn dirty(repo: &Repo, lock: Option<&Lock>, ask: &Ask) -> Result<BTreeSet<RepoPath>, CliError> {
    let wanted = match lock {
        Some(lock) => {
            Want { target: lock.target.clone(), aliases: lock.aliases.clone(), mode: Mode::Exclusive }
        }
        None => ask.want.clone(),
    };
    let covers = |path: &RepoPath| {
        let target = Target::File(repo.key(path));
        let file = Want { target, aliases: Vec::new(), mode: Mode::Exclusive };
        wanted.claim(&ask.holder).overlaps(&file.claim(&ask.holder))
    };
    let all = salvage::dirty(repo).map_err(CliError::failed)?;
    Ok(all.into_iter().filter(covers).collect())
}

fn save(repo: &Repo, ask: &Ask, files: &BTreeSet<RepoPath>) -> Result<Option<SavedRef>, CliError> {
    let name = format!("refs/mala/taken/{}", ask.id);
    let message = format!("uncommitted work of {} before {} took it\n\n{}\n", ask.holder, ask.asker, ask.why);
    salvage::save(repo, &name, files, &message).map_err(CliError::failed)
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
