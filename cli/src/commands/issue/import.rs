use std::path::PathBuf;

use clap::Args;
use mala_core::file::ISSUES;
use serde_json::json;

use super::desk;
use crate::context::Context;
use crate::error::{CliError, Code};

/// Take over the issues of another tracker
///
/// Reads the JSONL that `br` and `bd` export. Importing the same file again changes nothing; all lines are taken, or none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala issue import .beads/issues.jsonl
  br export | mala issue import -")]
pub(crate) struct ImportArgs {
    /// The file; `-` is standard input
    file: PathBuf,
}

pub(crate) fn cmd_import(args: &ImportArgs, context: &Context) -> Result<Code, CliError> {
    let (mut store, who) = desk(context)?;
    let text = if args.file.as_os_str() == "-" {
        context.read_input(ISSUES)?
    } else {
        let hint = "give a file that `br export` or `bd export` has written, or `-` for standard input";
        context.read_text(&args.file, ISSUES).map_err(|error| error.hint(hint))?
    };
    let issues = mala_issues::read_export(&text).map_err(|error| {
        CliError::usage(error).hint("nothing was taken over; correct the line and try again")
    })?;
    let imported = store.import_issues(&who, &issues)?;
    for (id, other) in &imported.dangling {
        context.ui.warning(&format!("{id} needs {other}, which is not known, so it will not become ready"));
    }
    let (added, changed, unchanged) = (imported.added.len(), imported.changed.len(), imported.unchanged);
    let body = json!({ "added": imported.added, "changed": imported.changed, "unchanged": unchanged });
    context
        .ui
        .answer(&body, |out| writeln!(out, "{added} added, {changed} changed, {unchanged} as they were"))?;
    Ok(Code::SUCCESS)
}
