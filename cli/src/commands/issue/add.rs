use std::ffi::OsStr;

use clap::Args;
use mala_core::claim::{Reading, TargetError};
use mala_core::file::MESSAGE;
use mala_core::{IssueId, Mode, Pattern, Priority, Scope, Target};
use mala_store::{IssueError, IssueName, NewIssue, StoreError};
use serde_json::json;

use super::desk;
use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Add an issue
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala issue add 'Parse empty files' --priority 1 --file src/parse.rs
  mala issue add 'Document it' --after bd-1 --label docs")]
pub(crate) struct AddArgs {
    /// What is to be done, in a line
    title: String,
    /// Its id [default: `bd-` and the next number]
    #[arg(long, value_name = "ID", value_parser = |text: &str| IssueId::given(text))]
    id: Option<IssueId>,
    /// What is to be done, in full; `-` reads it from standard input
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    description: String,
    /// How it is to be done
    #[arg(long, value_name = "TEXT", default_value = "")]
    design: String,
    /// When it is done
    #[arg(long, value_name = "TEXT", default_value = "")]
    acceptance: String,
    /// From 0, the most urgent, to 4
    #[arg(long, short, value_name = "N", default_value = "2")]
    priority: u8,
    /// `task`, `bug`, `epic` or another word
    #[arg(long, value_name = "KIND", default_value = "task")]
    kind: String,
    /// Issue that must be closed first; may be repeated
    #[arg(long, value_name = "ID")]
    after: Vec<IssueId>,
    /// File, folder or pattern it will touch, as it is called in the current folder; may be repeated
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Word attached to it; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Epic it belongs to
    #[arg(long, value_name = "ID")]
    parent: Option<IssueId>,
}

pub(crate) fn cmd_add(args: &AddArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, who) = desk(context)?;
    let scope = context.scope()?;
    let new = NewIssue {
        name: match &args.id {
            Some(id) => IssueName::Given(id.clone()),
            None => IssueName::Numbered { prefix: "bd".to_owned() },
        },
        title: args.title.clone(),
        description: text(&args.description, context)?,
        design: args.design.clone(),
        acceptance: args.acceptance.clone(),
        priority: Priority::try_from(args.priority).map_err(CliError::usage)?,
        kind: args.kind.clone(),
        labels: args.labels.clone(),
        needs: args.after.clone(),
        files: args.files.iter().map(|file| from_the_top(file, &scope, context)).collect::<Result<_, _>>()?,
        parent: args.parent.clone(),
    };
    let issue = store.add_issue(&who, &new)?;
    context
        .ui
        .answer(&json!({ "issue": issue }), |out| writeln!(out, "{}: {}", issue.id, plain(&issue.title)))?;
    Ok(Code::SUCCESS)
}

/// What was typed in some folder, as it is called at the top of the checkout: agents and other trackers know nothing of folders.
fn from_the_top(typed: &str, scope: &Scope, context: &Context) -> Result<String, CliError> {
    let want = scope.want(&context.cwd, OsStr::new(typed), Mode::Exclusive, Reading::Guess);
    let name = match want.map_err(|error| not_a_file(typed, error))?.target {
        Target::File(key) => Pattern::literal(key.as_bytes()).text().to_vec(),
        target => target.as_bytes().to_vec(),
    };
    String::from_utf8(name).map_err(|error| {
        CliError::usage(format!("`{}` cannot be named by an issue: {}", plain(typed), error.utf8_error()))
            .hint("name a pattern that stands for it: a `?` is any character")
    })
}

fn not_a_file(typed: &str, error: TargetError) -> CliError {
    match error {
        TargetError::Pattern(source) => {
            StoreError::from(IssueError::BadFile { text: typed.to_owned(), source }).into()
        }
        TargetError::Key(error) => CliError::usage(error).hint("an issue names files of its own checkout"),
    }
}

fn text(given: &str, context: &Context) -> Result<String, CliError> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    context.read_input(MESSAGE)
}
