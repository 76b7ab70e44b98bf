//! The way in: what a run is made of, and its beginning and end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io, thread};

use mala_agents::start::Profile;
use mala_core::ports::SystemClock;
use mala_core::{IssueId, RunId, Timestamp};
use mala_git::Repo;
use mala_git::salvage::{Before, Snapshot, Uncommitted};
use mala_issues::IssueSource;
use mala_store::Store;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::blocking::BlockingOps;
use crate::caution;
use crate::cost::{check_prices, estimates};
use crate::dispatch::{Dispatcher, interrupts};
use crate::error::{EngineError, Result, step};
use crate::event::{Event, Reporter};
use crate::landing_queue::LandingQueue;
use crate::notify::Notifier;
use crate::options::{Options, Profiles};
use crate::session::Sessions;
use crate::summary::{Left, Summary};
use crate::validator::Validator;

/// What a run is made of.
pub struct EngineParts {
    pub repo: Repo,
    pub store: Store,
    pub source: Arc<dyn IssueSource>,
    pub sessions: Arc<dyn Sessions>,
    pub validator: Arc<dyn Validator>,
    pub queue: Arc<dyn LandingQueue>,
}

/// Works issues off.
#[derive(Debug)]
pub struct Engine {
    pub(crate) ops: BlockingOps,
}

impl fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineParts").field("source", &self.source.name()).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(parts: EngineParts, options: Options) -> Self {
        let EngineParts { repo, store, source, sessions, validator, queue } = parts;
        let (store, options) = (Arc::new(Mutex::new(store)), Arc::new(options));
        let clock = Arc::new(SystemClock);
        Self { ops: BlockingOps { store, source, sessions, validator, queue, repo, options, clock } }
    }

    /// Runs until there is nothing left to do, or until it is stopped. Blocks.
    ///
    /// # Errors
    ///
    /// When the run cannot begin, or when the journal fails: then everything that was started is ended, and the next
    /// start makes good what is left.
    pub fn run(self, reporter: Box<dyn Reporter>) -> Result<Summary> {
        let Self { ops } = self;
        let options = ops.options.clone();
        let notifier = Notifier::start(&options.notify, ops.repo.root());
        let mut reporter = notifier.listen(reporter);
        if !options.queue_only {
            check_profiles(&options)?;
            check_prices(&options)?;
            check_issues(&ops, &options)?;
        }
        // Half a landing looks like somebody's changes.
        let left_alone = ops.queue.repair().map_err(step("make good what a killed landing left"))?;
        let left = ops.abandoned().map_err(step("look for what an earlier run left"))?;
        // What it left is saved first: the way out of a merge would destroy it.
        if left.is_empty() {
            check_checkout(&ops)?;
        }
        let base = if options.queue_only { Vec::new() } else { prepare_for_agents(&ops, &mut *reporter)? };
        let run = ops.begin_run(&describe(&options)).map_err(|error| match error {
            busy @ EngineError::Busy { .. } => busy,
            error => step("begin a run")(error),
        })?;
        let recovered = ops.recover(&run).map_err(step("make good what an earlier run left"))?;
        let now = Timestamp::now();
        reporter.report(now, &Event::RunStarted { run: run.clone(), max_agents: options.max_agents });
        for one in &recovered {
            reporter.report(now, &Event::Recovered(one.clone()));
        }
        check_again(&ops, &run)?;
        Uncommitted::now(&ops.repo)
            .and_then(|now| now.keep(&ops.repo, &run))
            .map_err(EngineError::Baseline)?;
        let is_for_all = options.issues.is_empty() && !options.queue_only;
        let oversize = if options.queue_only { None } else { ops.keep_unversioned(&run)? };
        let left_alone = left_alone.iter().map(|path| {
            format!("`{path}` was written by somebody while a landing was cut off, and was left alone: compare it with `git diff`")
        });
        let cautions = if options.queue_only { Vec::new() } else { caution::cautions(&ops) };
        let circles = if is_for_all { ops.circles() } else { Vec::new() };
        let circular = circles.iter().map(|circle| circle_text(circle));
        let estimates = if options.queue_only { Vec::new() } else { estimates(&options) };
        base.iter().for_each(|event| reporter.report(now, event));
        for text in cautions.into_iter().chain(estimates).chain(left_alone).chain(circular).chain(oversize) {
            reporter.report(now, &Event::Warning { text });
        }
        let runtime = runtime().map_err(EngineError::Runtime)?;
        let dispatcher = Dispatcher::new(ops.clone(), run.clone(), reporter);
        let running = async { dispatcher.run(interrupts().map_err(EngineError::Runtime)?).await };
        let (mut summary, mut reporter, is_left_open) = runtime.block_on(running)?;
        // Whoever still waits for a blocking call does not keep the run from ending.
        runtime.shutdown_background();
        ops.sessions.sweep();
        summary.add_recovered(recovered);
        if is_for_all {
            // What waits for a person is worth a word, and not worth a failure.
            summary.blocked = ops.blocked().unwrap_or_default();
            // What can never begin is: nobody would be told again.
            let left = |circle: &Vec<IssueId>| Left { issue: circle[0].clone(), why: circle_text(circle) };
            summary.left.extend(circles.iter().filter(|circle| !circle.is_empty()).map(left));
        }
        summary.unnotified = notifier.finish(&summary);
        if !is_left_open {
            ops.end_run(&run, &json!(summary)).map_err(step("end the run"))?;
            Before::forget(&ops.repo, &run).map_err(EngineError::Baseline)?;
            Snapshot::forget(&ops.repo, &run).map_err(EngineError::Baseline)?;
        }
        reporter.report(Timestamp::now(), &Event::RunEnded { summary: Box::new(summary.clone()) });
        Ok(summary)
    }
}

/// What a person has to know about issues that need each other.
fn circle_text(circle: &[IssueId]) -> String {
    let names: Vec<String> = circle.iter().chain(circle.first()).map(|id| format!("`{id}`")).collect();
    format!(
        "{}: none of them can ever begin; take one of these needs away in the tracker",
        names.join(" needs ")
    )
}

/// What only agents need: that the base is known, that what protects them from each other does, and what their clients install.
/// Gives what is to be said of it. The landing queue looks at the base itself, when something on it is red.
fn prepare_for_agents(ops: &BlockingOps, reporter: &mut dyn Reporter) -> Result<Vec<Event>> {
    let mut tell = |event: &Event| reporter.report(Timestamp::now(), event);
    let mut notices = ops.validator.look_at_base(&mut tell)?;
    ops.sessions.self_test().map_err(|why| EngineError::SelfTest(Box::new(why)))?;
    notices.extend(ops.sessions.prepare(&mut tell).into_iter().map(|text| Event::Warning { text }));
    Ok(notices)
}

/// Blocking work needs one thread at least, or tokio panics. So one is tried, and the first that does such work stays: more are
/// waited for.
fn runtime() -> io::Result<Runtime> {
    let tried = thread::Builder::new().spawn(|| ())?;
    tried.join().map_err(|_panic| io::Error::other("a thread could not be used"))?;
    tokio::runtime::Builder::new_current_thread().enable_all().thread_keep_alive(Duration::MAX).build()
}

/// What the journal keeps about how a run was started.
fn describe(options: &Options) -> serde_json::Value {
    json!({
        "max_agents": options.max_agents,
        "max_issues": options.max_issues,
        "issues": options.issues,
        "watch": options.watch,
        "timeout_ms": options.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        "profile": options.profiles.forced,
        "budget": options.budget,
        "typed_budget": options.typed_budget,
        "allow_dirty": options.allow_dirty,
        "queue_only": options.queue_only,
    })
}

/// Issues that somebody names must be there, and something that can be worked on. It is looked at before a run is written
/// down: a slip of the pen must not become the run that `--resume` goes on with. What that takes up was looked at when it
/// began, and may be done by now.
pub(crate) fn check_issues(ops: &BlockingOps, options: &Options) -> Result<()> {
    if options.resume {
        return Ok(());
    }
    for id in &options.issues {
        let issue = ops.source.show(id)?;
        if issue.is_epic() {
            return Err(EngineError::Epic { id: id.clone() });
        }
        if issue.is_closed() {
            return Err(EngineError::Closed { id: id.clone() });
        }
    }
    Ok(())
}

/// Without a branch, or in the middle of a merge, every agent would fail.
pub(crate) fn check_checkout(ops: &BlockingOps) -> Result<()> {
    ops.repo.unfit().map_err(EngineError::Checkout)?.map_or(Ok(()), |unfit| Err(EngineError::Unfit(unfit)))
}

/// The same after an earlier run's work was saved. If nothing can begin, the run was stopped, and `--resume` goes on with it.
fn check_again(ops: &BlockingOps, run: &RunId) -> Result<()> {
    let Err(unfit) = check_checkout(ops) else { return Ok(()) };
    let stopped = json!({ "stopped": unfit.to_string() });
    ops.end_run(run, &stopped).map_err(step("end the run"))?;
    Err(unfit)
}

/// The profile that issues get unless a label says otherwise must be there, with its program.
pub(crate) fn check_profiles(options: &Options) -> Result<()> {
    options.profiles.check().map(drop)
}

impl Profiles {
    /// Where the program of the profile is that issues get unless a label says otherwise. The one that takes over from it must be
    /// there, too.
    pub fn check(&self) -> Result<PathBuf> {
        let first = self.program_of(self.forced.as_ref().unwrap_or(&self.default))?;
        self.fallback.as_ref().map_or(Ok(()), |name| self.program_of(name).map(drop))?;
        Ok(first)
    }

    fn program_of(&self, name: &str) -> Result<PathBuf> {
        let Some((profile, _)) = self.named(name) else {
            let known: Vec<&str> = self.known.iter().map(|(profile, _)| profile.name.as_str()).collect();
            return Err(EngineError::NoProfile { name: name.to_owned(), known: known.join(", ") });
        };
        find_program(profile)
    }
}

pub(crate) fn find_program(profile: &Profile) -> Result<PathBuf> {
    let program = profile.command.first().cloned().unwrap_or_default();
    which::which(&program).map_err(|_not_found| EngineError::MissingProgram {
        profile: profile.name.clone(),
        program,
        install: profile.install.clone(),
    })
}
