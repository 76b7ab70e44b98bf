//! What is too old to be kept: full files of the logs, and saved outputs.
//!
//! The logs begin later then, and what is left of them can be verified as before. A record may outlive its output.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use mala_core::{Scope, Timestamp};
use mala_logs::chain::{ChainWriter, forgettable, verify};

use super::EvidenceError;
use super::log::EvidenceLog;
use super::output::{self, failed};

/// What lies here and was last written to before `before`. Changes nothing.
pub fn old(scope: &Scope, before: Timestamp) -> Result<Vec<PathBuf>, EvidenceError> {
    let before = system_time(before);
    let mut found = Vec::new();
    for log in logs(scope) {
        found.extend(forgettable(&log, before)?);
    }
    found.extend(old_outputs(&output::folder_of(scope), before)?);
    Ok(found)
}

/// Removes what is [`old`], and says what that was. Nothing of a broken log is removed: it would not be seen any more that
/// it was.
pub fn forget(scope: &Scope, kept_since: Timestamp) -> Result<Vec<PathBuf>, EvidenceError> {
    let before = system_time(kept_since);
    let mut gone = Vec::new();
    for log in logs(scope) {
        if !forgettable(&log, before)?.is_empty() {
            verify(&log)?;
            gone.extend(ChainWriter::open(&log)?.forget(before)?);
        }
    }
    let old_outputs = old_outputs(&output::folder_of(scope), before)?;
    if !old_outputs.is_empty() {
        output::keep_since(scope, kept_since)?;
    }
    for output in old_outputs {
        fs::remove_file(&output).map_err(failed(&output))?;
        gone.push(output);
    }
    Ok(gone)
}

/// The logs that are there: opening one makes it.
fn logs(scope: &Scope) -> impl Iterator<Item = PathBuf> {
    let evidence = EvidenceLog::of(scope).path().to_owned();
    let reruns = evidence.with_file_name("reruns.jsonl");
    [evidence, reruns].into_iter().filter(|log| log.with_extension("head").exists())
}

fn old_outputs(folder: &Path, before: SystemTime) -> Result<Vec<PathBuf>, EvidenceError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        let changed = entry.metadata().and_then(|meta| meta.modified()).map_err(failed(&entry.path()))?;
        if changed < before {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn system_time(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0))
}
