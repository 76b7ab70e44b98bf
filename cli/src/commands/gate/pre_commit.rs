use std::env;
use std::path::PathBuf;

use clap::Args;
use mala_agents::git::RunAgent;
use mala_config::Settings;
use mala_core::shell::commit_line;
use mala_core::{AgentId, IssueId, Scope};
use mala_gate::{StoreOwnership, hooks};
use mala_git::commit::is_draft;
use mala_git::{Repo, Unfit};
use mala_session::refusal::Reader;
use mala_session::run_agent;
use mala_store::Store;
use serde_json::json;

use super::{Judged, Opened, refuse_overtaking};
use crate::context::Context;
use crate::error::{CliError, Code, REFUSED};
use crate::ui::{RED, plain};

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
    let (mut store, subject) = match args.judged.open(context, &scope, settings.gate.people)? {
        Opened::Known(store, subject) => (store, subject),
        Opened::Unchecked(error) => {
            context.ui.warning(&format!("this commit is not checked: {}", error.messages().join(": ")));
            error.hints.iter().for_each(|hint| context.ui.hint(hint));
            context.ui.answer(&json!({ "refused": [] }), |_| Ok(()))?;
            return Ok(Code::SUCCESS);
        }
    };
    let index = args.index.as_ref().map(|index| context.cwd.join(index));
    let repo = Repo::new(scope);
    let is_draft = index.as_ref().is_some_and(|index| is_draft(&repo, index));
    // What `mala commit` makes it has looked at itself: an offer moves no branch.
    if !is_draft {
        refuse_overtaking(&repo, &mut store)?;
    }
    if subject.agent.is_none() && !settings.gate.people {
        context.ui.answer(&json!({ "refused": [] }), |_| Ok(()))?;
        return Ok(Code::SUCCESS);
    }
    let run = run_of(&mut store, subject.agent.as_ref(), repo.scope(), &settings)?;
    if let Some(run) = run.as_ref().filter(|_| !is_draft) {
        return Err(CliError::refused(run.refusal()));
    }
    if let Some(agent) = &subject.agent
        && let Some(unfit) = repo.unfinished()?
        && !store.holds_everything(agent)?
    {
        return Err(not_its_own(unfit));
    }
    let offending =
        hooks::pre_commit(&repo, &StoreOwnership::new(*store), subject.agent.as_ref(), index.as_deref())?;
    let files: Vec<_> =
        offending.iter().map(|file| json!({ "path": file.path, "holder": file.holder })).collect();
    context.ui.answer(&json!({ "refused": files }), |_| Ok(()))?;
    if offending.is_empty() {
        return Ok(Code::SUCCESS);
    }
    for file in &offending {
        context.ui.note("refused", RED, &plain(file.sentence()));
    }
    // Git calls its hooks at the top, and says where it was called itself.
    let folder = env::var_os("GIT_PREFIX").unwrap_or_default();
    let reader = Reader::new(repo.scope(), &context.here.join(folder));
    reader.about(&offending).for_each(|hint| context.ui.hint(&hint));
    context.ui.hint(&match (&subject.agent, &run) {
        (Some(_), Some(run)) => run.offer(),
        (Some(_), None) => format!(
            "commit only your own files, and leave what others have staged: {}",
            commit_line(subject.issue.as_ref().map(IssueId::as_str), None)
        ),
        (None, _) => "unstage them: git restore --staged FILE".to_owned(),
    });
    Ok(Code::from(REFUSED))
}

/// The agent as its run knows it, if it is one's: it offers its work, and `mala commit` calls the hook with an index of its own.
fn run_of(
    store: &mut Store,
    agent: Option<&AgentId>,
    scope: &Scope,
    settings: &Settings,
) -> Result<Option<RunAgent>, CliError> {
    let known = store.agents()?.into_iter().find(|known| Some(&known.party.agent) == agent);
    Ok(known.and_then(|known| run_agent(&known.party, scope, settings)))
}

/// The commit would conclude what somebody else has begun, with all that belongs to it.
fn not_its_own(Unfit { why, .. }: Unfit) -> CliError {
    CliError::refused(format!("{why} in this checkout, and this commit would be part of it"))
        .hint("leave it to whoever began it, and commit when it is over (`git status` shows it)")
        .hint("if it is yours, take the whole checkout first: mala lock acquire .")
}
