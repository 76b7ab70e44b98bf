//! The way in: what a run is made of, and its beginning and end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use mala_agents::start::Profile;
use mala_core::{RunId, Timestamp};
use mala_git::Repo;
use mala_git::salvage::{Before, Uncommitted};
use mala_issues::IssueSource;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::caution;
use crate::clerk::Clerk;
use crate::dispatch::Dispatcher;
use crate::error::EngineError;
use crate::event::{Event, Reporter};
use crate::options::Options;
use crate::ports::{Ledger, PortError, Validator};
use crate::session::Sessions;
use crate::summary::Summary;

/// The rest of mala, as the engine sees it.
pub struct Ports {
    pub ledger: Arc<dyn Ledger>,
    pub source: Arc<dyn IssueSource>,
    pub sessions: Arc<dyn Sessions>,
    pub validator: Arc<dyn Validator>,
}

/// Works issues off.
pub struct Engine {
    clerk: Clerk,
    options: Arc<Options>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports").field("source", &self.source.name()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(repo: Repo, options: Options, ports: Ports) -> Self {
        let Ports { ledger, source, sessions, validator } = ports;
        let (keeping, attempts) = (options.keeping, options.attempts);
        let owner = options.owner.clone();
        let (resumes, mark) = (options.resume, options.mark.clone());
        let clerk =
            Clerk { ledger, source, sessions, validator, repo, owner, keeping, mark, attempts, resumes };
        Self { clerk, options: Arc::new(options) }
    }

    /// Runs until there is nothing left to do, or until it is stopped. Blocks.
    ///
    /// # Errors
    ///
    /// When the run cannot begin, or when the ledger fails: then everything that was started is ended, and the next
    /// start makes good what is left.
    pub fn run(self, mut reporter: Box<dyn Reporter>) -> Result<Summary, EngineError> {
        let Self { clerk, options } = self;
        check_profiles(&options)?;
        check_issues(&clerk, &options)?;
        let left = clerk.ledger.abandoned().map_err(port("look for what an earlier run left"))?;
        // What it left is saved first: the way out of a merge would destroy it.
        if left.is_empty() {
            check_checkout(&clerk)?;
        }
        clerk.sessions.self_test().map_err(EngineError::SelfTest)?;
        let run = clerk.ledger.begin_run(&describe(&options))?;
        let recovered = clerk.recover(&run).map_err(port("make good what an earlier run left"))?;
        let now = Timestamp::now();
        reporter.report(now, &Event::RunStarted { run: run.clone(), max_agents: options.max_agents });
        for one in &recovered {
            reporter.report(now, &Event::Recovered(one.clone()));
        }
        check_again(&clerk, &run)?;
        Uncommitted::now(&clerk.repo)
            .and_then(|now| now.keep(&clerk.repo, &run))
            .map_err(EngineError::Before)?;
        for text in caution::cautions(&clerk) {
            reporter.report(now, &Event::Warning { text });
        }
        let is_for_all = options.issues.is_empty();
        let runtime = runtime().map_err(EngineError::Runtime)?;
        let dispatcher = Dispatcher::new(clerk.clone(), options, run.clone(), reporter);
        let (mut summary, mut reporter, is_left_open) = runtime.block_on(dispatcher.run())?;
        // Whoever still waits for a blocking call does not keep the run from ending.
        runtime.shutdown_background();
        clerk.sessions.sweep();
        summary.add_recovered(recovered);
        if is_for_all {
            // What waits for a person is worth a word, and not worth a failure.
            summary.blocked = clerk.ledger.blocked().unwrap_or_default();
        }
        if !is_left_open {
            clerk.ledger.end_run(&run, &json!(summary)).map_err(port("end the run"))?;
            Before::forget(&clerk.repo, &run).map_err(EngineError::Before)?;
        }
        reporter.report(Timestamp::now(), &Event::RunEnded { summary: summary.clone() });
        Ok(summary)
    }

    pub(crate) fn parts(&self) -> (&Clerk, &Options) {
        (&self.clerk, &self.options)
    }
}

/// Blocking work needs one thread at least, or tokio panics. So one is tried, and the first that does such work stays: more are
/// waited for.
fn runtime() -> io::Result<Runtime> {
    let tried = thread::Builder::new().spawn(|| ())?;
    tried.join().map_err(|_panic| io::Error::other("a thread could not be used"))?;
    tokio::runtime::Builder::new_current_thread().enable_all().thread_keep_alive(Duration::MAX).build()
}

/// What the ledger keeps about how a run was started.
fn describe(options: &Options) -> serde_json::Value {
    json!({
        "max_agents": options.max_agents,
        "max_issues": options.max_issues,
        "issues": options.issues,
        "watch": options.watch,
        "timeout_ms": options.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        "profile": options.profiles.forced,
    })
}

/// Issues that somebody names must be there, and something that can be worked on. It is looked at before a run is written
/// down: a slip of the pen must not become the run that `--resume` goes on with. What that takes up was looked at when it
/// began, and may be done by now.
pub(crate) fn check_issues(clerk: &Clerk, options: &Options) -> Result<(), EngineError> {
    if options.resume {
        return Ok(());
    }
    for id in &options.issues {
        let issue = clerk.source.show(id)?;
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
pub(crate) fn check_checkout(clerk: &Clerk) -> Result<(), EngineError> {
    clerk.repo.unfit().map_err(EngineError::Checkout)?.map_or(Ok(()), |unfit| Err(EngineError::Unfit(unfit)))
}

/// The same after an earlier run's work was saved. If nothing can begin, the run was stopped, and `--resume` goes on with it.
fn check_again(clerk: &Clerk, run: &RunId) -> Result<(), EngineError> {
    let Err(unfit) = check_checkout(clerk) else { return Ok(()) };
    let stopped = json!({ "stopped": unfit.to_string() });
    clerk.ledger.end_run(run, &stopped).map_err(port("end the run"))?;
    Err(unfit)
}

fn port(what: &'static str) -> impl FnOnce(PortError) -> EngineError {
    move |source| EngineError::Port { what, source }
}

/// The profile that issues get unless a label says otherwise must be there, with its program.
pub(crate) fn check_profiles(options: &Options) -> Result<(), EngineError> {
    let profiles = &options.profiles;
    let name = profiles.forced.as_ref().unwrap_or(&profiles.default);
    let Some((profile, _)) = profiles.known.iter().find(|(profile, _)| profile.name == *name) else {
        let known: Vec<&str> = profiles.known.iter().map(|(profile, _)| profile.name.as_str()).collect();
        return Err(EngineError::NoProfile { name: name.clone(), known: known.join(", ") });
    };
    find_program(profile).map(|_| ())
}

pub(crate) fn find_program(profile: &Profile) -> Result<PathBuf, EngineError> {
    let program = profile.command.first().cloned().unwrap_or_default();
    which::which(&program).map_err(|_not_found| EngineError::MissingProgram {
        profile: profile.name.clone(),
        program,
        install: profile.install.clone(),
    })
}
