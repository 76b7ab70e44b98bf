//! A run: the engine with everything it needs plugged in.

pub(crate) mod report;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mala_config::{KeepSettings, Override, Settings, user_file};
use mala_core::ports::Liveness;
use mala_core::{IssueId, Life, Scope};
use mala_engine::landing_queue::CheckoutQueue;
use mala_engine::session::exec::ExecSessions;
use mala_engine::validator::GateValidator;
use mala_engine::{
    AroundOptions, Engine, EngineError, EngineParts, Keeping, Options, Plan, Profiles, Prompts, Reporter,
    Summary, Trace, UnversionedOptions, source, unfinished_run,
};
use mala_git::salvage::Limits;
use mala_git::{Repo, Unfit};
use mala_issues::IssueError;
use mala_session::background::{Background, Task, Warn};
#[cfg(target_os = "linux")]
use mala_session::jail;
use mala_store::Store;
use mala_store::process::{self, ProcessTable};

use crate::context::Context;
use crate::error::CliError;
use crate::hook_repair::repair_hooks;
use report::{Json, Live, Logged, Plain, QueueOnly};

/// How often a tracker is asked for new issues.
const POLL: Duration = Duration::from_secs(2);
/// How long an agent that is asked to end may take.
const GRACE: Duration = Duration::from_secs(20);

/// What was typed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) max_agents: Option<usize>,
    pub(crate) max_issues: Option<usize>,
    pub(crate) issues: Vec<IssueId>,
    pub(crate) profile: Option<String>,
    pub(crate) watch: bool,
    pub(crate) resume: bool,
    pub(crate) allow_dirty: bool,
    /// Only work the landing queue off.
    pub(crate) queue_only: bool,
    pub(crate) timeout: Option<Duration>,
    /// Dollars, as they were typed.
    pub(crate) budget: Option<String>,
}

/// Works issues off.
pub(crate) fn run(context: &Context, wish: &Wish) -> Result<Summary, CliError> {
    let scope = context.scope()?;
    let reporter = reporter(context, &scope);
    repair_hooks(&scope, &context.ui);
    run_in(context, &scope, wish, reporter)
}

/// Works the landing queue off, for the branch that is checked out in `scope`. Starts no agent.
pub(crate) fn work_queue(
    context: &Context,
    scope: &Scope,
    timeout: Option<Duration>,
) -> Result<Summary, CliError> {
    let wish = Wish { queue_only: true, timeout, ..Wish::default() };
    let next = Box::new(QueueOnly(context.ui.clone()));
    let reporter = Box::new(Logged::new(scope, &context.ui, next));
    run_in(context, scope, &wish, reporter)
}

fn run_in(
    context: &Context,
    scope: &Scope,
    wish: &Wish,
    reporter: Box<dyn Reporter>,
) -> Result<Summary, CliError> {
    let trace = Trace::default();
    let reporter = trace.of(reporter);
    let engine = engine(context, scope, wish, trace)?;
    let settings = context.load_settings(Some(scope), Vec::new())?.settings;
    let tasks = vec![Task::escalate(scope), Task::sweep(scope, &settings), Task::close_object_readers()];
    let ui = context.ui.clone();
    let warn: Warn = Arc::new(move |text| ui.warning(text));
    let _beside = Background::start(tasks, &warn);
    Ok(engine.run(reporter)?)
}

/// What [`run`] would do.
pub(crate) fn plan(context: &Context, wish: &Wish) -> Result<Plan, CliError> {
    let scope = context.scope()?;
    Ok(engine(context, &scope, wish, Trace::default())?.plan()?)
}

fn engine(context: &Context, scope: &Scope, wish: &Wish, trace: Trace) -> Result<Engine, CliError> {
    // It saves and judges what agents leave, outside of their trees.
    #[cfg(target_os = "linux")]
    jail::freeze_git()?;
    let mut store = Store::open(scope)?;
    let mut wish = wish.clone();
    if wish.resume {
        wish.take_up(unfinished_run(&mut store)?)?;
    }
    let settings = context.settings(scope, wish.overrides())?;
    let (source, keeping) = source::choose(scope, &settings)?;
    let repo = Repo::new(scope.clone());
    // What killed commits and tests left would be in everybody's way.
    mala_git::commit::sweep(&repo, &ProcessTable)?;
    let mala = env::current_exe()?;
    let validator = Arc::new(GateValidator::new(scope, &settings)?);
    let options = options(scope, &settings, &wish, keeping, &mala)?;
    let sessions = Arc::new(ExecSessions::new(scope, &settings, &options.profiles, mala, trace));
    let queue = Arc::new(CheckoutQueue::new(scope, &settings, options.owner.clone())?);
    Ok(Engine::new(EngineParts { repo, store, source, sessions, validator, queue }, options))
}

fn options(
    scope: &Scope,
    settings: &Settings,
    wish: &Wish,
    keeping: Keeping,
    mala: &Path,
) -> Result<Options, CliError> {
    let run = &settings.run;
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let state = scope.state_dir();
    let user = user_file(env::var_os("XDG_CONFIG_HOME").as_deref(), env::var_os("HOME").as_deref());
    Ok(Options {
        owner: process::current(),
        max_agents: wish.max_agents.unwrap_or_else(|| usize::try_from(run.max_agents).unwrap_or(usize::MAX)),
        max_issues: wish.max_issues,
        issues: wish.issues.clone(),
        watch: wish.watch,
        timeout: wish.timeout,
        stagger: run.stagger,
        attempts: number(run.attempts),
        retry_pause: run.retry_pause,
        answer_wait: run.answer_wait,
        no_change: run.no_change,
        take_added: run.take_added,
        resume: wish.resume,
        allow_dirty: wish.allow_dirty,
        queue_only: wish.queue_only,
        hold: run.hold,
        env: settings.env.clone(),
        notify: settings.notify.clone(),
        around: AroundOptions {
            before: run.before.clone(),
            after: run.after.clone(),
            timeout: run.command_timeout,
        },
        gate_attempts: number(run.gate_attempts),
        budget: Some(run.budget).filter(|budget| *budget > 0.0),
        typed_budget: wish.budget.is_some().then_some(run.budget),
        prices: Arc::new(settings.prices.clone()),
        profiles: Profiles::load(settings, wish.profile.clone())?,
        mark: settings.gate.issue_pattern.parse().map_err(CliError::usage)?,
        required: settings.required().iter().map(ToString::to_string).collect(),
        prompts: Prompts::load(scope, user.as_deref())?,
        keeping,
        lock: settings.lock.clone(),
        health: settings.health,
        unversioned: unversioned(settings),
        mala: mala.to_string_lossy().into_owned(),
        logs: state.join("logs"),
        poll: POLL,
        grace: GRACE,
    })
}

fn unversioned(settings: &Settings) -> UnversionedOptions {
    let KeepSettings { max_file, max_total, max_files } = settings.keep;
    let bound = |bytes: u64| if bytes == 0 { u64::MAX } else { bytes };
    let limits = Limits {
        file_bytes: bound(max_file),
        total_bytes: bound(max_total),
        files: usize::try_from(max_files).unwrap_or(usize::MAX),
    };
    UnversionedOptions { limits, build: settings.build_directories() }
}

/// Whoever is to see it: a program, a person at a terminal, or a file.
fn reporter(context: &Context, scope: &Scope) -> Box<dyn Reporter> {
    let ui = &context.ui;
    let next: Box<dyn Reporter> = if ui.json {
        Box::new(Json(ui.clone()))
    } else if ui.is_live() && Live::is_possible() {
        Box::new(Live::new(ui, report::pulse(scope)))
    } else {
        Box::new(Plain(ui.clone()))
    };
    Box::new(Logged::new(scope, ui, next))
}

impl Wish {
    /// Takes over what an unfinished run was asked to do; what was typed now counts more.
    fn take_up(&mut self, unfinished: Option<serde_json::Value>) -> Result<(), CliError> {
        let Some(options) = unfinished else {
            return Err(CliError::refused("there is no run to go on with: none was killed or stopped")
                .hint("start one: mala run"));
        };
        let ids = options["issues"].as_array().into_iter().flatten().filter_map(|id| id.as_str());
        self.issues = ids.map(IssueId::new).collect::<Result<_, _>>()?;
        let number = |name: &str| options[name].as_u64().and_then(|number| usize::try_from(number).ok());
        self.max_agents = self.max_agents.or_else(|| number("max_agents"));
        self.max_issues = self.max_issues.or_else(|| number("max_issues"));
        self.watch = options["watch"].as_bool().unwrap_or(false);
        self.timeout = self.timeout.or_else(|| options["timeout_ms"].as_u64().map(Duration::from_millis));
        self.profile = self.profile.take().or_else(|| options["profile"].as_str().map(str::to_owned));
        self.budget =
            self.budget.take().or_else(|| options["typed_budget"].as_f64().map(|it| it.to_string()));
        Ok(())
    }

    /// What was typed of the settings.
    fn overrides(&self) -> Vec<Override> {
        let budget = self.budget.iter().map(|value| Override {
            key: "run.budget".to_owned(),
            value: value.clone(),
            typed: format!("--budget {value}"),
        });
        budget.collect()
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            // These have words of their own.
            EngineError::Store(error) => error.into(),
            EngineError::Session(error) => error.into(),
            EngineError::BadPrompt { .. }
            | EngineError::UnreadablePrompt { .. }
            | EngineError::NoTracker(_)
            | EngineError::Unrunnable { .. }
            | EngineError::Tracker(_) => Self::usage(error),
            EngineError::Busy { .. } | EngineError::Unfit(_) | EngineError::SelfTest(_) => {
                let hint = hint(&error);
                Self::refused(error).hint(hint)
            }
            EngineError::NoProfile { .. }
            | EngineError::NoKind { .. }
            | EngineError::NoCommand { .. }
            | EngineError::Epic { .. }
            | EngineError::Closed { .. }
            | EngineError::MissingProgram { .. }
            | EngineError::NoPrice { .. }
            | EngineError::Source(_) => {
                let hint = hint(&error);
                Self::usage(error).hint(hint)
            }
            _ => Self::failed(error).hint("the next `mala run` makes good what is left"),
        }
    }
}

/// What to do about a run that cannot begin.
fn hint(error: &EngineError) -> String {
    match error {
        EngineError::Busy { owner, .. } if ProcessTable.of(owner) == Life::Unknown => {
            "whether it still runs cannot be told from here; if it does not: mala clean --force".to_owned()
        }
        EngineError::Busy { .. } => "watch it: mala status --watch; or work in another worktree".to_owned(),
        EngineError::Unfit(Unfit { hint, .. }) => (*hint).to_owned(),
        EngineError::SelfTest(_) => "see what protects you: mala doctor".to_owned(),
        EngineError::NoProfile { .. } => {
            "give one of these, or describe it in `mala.toml`, below [agents.NAME]".to_owned()
        }
        EngineError::NoKind { name } => {
            format!("add to mala.toml, below [agents.{name}]: kind = \"command\"")
        }
        EngineError::NoCommand { name } => {
            format!("add to mala.toml, below [agents.{name}]: command = [\"my-agent\", \"--some-option\"]")
        }
        EngineError::MissingProgram { .. } => "or choose another profile: mala run --profile NAME".to_owned(),
        EngineError::NoPrice { .. } => error.price_hint().unwrap_or_default(),
        EngineError::Epic { .. }
        | EngineError::Closed { .. }
        | EngineError::Source(IssueError::NotFound { .. }) => {
            "see which there are: mala issue list".to_owned()
        }
        _ => "see what was found: mala doctor".to_owned(),
    }
}
