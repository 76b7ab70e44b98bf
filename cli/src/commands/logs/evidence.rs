//! Records of test runs, as `mala logs` shows them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use mala_core::{AgentId, Scope, Timestamp};
use mala_gate::evidence::Of;
use mala_gate::evidence::anchoring::{self, AnchorError};
use mala_gate::evidence::output::{self, Output};
use mala_gate::{Evidence, EvidenceLog};
use mala_logs::chain::{ChainError, Verified, verify_anchored};
use mala_store::Store;

use crate::error::CliError;
use crate::ui::{DIM, GREEN, RED, plain, span};

/// What a damaged output means.
pub(crate) const IF_DAMAGED: &str =
    "the record is as it was written, and counts; only what the command printed is not known any more";

/// What ids of records begin with.
const PREFIX: &str = "ev-";

/// Which records to show.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) agent: Option<AgentId>,
    pub(super) since: Option<Timestamp>,
    pub(super) limit: usize,
}

/// The newest records that fit, oldest first.
pub(super) fn list(scope: &Scope, filter: &Filter) -> Result<Vec<Evidence>, CliError> {
    let mut found = Vec::new();
    if filter.limit == 0 {
        return Ok(found);
    }
    // Records are written when their command ends, so older ones end earlier.
    let keep = |evidence: Evidence| {
        if filter.since.is_some_and(|since| evidence.ended_at < since) {
            return ControlFlow::Break(());
        }
        found.push(evidence);
        if found.len() >= filter.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    search(scope, filter.agent.as_ref(), keep)?;
    found.reverse();
    Ok(found)
}

/// The record of this id; nothing if it cannot be one's id.
pub(super) fn find(scope: &Scope, id: &str) -> Result<Option<Evidence>, CliError> {
    let mut found = None;
    if !id.starts_with(PREFIX) {
        return Ok(found);
    }
    search(scope, None, |evidence| {
        if evidence.id.as_str() != id {
            return ControlFlow::Continue(());
        }
        found = Some(evidence);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn search(
    scope: &Scope,
    agent: Option<&AgentId>,
    found: impl FnMut(Evidence) -> ControlFlow<()>,
) -> Result<(), CliError> {
    let of = agent.map_or(Of::Anyone { word: "" }, Of::Agent);
    EvidenceLog::of(scope).search(of, found).map_err(|error| match error {
        ChainError::Broken(broken) => CliError::refused(broken).hint(SEE),
        error => CliError::failed(error),
    })
}

/// What to do about a log that cannot be used.
pub(crate) const SEE: &str = "see how far it can be read, and what to do: mala logs verify";

pub(super) fn write_list(out: &mut dyn Write, records: &[Evidence]) -> io::Result<()> {
    for record in records {
        let style = if record.has_passed() { GREEN } else { RED };
        let agent = plain(&record.agent);
        let (ending, command) = (short_ending(record), plain(record.command()));
        writeln!(
            out,
            "{DIM}{}{DIM:#}  {}  {agent:<16}  {style}{ending:<8}{style:#}  {command}",
            record.ended_at, record.id
        )?;
    }
    Ok(())
}

fn short_ending(record: &Evidence) -> String {
    match (record.exit_code, record.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

pub(super) fn write_whole(out: &mut dyn Write, record: &Evidence) -> io::Result<()> {
    write_list(out, std::slice::from_ref(record))?;
    let mut line = |name: &str, value: &str| writeln!(out, "        {name}: {}", plain(value));
    line("folder", &record.cwd)?;
    let how = if record.isolated { "in a slot" } else { "in the shared checkout" };
    line("ran", &format!("{how}, for {}", span(record.ended_at.since(record.started_at))))?;
    if let Some(issue) = &record.issue {
        line("issue", issue.as_str())?;
    }
    if let Some(run) = &record.run {
        line("run", run.as_str())?;
    }
    line("on commit", record.head.as_ref().map_or("none yet", |head| head.as_str()))?;
    for path in record.files.keys() {
        line("with changed", &owned(record, path))?;
    }
    for path in record.after.keys() {
        line("changed while it ran", &owned(record, path))?;
    }
    match &record.output_log {
        Some(path) => line("output", path),
        None => line("output", "not saved"),
    }
}

fn owned(record: &Evidence, path: &mala_git::RepoPath) -> String {
    match (record.is_foreign(path), record.holders.get(path)) {
        (true, Some(holder)) => format!("{path} (of `{holder}`)"),
        (true, None) => format!("{path} (not its own)"),
        (false, _) => path.to_string(),
    }
}

/// What the command printed.
pub(super) fn output(scope: &Scope, record: &Evidence) -> Result<File, CliError> {
    match output::output(scope, record).map_err(CliError::failed)? {
        Output::Whole(file) => Ok(file),
        Output::NotSaved => Err(CliError::refused(format!(
            "the output of `{}` was not saved: it went to a terminal or another device",
            record.id
        ))
        .hint(format!("the rest of the record: mala logs show {}", record.id))),
        Output::Forgotten => {
            Err(CliError::refused(format!("the output of `{}` is not kept any more", record.id))
                .hint("`mala clean` removes what is older than `retain.age` in the settings"))
        }
        Output::Private(path) => Err(CliError::refused(format!(
            "only its owner may read `{}`: outputs may have secrets in them",
            plain(path.display())
        ))),
        Output::Damaged(damage) => Err(CliError::refused(damage).hint(IF_DAMAGED)),
    }
}

/// A log that was checked.
pub(crate) struct Checked {
    pub(crate) log: PathBuf,
    pub(crate) outcome: Result<Verified, AnchorError>,
    /// What to do if it is not whole.
    pub(crate) remedy: String,
}

impl Checked {
    /// Nothing mends a broken log, it would prove nothing any more: `if_broken` is what can be done.
    fn new(store: Option<&mut Store>, scope: &Scope, log: &Path, if_broken: &str) -> Self {
        let outcome = match store {
            Some(store) => anchoring::verify(store, scope, log),
            None => verify_anchored(log, None).map_err(AnchorError::from),
        };
        let remedy = match &outcome {
            Ok(_) | Err(AnchorError::Log(ChainError::Broken(_))) => if_broken.to_owned(),
            Err(_) => format!("look at `{}`", log.display()),
        };
        Self { log: log.to_owned(), outcome, remedy }
    }
}

/// Checks the log of evidence, that of validations, then those of all runs in the order of their names. A log that the store knows of
/// is missed.
pub(super) fn verify_all(store: &mut Store, scope: &Scope) -> Result<Vec<Checked>, CliError> {
    let if_broken = "the log of that run cannot be relied on, others are not concerned; once you know why, take it as it is: \
                     mala logs verify --accept";
    let mut checked = verify_evidence(Some(&mut *store), scope);
    let mut runs = run_logs(&super::runs::folder(scope));
    runs.retain(|log| is_there(log));
    runs.extend(anchoring::known_logs(store, scope).map_err(CliError::failed)?);
    runs.sort();
    runs.dedup();
    runs.retain(|log| checked.iter().all(|checked| checked.log != *log));
    checked.extend(runs.iter().map(|log| Checked::new(Some(&mut *store), scope, log, if_broken)));
    Ok(checked)
}

/// Checks the log of evidence and that of validations, if there is one. Without the store, which agents cannot open, each by itself.
pub(crate) fn verify_evidence(mut store: Option<&mut Store>, scope: &Scope) -> Vec<Checked> {
    let log = EvidenceLog::of(scope).path().to_owned();
    let folder = log.parent().unwrap_or(&log).display();
    let if_broken = format!(
        "evidence counts for nothing until the log is put aside: mv '{folder}' '{folder}.broken'; then take that as it is: \
         mala logs verify --accept; and run the tests again"
    );
    let validations = log.with_file_name("validations.jsonl");
    let name = anchoring::name_of(scope, &validations);
    let is_known =
        store.as_mut().is_some_and(|store| store.anchor(&name).is_ok_and(|anchor| anchor.is_some()));
    let validations = Some(validations).filter(|log| is_known || is_there(log));
    let logs = [&log].into_iter().chain(&validations);
    logs.map(|log| Checked::new(store.as_deref_mut(), scope, log, &if_broken)).collect()
}

/// A log whose file was removed is known by its head.
fn is_there(log: &Path) -> bool {
    log.exists() || log.with_extension("head").exists()
}

/// The logs of runs. Full files belong to the log whose name they begin with.
fn run_logs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_suffix(".jsonl").is_some_and(|stem| !stem.contains('.'))
    };
    // A log whose file was removed is known by what lies beside it.
    let known = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let stem = name.strip_suffix(".head").filter(|stem| !stem.contains('.'))?;
        Some(path.with_file_name(format!("{stem}.jsonl")))
    };
    let mut logs: Vec<PathBuf> =
        entries.filter_map(|path| if is_log(&path) { Some(path) } else { known(path) }).collect();
    logs.sort();
    logs.dedup();
    logs
}
