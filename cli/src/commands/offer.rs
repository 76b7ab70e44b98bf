use clap::Args;
use mala_config::Land;
use mala_core::Oid;
use mala_gate::Gate;
use mala_git::{Repo, RepoPath, candidate};
use mala_landing::offer::{self, OfferError, Registered, Since};
use mala_store::{NewEntry, Party, Store};
use serde::{Deserialize, Serialize};

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};

/// Pin a commit as what this agent offers
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
    /// Its entry in the landing queue, where that is not made at the end of a turn.
    pub(super) entry: Option<i64>,
    /// Files of the offer that have landed in another version since the agent took them, and merge with it.
    #[serde(default)]
    pub(super) merged: Vec<RepoPath>,
    /// Those that do not.
    #[serde(default)]
    pub(super) conflicts: Vec<RepoPath>,
}

impl Offered {
    fn new(candidate: Option<String>, files: Vec<RepoPath>, entry: Option<i64>) -> Self {
        Self { candidate, files, entry, merged: Vec::new(), conflicts: Vec::new() }
    }
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
    let Some(run) = party.run.clone() else { return queue_commit(context, &mut store, party, commit) };
    let attempt = offer::attempt_of(&mut store, &run, &party.agent).map_err(not_offered)?;
    let repo = Repo::new(scope.clone()).without_hooks();
    let Some(commit) = commit else {
        let files = offer::offered_files(&repo, &attempt).map_err(not_offered)?;
        return Ok(Offered::new(None, files, None));
    };
    let gate = Gate::of(&context.settings(&scope, Vec::new())?).map_err(CliError::usage)?;
    let Registered { pinned, since } =
        offer::register(&repo, &gate, &attempt, commit).map_err(not_offered)?;
    let Since { merged, conflicts } = since;
    Ok(Offered { merged, conflicts, ..Offered::new(Some(pinned.name), Vec::new(), None) })
}

/// Outside of a run a commit goes into the queue at once, where the settings want that.
fn queue_commit(
    context: &Context,
    store: &mut Store,
    party: Party,
    commit: Option<&Oid>,
) -> Result<Offered, CliError> {
    let scope = context.scope()?;
    let Some(commit) = commit else { return Ok(Offered::new(None, Vec::new(), None)) };
    if context.settings(&scope, Vec::new())?.gate.land != Land::Queue {
        return Err(CliError::usage(format!("`{}` is no agent of a run, so it offers nothing", party.agent)));
    }
    let repo = Repo::new(scope).without_hooks();
    let branch = repo.branch()?.ok_or_else(|| {
        CliError::refused("no branch is checked out here, so there is none to land on")
            .hint("check one out: git switch BRANCH")
    })?;
    let tip = repo.resolve(&branch)?;
    let made = repo.commit(commit)?;
    let base = match (made.parents.as_slice(), &tip) {
        ([parent], Some(tip)) if repo.is_ancestor(parent, tip)? => parent.clone(),
        _ => {
            let error = OfferError::NotOnBranch { commit: commit.clone() };
            return Err(not_offered(error));
        }
    };
    let pinned = candidate::pin_proposal(&repo, party.issue.as_ref(), commit).map_err(CliError::failed)?;
    let entry = store.enqueue(&NewEntry {
        branch,
        base,
        head: commit.clone(),
        pin: pinned.name.clone(),
        issue: party.issue,
        agent: Some(party.agent),
        run: None,
        attempt: None,
        priority: NewEntry::default_priority(),
    })?;
    Ok(Offered::new(Some(pinned.name), Vec::new(), Some(entry.id.0)))
}

fn not_offered(error: OfferError) -> CliError {
    match error {
        OfferError::NoAttempt { .. }
        | OfferError::NotOnBranch { .. }
        | OfferError::Refused(_)
        | OfferError::NothingOwn(_)
        | OfferError::OfAPerson(_) => CliError::refused(error),
        OfferError::Store(error) => error.into(),
        error => CliError::failed(error),
    }
}
