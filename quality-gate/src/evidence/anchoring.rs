//! Anchors of the chained logs in the store: what a chain without a key cannot show by itself.
//!
//! **Order.** A line is in its log (and on the disk, for evidence and validations) before its anchor is in the store, and the anchor is
//! there before the event that tells of it, such as `test.ended`. So whatever is killed, an anchor never names a line that
//! was not written; the only line that could go unnoticed is one whose writer was killed in between, until the next one is
//! anchored. An anchor is only replaced by that of a log that still has the line of the old one: lines that are gone are not
//! forgotten by writing more.

use std::path::{Path, PathBuf};

use mala_core::Scope;
use mala_logs::chain::{Anchor, ChainError, ChainWriter, Link, Verified, verify_anchored};
use mala_store::{Store, StoreError};
use serde::Serialize;
use thiserror::Error;

/// How often an anchor is tried again because others have written to the same log.
const MAX_TRIES: usize = 100;

#[derive(Debug, Error)]
pub enum AnchorError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] ChainError),
}

/// How the store calls a log: its path in mala's directory.
pub fn name_of(scope: &Scope, log: &Path) -> String {
    log.strip_prefix(scope.state_dir()).unwrap_or(log).to_string_lossy().into_owned()
}

/// Appends a record and anchors it. The record is in the log even if the anchor fails.
pub fn append<T: Serialize>(scope: &Scope, log: &Path, record: &T) -> Result<Link, AnchorError> {
    let link = ChainWriter::open(log)?.append(record)?;
    mala_core::crash_point("log-appended");
    match anchor(&mut Store::open(scope)?, scope, log, &link) {
        // What is missing is named by whoever verifies the log, for good; recording goes on.
        Ok(()) | Err(AnchorError::Log(ChainError::Broken(_))) => Ok(link),
        Err(error) => Err(error),
    }
}

/// Anchors a line that is in the log. One that is anchored already, or is older, changes nothing.
pub fn anchor(store: &mut Store, scope: &Scope, log: &Path, link: &Link) -> Result<(), AnchorError> {
    if store.is_read_only() {
        return Ok(());
    }
    let name = name_of(scope, log);
    for _ in 0..MAX_TRIES {
        let known = store.anchor(&name)?;
        if let Some(known) = &known {
            known.is_line_of(log)?;
            if known.seq >= link.seq {
                return Ok(());
            }
        }
        if store.set_anchor(&name, known.as_ref(), &Anchor::of(link, known.as_ref()))? {
            return Ok(());
        }
    }
    // Who has written since has anchored a later line of the same chain.
    Ok(())
}

/// Checks a log against what the store knows of it.
pub fn verify(store: &mut Store, scope: &Scope, log: &Path) -> Result<Verified, AnchorError> {
    // The anchor is read first: a line that is appended meanwhile only makes the log longer.
    let anchor = store.anchor(&name_of(scope, log))?;
    Ok(verify_anchored(log, anchor.as_ref())?)
}

/// The logs that the store knows of, whether they are still there or not.
pub fn known_logs(store: &mut Store, scope: &Scope) -> Result<Vec<PathBuf>, AnchorError> {
    Ok(store.anchors()?.into_iter().map(|(name, _)| scope.state_dir().join(name)).collect())
}

/// Lines up to this one are about to be removed for their age.
pub(super) fn note_forgotten(
    store: &mut Store,
    scope: &Scope,
    log: &Path,
    last: u64,
) -> Result<(), AnchorError> {
    let name = name_of(scope, log);
    for _ in 0..MAX_TRIES {
        let Some(known) = store.anchor(&name)? else { return Ok(()) };
        let new = Anchor { forgotten: known.forgotten.max(last), ..known };
        if store.set_anchor(&name, Some(&known), &new)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Takes a log as it is now: a person knows why it is not what it was.
pub fn accept(store: &mut Store, scope: &Scope, log: &Path, why: &str) -> Result<(), AnchorError> {
    let now = verify_anchored(log, None)?;
    let anchor =
        now.head.map(|head| Anchor { seq: head.seq, hash: head.hash, forgotten: head.seq - now.lines });
    Ok(store.reset_anchor(&name_of(scope, log), anchor.as_ref(), why)?)
}
