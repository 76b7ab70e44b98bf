use clap::Args;
use mala_core::Oid;
use mala_gate::Gate;
use mala_git::{Repo, RepoPath};
use mala_landing::offer::{self, OfferError};
use serde::{Deserialize, Serialize};

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};

/// Pin a commit as what this agent of a run offers
///
/// `mala commit` makes the commit inside of the agent's tree and asks its supervisor with this to look at it and to keep it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala offer 4f1c2e0d9b")]
pub(crate) struct OfferArgs {
    #[command(flatten)]
    caller: Caller,
    /// The commit; without one, the files of the last offer are listed
    #[arg(value_name = "COMMIT")]
    commit: Option<String>,
}

/// The answer, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Offered {
    /// The ref that keeps the candidate.
    pub(super) candidate: Option<String>,
    /// The files of the last offer.
    pub(super) files: Vec<RepoPath>,
}

pub(crate) fn cmd_offer(args: &OfferArgs, context: &Context) -> Result<Code, CliError> {
    let commit = args.commit.as_deref().map(|text| {
        Oid::parse(text).ok_or_else(|| CliError::usage(format!("`{text}` is not the whole name of a commit")))
    });
    let offered = answer(&args.caller, context, commit.transpose()?.as_ref())?;
    context.ui.json_line(&offered)?;
    Ok(Code::SUCCESS)
}

/// Pins `commit`, or says what the last offer had.
pub(super) fn answer(caller: &Caller, context: &Context, commit: Option<&Oid>) -> Result<Offered, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let party = caller.party(context, &mut store, None, None)?;
    let Some(run) = &party.run else {
        return Err(CliError::usage(format!("`{}` is no agent of a run, so it offers nothing", party.agent)));
    };
    let attempt = offer::attempt_of(&mut store, run, &party.agent).map_err(not_offered)?;
    let repo = Repo::new(scope.clone()).without_hooks();
    let Some(commit) = commit else {
        let files = offer::offered_files(&repo, &attempt).map_err(not_offered)?;
        return Ok(Offered { candidate: None, files });
    };
    let gate = Gate::of(&context.settings(&scope, Vec::new())?).map_err(CliError::usage)?;
    let pinned = offer::register(&repo, &gate, &attempt, commit).map_err(not_offered)?;
    Ok(Offered { candidate: Some(pinned.name), files: Vec::new() })
}

fn not_offered(error: OfferError) -> CliError {
    match error {
        OfferError::NoAttempt { .. }
        | OfferError::NotOnBranch { .. }
        | OfferError::Refused(_)
        | OfferError::OfAPerson(_) => CliError::refused(error),
        OfferError::Store(error) => error.into(),
        error => CliError::failed(error),
    }
}
