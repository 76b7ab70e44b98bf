use clap::Args;
use mala_gate::{Repo, commit, snapshot};
use mala_store::Extent;
use mala_store::process::ProcessTable;
use serde_json::json;

use super::status::{leftover_lines, leftovers_json};
use crate::context::{Context, open};
use crate::enforce::git_locks;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Put away what dead agents left behind
///
/// Frees locks whose process has ended or whose lease is over, removes dead places in queues and drops events older
/// than `logs.keep`. Lists everything it does. What a running process of this machine holds is never touched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala clean --dry-run
  mala clean")]
pub(crate) struct CleanArgs {
    /// Only list what would be put away
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Also free locks taken on other hosts, whose processes cannot be judged from here
    #[arg(long)]
    force: bool,
}

pub(crate) fn cmd_clean(args: &CleanArgs, context: &Context) -> Result<Code, CliError> {
    if args.force && context.supervised.is_some() {
        return Err(CliError::refused("`--force` is a person's decision, not an agent's"));
    }
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let extent =
        Extent { keep_events_since: store.now().minus(settings.logs.keep), foreign_locks: args.force };
    let leftovers = if args.dry_run { store.leftovers(extent)? } else { store.sweep(extent)? };
    let mut git_locks = Vec::new();
    if !args.dry_run {
        // Locks of killed gits of agents, drafts of killed commits, and snapshots of killed tests.
        git_locks = git_locks::sweep(&scope);
        let repo = Repo::new(scope);
        commit::sweep(&repo, &ProcessTable)?;
        snapshot::sweep(&repo, &ProcessTable).map_err(CliError::failed)?;
    }
    let body = json!({
        "done": !args.dry_run, "leftovers": leftovers_json(&leftovers),
        "git_locks": git_locks.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
    });
    context.ui.answer(&body, |out| {
        let verb = if args.dry_run { "would put away" } else { "put away" };
        let mut lines = leftover_lines(&leftovers);
        lines.extend(
            git_locks.iter().map(|path| format!("`{}` of a git that was killed", plain(path.display()))),
        );
        match lines.as_slice() {
            [] => writeln!(out, "nothing to put away"),
            lines => lines.iter().try_for_each(|line| writeln!(out, "{verb}: {line}")),
        }
    })?;
    Ok(Code::SUCCESS)
}
