use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Code};

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala man | man -l -
  mala man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder for one page per command
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn cmd_man(args: &ManArgs, context: &Context) -> Result<Code, CliError> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(crate::command()).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(Code::SUCCESS);
    };
    let folder = context.cwd.join(folder);
    let shown = folder.display().to_string();
    fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(crate::command(), &folder)).map_err(
        |error| {
            CliError::usage(format!("cannot write the manual pages to `{shown}`: {error}"))
                .hint("name a folder that you may write to: mala man --out DIR")
        },
    )?;
    context
        .ui
        .answer(&json!({ "folder": shown }), |out| writeln!(out, "wrote the manual pages to {shown}"))?;
    Ok(Code::SUCCESS)
}
