use std::io::{self, Write};

use clap::Args;
use mala_core::shell::word;
use mala_core::{Entry, EntryId, EntryState};
use mala_git::{Repo, RepoPath};
use mala_store::{LandingError, Store, StoreError};
use serde_json::json;

use super::short;
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::{BOLD, plain, span};

/// Everything about one entry
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala queue show 17")]
pub(crate) struct ShowArgs {
    /// The number of the entry
    id: EntryId,
}

/// The entry with this number, or an error that says how to find others.
pub(crate) fn entry(store: &mut Store, id: EntryId) -> Result<Entry, CliError> {
    let unknown = || StoreError::from(LandingError::UnknownEntry { id });
    Ok(store.entry(id)?.ok_or_else(unknown)?)
}

pub(crate) fn cmd_show(args: &ShowArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let entry = entry(&mut store, args.id)?;
    let repo = Repo::new(scope).without_hooks();
    let changes = repo.changes_between(&entry.base, &entry.head)?;
    let files: Vec<RepoPath> = changes.into_iter().map(|change| change.path).collect();
    let attempt = match entry.attempt {
        Some(attempt) => Some(store.attempt(attempt)?.number),
        None => None,
    };
    let shown = Shown { diff: diff_command(&entry, attempt), attempt, files, now: store.now(), entry };
    let body = json!({
        "entry": shown.entry, "attempt": shown.attempt, "files": shown.files, "diff": shown.diff,
    });
    context.ui.answer(&body, |out| shown.write(out))?;
    Ok(Code::SUCCESS)
}

/// What to type to see what it changes.
fn diff_command(entry: &Entry, attempt: Option<u32>) -> String {
    match (&entry.issue, attempt) {
        (Some(issue), Some(attempt)) => format!("mala diff {}", word(format!("{issue}/{attempt}"))),
        _ => format!("git diff {} {}", entry.base.short(), entry.pin),
    }
}

struct Shown {
    entry: Entry,
    attempt: Option<u32>,
    files: Vec<RepoPath>,
    diff: String,
    now: mala_core::Timestamp,
}

impl Shown {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let entry = &self.entry;
        let since = span(self.now.since(entry.since));
        writeln!(
            out,
            "{BOLD}entry {}{BOLD:#} for `{}`: {} for {since}",
            entry.id,
            short(&entry.branch),
            entry.state
        )?;
        if let Some(reason) = &entry.reason {
            writeln!(out, "  because: {}", plain(reason))?;
        }
        if entry.frees_files && !entry.state.is_over() {
            writeln!(out, "  its files are free: who changes them next is merged with it")?;
        }
        if let Some(issue) = &entry.issue {
            let attempt = self.attempt.map(|number| format!(", attempt {number}")).unwrap_or_default();
            writeln!(out, "  issue: {}{attempt}", plain(issue))?;
        }
        if let Some(agent) = &entry.agent {
            writeln!(out, "  agent: `{}`", plain(agent))?;
        }
        writeln!(
            out,
            "  priority {}, arrived {}, rejected {} times",
            entry.priority, entry.arrived_at, entry.rejections
        )?;
        writeln!(out, "  candidate: {} ({}), made on {}", entry.pin, entry.head.short(), entry.base.short())?;
        if let Some(landed) = &entry.landed {
            writeln!(out, "  landed as {landed}")?;
        }
        writeln!(out, "  changes:")?;
        self.files.iter().try_for_each(|file| writeln!(out, "    {}", plain(file)))?;
        writeln!(out, "look at it: {}", self.diff)?;
        match self.next() {
            Some(next) => writeln!(out, "{next}"),
            None => Ok(()),
        }
    }

    fn next(&self) -> Option<String> {
        let id = self.entry.id;
        match self.entry.state {
            EntryState::Landed | EntryState::Landing => None,
            EntryState::Held => Some("when nothing is in its way any more: mala queue run".to_owned()),
            state if state.is_over() => Some(format!("try it once more, as it is: mala queue retry {id}")),
            _ => Some(format!("work it off: mala queue run; give it up: mala queue drop {id}")),
        }
    }
}
