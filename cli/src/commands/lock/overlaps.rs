use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use mala_core::Pattern;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Code};

/// Tell whether some path matches both patterns
///
/// Looks at the patterns alone, not at files. `\` takes the meaning from a special character.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock overlaps 'src/**' '**/*.rs'")]
pub(crate) struct OverlapsArgs {
    /// Path or pattern
    a: OsString,
    /// Path or pattern
    b: OsString,
}

pub(super) fn cmd_overlaps(args: &OverlapsArgs, context: &Context) -> Result<Code, CliError> {
    let parse = |text: &OsString| Pattern::parse(text.as_bytes()).map_err(CliError::usage);
    let overlap = parse(&args.a)?.overlaps(&parse(&args.b)?);
    context.ui.answer(&json!({ "overlap": overlap }), |out| {
        writeln!(out, "{}", if overlap { "they overlap" } else { "they do not overlap" })
    })?;
    Ok(Code::SUCCESS)
}
