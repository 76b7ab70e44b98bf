//! `mala issue`: the built-in tracker.

mod add;
mod close;
mod import;
mod list;
mod note;
mod show;

use std::io::Write;

use clap::Subcommand;
use mala_core::{Issue, PersonId, Who};
use mala_store::Store;

use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::{TITLE, plain, short, table};

/// Issues: what agents are given to do
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  mala issue add 'Parse empty files' --priority 1 --file src/parse.rs
  mala issue ready")]
pub(crate) enum IssueCommand {
    Add(add::AddArgs),
    List(list::ListArgs),
    Ready(list::ReadyArgs),
    Show(show::ShowArgs),
    Note(note::NoteArgs),
    Close(close::CloseArgs),
    Reopen(close::ReopenArgs),
    Import(import::ImportArgs),
}

pub(crate) fn run(command: IssueCommand, context: &Context) -> Result<Code, CliError> {
    match command {
        IssueCommand::Add(args) => add::cmd_add(&args, context),
        IssueCommand::List(args) => list::cmd_list(&args, context),
        IssueCommand::Ready(args) => list::cmd_ready(&args, context),
        IssueCommand::Show(args) => show::cmd_show(&args, context),
        IssueCommand::Note(args) => note::cmd_note(&args, context),
        IssueCommand::Close(args) => close::cmd_close(&args, context),
        IssueCommand::Reopen(args) => close::cmd_reopen(&args, context),
        IssueCommand::Import(args) => import::cmd_import(&args, context),
    }
}

/// The store, and who is at the keyboard: the agent whose session this is, or a person.
fn desk(context: &Context) -> Result<(Store, Who), CliError> {
    let mut store = open(&context.scope()?)?;
    let who = match context.bound_party(&mut store)? {
        Some(party) => Who::Agent(party.agent),
        None => Who::Person(person()?),
    };
    Ok((store, who))
}

pub(super) fn person() -> Result<PersonId, CliError> {
    let name = std::env::var("USER").ok().filter(|name| !name.trim().is_empty());
    Ok(PersonId::new(name.as_deref().unwrap_or("somebody").trim())?)
}

fn write_issues(out: &mut dyn Write, issues: &[Issue], nothing: &str) -> std::io::Result<()> {
    if issues.is_empty() {
        return writeln!(out, "{nothing}");
    }
    let rows: Vec<[String; 4]> = issues
        .iter()
        .map(|issue| {
            [
                issue.id.to_string(),
                issue.priority.number().to_string(),
                plain(&issue.status),
                short(&plain(&issue.title), TITLE),
            ]
        })
        .collect();
    table(out, ["ISSUE", "PRIORITY", "STATUS", "TITLE"], &rows)
}
