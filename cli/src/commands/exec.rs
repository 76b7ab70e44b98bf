use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs};

use clap::Args;
use mala_config::{Settings, Unlocked};
use mala_core::shell::word;
use mala_core::{AgentId, AttemptId, IssueId, Owner, RunId, Scope};
use mala_gate::claim;
use mala_logs::telemetry::spans::{self, Span};
use mala_sandbox::{Exit, Jail, SandboxError, Unsupported};
use mala_session::background::{Background, Task};
use mala_session::supervisor_socket::{self, SupervisorSocket};
use mala_session::{
    Ignored, IgnoredAhead, LostLock, RefusedWrite, StoreGuard, TurnRules, Turns, git_guard, jail,
};
use mala_store::process::{self, Process};
use mala_store::{Party, Store, StoreError};
use serde_json::json;

use crate::background::start as start_background;
use crate::context::{Context, open};
use crate::error::{CliError, Code, NotStarted, REFUSED};
use crate::ui::{RED, Ui, YELLOW, plain};
use crate::{run_for_tree, state_folders};

/// How often open files are compared with locks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Run a command as an agent that cannot write what others hold
///
/// Every process the command starts is held to the agent's locks by the kernel, whatever does the writing. A file that
/// nobody holds is taken by its first writer. When the command ends, its whole process tree ends and its locks are free.
/// Its exit code is passed on (128 + signal if a signal ended it). With `--json` its output goes to stderr.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala exec --agent alice -- claude
  mala exec --agent bob --issue bd-12 --strict -- sh -c 'make test'")]
pub(crate) struct ExecArgs {
    /// Name of the agent
    #[arg(long, value_name = "NAME")]
    agent: AgentId,
    /// Issue that is worked on
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// Refuse to change files that were not locked beforehand; new files are still the agent's (also:
    /// `enforcement.unlocked = "deny"` in the settings)
    #[arg(long)]
    strict: bool,
    /// Do not run at all where the kernel cannot enforce (also: `enforcement.require_kernel = true`)
    #[arg(long)]
    require_kernel: bool,
    /// Run that the agent works for
    #[arg(long, value_name = "ID", hide = true)]
    run: Option<RunId>,
    /// Attempt that the agent is for
    #[arg(long, value_name = "NUMBER", hide = true)]
    attempt: Option<i64>,
    /// Process that the agent's locks live with, and without which it does not go on
    #[arg(long, value_name = "PID", hide = true)]
    owner_pid: Option<u32>,
    /// Leave the locks to their owner when the command ends
    #[arg(long, requires = "owner_pid", hide = true)]
    keep_locks: bool,
    /// Where to write what kept mala itself from running the command
    #[arg(long, value_name = "FILE", hide = true)]
    failure_file: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn cmd_exec(args: &ExecArgs, context: &Context) -> Result<Code, CliError> {
    let ended = supervise(args, context);
    if let (Err(error), Some(file)) = (&ended, &args.failure_file) {
        tell_failure(error, file);
    }
    conclude(args, context, &ended?)
}

/// A run must not take mala's own failure for one of its agents. That a program cannot be started is the profile's fault, and an
/// agent that has run is judged by what it did, however it ended.
fn tell_failure(error: &CliError, file: &Path) {
    let has_run = error.source.downcast_ref::<SandboxError>().is_some_and(SandboxError::is_after_start);
    if !has_run && !error.source.is::<NotStarted>() {
        let _ = file.parent().map(fs::create_dir_all);
        // Without it, it counts as the agent's.
        let _ = fs::write(file, error.messages().join(": "));
    }
}

/// An agent whose tree is gone.
struct Ended {
    party: Party,
    guard: Arc<StoreGuard>,
    session: Span,
    exit: Exit,
    is_enforced: bool,
}

/// Runs the command as an agent, until nothing of its tree is left.
fn supervise(args: &ExecArgs, context: &Context) -> Result<Ended, CliError> {
    let scope = context.scope()?;
    let mut settings = context.settings(&scope, Vec::new())?;
    let kernel = jail::kernel(&scope);
    if kernel == Err(Unsupported::AlreadyInside) {
        let message = "`mala exec` does not nest: this process belongs to an agent's tree already, and is held to its locks";
        let hint = "run the command as it is; another agent is started outside of this one's tree";
        return Err(CliError::refused(message).hint(hint));
    }
    if let Err(why) = &kernel {
        let message = format!("the kernel does not protect anybody here: {why}");
        if args.require_kernel || settings.enforcement.require_kernel {
            return Err(CliError::refused(message).hint("see what protects you: mala doctor"));
        }
        context.ui.note("unprotected", YELLOW, &message);
    }
    #[cfg(target_os = "linux")]
    jail::freeze_git()?;
    let ignored = Arc::new(Ignored::in_checkout(&scope));
    let looking =
        kernel.is_ok().then(|| IgnoredAhead::start(&ignored, jail::index_file(&scope))).transpose()?;
    let owner =
        args.owner_pid.map(|pid| Process::find(pid).ok_or(StoreError::NoProcess { pid })).transpose()?;
    let party = Party {
        agent: args.agent.clone(),
        owner: owner.as_ref().map_or_else(process::current, Process::owner),
        supervised: true,
        issue: args.issue.clone(),
        run: args.run.clone(),
    };
    let mut store = open(&scope)?;
    state_folders::check(&scope)?;
    join(&mut store, &party)?;
    claim::note(&mut store, &scope, &party)?;
    let attempt = args.attempt.map(AttemptId);
    // Whoever ends the attempt later finds this process by it.
    attempt.map(|attempt| store.supervise(attempt, &process::current())).transpose()?;
    if args.strict {
        settings.enforcement.unlocked = Unlocked::Deny;
    }
    let session = spans::agent(&party.agent, &profile(args));
    let turns = Turns::new(scope.clone(), party.clone(), TurnRules::from(&settings), session.clone());
    let guard = Arc::new(StoreGuard::new(store, &party, turns, &settings, Arc::clone(&ignored))?);
    let beside = beside(&scope, &party, &settings, &guard, &context.ui);
    let is_enforced = kernel.is_ok();
    let exit = match kernel {
        Ok(_) => {
            let desk = SupervisorSocket::open(&scope.state_dir().join("desk"), &party, &guard, run_for_tree)?;
            let _watch =
                owner.as_ref().map(|_| OwnerWatch::start(&party.owner, Some(desk.socket()))).transpose()?;
            let mut exempt = looking.map(IgnoredAhead::end).unwrap_or_default();
            exempt.retain(|folder| !guard.is_held_by_others(folder, true));
            let exempt = exempt.iter().map(|folder| scope.root().join(folder)).collect();
            run_enforced(args, context, &jail::jail(&scope, exempt), &desk, &guard)
        }
        Err(_) => {
            let _watch = owner.as_ref().map(|_| OwnerWatch::start(&party.owner, None)).transpose()?;
            run_plain(args, context)
        }
    };
    drop(beside);
    guard.turns().settle();
    guard.tree_ended();
    // The tree is dead, so what its git left is nobody's. Threads that end with the process may keep the guard until then.
    guard.git_guard().end();
    if let Some(attempt) = attempt {
        // If that fails, the attempt names a process that has ended.
        let _ = Store::open(&scope).and_then(|mut store| store.end_supervision(attempt, &process::current()));
    }
    // If the command was not started, the agent keeps what it held before.
    Ok(Ended { party, guard, session, exit: exit?, is_enforced })
}

fn conclude(args: &ExecArgs, context: &Context, ended: &Ended) -> Result<Code, CliError> {
    let Ended { party, guard, session, exit, is_enforced } = ended;
    if !args.keep_locks {
        guard.release_all()?;
    }
    spans::ended(session, exit.code, exit.signal);
    guard.turns().end_span();
    report(context, party, guard, *exit, *is_enforced)?;
    Ok(code(*exit))
}

/// What kind of agent it is: nobody knows more than the program's name here.
fn profile(args: &ExecArgs) -> String {
    let program = Path::new(&args.command[0]).file_name().unwrap_or_default();
    program.to_string_lossy().into_owned()
}

/// Registers the agent, unless somebody else is running under its name.
fn join(store: &mut Store, party: &Party) -> Result<(), CliError> {
    store.join(party).map_err(|error| match error {
        runs @ StoreError::AgentRuns { .. } => {
            CliError::refused(runs).hint("choose another name, or end that one first")
        }
        other => other.into(),
    })
}

/// What goes on beside the agent: its open files are compared with its locks, its leases renewed, and what is due is done.
fn beside(scope: &Scope, party: &Party, settings: &Settings, guard: &Arc<StoreGuard>, ui: &Ui) -> Background {
    let tasks = vec![
        watch(guard, ui),
        sum_up(guard),
        Task::renew(scope, &party.agent, settings),
        Task::escalate(scope),
        Task::sweep(scope, settings),
    ];
    start_background(tasks, ui)
}

/// Says it loudly if the tree goes on writing to a file whose lock it has lost.
fn watch(guard: &Arc<StoreGuard>, ui: &Ui) -> Task {
    let (guard, ui) = (guard.clone(), ui.clone());
    Task::new("compare open files with locks", LOOK_AGAIN, move || {
        guard.git_guard().clear();
        guard.record_commits();
        for LostLock { key, writer, holder } in guard.lost()? {
            let now = holder.map(|agent| format!("; it belongs to `{agent}` now")).unwrap_or_default();
            let text = format!(
                "`{}` is still open in {} (pid {}){now}: end it before it writes",
                plain(&key),
                plain(&writer.program),
                writer.pid
            );
            ui.note("lock lost", RED, &text);
        }
        Ok(())
    })
}

/// Keeps what is known about staged files small.
fn sum_up(guard: &Arc<StoreGuard>) -> Task {
    let guard = guard.clone();
    Task::new("sum up what was staged", LOOK_AGAIN, move || Ok(guard.git_guard().sum_up_staged()?))
}

/// Watches the process that the agent works for until it is dropped. If that process ends, so does this one, and with it the
/// agent's tree.
struct OwnerWatch {
    stop: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl OwnerWatch {
    fn start(owner: &Owner, socket: Option<&Path>) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let (owner, socket) = (owner.clone(), socket.map(Path::to_owned));
        let watch = move || {
            if !process::wait_for_end_until(&owner, stopped.as_fd()) {
                return;
            }
            if let Some(socket) = socket {
                let _ = std::fs::remove_file(socket);
            }
            std::process::exit(i32::from(REFUSED));
        };
        Ok(Self { stop, thread: Some(thread::Builder::new().name("owner".to_owned()).spawn(watch)?) })
    }
}

impl Drop for OwnerWatch {
    fn drop(&mut self) {
        // Said rather than only closed: a process that is being started may have a copy of the pipe.
        let _ = self.stop.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_enforced(
    args: &ExecArgs,
    context: &Context,
    jail: &Jail,
    desk: &SupervisorSocket,
    guard: &Arc<StoreGuard>,
) -> Result<Exit, CliError> {
    let mut command = command(args, context);
    command.env(supervisor_socket::VARIABLE, desk.socket());
    mala_sandbox::run(jail, guard.clone(), command).map_err(|error| not_started(args, error))
}

/// Without the kernel's help: the agent is known, and bound by what it asks for.
fn run_plain(args: &ExecArgs, context: &Context) -> Result<Exit, CliError> {
    let mut command = command(args, context);
    command.env("MALA_AGENT", args.agent.as_str());
    mala_sandbox::run_unprotected(command).map_err(|error| not_started(args, error))
}

/// The error in words; a program that cannot be started is named.
fn not_started(args: &ExecArgs, error: SandboxError) -> CliError {
    match error {
        SandboxError::Start(why) => CliError::not_started(&args.command[0], &why).hint(
            "give the command and its arguments behind `--`, such as: mala exec --agent NAME -- claude",
        ),
        other => other.into(),
    }
}

fn command(args: &ExecArgs, context: &Context) -> Command {
    let name = &args.command[0];
    let mut command = Command::new(find(name, &context.cwd).as_deref().unwrap_or(Path::new(name)));
    command.arg0(name).args(&args.command[1..]).current_dir(&context.cwd).env_remove("MALA_AGENT");
    command.envs(git_guard::environment::variables(|name| env::var_os(name)));
    if context.ui.json {
        // Standard output has room for one document.
        command.stdout(io::stderr());
    }
    command
}

/// Where in `PATH` a program is. Looked for here, because in the tree every folder that does not have it would be asked about.
fn find(name: &OsStr, folder: &Path) -> Option<PathBuf> {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    if is_path { None } else { which::which_in(name, env::var_os("PATH"), folder).ok() }
}

/// What was refused, in one line: the details were said when it happened, and are in the log.
fn report(
    context: &Context,
    party: &Party,
    guard: &StoreGuard,
    exit: Exit,
    is_enforced: bool,
) -> Result<(), CliError> {
    let (agent, (refused, besides)) = (&party.agent, guard.refused());
    if context.ui.json {
        let refused: Vec<_> = refused
            .iter()
            .map(|(refused, times)| {
                json!({ "program": refused.program, "what": refused.what, "times": times })
            })
            .collect();
        return context.ui.json_line(&json!({
            "agent": agent,
            "issue": party.issue,
            "enforced": is_enforced,
            "exit_code": exit.code,
            "signal": exit.signal,
            "refused": refused,
            "refused_besides": besides,
        }));
    }
    if !refused.is_empty() {
        let times = besides + refused.iter().map(|(_, times)| times).sum::<u64>();
        let show =
            |(RefusedWrite { program, what }, _): &(RefusedWrite, u64)| format!("`{what}` ({program})");
        let shown: Vec<String> = refused.iter().take(10).map(show).collect();
        let text = format!(
            "refused {times}: {}; see mala logs list --agent {}",
            shown.join(", "),
            word(agent.as_str())
        );
        context.ui.note("mala exec", YELLOW, &text);
    }
    Ok(())
}

fn code(exit: Exit) -> Code {
    let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
    Code(u8::try_from(code).unwrap_or(1))
}
