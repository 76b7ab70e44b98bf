use clap::Args;
use mala_core::IssueId;
use mala_core::file::MESSAGE;
use serde_json::json;

use super::desk;
use crate::context::Context;
use crate::error::{CliError, Code};

/// Add a note to an issue; the next agent reads it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala issue note bd-1 'The parser is in src/parse.rs'
  git diff | mala issue note bd-1 -")]
pub(crate) struct NoteArgs {
    /// The issue
    id: IssueId,
    /// What to say; `-` reads it from standard input
    text: String,
}

pub(crate) fn cmd_note(args: &NoteArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, who) = desk(context)?;
    let text = if args.text == "-" { context.read_input(MESSAGE)? } else { args.text.clone() };
    let note = store.note(&who, &args.id, &text)?;
    context
        .ui
        .answer(&json!({ "issue": args.id, "note": note }), |out| writeln!(out, "noted on {}", args.id))?;
    Ok(Code::SUCCESS)
}
