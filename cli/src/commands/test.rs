use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use mala_config::Settings;
use mala_core::{Actor, IssueId, Lock, LockName, Scope, Timestamp};
use mala_gate::evidence::{Ended, Evidence, EvidenceError, EvidenceLog, Launch, Of, Place, Recording};
use mala_gate::runner::{self, RunError, Task, Tee, Tie};
use mala_gate::{StoreOwnership, claim};
use mala_git::snapshot::{self, Carried, CarryError, How, Snapshot, SnapshotError};
use mala_git::{Ownership, Repo};
use mala_logs::chain::ChainError;
use mala_logs::telemetry::{metrics, spans};
use mala_session::{
    Announcement, SupervisorOwnership, TurnRules, command_line, count_wait, lossy, mutexes, no_turn,
    supervisor_socket, wait_for_mutex, waiting_for, want,
};
use mala_store::process::{Process, ProcessTable};
use mala_store::{EventKind, Outcome, Party, Request, Store, Wait, process};
use serde_json::json;

use super::commit::supervisor_identity;
use super::logs::evidence::SEE;
use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code, REFUSED, USAGE};
use crate::typed::duration;
use crate::ui::YELLOW;

/// Run a test command when its turn has come, and record what it proved
///
/// One test command runs at a time in a checkout: others wait in order of arrival. What ran, on which content, and how it
/// ended is recorded as evidence for the gate. With `--isolated` it runs in a snapshot of the last commit plus the agent's own
/// changes: nobody's half edits, and no waiting. The command's exit code is passed on (128 + signal if a signal ended it).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala test -- cargo test
  mala test --wait 10m -- pytest -x tests
  mala test --isolated -- npm test")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    caller: Caller,
    /// Issue that is worked on
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// Run on a snapshot of the last commit plus one's own changes
    #[arg(long)]
    isolated: bool,
    /// Give up if the turn does not come within this time [default: `test.wait` in the settings]
    #[arg(long, value_name = "DURATION", conflicts_with = "isolated")]
    wait: Option<String>,
    /// Tell the supervisor that the process that asks becomes a test next
    #[arg(long, hide = true, conflicts_with = "isolated")]
    announce: bool,
    /// The snapshot that the test runs in
    #[arg(long, hide = true, value_name = "FOLDER")]
    snapshot: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required_unless_present = "announce", last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl TestArgs {
    pub(crate) fn is_announcement(&self) -> bool {
        self.announce
    }

    /// How long it is ready to wait, if it said so.
    fn longest(&self) -> Result<Option<Duration>, CliError> {
        self.wait.as_deref().map(|wait| duration("--wait", wait)).transpose()
    }
}

pub(crate) fn cmd_test(args: &TestArgs, context: &Context) -> Result<Code, CliError> {
    if args.announce {
        return announce(args, context);
    }
    match supervisor_socket::supervisor() {
        Some(socket) if args.isolated || context.ui.json => supervised(args, context, &socket),
        Some(socket) => become_test(args, context, &socket),
        None => unsupervised(args, context),
    }
}

/// Notes, in the supervisor, that the process that asked becomes a test. If it would not wait for long, it gets its turn
/// now or not at all, and can say so itself.
fn announce(args: &TestArgs, context: &Context) -> Result<Code, CliError> {
    let Some(supervised) = &context.supervised else {
        return Err(CliError::usage("only a process of an agent's tree can announce a test"));
    };
    let snapshot = args.snapshot.as_ref().map(|folder| context.cwd.join(folder));
    if let Some(folder) = &snapshot
        && supervised.guard.turns().snapshot(folder).is_none()
    {
        let text = format!("`{}` is not a snapshot of this agent's checkout", folder.display());
        return Err(CliError::refused(text).hint("to test in a snapshot: mala test --isolated -- COMMAND"));
    }
    let mut announcement = Announcement { snapshot, locks: Vec::new() };
    if let Some(longest) = args.longest()?
        && let Some(process) = Process::find(supervised.pid)
    {
        let scope = context.scope()?;
        let settings = context.settings(&scope, Vec::new())?;
        let party = Party { owner: process.owner(), supervised: true, ..supervised.party.clone() };
        let queue = Queue { party: &party, process: &process, longest, ttl: settings.lock.ttl };
        let names = mutexes_of(&args.command, &settings);
        announcement.locks = queue.wait(context, &mut open(&scope)?, &args.command, names)?;
    }
    supervised.guard.turns().announce(supervised.pid, announcement);
    Ok(Code::SUCCESS)
}

/// Inside an agent's tree this process turns into the test: the supervisor holds it until its turn has come, and sees with
/// its own eyes how it ends.
fn become_test(args: &TestArgs, context: &Context, socket: &Path) -> Result<Code, CliError> {
    let mut announcement = ["mala", "test", "--announce"].map(OsString::from).to_vec();
    if let Some(snapshot) = &args.snapshot {
        announcement.extend(["--snapshot".into(), snapshot.clone().into_os_string()]);
    }
    if let Some(wait) = &args.wait {
        announcement.extend(["--wait".into(), wait.into()]);
    }
    announcement.push("--".into());
    announcement.extend(args.command.iter().cloned());
    let code = supervisor_socket::ask_for(socket, announcement.into_iter())?;
    if Code(code) != Code::SUCCESS {
        return Ok(Code(code));
    }
    let error = Command::new(&args.command[0]).args(&args.command[1..]).current_dir(&context.cwd).exec();
    Err(not_started(&args.command[0], &error))
}

fn not_started(program: &OsStr, error: &io::Error) -> CliError {
    CliError::not_started(program, error)
        .hint("give the command and its arguments behind `--`, such as: mala test -- cargo test")
}

/// Inside an agent's tree, where something is left to do after the test: a second mala becomes the test.
fn supervised(args: &TestArgs, context: &Context, socket: &Path) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let who = supervisor_identity(socket)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("test").current_dir(&context.cwd);
    let snapshot = match args.isolated {
        true => Some(snapshot(context, &scope, &who, &SupervisorOwnership::new(socket.to_path_buf()))?),
        false => None,
    };
    if let Some(snapshot) = &snapshot {
        command.arg("--snapshot").arg(snapshot.root()).current_dir(place(snapshot, context)?);
    }
    if let Some(wait) = &args.wait {
        command.args(["--wait", wait]);
    }
    command.arg("--").args(&args.command);
    if context.ui.json {
        // The answer has standard output for itself.
        command.stdout(Stdio::from(io::stderr().as_fd_owned()?));
    }
    let started = Timestamp::now();
    let status = command.status().map_err(|error| not_started(&args.command[0], &error))?;
    // The supervisor answers when it has recorded all that has ended; the snapshot must be there until then.
    supervisor_identity(socket)?;
    let evidence = recorded(&scope, &who, started)?;
    drop(snapshot);
    match evidence {
        Some(evidence) if context.ui.json => context.ui.json_line(&evidence)?,
        None if status.success() => return Err(CliError::failed("the run was not recorded")),
        None if context.ui.json => context.ui.error(&not_run(args, status)),
        // If there is none, its turn did not come, or it could not be started; it has said so.
        Some(_) | None => {}
    }
    Ok(code_of(status))
}

/// What stands in place of a record, with the reason that the command's own mala has given.
fn not_run(args: &TestArgs, status: ExitStatus) -> CliError {
    let text = format!("`{}` was not run; standard error says why", command_line(&args.command));
    match code_of(status).0 {
        REFUSED => CliError::refused(text),
        USAGE => CliError::usage(text),
        _ => CliError::failed(text),
    }
}

/// A copy of standard error as a file of its own.
trait AsOwned {
    fn as_fd_owned(&self) -> io::Result<std::os::fd::OwnedFd>;
}

impl AsOwned for io::Stderr {
    fn as_fd_owned(&self) -> io::Result<std::os::fd::OwnedFd> {
        use std::os::fd::AsFd;
        self.as_fd().try_clone_to_owned()
    }
}

/// The record that the supervisor has made of the agent's last run, if that began later than `since`.
fn recorded(scope: &Scope, who: &Actor, since: Timestamp) -> Result<Option<Evidence>, CliError> {
    let mut newest = None;
    EvidenceLog::of(scope)
        .search(Of::Agent(&who.agent), |evidence| {
            newest = Some(evidence);
            ControlFlow::Break(())
        })
        .map_err(|error| CliError::failed(error).hint(SEE))?;
    Ok(newest.filter(|evidence| evidence.started_at >= since))
}

fn unrecorded(error: EvidenceError) -> CliError {
    let is_unsound = matches!(&error, EvidenceError::Log(log) if !matches!(log, ChainError::Full { .. }));
    let hint = is_unsound.then_some(SEE);
    hint.into_iter().fold(CliError::failed(error), CliError::hint)
}

/// Outside any tree, mala runs the command itself.
fn unsupervised(args: &TestArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let mut session = args.caller.party(context, &mut store, None, args.issue.clone())?;
    if session.issue.is_none() {
        session.issue = claim::issue_of(&mut store, &session.agent)?;
    }
    // The name belongs to whoever tests; what runs now lives with this process.
    store.register(&session)?;
    claim::note(&mut store, &scope, &session)?;
    let party = Party { owner: process::current(), supervised: true, ..session };
    let who = Actor { agent: party.agent.clone(), issue: party.issue.clone(), run: party.run.clone() };
    let names = if args.isolated { Vec::new() } else { mutexes_of(&args.command, &settings) };
    let span = spans::test(names.first(), &lossy(&args.command)).entered();
    let evidence = if args.isolated {
        let snapshot = snapshot(context, &scope, &who, &StoreOwnership::new(open(&scope)?))?;
        let place = place(&snapshot, context)?;
        run(args, context, &party, Run { repo: snapshot.repo(), place: &place, mutex: None })?
    } else {
        let longest = args.longest()?.unwrap_or(settings.test.wait);
        let process =
            Process::find(std::process::id()).ok_or_else(|| CliError::failed("this process is not found"))?;
        let queue = Queue { party: &party, process: &process, longest, ttl: settings.lock.ttl };
        let locks = queue.wait(context, &mut store, &args.command, names)?;
        let (granted, mutex) = (Instant::now(), mutexes(&locks).next().cloned());
        let repo = Repo::new(scope);
        let ran = run(args, context, &party, Run { repo: &repo, place: &context.cwd, mutex });
        mutexes(&locks).for_each(|name| metrics().mutex_hold(name, granted.elapsed()));
        let released = locks.iter().try_for_each(|lock| store.release_one(lock).map(|_| ()));
        // What went wrong first says more; the locks end with this process in any case.
        let evidence = ran?;
        released?;
        evidence
    };
    spans::ended(&span, evidence.exit_code, evidence.signal);
    if context.ui.json {
        context.ui.json_line(&evidence)?;
    }
    let code = evidence.exit_code.or(evidence.signal.map(|signal| 128 + signal)).unwrap_or(1);
    Ok(Code(u8::try_from(code).unwrap_or(1)))
}

fn snapshot(
    context: &Context,
    scope: &Scope,
    who: &Actor,
    ownership: &dyn Ownership,
) -> Result<Snapshot, CliError> {
    let settings = context.settings(scope, Vec::new())?;
    let carried = carried(&settings);
    let repo = Repo::new(scope.clone());
    // What killed tests left behind goes first.
    snapshot::sweep(&repo, &ProcessTable).map_err(CliError::failed)?;
    let made = Snapshot::of_agent(&repo, ownership, &who.agent, &process::current(), &carried);
    made.map_err(no_snapshot)
}

/// The folder of the snapshot that stands for the current one.
fn place(snapshot: &Snapshot, context: &Context) -> Result<PathBuf, CliError> {
    snapshot.place(&context.cwd).map_err(no_snapshot)
}

fn no_snapshot(error: SnapshotError) -> CliError {
    match error {
        SnapshotError::Unborn
        | SnapshotError::NoFolder { .. }
        | SnapshotError::Carry(CarryError::Outside(_)) => CliError::usage(error),
        error => CliError::failed(error),
    }
}

/// The folders that a snapshot gets besides tracked files.
pub(crate) fn carried(settings: &Settings) -> Vec<Carried> {
    let folder = |how: How| move |folder: String| Carried { folder: PathBuf::from(folder), how };
    let shared = settings.shared_folders().into_iter().map(folder(How::Shared));
    shared.chain(settings.isolated.copy.iter().cloned().map(folder(How::Copied))).collect()
}

/// The mutexes that a command needs: at least the one of all tests.
fn mutexes_of(command: &[OsString], settings: &Settings) -> Vec<LockName> {
    let mut names = TurnRules::from(settings).names(command);
    if names.is_empty() {
        names.push(LockName::test());
    }
    names
}

/// A wait for a turn.
struct Queue<'a> {
    party: &'a Party,
    /// The process that waits.
    process: &'a Process,
    longest: Duration,
    ttl: Duration,
}

impl Queue<'_> {
    /// Waits for the mutexes of the command. Below a command that holds one, there is nothing to wait for.
    fn wait(
        &self,
        context: &Context,
        store: &mut Store,
        command: &[OsString],
        names: Vec<LockName>,
    ) -> Result<Vec<Lock>, CliError> {
        if self.is_inside_a_test(store)? {
            return Ok(Vec::new());
        }
        let request = Request {
            party: self.party.clone(),
            wants: names.into_iter().map(want).collect(),
            ttl: self.ttl,
            reason: Some(command_line(command)),
        };
        let (longest, asker) = (self.longest, context.asker_process());
        let wait = Wait { longest, on_behalf_of: asker, remind_every: Some(Duration::from_secs(30)) };
        let targets: Vec<String> = request.wants.iter().map(|want| want.target.to_string()).collect();
        let span = context.span().in_scope(|| spans::lock_wait(&self.party.agent, &targets.join(", ")));
        let began = Instant::now();
        let outcome = wait_for_mutex(store, &request, wait, |conflicts| {
            if let Some(text) = waiting_for(conflicts) {
                context.ui.note("mala", YELLOW, &text);
            }
        })?;
        drop(span);
        count_wait(&outcome, began.elapsed());
        match outcome {
            Outcome::Granted(locks) => Ok(locks),
            Outcome::Refused(refusal) => Err(CliError::refused(no_turn(&refusal.cause, longest))),
        }
    }

    fn is_inside_a_test(&self, store: &mut Store) -> Result<bool, CliError> {
        let above: Vec<_> = self.process.ancestors().map(|ancestor| ancestor.owner()).collect();
        Ok(store.locks()?.iter().any(|lock| lock.is_named() && above.contains(&lock.owner)))
    }
}

/// One run of a command.
struct Run<'a> {
    repo: &'a Repo,
    place: &'a Path,
    mutex: Option<LockName>,
}

fn run(args: &TestArgs, context: &Context, party: &Party, run: Run<'_>) -> Result<Evidence, CliError> {
    let scope = context.scope()?;
    let who = Actor { agent: party.agent.clone(), issue: party.issue.clone(), run: party.run.clone() };
    let launch = Launch {
        argv: args.command.clone(),
        cwd: context.cwd.clone(),
        mutex: run.mutex,
        place: if args.isolated { Place::Isolated } else { Place::Shared },
    };
    let recording = Recording::begin(run.repo, who, launch).map_err(unrecorded)?;
    let mut store = open(&scope)?;
    let command = command_line(&args.command);
    let detail = json!({ "command": command, "evidence": recording.id() });
    store.record_fact(party, EventKind::TestStarted, None, &detail)?;
    let log = recording.output_log().to_path_buf();
    let task = Task { argv: &args.command, cwd: run.place, log: &log };
    let (mut out, mut err) = (answer_stream(context), context.ui.err());
    let ended: Ended =
        runner::run(&task, Tie::Tree, &mut Tee { out: &mut *out, err: &mut *err }).map_err(|error| {
            match error {
                RunError::Start { source, .. } => not_started(&args.command[0], &source),
                RunError::Empty => CliError::usage(error),
                RunError::Log { .. } | RunError::Watch(_) => CliError::failed(error),
            }
        })?;
    let evidence = recording.finish(ended, &StoreOwnership::new(open(&scope)?)).map_err(unrecorded)?;
    let detail = json!({ "command": command, "evidence": evidence.id, "exit_code": evidence.exit_code,
        "signal": evidence.signal });
    store.record_fact(party, EventKind::TestEnded, None, &detail)?;
    Ok(evidence)
}

/// Where the command's output goes: as it came, unless the answer has standard output for itself.
fn answer_stream(context: &Context) -> Box<dyn Write> {
    if context.ui.json { context.ui.err() } else { Box::new(io::stdout()) }
}

fn code_of(status: ExitStatus) -> Code {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Code(u8::try_from(code).unwrap_or(1))
}
