//! Where a command runs, and as whom.

use std::ffi::OsString;
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use clap::ArgGroup;
use mala_config::{ConfigError, Loaded, Override, Settings, Sources, user_file};
use mala_core::claim::Reading;
use mala_core::file::{read_at_most, read_named, read_small};
use mala_core::{AgentId, IssueId, Mode, Owner, Scope, Want, sharing};
use mala_logs::telemetry::spans::Span;
use mala_session::{Supervised, session_name, sessions_above};
use mala_store::process::{self, Process};
use mala_store::{Party, Store, StoreError, Which};
use nix::poll::PollFlags;

use crate::error::CliError;
use crate::mcp::{Lent, Pool};
use crate::ui::{Ui, plain, poll_now};

/// How often a command that only waits looks whether anybody is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The folder that relative paths mean, and how to talk. Everything else is looked up when a command needs it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cwd: PathBuf,
    /// Where the command was typed, whatever `-C` says: hints are typed there, too.
    pub(crate) here: PathBuf,
    pub(crate) ui: Ui,
    /// Set inside an agent's process tree: whoever is asked for there, this is who acts.
    pub(crate) supervised: Option<Supervised>,
    /// The call that the command runs for, if it is one of many that this process answers.
    call: Option<Call>,
}

/// For whom a command runs.
#[derive(Debug)]
pub(crate) enum Behalf {
    /// For whoever started this process.
    Own,
    /// For a process of an agent's tree.
    Tree(Supervised),
    /// For one of the calls that this process answers.
    Call(Call),
}

/// One of the calls that this process answers.
#[derive(Debug)]
pub(crate) struct Call {
    /// Becomes readable when nobody waits for the answer any more.
    pub(crate) leash: OwnedFd,
    /// Where the calls before it have left their stores.
    pub(crate) stores: Arc<Pool>,
}

impl Context {
    /// A context for a command that was typed in the folder `here`.
    pub(crate) fn new(
        here: PathBuf,
        directory: Option<&Path>,
        ui: Ui,
        behalf: Behalf,
    ) -> Result<Self, CliError> {
        let cwd = match directory {
            Some(directory) => here.join(directory),
            None => here.clone(),
        };
        if !cwd.is_dir() {
            let hint = match directory {
                Some(_) => "name a folder that exists behind `-C`, or leave `-C` out",
                None => "go to a folder that exists",
            };
            return Err(CliError::usage(format!("`{}` is not a folder", plain(cwd.display()))).hint(hint));
        }
        let (supervised, call) = match behalf {
            Behalf::Own => (None, None),
            Behalf::Tree(supervised) => (Some(supervised), None),
            Behalf::Call(call) => (None, Some(call)),
        };
        Ok(Self { cwd, here, ui, supervised, call })
    }

    /// The agent that this process belongs to, if it is supervised.
    pub(crate) fn supervised_party(&self) -> Option<&Party> {
        self.supervised.as_ref().map(|supervised| &supervised.party)
    }

    /// The agent that this process is bound to: by its supervisor, or by a client's session above it.
    pub(crate) fn bound_party(&self, store: &mut Store) -> Result<Option<Party>, CliError> {
        if let Some(party) = self.supervised_party() {
            return Ok(Some(party.clone()));
        }
        let sessions = match &self.call {
            Some(call) => store.sessions_among(call.stores.above())?,
            None => sessions_above(store)?,
        };
        Ok(sessions.into_iter().next().map(|session| session.party))
    }

    /// What happens here is told a collector as a part of this.
    pub(crate) fn span(&self) -> Span {
        self.supervised.as_ref().map_or_else(Span::current, |supervised| supervised.guard.turns().span())
    }

    /// Whoever the command acts for; their end ends all waiting.
    pub(crate) fn asker_process(&self) -> Option<BorrowedFd<'_>> {
        let asker = self.supervised.as_ref().map(|supervised| &supervised.asker);
        asker.or(self.call.as_ref().map(|call| &call.leash)).map(AsFd::as_fd)
    }

    /// Sleeps between two looks at something that may change. An error as soon as nobody is there any more to be shown it: a
    /// write would notice that, but there may be nothing to write for hours.
    pub(crate) fn pause(&self, span: Duration) -> Result<(), CliError> {
        let until = Instant::now() + span;
        while !self.is_forsaken() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(());
            }
            thread::sleep(rest.min(LOOK_AGAIN));
        }
        Err(io::Error::from(io::ErrorKind::BrokenPipe).into())
    }

    /// True if whoever the command acts for, or whoever reads its answer, is gone.
    fn is_forsaken(&self) -> bool {
        let is_over = |asker| !poll_now(asker, PollFlags::POLLIN).is_empty();
        self.asker_process().is_some_and(is_over) || self.ui.is_unread()
    }

    /// The store of the scope, open already if a call before this one has left it.
    pub(crate) fn store(&self, scope: &Scope) -> Result<Lent, CliError> {
        match &self.call {
            Some(call) => call.stores.lend(scope),
            None => Ok(open(scope)?.into()),
        }
    }

    pub(crate) fn scope(&self) -> Result<Scope, CliError> {
        let found = Scope::discover(&self.cwd)?;
        sharing::check_user(found.git_dir())?;
        match &self.supervised {
            // The supervisor has rights that the tree does not have, and another checkout may be the tree's own making: its
            // settings name programs to run, its state files to remove.
            Some(supervised) if *supervised.guard.scope() != found => {
                let own = plain(supervised.guard.scope().root().display());
                let text = format!("`{}` is not in the checkout of this agent", plain(self.cwd.display()));
                let hint = format!(
                    "inside an agent's tree mala acts on the agent's own checkout alone: go to `{own}`"
                );
                Err(CliError::refused(text).hint(hint))
            }
            Some(_) | None => Ok(found),
        }
    }

    /// What is in a file that was named on the command line. On behalf of a tree, nothing but a file of at most `most` bytes is
    /// read: the supervisor is not to wait, or to grow.
    pub(crate) fn read(&self, file: &Path, most: u64) -> Result<Vec<u8>, CliError> {
        let path = self.cwd.join(file);
        let read = if self.supervised.is_some() { read_small(&path, most) } else { read_named(&path, most) };
        read.map_err(|error| CliError::usage(format!("cannot read `{}`: {error}", plain(path.display()))))
    }

    /// The same for text.
    pub(crate) fn read_text(&self, file: &Path, most: u64) -> Result<String, CliError> {
        String::from_utf8(self.read(file, most)?)
            .map_err(|error| CliError::usage(format!("cannot read `{}`: {error}", plain(file.display()))))
    }

    /// What is typed, or comes in place of it.
    pub(crate) fn read_input(&self, most: u64) -> Result<String, CliError> {
        let failed = |error: &dyn Display| CliError::usage(format!("cannot read standard input: {error}"));
        let bytes = read_at_most(self.ui.input(), most).map_err(|error| failed(&error))?;
        String::from_utf8(bytes).map_err(|error| failed(&error))
    }

    /// Settings from all layers, with what the command line says on top.
    pub(crate) fn settings(&self, scope: &Scope, overrides: Vec<Override>) -> Result<Settings, CliError> {
        match &self.call {
            Some(call) if overrides.is_empty() => {
                let files = [own_file(), Some(scope.settings_file())];
                call.stores.settings(&files, || self.read_settings(scope, overrides))
            }
            _ => Ok(self.read_settings(scope, overrides)?.0),
        }
    }

    /// The settings, and whether there was nothing to warn about.
    fn read_settings(&self, scope: &Scope, overrides: Vec<Override>) -> Result<(Settings, bool), CliError> {
        let loaded = self.load_settings(Some(scope), overrides)?;
        for warning in &loaded.warnings {
            self.ui.warning(&warning.to_string());
        }
        Ok((loaded.settings, loaded.warnings.is_empty()))
    }

    pub(crate) fn load_settings(
        &self,
        scope: Option<&Scope>,
        overrides: Vec<Override>,
    ) -> Result<Loaded, ConfigError> {
        let sources = Sources {
            user_file: own_file(),
            repo_file: scope.map(Scope::settings_file),
            env: env::vars_os().collect(),
            overrides,
        };
        Settings::load(&sources)
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
#[command(group(ArgGroup::new("which").required(true).args(["paths", "all"])))]
pub(crate) struct Selection {
    /// Files, folders or patterns, as they were locked
    #[arg(value_name = "PATH")]
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
    pub(crate) fn agent(&self, context: &Context, store: &mut Store) -> Result<AgentId, CliError> {
        Ok(self.party(context, store, None, None)?.agent)
    }

    /// The agent, with the process its locks live with. Below an agent's process one is that agent, whatever was given;
    /// elsewhere the one that is named, or the session that the caller was started from.
    pub(crate) fn party(
        &self,
        context: &Context,
        store: &mut Store,
        owner_pid: Option<u32>,
        issue: Option<IssueId>,
    ) -> Result<Party, CliError> {
        if let Some(party) = context.bound_party(store)? {
            return Ok(Party { issue: issue.or_else(|| party.issue.clone()), ..party });
        }
        let session = || {
            process::session().ok_or_else(|| {
                CliError::usage("cannot find the process that this session belongs to")
                    .hint("name the agent with `--agent NAME` and its process with `--owner-pid PID`")
            })
        };
        let owner: Owner = match owner_pid {
            Some(pid) => Process::find(pid).ok_or(StoreError::NoProcess { pid })?.owner(),
            None => session()?.owner(),
        };
        let agent = match &self.agent {
            Some(agent) => agent.clone(),
            None => session_name(&session()?)?,
        };
        Ok(Party { agent, owner, supervised: false, issue, run: None })
    }
}

/// The user's own settings.
fn own_file() -> Option<PathBuf> {
    user_file(env::var_os("XDG_CONFIG_HOME").as_deref(), env::var_os("HOME").as_deref())
}

pub(crate) fn open(scope: &Scope) -> Result<Store, CliError> {
    Ok(Store::open(scope)?)
}
