//! The server itself: calls come in, each runs on a thread of its own, answers go out.

use std::io;
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode,
    Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext, RoleServer, serve_server_with_ct};
use rmcp::transport::stdio_pipes;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::lines::Lines;
use super::port::{CommandLine, Commands, Leash, Ran};
use super::reply::{failure, reply};
use super::tools::{TOOLS, Tool, find};

/// How often somebody who wants to know is told that a call still runs.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long commands may take to end once the client has gone.
const GOODBYE: Duration = Duration::from_secs(5);

/// What a model is told about all tools together.
const INSTRUCTIONS: &str = "Several agents share this git checkout. A file belongs to whoever locks or writes it first; \
     a refused call names the holder and what to do. Lock what you will change, release what you are done with, answer \
     those who ask, run tests with test_run, commit with commit.";

/// Serves the client at this process's standard streams until it leaves or a signal asks to stop.
pub fn serve(commands: Arc<dyn Commands>, version: &str) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(talk(commands, version));
    // A read that nobody will answer, or a command that does not let go, must not hold up the end.
    runtime.shutdown_timeout(GOODBYE);
    served
}

async fn talk(commands: Arc<dyn Commands>, version: &str) -> io::Result<()> {
    let ended = CancellationToken::new();
    let stopped = CancellationToken::new();
    watch_signals(&ended, &stopped)?;
    let left = CancellationToken::new();
    watch_input(&left)?;
    let (input, output) = stdio_pipes();
    let lines = Lines::new(input, output, ended.clone(), left);
    let server = Server { commands, version: version.to_owned(), ended };
    // Whoever leaves, or is stopped, before it has said what it wants has got what it wanted.
    if let Ok(running) = serve_server_with_ct(server, lines, stopped).await {
        running.waiting().await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Sees that the client has closed its side, also while nothing is read because it does not read its answers.
fn watch_input(left: &CancellationToken) -> io::Result<()> {
    // A socket of which only that side is closed says so only to those who ask (poll(2)).
    #[cfg(target_os = "linux")]
    let closed = PollFlags::from_bits_retain(0x2000);
    #[cfg(not(target_os = "linux"))]
    let closed = PollFlags::empty();
    let left = left.clone();
    thread::Builder::new().spawn(move || {
        let input = io::stdin();
        let mut fds = [PollFd::new(input.as_fd(), closed)];
        while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
        left.cancel();
    })?;
    Ok(())
}

/// Signals that ask to stop end everything as the end of the input does.
fn watch_signals(ended: &CancellationToken, stopped: &CancellationToken) -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind)?;
        let (ended, stopped) = (ended.clone(), stopped.clone());
        tokio::spawn(async move {
            signals.recv().await;
            ended.cancel();
            stopped.cancel();
        });
    }
    Ok(())
}

pub(super) struct Server {
    pub(super) commands: Arc<dyn Commands>,
    pub(super) version: String,
    /// Cancelled when nobody is left to answer to.
    pub(super) ended: CancellationToken,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("mala", self.version.clone());
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(Tool::listed).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = find(&request.name).ok_or_else(|| unknown(&request.name))?;
        let arguments = match Arguments::check(tool.fields, request.arguments) {
            Ok(arguments) => arguments,
            Err(objections) => {
                let hint = format!("call {} again with arguments that fit its schema", tool.name);
                return Ok(failure(&objections, &hint).into());
            }
        };
        let line = tool.command(&arguments);
        let result = self.run(tool, line, &context).await;
        Ok(result.map_err(|error| ErrorData::internal_error(error.to_string(), None))?.into())
    }

    /// What comes here has a method that the library does not know, or one that it knows with parameters that do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(80).collect();
        let method = method.escape_debug();
        Err(match request.method.as_str() {
            "tools/call" => {
                let text = "`tools/call` takes `name`, a text, and `arguments`, an object";
                ErrorData::new(ErrorCode::INVALID_PARAMS, text, None)
            }
            "initialize" | "tools/list" => {
                let text = format!("the parameters of `{method}` do not fit the protocol");
                ErrorData::new(ErrorCode::INVALID_PARAMS, text, None)
            }
            _ => {
                let text =
                    format!("there is no method `{method}`; this server has tools: tools/list, tools/call");
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None)
            }
        })
    }
}

fn unknown(name: &str) -> ErrorData {
    let name: String = name.chars().take(80).collect();
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let text = format!("there is no tool `{}`; there are {}", name.escape_debug(), names.join(", "));
    ErrorData::new(ErrorCode::INVALID_PARAMS, text, None)
}

impl Server {
    /// Runs the command beside everything else, and lets go of it when the call is over for any reason.
    async fn run(
        &self,
        tool: &'static Tool,
        line: CommandLine,
        context: &RequestContext<RoleServer>,
    ) -> io::Result<CallToolResult> {
        let (leash, hand) = Leash::new()?;
        let mut hand = Some(hand);
        let remarks = Arc::clone(leash.remarks());
        let commands = Arc::clone(&self.commands);
        let mut work: JoinHandle<Option<Ran>> = spawn_blocking(move || {
            // What the panic was about has gone to standard error.
            panic::catch_unwind(AssertUnwindSafe(|| commands.run(&line, &leash))).ok()
        });
        let token = context.meta.get_progress_token();
        let began = Instant::now();
        let mut ticks = interval_at(began + TELL_EVERY, TELL_EVERY);
        let ran = loop {
            tokio::select! {
                ran = &mut work => break ran,
                () = context.ct.cancelled(), if hand.is_some() => hand = None,
                () = self.ended.cancelled(), if hand.is_some() => hand = None,
                _ = ticks.tick(), if token.is_some() => {
                    let said = remarks.last_line().map(|line| self.commands.shown(line));
                    // A client that does not read keeps nobody from seeing that it has left.
                    tokio::select! {
                        () = tell(&context.peer, token.as_ref(), began.elapsed(), said) => {}
                        () = context.ct.cancelled(), if hand.is_some() => hand = None,
                        () = self.ended.cancelled(), if hand.is_some() => hand = None,
                    }
                }
            }
        };
        Ok(match ran {
            Ok(Some(ran)) => reply(tool, &ran, &self.commands.shown(remarks.text())),
            Ok(None) | Err(_) => failure(
                &format!("mala failed while it ran {}; nothing is known about the outcome", tool.name),
                "look at the state with lock_status before you try again, and tell a person: mala doctor",
            ),
        })
    }
}

/// Progress is told in seconds, with the last thing that the command said.
async fn tell(peer: &Peer<RoleServer>, token: Option<&ProgressToken>, gone: Duration, said: Option<String>) {
    let Some(token) = token else { return };
    let mut progress = ProgressNotificationParam::new(token.clone(), gone.as_secs_f64());
    progress.message = said;
    // A client that does not hear it still gets its answer.
    let _ = peer.notify_progress(progress).await;
}
