//! `mala queue`: what waits to land, and what becomes of it.

mod list;
mod pause;
pub(super) mod run;
mod show;
mod steer;

use clap::{Args, Subcommand};
use mala_core::Scope;
use mala_git::Repo;
use mala_store::Store;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

pub(super) use list::{EntryJson, Pause, counted};
pub(super) use show::entry;

/// Show and steer the landing queue
///
/// What agents and people offer waits here until mala has run the required commands on it, and then moves the branch.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  mala queue
  mala queue show 17
  mala queue run")]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: Option<QueueCommand>,
    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Retry(steer::RetryArgs),
    Drop(steer::DropArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Run(run::RunArgs),
}

pub(crate) fn run(args: &QueueArgs, context: &Context) -> Result<Code, CliError> {
    match &args.command {
        None => list::cmd_list(&args.list, context),
        Some(QueueCommand::List(args)) => list::cmd_list(args, context),
        Some(QueueCommand::Show(args)) => show::cmd_show(args, context),
        Some(QueueCommand::Retry(args)) => steer::cmd_retry(args, context),
        Some(QueueCommand::Drop(args)) => steer::cmd_drop(args, context),
        Some(QueueCommand::Pause(args)) => pause::cmd_pause(args, context),
        Some(QueueCommand::Resume(args)) => pause::cmd_resume(args, context),
        Some(QueueCommand::Run(args)) => run::cmd_run(args, context),
    }
}

/// Whose queue is meant.
#[derive(Debug, Args)]
struct BranchArg {
    /// The branch that is landed on [default: the one that is checked out here]
    #[arg(long, visible_alias = "target", value_name = "BRANCH")]
    branch: Option<String>,
}

impl BranchArg {
    /// The full name of the branch.
    fn resolve(&self, repo: &Repo) -> Result<String, CliError> {
        match &self.branch {
            Some(typed) => branch(repo, typed),
            None => repo.branch()?.ok_or_else(|| {
                CliError::usage("no branch is checked out here, so it has no queue")
                    .hint("name the branch: `--branch BRANCH`")
            }),
        }
    }
}

/// The full name of a branch that somebody typed.
pub(super) fn branch(repo: &Repo, typed: &str) -> Result<String, CliError> {
    let name =
        if typed.starts_with("refs/heads/") { typed.to_owned() } else { format!("refs/heads/{typed}") };
    match repo.resolve(&name)? {
        Some(_) => Ok(name),
        None => Err(CliError::usage(format!("there is no branch `{}`", plain(typed)))
            .hint("see which there are: git branch")),
    }
}

/// A branch as people call it.
pub(super) fn short(branch: &str) -> String {
    plain(branch.strip_prefix("refs/heads/").unwrap_or(branch))
}

/// The checkout in which a branch is checked out: landing moves its files along.
pub(super) fn checkout_of(repo: &Repo, branch: &str) -> Result<Scope, CliError> {
    if repo.branch()?.as_deref() == Some(branch) {
        return Ok(repo.scope().clone());
    }
    let checkouts = repo.checkouts().map_err(CliError::failed)?;
    let there = checkouts.into_iter().find(|checkout| checkout.branch.as_deref() == Some(branch));
    match there {
        Some(checkout) => Ok(Scope::discover(&checkout.root)?),
        None => {
            let name = short(branch);
            Err(CliError::refused(format!("`{name}` is checked out nowhere, and nothing lands there unseen"))
                .hint(format!("check it out: git switch {name}; or: git worktree add DIR {name}")))
        }
    }
}

/// Agents offer with `mala commit`; what becomes of the queue is for people.
pub(super) fn refuse_agents(context: &Context, store: &mut Store) -> Result<(), CliError> {
    let bound =
        context.bound_party(store)?.filter(|party| context.supervised.is_some() || party.run.is_some());
    match bound {
        Some(party) => Err(CliError::refused(format!(
            "`{}` is an agent: the landing queue is steered by people",
            party.agent
        ))
        .hint("it lands when you end your turn; offer your own work: mala commit -m 'what changes'")),
        None => Ok(()),
    }
}
