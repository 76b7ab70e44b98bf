use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use mala_config::Settings;
use mala_core::{Actor, IssueId, LockName, Scope};
use mala_gate::evidence::{Evidence, EvidenceError, EvidenceLog, Launch, Of, Place, command_line, lossy};
use mala_gate::runner::{Manner, RunError, Tee, Tie};
use mala_gate::{StoreOwnership, TestRun, TestRunError, bases_of, claim};
use mala_git::Repo;
use mala_landing::{NotInTest, Requirements, SlotTest, Slots, Validation, ValidationError, Work};
use mala_logs::chain::ChainError;
use mala_logs::telemetry::spans;
use mala_session::{Announcement, HeldMutexes, TurnRules, supervisor_socket, take_turn, want};
use mala_store::process::Process;
use mala_store::{Party, Request, Store, Wait, process};
use serde::Serialize;
use serde_json::json;

use super::commit::supervisor_identity;
use super::logs::evidence::SEE;
use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code, REFUSED, USAGE};
use crate::typed::duration;
use crate::ui::{YELLOW, plain};

/// Run a test command when its turn has come, and record what it proved
///
/// One test command runs at a time in a checkout: others wait in order of arrival. What ran, on which content, and how it
/// ended is recorded as evidence for the gate. With `--isolated`, which is the default for agents of a run, it runs in a slot: a
/// checkout of mala's own that holds the last commit plus the agent's own changes; for agents of a run, the last commit that is
/// proven. Nobody's half edits are in there, and nobody waits. Without a command, all required commands run there. The command's exit code is passed on (128 + signal if a signal
/// ended it).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala test -- cargo test
  mala test --wait 10m -- pytest -x tests
  mala test --isolated -- npm test
  mala test")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    caller: Caller,
    /// Issue that is worked on
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// Run in a slot, on the last commit plus one's own changes
    #[arg(long)]
    isolated: bool,
    /// Give up if the turn does not come within this time [default: `test.wait` in the settings]
    #[arg(long, value_name = "DURATION", conflicts_with = "isolated")]
    wait: Option<String>,
    /// Tell the supervisor that the process that asks becomes a test next
    #[arg(long, hide = true, conflicts_with = "isolated")]
    announce: bool,
    /// The command and its arguments [default: all required commands, in a slot]
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl TestArgs {
    /// True if the supervisor of an agent's tree does it: it hears of a test, or runs it in a slot.
    pub(crate) fn is_for_supervisor(&self) -> bool {
        self.announce || self.is_in_slot()
    }

    fn is_in_slot(&self) -> bool {
        self.isolated || self.command.is_empty()
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
    if args.is_in_slot() {
        return in_slot(args, context);
    }
    let Some(socket) = supervisor_socket::supervisor() else { return unsupervised(args, context) };
    if args.wait.is_none() && supervisor_identity(&socket)?.run.is_some() {
        return ask_for_slot(args, context, &socket);
    }
    match context.ui.json {
        true => supervised(args, context, &socket),
        false => become_test(args, context, &socket),
    }
}

/// Has the supervisor run the test in a slot.
fn ask_for_slot(args: &TestArgs, context: &Context, socket: &Path) -> Result<Code, CliError> {
    let mut words = vec![OsString::from("mala")];
    words.extend(context.ui.json.then(|| "--json".into()));
    words.extend(["-C".into(), context.cwd.clone().into_os_string(), "test".into(), "--isolated".into()]);
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    Ok(Code(supervisor_socket::ask_for(socket, words.into_iter())?))
}

/// Runs the command, or all required ones, in a slot.
fn in_slot(args: &TestArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let party = tester(args, context, &scope, &mut store)?;
    let who = Actor { agent: party.agent.clone(), issue: party.issue.clone(), run: party.run.clone() };
    let repo = Repo::new(scope.clone());
    let repo = if context.supervised.is_some() { repo.without_hooks() } else { repo };
    let requirements = Requirements::of(&settings);
    if args.command.is_empty() && requirements.is_empty() {
        return Err(CliError::usage("there is nothing to run: no command was given, and none is required")
            .hint(
                "name one behind `--`, or required ones in mala.toml: [validate] commands = [\"cargo test\"]",
            ));
    }
    let ownership = StoreOwnership::new(open(&scope)?);
    let work = Work::of(&repo, &who, &ownership).map_err(not_tried)?;
    let mut work = work.ok_or_else(|| not_tried(ValidationError::Unborn))?;
    if party.run.is_some() {
        let bases = bases_of(&repo, &mut store, &work.paths(&repo).map_err(not_tried)?)?;
        work = work.since(&repo, &bases).map_err(not_tried)?;
        work = work.on_last_green(&repo, &requirements).map_err(not_tried)?;
    }
    if let Some(remark) = &work.remark {
        context.ui.note("mala", YELLOW, remark);
    }
    let slots = Slots::of(&repo, &settings).map_err(CliError::failed)?;
    let (span, asker) = (&context.span(), context.asker_process());
    let test = SlotTest {
        repo: &repo,
        slots: &slots,
        requirements: &requirements,
        work: &work,
        party: &party,
        span,
        asker,
    };
    let (mut out, mut err) = (answer_stream(context), context.ui.err());
    let mut tee = Tee { out: &mut *out, err: &mut *err };
    let mut missing = |has_passed: bool| match has_passed {
        true => Ok(NotInTest::default()),
        false => NotInTest::of(&repo, &mut store, &party, &work).map_err(not_tried),
    };
    if args.command.is_empty() {
        let validation = test.required(&mut tee).map_err(not_tried)?;
        return all_required(context, &validation, &missing(validation.has_passed())?);
    }
    let evidence = test.command(&args.command, &context.cwd, &mut tee).map_err(not_tried)?;
    let missing = missing(evidence.has_passed())?;
    tell_missing(context, &missing);
    if context.ui.json {
        context.ui.json_line(&SlotAnswer { answer: &evidence, missing: &missing })?;
    }
    Ok(code_of_test(&evidence))
}

/// What is answered about a test in a slot.
#[derive(Serialize)]
struct SlotAnswer<'a, A> {
    #[serde(flatten)]
    answer: A,
    #[serde(flatten)]
    missing: &'a NotInTest,
}

/// Says what others are still at work on, and how to wait for it.
fn tell_missing(context: &Context, missing: &NotInTest) {
    let Some(words) = missing.words() else { return };
    context.ui.note("mala", YELLOW, &format!("not in this test: {}", plain(&words)));
    for issue in missing.issues() {
        context
            .ui
            .hint(&format!("if it needs what {issue} does, wait until that has landed: mala wait {issue}"));
    }
}

/// What came of all required commands.
fn all_required(context: &Context, validation: &Validation, missing: &NotInTest) -> Result<Code, CliError> {
    let body =
        json!({ "tree": validation.tree, "passed": validation.has_passed(), "results": validation.results });
    context.ui.answer(&SlotAnswer { answer: &body, missing }, |out| {
        for result in &validation.results {
            let word = if result.has_passed() {
                "passed".to_owned()
            } else {
                format!("FAILED ({})", result.ending())
            };
            writeln!(out, "{word}: {}", plain(&result.command))?;
        }
        Ok(())
    })?;
    tell_missing(context, missing);
    let code =
        validation.failure().map_or(0, |failure| failure.exit_code.filter(|code| *code != 0).unwrap_or(1));
    Ok(Code(u8::try_from(code).unwrap_or(1)))
}

/// Who tests, known to the store.
fn tester(args: &TestArgs, context: &Context, scope: &Scope, store: &mut Store) -> Result<Party, CliError> {
    let mut session = args.caller.party(context, store, None, args.issue.clone())?;
    if session.issue.is_none() {
        session.issue = claim::issue_of(store, &session.agent)?;
    }
    if context.supervised.is_none() {
        // The name belongs to whoever tests; what runs now lives with this process.
        store.register(&session)?;
        claim::note(store, scope, &session)?;
    }
    Ok(Party { owner: process::current(), supervised: true, ..session })
}

fn not_tried(error: ValidationError) -> CliError {
    match error {
        ValidationError::Run(RunError::Start { program, source }) => {
            not_started(OsStr::new(&program), &source)
        }
        ValidationError::Unborn | ValidationError::NoDirectory { .. } => CliError::usage(error),
        ValidationError::Setup { .. } => CliError::refused(error),
        error => CliError::failed(error),
    }
}

/// The command's own exit code.
fn code_of_test(evidence: &Evidence) -> Code {
    let code = evidence.exit_code.or(evidence.signal.map(|signal| 128 + signal)).unwrap_or(1);
    Code(u8::try_from(code).unwrap_or(1))
}

/// Notes, in the supervisor, that the process that asked becomes a test. If it would not wait for long, it gets its turn
/// now or not at all, and can say so itself.
fn announce(args: &TestArgs, context: &Context) -> Result<Code, CliError> {
    let Some(supervised) = &context.supervised else {
        return Err(CliError::usage("only a process of an agent's tree can announce a test"));
    };
    let mut announcement = Announcement::default();
    if let Some(longest) = args.longest()?
        && let Some(process) = Process::find(supervised.pid)
    {
        let scope = context.scope()?;
        let settings = context.settings(&scope, Vec::new())?;
        let party = Party { owner: process.owner(), supervised: true, ..supervised.party.clone() };
        let queue = Queue { party: &party, process: &process, longest, ttl: settings.lock.ttl };
        let names = mutexes_of(&args.command, &settings);
        announcement.locks = queue.wait(context, &mut open(&scope)?, &args.command, names)?.into_locks();
    }
    supervised.guard.turns().announce(supervised.pid, announcement);
    Ok(Code::SUCCESS)
}

/// Inside an agent's tree this process turns into the test: the supervisor holds it until its turn has come, and sees with
/// its own eyes how it ends.
fn become_test(args: &TestArgs, context: &Context, socket: &Path) -> Result<Code, CliError> {
    let mut announcement = ["mala", "test", "--announce"].map(OsString::from).to_vec();
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
    if let Some(wait) = &args.wait {
        command.args(["--wait", wait]);
    }
    command.arg("--").args(&args.command);
    if context.ui.json {
        // The answer has standard output for itself.
        command.stdout(Stdio::from(io::stderr().as_fd_owned()?));
    }
    let before = last_record(&scope, &who)?.map(|evidence| evidence.id);
    let status = command.status().map_err(|error| not_started(&args.command[0], &error))?;
    // The supervisor answers when it has recorded all that has ended.
    supervisor_identity(socket)?;
    let evidence = last_record(&scope, &who)?.filter(|evidence| before.as_ref() != Some(&evidence.id));
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

/// The record that the supervisor has made of the agent's last run.
fn last_record(scope: &Scope, who: &Actor) -> Result<Option<Evidence>, CliError> {
    let mut newest = None;
    EvidenceLog::of(scope)
        .search(Of::Agent(&who.agent), |evidence| {
            newest = Some(evidence);
            ControlFlow::Break(())
        })
        .map_err(|error| CliError::failed(error).hint(SEE))?;
    Ok(newest)
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
    let party = tester(args, context, &scope, &mut store)?;
    let names = mutexes_of(&args.command, &settings);
    let span = spans::test(names.first(), &lossy(&args.command));
    let _span = span.clone().entered();
    let longest = args.longest()?.unwrap_or(settings.test.wait);
    let process =
        Process::find(std::process::id()).ok_or_else(|| CliError::failed("this process is not found"))?;
    let queue = Queue { party: &party, process: &process, longest, ttl: settings.lock.ttl };
    let held = queue.wait(context, &mut store, &args.command, names)?;
    let launch = Launch {
        argv: args.command.clone(),
        cwd: context.cwd.clone(),
        mutex: held.name().cloned(),
        place: Place::Shared,
    };
    let (mut out, mut err) = (answer_stream(context), context.ui.err());
    let mut tee = Tee { out: &mut *out, err: &mut *err };
    let repo = Repo::new(scope.clone());
    let ran = TestRun::begin((&scope, &repo), &party, launch, span)
        .and_then(|test| test.run(&context.cwd, Manner::Plain(Tie::Tree), &mut tee));
    let released = held.release(&mut store);
    // What went wrong first says more; the locks end with this process in any case.
    let evidence = ran.map_err(|error| match error {
        TestRunError::Run(RunError::Start { source, .. }) => not_started(&args.command[0], &source),
        TestRunError::Run(error @ RunError::Empty) => CliError::usage(error),
        TestRunError::Evidence(error) => unrecorded(error),
        error => CliError::failed(error),
    })?;
    released?;
    if context.ui.json {
        context.ui.json_line(&evidence)?;
    }
    Ok(code_of_test(&evidence))
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
    ) -> Result<HeldMutexes, CliError> {
        if self.is_inside_a_test(store)? {
            return Ok(HeldMutexes::none());
        }
        let request = Request {
            party: self.party.clone(),
            wants: names.into_iter().map(want).collect(),
            ttl: self.ttl,
            reason: Some(command_line(command)),
        };
        let on_behalf_of = context.asker_process();
        let wait = Wait { longest: self.longest, on_behalf_of, remind_every: None };
        let tell = |text: &str| context.ui.note("mala", YELLOW, text);
        take_turn(store, &request, wait, &context.span(), tell)?.map_err(CliError::refused)
    }

    fn is_inside_a_test(&self, store: &mut Store) -> Result<bool, CliError> {
        let above: Vec<_> = self.process.ancestors().map(|ancestor| ancestor.owner()).collect();
        Ok(store.locks()?.iter().any(|lock| lock.is_named() && above.contains(&lock.owner)))
    }
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
