//! The command line of mala: what was typed, what it means, and how the answer is shown.
//!
//! Each command is one file in [`commands`]: its arguments, then what it does. Commands call the libraries and turn
//! results into text or JSON; they contain no rules of their own.

mod commands;
mod context;
mod error;
mod file_limit;
mod hook_repair;
mod json;
mod later;
mod mcp;
mod run;
mod state_folders;
mod typed;
mod ui;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use clap::Parser;
use mala_config::user_state_dir;
use mala_core::{Scope, sharing};
use mala_logs::telemetry;
use mala_session::supervisor_socket::{self, CommandRequest};
use mala_store::process;

use commands::Command;
use context::{Behalf, Context};
use error::{CliError, Code};
use ui::Ui;

/// Runs several coding agents in one git checkout and keeps them from hurting each other.
#[derive(Debug, Parser)]
#[command(name = "mala", bin_name = "mala", version, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 refused, 2 wrong usage or configuration, 3 mala itself failed.

Example:
  mala lock acquire src/main.rs --agent alice
  mala status")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// Answer with one JSON document on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Work as if started in DIR
    #[arg(short = 'C', global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Runs the program with the process's own arguments.
pub fn main() -> ExitCode {
    let cli = match Cli::typed() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code.0),
    };
    if matches!(cli.command, Command::Exec(_)) {
        // Signals are for the command it runs. Before any thread is there that would be ended by them.
        mala_sandbox::take_signals();
    }
    file_limit::survive();
    know_this_machine();
    mala_sandbox::expect_children();
    mala_sandbox::keep_sqlite_locks();
    // Clients go on if their hook fails in any way but this one.
    let failure = if matches!(cli.command, Command::Hook(_)) { Some(commands::hook::DENIED) } else { None };
    let json = cli.global.json;
    let is_redundant = matches!(&cli.command, Command::Hook(args) if args.0.is_redundant());
    let is_for_supervisor = cli.command.needs_store() && !is_redundant;
    let code = match supervisor_socket::supervisor().filter(|_| is_for_supervisor) {
        // Inside an agent's process tree the supervisor acts: nothing in there may touch the store.
        Some(supervisor) => supervisor_socket::ask(&supervisor).map(Code).map_err(CliError::from),
        None => current_directory().map(|here| cli.run_traced(here)),
    };
    let code = code.unwrap_or_else(|error| {
        Ui::new(json).error(&error);
        failure.unwrap_or_else(|| error.exit_code())
    });
    // No process of mala's outlives it, not even for a moment.
    mala_git::close_object_readers(Duration::ZERO);
    ExitCode::from(code.0)
}

/// Where the command was typed.
fn current_directory() -> Result<PathBuf, CliError> {
    env::current_dir().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CliError::usage("the directory that you are in does not exist any more")
            .hint("go to one that exists: cd \"$PWD\", if it was made again, or: cd"),
        _ => CliError::failed(error).hint("go to a directory that you may read, such as: cd"),
    })
}

/// Others who share the repository can use what this command has written.
fn share_state(here: &Path) {
    if let Ok(scope) = Scope::discover(here)
        && let Some(git_dir) = scope.state_dir().parent()
        && let Err(error) = sharing::settle(git_dir)
    {
        Ui::new(false).warning(&format!("others may be kept out of mala's files: {error}"));
    }
}

/// Says where the id of this machine is kept. Without a home directory it has none.
fn know_this_machine() {
    let state = user_state_dir(env::var_os("XDG_STATE_HOME").as_deref(), env::var_os("HOME").as_deref());
    if let Some(state) = state {
        process::keep_node_id_in(state.join("node-id"));
    }
}

impl Cli {
    /// Runs a command of this process, with telemetry where a collector is named.
    fn run_traced(self, here: PathBuf) -> Code {
        if matches!(self.command, Command::Hook(_)) {
            // Clients wait for it.
            return self.run(here, Ui::new, Behalf::Own);
        }
        let telemetry = telemetry::init("mala", &|name| env::var(name).ok());
        let place =
            self.global.directory.as_ref().map_or_else(|| here.clone(), |directory| here.join(directory));
        let code = self.run(here, Ui::new, Behalf::Own);
        share_state(&place);
        if let Some(trouble) = telemetry.finish() {
            Ui::new(false).warning(&trouble.to_string());
        }
        code
    }

    /// Runs a command that was typed in the folder `here`.
    fn run(self, here: PathBuf, ui: impl FnOnce(bool) -> Ui, behalf: Behalf) -> Code {
        let ui = ui(self.global.json);
        let outcome = Context::new(here, self.global.directory.as_deref(), ui.clone(), behalf)
            .and_then(|context| commands::run(self.command, &context));
        match outcome {
            Ok(code) => code,
            Err(error) if error.is_closed_pipe() => Code::SUCCESS,
            Err(error) => {
                ui.error(&error);
                error.exit_code()
            }
        }
    }
}

/// Runs a command for a process of an agent's tree. Nothing but the store is served: other commands would run out here with
/// rights that the tree does not have.
fn run_for_tree(request: CommandRequest) -> u8 {
    let CommandRequest { here, args, streams, supervised } = request;
    match Cli::try_parse_from(args) {
        Ok(cli) if cli.command.needs_store() => {
            let streams = Arc::new(streams);
            cli.run(here, |json| Ui::for_client(json, streams), Behalf::Tree(supervised)).0
        }
        Ok(_) | Err(_) => error::USAGE,
    }
}

/// The program as clap knows it, for help, completions and the manual page.
fn command() -> clap::Command {
    let run = json("Tell what happens as JSON on stdout, one object per line; with --dry-run, one document");
    let tail = json("Show events as JSON on stdout, one object per line");
    later::all::<Cli>()
        .mut_subcommand("run", |command| command.arg(run))
        .mut_subcommand("logs", |logs| logs.mut_subcommand("tail", |command| command.arg(tail)))
}

/// [`Global::json`] of a command that does not answer with one document, in its own words.
fn json(help: &'static str) -> clap::Arg {
    clap::Arg::new("json").long("json").action(clap::ArgAction::SetTrue).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "`{path}` has no description");
            for sub in command.get_subcommands() {
                check(sub, &path);
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example") && help.contains(path.trim()), "`{path}` shows no example");
        }
        check(&command(), "");
    }

    #[test]
    fn arguments_may_be_any_bytes() {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;

        let path = OsString::from_vec(b"\xff".to_vec());
        assert!(Cli::try_parse_from([OsString::from("mala"), "lock".into(), "check".into(), path]).is_ok());
    }
}
