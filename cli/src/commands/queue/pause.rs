use clap::Args;
use mala_git::Repo;
use serde_json::json;

use super::{BranchArg, Pause, refuse_agents, short};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Let nothing land on the branch until further notice
///
/// Agents go on working and offering. What is being validated at this moment may still land.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala queue pause 'the release is being cut'")]
pub(crate) struct PauseArgs {
    /// Why, for everybody who wonders
    #[arg(default_value = "paused by a person", hide_default_value = true)]
    why: String,
    #[command(flatten)]
    branch: BranchArg,
}

pub(crate) fn cmd_pause(args: &PauseArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    refuse_agents(context, &mut store)?;
    let branch = args.branch.resolve(&Repo::new(scope))?;
    if args.why.trim().is_empty() {
        return Err(CliError::usage("the reason is empty").hint("say why, or leave it out: mala queue pause"));
    }
    store.pause_queue(&branch, args.why.trim())?;
    let paused = Pause::of(&mut store, &branch)?;
    context.ui.answer(&json!({ "branch": branch, "paused": paused }), |out| {
        writeln!(out, "nothing lands on `{}`: {}", short(&branch), plain(args.why.trim()))?;
        writeln!(out, "go on: mala queue resume")
    })?;
    Ok(Code::SUCCESS)
}

/// Let the queue of the branch go on
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala queue resume")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    branch: BranchArg,
}

pub(crate) fn cmd_resume(args: &ResumeArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    refuse_agents(context, &mut store)?;
    let branch = args.branch.resolve(&Repo::new(scope))?;
    let changed = store.resume_queue(&branch)?;
    context.ui.answer(&json!({ "branch": branch, "paused": null, "changed": changed }), |out| {
        let name = short(&branch);
        match changed {
            true => writeln!(out, "`{name}` is landed on again; work off what waits: mala queue run"),
            false => writeln!(out, "the queue of `{name}` was not paused"),
        }
    })?;
    Ok(Code::SUCCESS)
}
