//! The JSON that other programs read. Field names are a contract: see `docs/json.md`.

use std::fmt::Write as _;

use mala_core::{AgentId, Conflict, Fence, IssueId, Lock, LockId, Mode, Owner, RunId, Target, Timestamp};
use serde::Serialize;

/// The name of a target. A name that is not UTF-8 is shown with `\xNN` and given exactly in hex.
#[derive(Debug, Serialize)]
pub(crate) struct PathJson {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl From<&Target> for PathJson {
    fn from(target: &Target) -> Self {
        let bytes = target.as_bytes();
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
                hex
            })
        };
        Self { path: target.to_string(), path_hex: std::str::from_utf8(bytes).is_err().then(|| hex(bytes)) }
    }
}

fn kind(target: &Target) -> &'static str {
    match target {
        Target::File(_) => "file",
        Target::Pattern(_) => "pattern",
        Target::Name(_) => "name",
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct LockJson<'a> {
    id: &'a LockId,
    #[serde(flatten)]
    path: PathJson,
    kind: &'static str,
    /// Stable short id of a file's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    mode: Mode,
    agent: &'a AgentId,
    issue: Option<&'a IssueId>,
    run: Option<&'a RunId>,
    owner: &'a Owner,
    fence: Fence,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    reason: Option<&'a str>,
}

impl<'a> From<&'a Lock> for LockJson<'a> {
    fn from(lock: &'a Lock) -> Self {
        Self {
            id: &lock.id,
            path: (&lock.target).into(),
            kind: kind(&lock.target),
            key: match &lock.target {
                Target::File(key) => Some(key.short_id()),
                Target::Pattern(_) | Target::Name(_) => None,
            },
            mode: lock.mode,
            agent: &lock.agent,
            issue: lock.issue.as_ref(),
            run: lock.run.as_ref(),
            owner: &lock.owner,
            fence: lock.fence,
            acquired_at: lock.acquired_at,
            expires_at: lock.lease.expires_at,
            reason: lock.reason.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ConflictJson<'a> {
    #[serde(flatten)]
    path: PathJson,
    /// What was asked for.
    requested: String,
    /// What is held: the same file, or a pattern that covers it.
    held: String,
    /// How it is held.
    mode: Mode,
    agent: &'a AgentId,
    issue: Option<&'a IssueId>,
    since: Timestamp,
    fence: Fence,
}

impl<'a> From<&'a Conflict> for ConflictJson<'a> {
    fn from(conflict: &'a Conflict) -> Self {
        let Conflict { want, holder } = conflict;
        Self {
            path: conflict.contended().into(),
            requested: want.target.to_string(),
            held: holder.target.to_string(),
            mode: holder.mode,
            agent: &holder.agent,
            issue: holder.issue.as_ref(),
            since: holder.acquired_at,
            fence: holder.fence,
        }
    }
}

pub(crate) fn locks(locks: &[Lock]) -> Vec<LockJson<'_>> {
    locks.iter().map(LockJson::from).collect()
}

pub(crate) fn conflicts(conflicts: &[Conflict]) -> Vec<ConflictJson<'_>> {
    conflicts.iter().map(ConflictJson::from).collect()
}
