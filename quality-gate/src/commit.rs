//! Commits that name their evidence: what the agent ran, with success, on exactly what is about to be committed.
//!
//! The records are named in the message for whoever reads it. The gate does not believe a message and looks for itself.

use std::ops::ControlFlow;

use mala_core::{AgentId, EvidenceId};
use mala_git::commit::{CommitError, Committed as Landed, HookRunner, Offer, Request, StagedTree};
use mala_git::{Ownership, Repo, RepoPath};

use crate::evidence::{Evidence, EvidenceLog, Of};
use crate::rules::{CommitContext, Committed, Fit, Foreign, GateError};

/// Commits an agent's own files. `foreign` says whether records that saw others' changes are about this commit.
pub fn commit(
    repo: &Repo,
    ownership: &dyn Ownership,
    hooks: &dyn HookRunner,
    request: &Request,
    foreign: Foreign,
) -> Result<Landed, CommitError> {
    let find_evidence = |staged: &StagedTree<'_>| evidence_of(staged, ownership, request, foreign);
    mala_git::commit::commit(repo, ownership, hooks, &find_evidence, request)
}

/// Makes the commit that an agent of a run offers, with those files of `also` that have changed. The branch stays where it is.
pub fn offer(
    repo: &Repo,
    ownership: &dyn Ownership,
    hooks: &dyn HookRunner,
    (request, also): (&Request, &[RepoPath]),
    foreign: Foreign,
) -> Result<Offer, CommitError> {
    let find_evidence = |staged: &StagedTree<'_>| evidence_of(staged, ownership, request, foreign);
    mala_git::commit::offer(repo, ownership, hooks, &find_evidence, (request, also))
}

/// The records about what is staged. A log that cannot be read proves nothing; that is the gate's to say.
fn evidence_of(
    staged: &StagedTree<'_>,
    ownership: &dyn Ownership,
    request: &Request,
    foreign: Foreign,
) -> Vec<EvidenceId> {
    let StagedTree { repo, tree, base, changes } = *staged;
    let subject = CommitContext { repo, ownership, commit: None, tree, base, changes, claimed: None };
    evidence_for(&request.who.agent, subject, foreign).unwrap_or_default()
}

/// How many of the agent's last records are looked at.
const LOOK_BACK: usize = 200;

/// The newest fitting record of each command, if that has passed, oldest first.
fn evidence_for(
    agent: &AgentId,
    subject: CommitContext<'_>,
    foreign: Foreign,
) -> Result<Vec<EvidenceId>, GateError> {
    let log = EvidenceLog::of(subject.repo.scope());
    let mut committed = Committed::new(subject);
    let mut seen = 0;
    let mut found: Vec<Evidence> = Vec::new();
    log.sift(Of::Agent(agent), |sighting| {
        let is_known = found.iter().any(|known| known.argv == sighting.head.argv);
        if !is_known && committed.can_fit(sighting)? {
            let evidence = sighting.evidence()?;
            if matches!(committed.compare(&evidence, foreign)?, Fit::Fits { .. }) {
                found.push(evidence);
            }
        }
        seen += 1;
        Ok::<_, GateError>(if seen == LOOK_BACK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let passed = found.into_iter().rev().filter(Evidence::has_passed);
    Ok(passed.map(|evidence| evidence.id).collect())
}
