use std::io::{self, Write};

use clap::Args;
use mala_core::{Issue, IssueId, Note};
use mala_store::{IssueError, StoreError};
use serde_json::json;

use super::desk;
use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::{BOLD, DIM, plain};

/// Everything about an issue
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala issue show bd-1")]
pub(crate) struct ShowArgs {
    /// The issue
    id: IssueId,
}

pub(crate) fn cmd_show(args: &ShowArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, _) = desk(context)?;
    let unknown = || StoreError::from(IssueError::Unknown { id: args.id.clone() });
    let issue = store.issue(&args.id)?.ok_or_else(unknown)?;
    context.ui.answer(&json!({ "issue": issue }), |out| write_issue(out, &issue))?;
    Ok(Code::SUCCESS)
}

fn write_issue(out: &mut dyn Write, issue: &Issue) -> io::Result<()> {
    writeln!(out, "{BOLD}{}: {}{BOLD:#}", issue.id, plain(&issue.title))?;
    write!(out, "{}, priority {}, {}", plain(&issue.status), issue.priority.number(), plain(&issue.kind))?;
    if let Some(assignee) = &issue.assignee {
        write!(out, ", `{}`", plain(assignee))?;
    }
    writeln!(out)?;
    list(out, "labels", &issue.labels)?;
    list(out, "files", &issue.files)?;
    list(out, "after", &issue.dependencies.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    for (heading, text) in
        [("", &issue.description), ("Design", &issue.design), ("Acceptance", &issue.acceptance)]
    {
        if !text.trim().is_empty() {
            writeln!(out)?;
            if !heading.is_empty() {
                writeln!(out, "{BOLD}{heading}{BOLD:#}")?;
            }
            write_text(out, text)?;
        }
    }
    issue.notes.iter().try_for_each(|note| write_note(out, note))
}

fn list(out: &mut dyn Write, what: &str, items: &[String]) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let items: Vec<String> = items.iter().map(plain).collect();
    writeln!(out, "{what}: {}", items.join(", "))
}

fn write_note(out: &mut dyn Write, note: &Note) -> io::Result<()> {
    let at = note.at.map(|at| at.to_string()).unwrap_or_default();
    let author = note.author.as_ref().map(|author| format!(" {}", plain(author))).unwrap_or_default();
    writeln!(out, "\n{DIM}{at}{author}{DIM:#}")?;
    write_text(out, &note.text)
}

/// Text from outside keeps its lines, and nothing else that could move the cursor.
fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    text.trim_end().lines().try_for_each(|line| writeln!(out, "  {}", plain(line.replace('\t', "    "))))
}
