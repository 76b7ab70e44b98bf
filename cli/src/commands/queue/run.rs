use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use mala_core::{Entry, EntryId, EntryState, Scope};
use mala_git::Repo;
use mala_store::EntryFilter;
use serde_json::json;

use super::list::EntryJson;
use super::{BranchArg, Pause, checkout_of, refuse_agents, short};
use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::run;
use crate::typed::duration;
use crate::ui::{GREEN, RED, YELLOW, plain};

/// Work the queue off until nothing in it can move
///
/// Starts no agent and begins no issue. Exit codes: 0 if nothing waits any more, 1 if something was rejected or still waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala queue run
  mala queue run --branch main --timeout 30m")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    branch: BranchArg,
    /// End after this time; what is left waits
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

/// What working a queue off has come to.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    landed: Vec<Entry>,
    rejected: Vec<Entry>,
    left: Vec<Entry>,
}

pub(crate) fn cmd_run(args: &RunArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    refuse_agents(context, &mut open(&scope)?)?;
    let repo = Repo::new(scope);
    let branch = args.branch.resolve(&repo)?;
    let timeout = args.timeout.as_deref().map(|timeout| duration("--timeout", timeout)).transpose()?;
    let there = checkout_of(&repo, &branch)?;
    let worked = work_off(context, &there, &branch, timeout)?;
    let paused = Pause::of(&mut open(&there)?, &branch)?;
    let list = |entries: &[Entry]| json!(entries.iter().map(EntryJson::from).collect::<Vec<_>>());
    let body = json!({
        "branch": branch, "paused": paused,
        "landed": list(&worked.landed), "rejected": list(&worked.rejected), "left": list(&worked.left),
    });
    context.ui.answer(&body, |out| {
        if let Some(pause) = &paused {
            writeln!(out, "{YELLOW}paused{YELLOW:#}: {} (go on: mala queue resume)", plain(&pause.why))?;
        }
        if worked.is_nothing() {
            return writeln!(out, "nothing waits for `{}`", short(&branch));
        }
        let style = if worked.rejected.is_empty() { GREEN } else { RED };
        let [landed, rejected, left] = [&worked.landed, &worked.rejected, &worked.left].map(Vec::len);
        writeln!(out, "{GREEN}{landed} landed{GREEN:#}, {style}{rejected} rejected{style:#}, {left} left")?;
        if left > 0 { writeln!(out, "see what waits, and for what: mala queue") } else { Ok(()) }
    })?;
    Ok(if worked.rejected.is_empty() && worked.left.is_empty() { Code::SUCCESS } else { Code(REFUSED) })
}

impl Worked {
    fn is_nothing(&self) -> bool {
        self.landed.is_empty() && self.rejected.is_empty() && self.left.is_empty()
    }
}

/// Works the queue of a branch off, in the checkout that has it.
pub(crate) fn work_off(
    context: &Context,
    scope: &Scope,
    branch: &str,
    timeout: Option<Duration>,
) -> Result<Worked, CliError> {
    let filter = EntryFilter { branch: Some(branch.to_owned()), ..EntryFilter::default() };
    let over_before: BTreeSet<EntryId> = {
        let entries = open(scope)?.entries(&filter)?;
        entries.into_iter().filter(|entry| entry.state.is_over()).map(|entry| entry.id).collect()
    };
    run::work_queue(context, scope, timeout)?;
    let mut worked = Worked::default();
    for entry in open(scope)?.entries(&filter)? {
        match entry.state {
            _ if over_before.contains(&entry.id) => {}
            EntryState::Landed => worked.landed.push(entry),
            state if state.is_over() => worked.rejected.push(entry),
            _ => worked.left.push(entry),
        }
    }
    Ok(worked)
}
