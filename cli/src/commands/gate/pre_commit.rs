use std::path::PathBuf;

use clap::Args;
use mala_gate::{Repo, hooks};
use serde_json::json;

use super::Judged;
use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::ownership::StoreOwnership;
use crate::ui::RED;

/// Check that only one's own files are staged; git's `pre-commit` hook calls this
///
/// An agent may commit what it holds. People are held to it only if `gate.people = true`: then they may not commit what an
/// agent holds.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala gate pre-commit")]
pub(crate) struct PreCommitArgs {
    #[command(flatten)]
    judged: Judged,
    /// The index that git commits [default: the checkout's own]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
}

pub(super) fn cmd_pre_commit(args: &PreCommitArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let subject = args.judged.resolve(context, &mut store)?;
    if subject.agent.is_none() && !settings.gate.people {
        context.ui.answer(&json!({ "refused": [] }), |_| Ok(()))?;
        return Ok(Code::SUCCESS);
    }
    let index = args.index.as_ref().map(|index| context.cwd.join(index));
    let repo = Repo::new(scope);
    let offending =
        hooks::pre_commit(&repo, &StoreOwnership::new(store), subject.agent.as_ref(), index.as_deref())?;
    let files: Vec<_> =
        offending.iter().map(|file| json!({ "path": file.path, "holder": file.holder })).collect();
    context.ui.answer(&json!({ "refused": files }), |_| Ok(()))?;
    if offending.is_empty() {
        return Ok(Code::SUCCESS);
    }
    for file in &offending {
        context.ui.note("refused", RED, &file.sentence());
    }
    context.ui.hint(match subject.agent {
        Some(_) => {
            "commit exactly your own files: mala commit -m MESSAGE; unstage the others: git restore --staged FILE"
        }
        None => "unstage them: git restore --staged FILE",
    });
    Ok(Code::from(REFUSED))
}
