//! The records that a commit can point at: what its agent ran, with success, on exactly what is about to be committed.
//!
//! They are named in the message for whoever reads it. The gate does not believe a message and looks for itself.

use std::ops::ControlFlow;

use mala_core::AgentId;
use mala_logs::chain::ChainError;

use crate::evidence::{Evidence, EvidenceId, EvidenceLog, Of};
use crate::git::{Content, FileChange};

/// How many of the agent's last records are looked at.
const LOOK_BACK: usize = 200;

/// The newest fitting record of each command, oldest first.
pub(super) fn of(
    log: &EvidenceLog,
    agent: &AgentId,
    changes: &[FileChange],
) -> Result<Vec<EvidenceId>, ChainError> {
    let mut seen = 0;
    let mut found: Vec<Evidence> = Vec::new();
    log.search(Of::Agent(agent), |evidence| {
        let is_known = found.iter().any(|known| known.argv == evidence.argv);
        if !is_known && evidence.has_passed() && saw(&evidence, changes) {
            found.push(evidence);
        }
        seen += 1;
        if seen == LOOK_BACK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found.into_iter().rev().map(|evidence| evidence.id).collect())
}

/// True if the command ran on every change as it is committed, and none of them moved meanwhile.
fn saw(evidence: &Evidence, changes: &[FileChange]) -> bool {
    changes.iter().all(|change| {
        let committed = match &change.after {
            Some(entry) => Content::Object(entry.oid.clone()),
            None => Content::Absent,
        };
        evidence.files.get(&change.path) == Some(&committed) && !evidence.after.contains_key(&change.path)
    })
}
