//! One file per command.

mod clean;
mod commit;
mod completions;
mod config;
mod demo;
mod diff;
mod doctor;
mod exec;
pub(crate) mod gate;
pub(crate) mod hook;
mod init;
mod issue;
mod land;
pub(crate) mod lock;
mod logs;
mod man;
mod mcp;
mod msg;
mod offer;
mod queue;
mod restore;
mod run;
pub(crate) mod status;
pub(crate) mod test;
mod wait;
mod whoami;

use clap::Subcommand;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::later::Later;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Later<run::RunArgs>),
    #[command(subcommand)]
    Issue(Later<issue::IssueCommand>),
    #[command(subcommand)]
    Lock(Later<lock::LockCommand>),
    #[command(subcommand)]
    Msg(Later<msg::MsgCommand>),
    Status(Later<status::StatusArgs>),
    Logs(Later<logs::LogsArgs>),
    Clean(Later<clean::CleanArgs>),
    Init(Later<init::InitArgs>),
    Doctor(Later<doctor::DoctorArgs>),
    Config(Later<config::ConfigArgs>),
    Exec(Later<exec::ExecArgs>),
    Test(Later<test::TestArgs>),
    Commit(Later<commit::CommitArgs>),
    Land(Later<land::LandArgs>),
    Queue(Later<queue::QueueArgs>),
    Wait(Later<wait::WaitArgs>),
    Diff(Later<diff::DiffArgs>),
    Restore(Later<restore::RestoreArgs>),
    #[command(hide = true)]
    Offer(Later<offer::OfferArgs>),
    #[command(subcommand)]
    Gate(Later<gate::GateCommand>),
    Hook(Later<hook::HookArgs>),
    Mcp(Later<mcp::McpArgs>),
    Whoami(Later<whoami::WhoamiArgs>),
    Demo(Later<demo::DemoArgs>),
    Completions(Later<completions::CompletionsArgs>),
    Man(Later<man::ManArgs>),
}

pub(crate) fn run(command: Command, context: &Context) -> Result<Code, CliError> {
    match command {
        Command::Run(Later(args)) => run::cmd_run(&args, context),
        Command::Issue(Later(command)) => issue::run(command, context),
        Command::Lock(Later(command)) => lock::run(command, context),
        Command::Msg(Later(command)) => msg::run(command, context),
        Command::Status(Later(args)) => status::cmd_status(&args, context),
        Command::Logs(Later(args)) => logs::run(&args, context),
        Command::Clean(Later(args)) => clean::cmd_clean(&args, context),
        Command::Init(Later(args)) => init::cmd_init(&args, context),
        Command::Doctor(Later(args)) => doctor::cmd_doctor(&args, context),
        Command::Config(Later(args)) => config::cmd_config(&args, context),
        Command::Exec(Later(args)) => exec::cmd_exec(&args, context),
        Command::Test(Later(args)) => test::cmd_test(&args, context),
        Command::Gate(Later(command)) => gate::run(command, context),
        Command::Hook(Later(args)) => hook::cmd_hook(&args, context),
        Command::Mcp(Later(args)) => mcp::cmd_mcp(&args, context),
        Command::Commit(Later(args)) => commit::cmd_commit(&args, context),
        Command::Land(Later(args)) => land::cmd_land(&args, context),
        Command::Queue(Later(args)) => queue::run(&args, context),
        Command::Wait(Later(args)) => wait::cmd_wait(&args, context),
        Command::Diff(Later(args)) => diff::cmd_diff(&args, context),
        Command::Restore(Later(args)) => restore::cmd_restore(&args, context),
        Command::Offer(Later(args)) => offer::cmd_offer(&args, context),
        Command::Whoami(Later(args)) => whoami::cmd_whoami(&args, context),
        Command::Demo(Later(args)) => demo::cmd_demo(&args, context),
        Command::Completions(Later(args)) => completions::cmd_completions(&args),
        Command::Man(Later(args)) => man::cmd_man(&args, context),
    }
}

impl Command {
    /// True if the command works on the store of a checkout.
    pub(crate) fn needs_store(&self) -> bool {
        match self {
            Self::Issue(_)
            | Self::Lock(_)
            | Self::Msg(_)
            | Self::Status(_)
            | Self::Logs(_)
            | Self::Clean(_)
            | Self::Whoami(_)
            | Self::Hook(_)
            | Self::Offer(_)
            | Self::Land(_)
            | Self::Queue(_)
            | Self::Wait(_)
            | Self::Gate(_) => true,
            // Outside, a test runs right here.
            Self::Test(Later(args)) => args.is_for_supervisor(),
            // So does a commit, with the repository's hooks: they may be the agent's own. To take one back runs none.
            Self::Commit(Later(args)) => args.is_undo(),
            Self::Init(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Exec(_)
            | Self::Mcp(_)
            | Self::Run(_)
            // What these write is the agent's own to write, and git has all that they need to know.
            | Self::Diff(_)
            | Self::Restore(_)
            | Self::Demo(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}
