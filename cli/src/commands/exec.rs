use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use clap::Args;
use mala_config::{Settings, Unlocked};
use mala_core::shell::word;
use mala_core::{AgentId, AttemptId, IssueId, RunId, Scope};
use mala_sandbox::{Exit, SandboxError, Unsupported};
use mala_session::supervise::{Notice, SupervisedEnd, Supervision, Surroundings};
use mala_session::{LostLock, RefusedWrite, SessionError, StoreGuard, jail};
use mala_store::process::{self, Process};
use mala_store::{Party, StoreError};
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Code, NotStarted, REFUSED};
use crate::hook_repair::repair_hooks;
use crate::ui::{RED, Ui, YELLOW, plain};
use crate::{run_for_tree, state_folders};

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

/// Runs the command as an agent, until nothing of its tree is left.
fn supervise(args: &ExecArgs, context: &Context) -> Result<(Supervision, SupervisedEnd), CliError> {
    let scope = context.scope()?;
    let mut settings = context.settings(&scope, Vec::new())?;
    let is_enforced = check_kernel(args, context, &scope, &settings)?;
    if args.strict {
        settings.enforcement.unlocked = Unlocked::Deny;
    }
    let owner =
        args.owner_pid.map(|pid| Process::find(pid).ok_or(StoreError::NoProcess { pid })).transpose()?;
    let party = Party {
        agent: args.agent.clone(),
        owner: owner.as_ref().map_or_else(process::current, Process::owner),
        supervised: true,
        issue: args.issue.clone(),
        run: args.run.clone(),
    };
    state_folders::check(&scope)?;
    if args.run.is_none() {
        repair_hooks(&scope, &context.ui);
    }
    let (profile, attempt) = (profile(args), args.attempt.map(AttemptId));
    let supervision = Supervision { scope, settings, party, profile, attempt, is_enforced };
    let ui = context.ui.clone();
    let surroundings = Surroundings {
        run_for_tree,
        notify: Arc::new(move |notice| tell(&ui, &notice)),
        on_owner_ended: owner.map(|_| (|| std::process::exit(i32::from(REFUSED))) as fn()),
    };
    let ended = supervision.run(&surroundings, || command(args, context));
    Ok((supervision, ended.map_err(|error| in_words(args, error))?))
}

/// Whether the kernel can hold the agent to its locks, unless that is asked for and cannot be.
fn check_kernel(
    args: &ExecArgs,
    context: &Context,
    scope: &Scope,
    settings: &Settings,
) -> Result<bool, CliError> {
    match jail::kernel(scope) {
        Ok(_) => Ok(true),
        Err(Unsupported::AlreadyInside) => {
            let message = "`mala exec` does not nest: this process belongs to an agent's tree already, and is held to its locks";
            let hint = "run the command as it is; another agent is started outside of this one's tree";
            Err(CliError::refused(message).hint(hint))
        }
        Err(why) => {
            let message = format!("the kernel does not protect anybody here: {why}");
            if args.require_kernel || settings.enforcement.require_kernel {
                return Err(CliError::refused(message).hint("see what protects you: mala doctor"));
            }
            context.ui.note("unprotected", YELLOW, &message);
            Ok(false)
        }
    }
}

fn tell(ui: &Ui, notice: &Notice) {
    match notice {
        Notice::Trouble(text) => ui.warning(text),
        Notice::LockLost(LostLock { key, writer, holder }) => {
            let now =
                holder.as_ref().map(|agent| format!("; it belongs to `{agent}` now")).unwrap_or_default();
            let text = format!(
                "`{}` is still open in {} (pid {}){now}: end it before it writes",
                plain(key),
                plain(&writer.program),
                writer.pid
            );
            ui.note("lock lost", RED, &text);
        }
    }
}

fn conclude(
    args: &ExecArgs,
    context: &Context,
    (supervision, ended): &(Supervision, SupervisedEnd),
) -> Result<Code, CliError> {
    if !args.keep_locks {
        ended.guard.release_all()?;
    }
    ended.conclude();
    report(context, &supervision.party, &ended.guard, ended.exit, supervision.is_enforced)?;
    Ok(code(ended.exit))
}

/// What kind of agent it is: nobody knows more than the program's name here.
fn profile(args: &ExecArgs) -> String {
    let program = Path::new(&args.command[0]).file_name().unwrap_or_default();
    program.to_string_lossy().into_owned()
}

/// The error in words; a program that cannot be started is named.
fn in_words(args: &ExecArgs, error: SessionError) -> CliError {
    match error {
        SessionError::Sandbox(SandboxError::Start(why)) => CliError::not_started(&args.command[0], &why)
            .hint(
                "give the command and its arguments behind `--`, such as: mala exec --agent NAME -- claude",
            ),
        SessionError::Store(runs @ StoreError::AgentRuns { .. }) => {
            CliError::refused(runs).hint("choose another name, or end that one first")
        }
        other => other.into(),
    }
}

fn command(args: &ExecArgs, context: &Context) -> Command {
    let name = &args.command[0];
    let mut command = Command::new(find(name, &context.cwd).as_deref().unwrap_or(Path::new(name)));
    command.arg0(name).args(&args.command[1..]).current_dir(&context.cwd);
    // Some programs believe it before they look where they are.
    command.env("PWD", &context.cwd);
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
