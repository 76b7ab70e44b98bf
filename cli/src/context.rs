//! Where a command runs, and as whom.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mala_config::{Loaded, Override, Settings, Sources, user_file};
use mala_core::claim::Reading;
use mala_core::{AgentId, IssueId, Mode, Owner, Scope, Want};
use mala_store::process::{self, Process};
use mala_store::{Party, Store, StoreError, Which};

use crate::error::CliError;
use crate::ui::Ui;

/// The folder that relative paths mean, and how to talk. Everything else is looked up when a command needs it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cwd: PathBuf,
    pub(crate) ui: Ui,
    /// Set inside an agent's process tree: whoever is asked for there, this is who acts.
    pub(crate) supervised: Option<Party>,
}

impl Context {
    /// A context for a command that was typed in the folder `here`.
    pub(crate) fn new(
        here: PathBuf,
        directory: Option<&Path>,
        ui: Ui,
        supervised: Option<Party>,
    ) -> Result<Self, CliError> {
        let cwd = match directory {
            Some(directory) => here.join(directory),
            None => here,
        };
        if !cwd.is_dir() {
            return Err(CliError::usage(format!("`{}` is not a folder", cwd.display())));
        }
        Ok(Self { cwd, ui, supervised })
    }

    pub(crate) fn scope(&self) -> Result<Scope, CliError> {
        Ok(Scope::discover(&self.cwd)?)
    }

    /// Settings from all layers, with what the command line says on top.
    pub(crate) fn settings(&self, scope: &Scope, overrides: Vec<Override>) -> Result<Settings, CliError> {
        let loaded = self.load_settings(Some(scope), overrides)?;
        for warning in &loaded.warnings {
            self.ui.warning(&warning.to_string());
        }
        Ok(loaded.settings)
    }

    pub(crate) fn load_settings(
        &self,
        scope: Option<&Scope>,
        overrides: Vec<Override>,
    ) -> Result<Loaded, CliError> {
        let sources = Sources {
            user_file: user_file(env::var_os("XDG_CONFIG_HOME").as_deref(), env::var_os("HOME").as_deref()),
            repo_file: scope.map(|scope| scope.root().join("mala.toml")),
            env: env::vars_os().collect(),
            overrides,
        };
        Ok(Settings::load(&sources)?)
    }

    /// What the typed paths mean.
    pub(crate) fn wants(&self, scope: &Scope, paths: &Paths, mode: Mode) -> Result<Vec<Want>, CliError> {
        let reading = if paths.literal { Reading::Literal } else { Reading::Guess };
        paths.paths.iter().map(|path| Ok(scope.want(&self.cwd, path, mode, reading)?)).collect()
    }
}

/// Files and patterns, as typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Paths {
    /// Files, folders or patterns such as 'src/**' (quote them)
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Take every character of a path for itself, also `*`, `?` and `[`
    #[arg(long)]
    pub(crate) literal: bool,
}

/// Some of an agent's locks, or all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Files, folders or patterns, as they were locked
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "PATH")]
    paths: Vec<OsString>,
    /// Everything the agent holds
    #[arg(long)]
    all: bool,
    /// Take every character of a path for itself, also `*`, `?` and `[`
    #[arg(long)]
    literal: bool,
}

impl Selection {
    pub(crate) fn resolve(&self, context: &Context, scope: &Scope) -> Result<Which, CliError> {
        if self.all {
            return Ok(Which::All);
        }
        let paths = Paths { paths: self.paths.clone(), literal: self.literal };
        Ok(Which::These(context.wants(scope, &paths, Mode::Exclusive)?))
    }
}

/// On whose behalf a command acts.
#[derive(Debug, clap::Args)]
pub(crate) struct Caller {
    /// Agent that acts [default: the session this command was started from, e.g. `bash-4242`]
    #[arg(long, env = "MALA_AGENT", value_name = "NAME")]
    agent: Option<AgentId>,
}

impl Caller {
    pub(crate) fn agent(&self, context: &Context) -> Result<AgentId, CliError> {
        match (&context.supervised, &self.agent) {
            (Some(party), _) => Ok(party.agent.clone()),
            (None, Some(agent)) => Ok(agent.clone()),
            (None, None) => {
                let session = session()?;
                Ok(AgentId::new(format!("{}-{}", session.name, session.pid))?)
            }
        }
    }

    /// The agent, with the process its locks live with: the one named, or the session of the caller.
    pub(crate) fn party(
        &self,
        context: &Context,
        owner_pid: Option<u32>,
        issue: Option<IssueId>,
    ) -> Result<Party, CliError> {
        if let Some(party) = &context.supervised {
            return Ok(Party { issue: issue.or_else(|| party.issue.clone()), ..party.clone() });
        }
        let owner: Owner = match owner_pid {
            Some(pid) => Process::find(pid).ok_or(StoreError::NoProcess { pid })?.owner(),
            None => session()?.owner(),
        };
        Ok(Party { agent: self.agent(context)?, owner, supervised: false, issue, run: None })
    }
}

fn session() -> Result<Process, CliError> {
    process::session().ok_or_else(|| {
        CliError::usage("cannot find the process that this session belongs to")
            .hint("name the agent with `--agent NAME` and its process with `--owner-pid PID`")
    })
}

pub(crate) fn open(scope: &Scope) -> Result<Store, CliError> {
    Ok(Store::open(scope)?)
}
