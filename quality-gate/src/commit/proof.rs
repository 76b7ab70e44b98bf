//! The records that a commit can point at: what its agent ran, with success, on exactly what is about to be committed.
//!
//! They are named in the message for whoever reads it. The gate does not believe a message and looks for itself.

use std::ops::ControlFlow;

use mala_core::AgentId;

use crate::evidence::{Evidence, EvidenceId, EvidenceLog, Of};
use crate::rules::{Committed, Fit, Foreign, GateError, Subject};

/// How many of the agent's last records are looked at.
const LOOK_BACK: usize = 200;

/// The newest fitting record of each command, if that has passed, oldest first.
pub(super) fn of(
    log: &EvidenceLog,
    agent: &AgentId,
    subject: Subject<'_>,
    foreign: Foreign,
) -> Result<Vec<EvidenceId>, GateError> {
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
