use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use mala_agents::mcp;
use mala_session::supervisor_socket;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::mcp::Executor;

/// Serve mala's commands as tools to an agent client
///
/// Speaks the Model Context Protocol over standard input and output; clients start it themselves. Whoever started it is who
/// acts: the client's session, or the agent whose process tree it belongs to. See docs/mcp.md for how to register it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  claude mcp add mala -- mala mcp")]
pub(crate) struct McpArgs {}

pub(crate) fn cmd_mcp(_args: &McpArgs, context: &Context) -> Result<Code, CliError> {
    if supervisor_socket::supervisor().is_none() {
        find_supervisor(context)?;
    }
    mcp::serve(Arc::new(Executor::new(context)), env!("CARGO_PKG_VERSION"))?;
    Ok(Code::SUCCESS)
}

/// Clients that hand only a few variables on make an agent's tree look like none. Then this process starts again, told
/// where its supervisor is. A folder that is no checkout has no supervisors; there, every call will say what is wrong.
fn find_supervisor(context: &Context) -> Result<(), CliError> {
    let Ok(scope) = context.scope() else { return Ok(()) };
    let Some(socket) = supervisor_socket::find(&scope.state_dir().join("desk")) else { return Ok(()) };
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).env(supervisor_socket::VARIABLE, socket);
    Err(again.exec().into())
}
