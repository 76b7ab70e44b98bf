//! One file per command.

mod clean;
mod commit;
mod completions;
mod demo;
mod doctor;
mod exec;
pub(crate) mod gate;
pub(crate) mod hook;
mod init;
mod issue;
pub(crate) mod lock;
mod logs;
mod man;
mod mcp;
mod msg;
mod run;
pub(crate) mod status;
pub(crate) mod test;
mod whoami;

use clap::Subcommand;

use crate::context::Context;
use crate::error::{CliError, Code};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::RunArgs),
    #[command(subcommand)]
    Issue(issue::IssueCommand),
    #[command(subcommand)]
    Lock(lock::LockCommand),
    #[command(subcommand)]
    Msg(msg::MsgCommand),
    Status(status::StatusArgs),
    #[command(subcommand)]
    Logs(logs::LogsCommand),
    Clean(clean::CleanArgs),
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Exec(exec::ExecArgs),
    Test(test::TestArgs),
    Commit(commit::CommitArgs),
    #[command(subcommand)]
    Gate(gate::GateCommand),
    Hook(hook::HookArgs),
    Mcp(mcp::McpArgs),
    Whoami(whoami::WhoamiArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

pub(crate) fn run(command: Command, context: &Context) -> Result<Code, CliError> {
    match command {
        Command::Run(args) => run::cmd_run(&args, context),
        Command::Issue(command) => issue::run(command, context),
        Command::Lock(command) => lock::run(command, context),
        Command::Msg(command) => msg::run(command, context),
        Command::Status(args) => status::cmd_status(&args, context),
        Command::Logs(command) => logs::run(command, context),
        Command::Clean(args) => clean::cmd_clean(&args, context),
        Command::Init(args) => init::cmd_init(&args, context),
        Command::Doctor(args) => doctor::cmd_doctor(&args, context),
        Command::Exec(args) => exec::cmd_exec(&args, context),
        Command::Test(args) => test::cmd_test(&args, context),
        Command::Gate(command) => gate::run(command, context),
        Command::Hook(args) => hook::cmd_hook(&args, context),
        Command::Mcp(args) => mcp::cmd_mcp(&args, context),
        Command::Commit(args) => commit::cmd_commit(&args, context),
        Command::Whoami(args) => whoami::cmd_whoami(&args, context),
        Command::Demo(args) => demo::cmd_demo(&args, context),
        Command::Completions(args) => completions::cmd_completions(&args),
        Command::Man(args) => man::cmd_man(&args, context),
    }
}

impl Command {
    /// True if the command works on the store of a checkout.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a desk wants to know"))]
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
            | Self::Gate(_) => true,
            // Outside, a test runs right here.
            Self::Test(args) => args.is_announcement(),
            // So does a commit, with the repository's hooks: they may be the agent's own.
            Self::Commit(_)
            | Self::Init(_)
            | Self::Doctor(_)
            | Self::Exec(_)
            | Self::Mcp(_)
            | Self::Run(_)
            | Self::Demo(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}
