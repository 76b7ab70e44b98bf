use clap::Args;
use mala_core::{Life, Owner};
use mala_git::Repo;
use mala_store::{EventKind, Party, process};
use serde_json::json;

use super::{Judged, Opened};
use crate::context::Context;
use crate::error::{CliError, Code};

/// Note that a commit was made; git's `post-commit` hook calls this
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala gate post-commit")]
pub(crate) struct PostCommitArgs {
    #[command(flatten)]
    judged: Judged,
}

pub(super) fn cmd_post_commit(args: &PostCommitArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let unknown = || {
        context.ui.answer(&json!({ "commit": null, "agent": null }), |_| Ok(()))?;
        Ok(Code::SUCCESS)
    };
    let Opened::Known(mut store, subject) = args.judged.open(context, &scope, false)? else {
        return unknown();
    };
    let (Some(agent), Some(commit)) = (subject.agent, Repo::new(scope).resolve("HEAD")?) else {
        return unknown();
    };
    let known = store.agents()?.into_iter().find(|known| known.party.agent == agent);
    let owner: Owner = match known {
        Some(known) if known.life != Life::Dead => known.party.owner,
        _ => process::current(),
    };
    let party = Party { agent, owner, supervised: false, issue: subject.issue, run: None };
    let made = store.facts(&party.agent, &[EventKind::CommitMade], None)?;
    // A supervisor sees it as well.
    if !made.iter().any(|fact| fact.detail["commit"] == commit.as_str()) {
        store.record_fact(&party, EventKind::CommitMade, None, &json!({ "commit": commit }))?;
    }
    context.ui.answer(&json!({ "commit": commit, "agent": party.agent }), |_| Ok(()))?;
    Ok(Code::SUCCESS)
}
