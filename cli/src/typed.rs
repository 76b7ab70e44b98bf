//! What was typed, and what is said about it if it is no command.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser};
use mala_config::parse_duration;
use mala_core::AgentId;

use crate::error::{CliError, Code};
use crate::ui::Ui;
use crate::{Cli, command};

/// Names the agent where no option does.
const AGENT: &str = "MALA_AGENT";

impl Cli {
    /// What was typed. If that is no command, this says so; if it asks for help, this gives it and ends the process.
    pub(crate) fn typed() -> Result<Self, Code> {
        let explained = |_| command().try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        Self::try_parse().or_else(explained).map_err(|error| {
            if !error.use_stderr() {
                error.exit();
            }
            let words: Vec<OsString> = std::env::args_os().take_while(|word| word != "--").collect();
            let ui = Ui::new(words.iter().any(|word| word == "--json"));
            if let Some(error) = bad_variable(&error, &words) {
                ui.error(&error);
                return error.exit_code();
            }
            let wrong = wrong_usage(&error);
            if error.kind() == ErrorKind::MissingSubcommand {
                // What clap prints lists hidden commands, too.
                ui.error(&wrong);
                return wrong.exit_code();
            }
            ui.error_document(&wrong);
            // Nothing can be done about a closed stderr.
            let _ = error.print();
            wrong.exit_code()
        })
    }
}

/// The duration that was typed for an option.
pub(crate) fn duration(option: &str, text: &str) -> Result<Duration, CliError> {
    parse_duration(text).map_err(|error| CliError::usage(format!("bad value for `{option}`: {error}")))
}

/// The variable that is to blame, where clap would blame the option that it stands for.
fn bad_variable(error: &clap::Error, words: &[OsString]) -> Option<CliError> {
    let is_option = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--agent"));
    if !error.to_string().contains("--agent <NAME>") || words.iter().any(is_option) {
        return None;
    }
    let bad = AgentId::new(std::env::var(AGENT).ok()?).err()?;
    let error = CliError::usage(format!("bad value for `{AGENT}`: {bad}"));
    Some(error.hint(format!("give it the name of an agent, or none: unset {AGENT}")))
}

/// What clap has to say, as an error like all others.
fn wrong_usage(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let lines = || text.lines().map(str::trim);
    let usage = lines().find_map(|line| line.strip_prefix("Usage: "));
    let usage = usage.map_or_else(
        || "see what it takes: the same command with `--help`".to_owned(),
        |usage| format!("write it like this: {usage}"),
    );
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    ) {
        // Its text is the whole help, or a list of all commands.
        return CliError::usage("a command is missing").hint(usage).hint("see which there are: `--help`");
    }
    let tips = lines().filter_map(|line| line.strip_prefix("tip: ")).map(str::to_owned);
    tips.fold(CliError::usage(complaint(&text)), CliError::hint).hint(usage)
}

/// What is wrong, of all that clap says about it.
pub(crate) fn complaint(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let complaint = lines.join(" ");
    complaint.strip_prefix("error: ").unwrap_or(&complaint).to_owned()
}
