use std::io;

use clap::Args;
use clap_complete::Shell;

use crate::error::{CliError, Code};

/// Print the completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala completions bash > ~/.local/share/bash-completion/completions/mala
  mala completions fish > ~/.config/fish/completions/mala.fish")]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

pub(crate) fn cmd_completions(args: &CompletionsArgs) -> Result<Code, CliError> {
    // Into memory first: the generator panics if its output goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "mala", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(Code::SUCCESS)
}
