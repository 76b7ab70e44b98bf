use clap::Args;
use mala_core::{AttemptState, Entry, EntryId};
use mala_store::Store;
use serde_json::json;

use super::list::EntryJson;
use super::{refuse_agents, show};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Let an entry that was rejected or dropped wait once more, as it is
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala queue retry 17")]
pub(crate) struct RetryArgs {
    /// The number of the entry
    id: EntryId,
}

pub(crate) fn cmd_retry(args: &RetryArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    refuse_agents(context, &mut store)?;
    refuse_ended(&mut store, args.id)?;
    let entry = store.retry_entry(args.id)?;
    context.ui.answer(&json!({ "entry": EntryJson::from(&entry) }), |out| {
        writeln!(out, "entry {} waits again; work it off: mala queue run", entry.id)
    })?;
    Ok(Code::SUCCESS)
}

/// An attempt that was handed over is somebody else's to repeat: its issue is open again, and may be worked on.
fn refuse_ended(store: &mut Store, id: EntryId) -> Result<(), CliError> {
    let entry = show::entry(store, id)?;
    let (Some(issue), Some(attempt)) = (&entry.issue, entry.attempt) else { return Ok(()) };
    let attempt = store.attempt(attempt)?;
    let open =
        store.attempts(issue)?.into_iter().find(|other| other.ended_at.is_none() && other.id != attempt.id);
    match open {
        Some(other) => {
            let text =
                format!("`{}` works on {issue} by now (attempt {})", plain(&other.agent), other.number);
            Err(CliError::refused(text)
                .hint(format!("see who does what: mala status; look at the work: mala diff {issue}")))
        }
        None => Ok(()),
    }
}

/// Take an entry out of the queue; its candidate stays pinned
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala queue drop 17 --why 'the other approach is better'")]
pub(crate) struct DropArgs {
    /// The number of the entry
    id: EntryId,
    /// What is said about it
    #[arg(long, value_name = "TEXT", default_value = "dropped by a person", hide_default_value = true)]
    why: String,
}

pub(crate) fn cmd_drop(args: &DropArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    refuse_agents(context, &mut store)?;
    let entry = store.drop_entry(args.id, &args.why)?;
    let is_offered = is_offered(&mut store, &entry)?;
    let body = json!({ "entry": EntryJson::from(&entry), "attempt_is_open": is_offered });
    context.ui.answer(&body, |out| {
        writeln!(out, "dropped entry {}; its work is kept in {}", entry.id, entry.pin)?;
        if let (Some(issue), true) = (&entry.issue, is_offered) {
            let issue = plain(issue);
            writeln!(out, "{issue} is handed over by the next `mala run` or `mala queue run`")?;
        }
        Ok(())
    })?;
    Ok(Code::SUCCESS)
}

/// True if the entry's attempt has not come to its end.
fn is_offered(store: &mut Store, entry: &Entry) -> Result<bool, CliError> {
    match entry.attempt {
        Some(attempt) => Ok(store.attempt(attempt)?.state == AttemptState::Offered),
        None => Ok(false),
    }
}
