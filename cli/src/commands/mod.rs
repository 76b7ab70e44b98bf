//! One file per command.

mod clean;
mod completions;
mod demo;
mod doctor;
mod exec;
mod lock;
mod logs;
mod man;
mod status;

use clap::Subcommand;

use crate::context::Context;
use crate::error::{CliError, Code};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(subcommand)]
    Lock(lock::LockCommand),
    Status(status::StatusArgs),
    #[command(subcommand)]
    Logs(logs::LogsCommand),
    Clean(clean::CleanArgs),
    Doctor(doctor::DoctorArgs),
    Exec(exec::ExecArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

pub(crate) fn run(command: Command, context: &Context) -> Result<Code, CliError> {
    match command {
        Command::Lock(command) => lock::run(command, context),
        Command::Status(args) => status::cmd_status(&args, context),
        Command::Logs(command) => logs::run(command, context),
        Command::Clean(args) => clean::cmd_clean(&args, context),
        Command::Doctor(args) => doctor::cmd_doctor(&args, context),
        Command::Exec(args) => exec::cmd_exec(&args, context),
        Command::Demo(args) => demo::cmd_demo(&args, context),
        Command::Completions(args) => completions::cmd_completions(&args),
        Command::Man(args) => man::cmd_man(&args, context),
    }
}

impl Command {
    /// True if the command works on the store of a checkout.
    pub(crate) fn needs_store(&self) -> bool {
        match self {
            Self::Lock(_) | Self::Status(_) | Self::Logs(_) | Self::Clean(_) => true,
            Self::Doctor(_) | Self::Exec(_) | Self::Demo(_) | Self::Completions(_) | Self::Man(_) => false,
        }
    }
}
