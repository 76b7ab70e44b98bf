//! What is too old, or too much, to be kept: full files of the logs, saved outputs, and whole runs with what their agents
//! printed.
//!
//! The logs begin later then, and what is left of them can be verified as before. A record may outlive its output. Nothing goes that
//! somebody may still look for: what a note on an open issue or an open entry of the landing queue names, runs of open issues, the last
//! run of every issue, and whatever was written since the oldest work that is not over began.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use mala_core::{RunId, Scope, Timestamp};
use mala_logs::chain::{ChainWriter, forgettable};
use mala_store::Store;

use super::EvidenceError;
use super::anchoring;
use super::log::EvidenceLog;
use super::output::{self, failed};

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What was last written to before this is old.
    pub since: Timestamp,
    /// What was written to later is needed by work that is not over.
    pub needed_since: Timestamp,
    /// Of outputs and runs together.
    pub bytes: u64,
}

/// Why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Age,
    /// More is there than is to be kept, and this is the oldest.
    Size,
}

/// Something that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Old {
    pub path: PathBuf,
    pub cause: Cause,
    pub bytes: u64,
}

/// What is to go.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Full files of the chained logs of evidence and validations.
    pub records: Vec<PathBuf>,
    pub outputs: Vec<Old>,
    /// The logs of whole runs; what belongs to them goes as well.
    pub runs: Vec<Old>,
    /// Up to when outputs were written that go.
    outputs_until: Option<SystemTime>,
}

/// One output, or one run with everything that belongs to it.
#[derive(Debug)]
struct Pile {
    path: PathBuf,
    changed: SystemTime,
    bytes: u64,
    kind: PileKind,
    is_needed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PileKind {
    Output,
    Run,
}

/// What would go now. Changes nothing.
pub fn plan(store: &mut Store, scope: &Scope, limits: Limits) -> Result<Plan, EvidenceError> {
    let before = system_time(limits.since.min(limits.needed_since));
    let mut plan = Plan::default();
    for log in record_logs(scope) {
        plan.records.extend(forgettable(&log, before)?.files);
    }
    let mut piles = outputs(store, &output::folder_of(scope))?;
    piles.extend(runs(store, &scope.state_dir().join("logs"))?);
    piles.sort_by_key(|pile| pile.changed);
    let needed_since = system_time(limits.needed_since);
    let mut kept: u64 = piles.iter().map(|pile| pile.bytes).sum();
    for pile in piles {
        let cause = match pile {
            _ if pile.is_needed || pile.changed >= needed_since => continue,
            _ if pile.changed < before => Cause::Age,
            _ if kept > limits.bytes => Cause::Size,
            _ => continue,
        };
        kept -= pile.bytes;
        let old = Old { path: pile.path, cause, bytes: pile.bytes };
        match pile.kind {
            PileKind::Output => {
                plan.outputs_until = plan.outputs_until.max(Some(pile.changed));
                plan.outputs.push(old);
            }
            PileKind::Run => plan.runs.push(old),
        }
    }
    Ok(plan)
}

/// Removes what was planned. Nothing of a broken log is removed: it would not be seen any more that it was. Whoever is killed in
/// between leaves the rest for the next time.
pub fn carry_out(store: &mut Store, scope: &Scope, plan: &Plan, limits: Limits) -> Result<(), EvidenceError> {
    let before = system_time(limits.since.min(limits.needed_since));
    for log in record_logs(scope) {
        let old = forgettable(&log, before)?;
        if !old.files.is_empty() {
            anchoring::verify(store, scope, &log)?;
            // The store is told first: a log that begins earlier than it says is whole, one that begins later is not.
            anchoring::note_forgotten(store, scope, &log, old.last)?;
            ChainWriter::open(&log)?.forget(before)?;
        }
    }
    if let Some(until) = plan.outputs_until {
        output::keep_since(scope, after(until))?;
    }
    for output in &plan.outputs {
        remove(&output.path)?;
    }
    for run in &plan.runs {
        // An anchor without a log would be a log that is missed.
        store.reset_anchor(&anchoring::name_of(scope, &run.path), None, "mala clean")?;
        for part in parts_of_run(&run.path)? {
            remove(&part)?;
        }
    }
    Ok(())
}

/// The logs of records that are there: opening one makes it.
fn record_logs(scope: &Scope) -> impl Iterator<Item = PathBuf> {
    let evidence = EvidenceLog::of(scope).path().to_owned();
    let validations = evidence.with_file_name("validations.jsonl");
    [evidence, validations].into_iter().filter(|log| log.with_extension("head").exists())
}

fn outputs(store: &mut Store, folder: &Path) -> Result<Vec<Pile>, EvidenceError> {
    let texts = store.quoting_texts()?;
    let mut piles = Vec::new();
    for (path, meta) in entries(folder)? {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let is_needed = texts.iter().any(|text| text.contains(name));
        let changed = meta.modified().map_err(failed(&path))?;
        piles.push(Pile { changed, bytes: meta.len(), kind: PileKind::Output, is_needed, path });
    }
    Ok(piles)
}

fn runs(store: &mut Store, folder: &Path) -> Result<Vec<Pile>, EvidenceError> {
    let attempts = store.past_attempts()?;
    let of_open_issues = attempts.iter().filter(|attempt| attempt.closed_at.is_none() || attempt.is_newest);
    let mut needed: BTreeSet<RunId> = of_open_issues.map(|attempt| attempt.run.clone()).collect();
    needed.extend(store.unfinished_runs()?);
    let mut piles = Vec::new();
    for (log, _) in entries(folder)? {
        let name = log.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(".jsonl"));
        let Some(run) = name.and_then(|name| RunId::new(name).ok()).filter(|run| !run.as_str().contains('.'))
        else {
            continue;
        };
        let (mut changed, mut bytes) = (SystemTime::UNIX_EPOCH, 0);
        for part in parts_of_run(&log)? {
            let inner = if part.is_dir() { entries(&part)? } else { Vec::new() };
            let own = fs::symlink_metadata(&part).map_err(failed(&part))?;
            for meta in inner.into_iter().map(|(_, meta)| meta).chain([own]) {
                bytes += meta.len();
                changed = changed.max(meta.modified().map_err(failed(&part))?);
            }
        }
        piles.push(Pile { path: log, changed, bytes, kind: PileKind::Run, is_needed: needed.contains(&run) });
    }
    Ok(piles)
}

/// Everything that belongs to the run with this log, the log itself last: as long as it is there, the rest is found.
fn parts_of_run(log: &Path) -> Result<Vec<PathBuf>, EvidenceError> {
    let run = log.file_stem().unwrap_or_default().to_owned();
    let mut parts = Vec::new();
    for (path, _) in entries(log.parent().unwrap_or(log))? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let rest = name.strip_prefix(run.as_encoded_bytes());
        if path != log && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b".")) {
            parts.push(path);
        }
    }
    parts.push(log.to_owned());
    Ok(parts)
}

fn entries(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>, EvidenceError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        found.push((entry.path(), entry.metadata().map_err(failed(&entry.path()))?));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn remove(path: &Path) -> Result<(), EvidenceError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0))
}

/// The first moment after this one, as precise as it is written down.
fn after(time: SystemTime) -> Timestamp {
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX).saturating_add(1))
}
