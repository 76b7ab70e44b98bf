//! Commits exactly an agent's own files, beside everybody else's work.
//!
//! # How it works
//! The commit is put together in a private index: the last commit plus the chosen files. The repository's own hooks run on
//! it. Then git's index lock is taken, the branch is moved with compare-and-swap, and the shared index gets the committed
//! entries for exactly these files; whatever others have staged stays. If the branch moved meanwhile and nobody touched
//! the same files, the same entries are put on top of the new commit.
//!
//! # What it promises
//! Until the branch moves nothing of the checkout is touched, so a failure leaves index, files and staged work as they
//! were; files that a failing hook changed get their bytes back. A process killed in the middle leaves a folder, and at
//! worst git's index lock, which [`sweep`] recognises as its own: the commit is then either not there at all or finished.

mod backup;
mod error;
mod hook;
mod land;
mod message;
mod select;
mod stage;
mod sweep;
mod undo;

use mala_core::{Actor, EvidenceId, Fence, Owner};

use self::stage::Draft;
use crate::{FileChange, Oid, Ownership, Repo, RepoPath};

pub use self::error::{CommitError, NotYours};
pub use self::hook::{GitHooks, HookCall, HookEnd, HookRunner};
pub use self::land::change_index;
pub use self::message::is_signed_by;
pub use self::select::Selection;
pub(crate) use self::stage::index_info;
pub use self::stage::is_draft;
pub use self::sweep::{Swept, sweep};
pub use self::undo::undo;

/// What to commit, and as whom.
#[derive(Debug, Clone)]
pub struct Request {
    pub who: Actor,
    pub selection: Selection,
    pub message: String,
    /// The process that is committing.
    pub owner: Owner,
}

/// A commit that is on its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub id: Oid,
    /// Full name of the branch; nothing on a detached `HEAD`.
    pub branch: Option<String>,
    pub files: Vec<RepoPath>,
    /// Under which locks the files were held.
    pub fences: Vec<Fence>,
    /// What was run on exactly this, as the message says too.
    pub evidence: Vec<EvidenceId>,
    /// What the hooks said.
    pub hook_output: String,
    /// Why the hook that runs after a commit failed, if it did. The commit stands.
    pub after_hook: Option<String>,
}

/// What is about to be committed.
#[derive(Debug)]
pub struct StagedTree<'a> {
    pub repo: &'a Repo,
    pub tree: &'a Oid,
    /// What it is to be committed on.
    pub base: Option<&'a Oid>,
    pub changes: &'a [FileChange],
}

/// Finds the records that are about a staged tree, to be named in the commit's message.
pub type FindEvidence<'a> = &'a dyn Fn(&StagedTree<'_>) -> Vec<EvidenceId>;

/// A commit that is on no branch yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub id: Oid,
    /// What it is a change of: the last commit of the branch.
    pub base: Oid,
    pub files: Vec<RepoPath>,
    /// What was run on exactly this, as the message says too.
    pub evidence: Vec<EvidenceId>,
    /// What the hooks said.
    pub hook_output: String,
}

/// Makes a commit as [`commit`] does and leaves the branch where it is. Of the files in `also`, those that have changed go along:
/// a candidate is made anew each time, and has what an earlier one had.
pub fn offer(
    repo: &Repo,
    ownership: &dyn Ownership,
    hooks: &dyn HookRunner,
    find_evidence: FindEvidence<'_>,
    (request, also): (&Request, &[RepoPath]),
) -> Result<Offer, CommitError> {
    select::refuse_unfinished(repo)?;
    let agent = &request.who.agent;
    let mut chosen = match select::choose(repo, ownership, agent, &request.selection) {
        // What was named may be as the branch has it by now, and the rest of the offer still stands.
        Err(CommitError::Unchanged(_)) if !also.is_empty() => Vec::new(),
        chosen => chosen?,
    };
    chosen.extend(select::changed_of(repo, ownership, agent, also)?);
    chosen.sort_unstable();
    chosen.dedup();
    let mut draft = Draft::stage(repo, &request.owner, &chosen)?;
    let Some(base) = draft.head().at().cloned() else { return Err(CommitError::Unborn) };
    let made = compose(&mut draft, ownership, hooks, find_evidence, request)
        .and_then(|composed| Ok((land::write(repo, &draft, &composed.message)?, composed.evidence)));
    match made {
        Ok((id, evidence)) => {
            let files = draft.paths().cloned().collect();
            Ok(Offer { id, base, files, evidence, hook_output: draft.into_output() })
        }
        Err(refusal) => {
            draft.restore_files()?;
            Err(refusal)
        }
    }
}

/// Commits. Hooks run through `hooks`, so that a caller can run them where the agent itself would.
pub fn commit(
    repo: &Repo,
    ownership: &dyn Ownership,
    hooks: &dyn HookRunner,
    find_evidence: FindEvidence<'_>,
    request: &Request,
) -> Result<Committed, CommitError> {
    select::refuse_unfinished(repo)?;
    let chosen = select::choose(repo, ownership, &request.who.agent, &request.selection)?;
    let mut draft = Draft::stage(repo, &request.owner, &chosen)?;
    let made = compose(&mut draft, ownership, hooks, find_evidence, request)
        .and_then(|composed| Ok((land::land(repo, &mut draft, &composed.message)?, composed)));
    let (id, Composed { fences, evidence, .. }) = match made {
        Ok(made) => made,
        Err(refusal) => {
            draft.restore_files()?;
            return Err(refusal);
        }
    };
    let files = draft.paths().cloned().collect();
    let after_hook = hook::after_commit(repo, hooks, &mut draft);
    let branch = draft.branch().map(ToOwned::to_owned);
    Ok(Committed { id, branch, files, fences, evidence, hook_output: draft.into_output(), after_hook })
}

/// What a commit will hold and say.
struct Composed {
    message: String,
    fences: Vec<Fence>,
    evidence: Vec<EvidenceId>,
}

fn compose(
    draft: &mut Draft,
    ownership: &dyn Ownership,
    hooks: &dyn HookRunner,
    find_evidence: FindEvidence<'_>,
    request: &Request,
) -> Result<Composed, CommitError> {
    let repo = &draft.repo().clone();
    let agent = &request.who.agent;
    draft.run_pre_commit(hooks)?;
    draft.settle(ownership, agent)?;
    let fences = select::fences(repo, ownership, agent, draft.paths())?;
    let staged = StagedTree { repo, tree: &draft.tree()?, base: draft.head().at(), changes: draft.changes() };
    let evidence = find_evidence(&staged);
    let trailers = message::trailers(&request.who, &evidence, &fences);
    let text = message::compose(repo, &request.message, &trailers, draft.folder())?;
    let message = message::run_hooks(repo, &text, draft, hooks)?;
    Ok(Composed { message, fences, evidence })
}
