//! Agents as processes of `mala exec`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mala_agents::launch::home::users;
use mala_agents::start::{self, LaunchSpec, Order};
use mala_config::Settings;
use mala_core::ports::Liveness as _;
use mala_core::{AgentId, Attempt, Life, Scope};
use mala_git::{OwnedDirectory, Repo};
use mala_logs::telemetry::TRACEPARENT;
use mala_session::{git_guard, jail};
use mala_store::process::{Process, ProcessTable, current, kill, wait_for_end};
use mala_store::{EventKind, Store};
use nix::unistd::Uid;

use super::process::{self, ProcessSpec, Reach};
use super::self_test::{Hooked, SelfTestError, Stage};
use super::{Session, SessionEvents, SessionOrder, Sessions, client_home, file_name, first_visit};
use crate::error::Result;
use crate::event::Event;
use crate::options::Profiles;
use crate::trace::Trace;

/// What the process calls itself that ends an agent's tree; it has the environment of its supervisor.
const KEEPER: &str = "mala-keeper";

/// Tells which tree of processes a process belongs to.
const TREE: &str = "MALA_TREE";

fn mark(attempt: &Attempt) -> String {
    format!("{}/{}", attempt.run, attempt.agent)
}

/// Starts agents under `mala exec`, with locks that live as long as this process.
#[derive(Debug)]
pub struct ExecSessions {
    pub(super) scope: Scope,
    pub(super) mala: PathBuf,
    /// Refuse to run where the kernel cannot enforce.
    pub(super) require_kernel: bool,
    /// What agents are told they are a part of.
    pub(super) trace: Trace,
    /// Whether the kernel helps here, once that is known: to find out costs a process.
    pub(super) has_kernel: OnceLock<bool>,
    /// Clients that may be started, whose hooks must work.
    pub(super) hooked: Vec<Hooked>,
}

impl ExecSessions {
    /// `mala` is the program that agents are started with.
    pub fn new(scope: &Scope, settings: &Settings, profiles: &Profiles, mala: PathBuf, trace: Trace) -> Self {
        Self {
            scope: scope.clone(),
            mala,
            require_kernel: settings.enforcement.require_kernel,
            trace,
            has_kernel: OnceLock::new(),
            hooked: Hooked::of(profiles.in_use()),
        }
    }

    pub(super) fn exec(&self, agent: &AgentId) -> Command {
        let mut command = Command::new(&self.mala);
        // opencode believes `PWD` more than its own directory, and the run may have been typed elsewhere.
        command.current_dir(self.scope.root()).env("PWD", self.scope.root()).env_remove("MALA_AGENT");
        command.args(["exec", "--agent", agent.as_str()]);
        command.args(["--owner-pid", &std::process::id().to_string(), "--keep-locks"]);
        command
    }

    fn failure_file(&self, attempt: &Attempt) -> PathBuf {
        self.scope.state_dir().join("failures").join(attempt.id.to_string())
    }

    fn command(&self, order: &SessionOrder<'_>, spec: &LaunchSpec) -> Command {
        let attempt = order.attempt;
        let mut command = self.exec(&attempt.agent);
        command.args(["--issue", attempt.issue.as_str(), "--run", attempt.run.as_str()]);
        command.args(["--attempt", &attempt.id.to_string()]);
        command.arg("--failure-file").arg(self.failure_file(attempt));
        let env = order.env.iter().map(|(name, value)| (name, value));
        command.arg("--").args(&spec.command).envs(env).envs(&spec.env).env(TREE, mark(attempt));
        command.envs(self.trace.parent(&attempt.issue).map(|parent| (TRACEPARENT, parent)));
        command
    }

    /// For a client that writes to its home: there, unlike below the state, agents may.
    fn new_home(&self) -> io::Result<OwnedDirectory> {
        OwnedDirectory::create(&self.homes(), &current())
    }

    fn homes(&self) -> PathBuf {
        self.scope.work_dir().join("homes")
    }

    /// Whom a kill is for: with the kernel's help all that an agent has started ends with its supervisor.
    fn reach(&self) -> Reach {
        let has_kernel = self.has_kernel.get_or_init(|| jail::kernel(&self.scope).is_ok());
        if *has_kernel { Reach::Process } else { Reach::Group }
    }
}

impl Sessions for ExecSessions {
    fn start(&self, order: &SessionOrder<'_>, events: SessionEvents) -> Result<Box<dyn Session>> {
        let SessionOrder { attempt, profile, .. } = order;
        let home = profile.kind.needs_home().then(|| self.new_home()).transpose()?;
        let directory = match &home {
            Some(home) => home.path().to_owned(),
            None => self.scope.state_dir().join("agents").join(file_name(attempt.agent.as_str())),
        };
        let variable =
            |name: &str| profile.env.get(name).map(OsString::from).or_else(|| std::env::var_os(name));
        let spec = start::spec(&Order {
            profile,
            prompt: order.prompt,
            session: order.conversation,
            mala: &self.mala.to_string_lossy(),
            root: self.scope.root(),
            folder: &directory,
            home: &users(variable).unwrap_or_default(),
            budget: order.budget,
            is_root: Uid::effective().is_root(),
        })?;
        write_files(&spec, &directory)?;
        spec.home.as_ref().map(|(home, users)| client_home::make(home, users)).transpose()?;
        let process = ProcessSpec {
            issue: attempt.issue.clone(),
            kind: profile.kind,
            command: self.command(order, &spec),
            stdin: spec.stdin,
            model: profile.model.clone(),
            spent: order.spent.clone(),
            log: order.log.to_owned(),
            failure_file: self.failure_file(attempt),
            reach: self.reach(),
            home,
        };
        Ok(process::start(process, events)?)
    }

    /// A supervisor ends with its run, and its keeper ends the tree then. This makes sure that it has happened.
    fn reap(&self, attempt: &Attempt) -> Result<()> {
        let supervisor = Store::open(&self.scope)?.attempt(attempt.id)?.supervisor;
        if let Some(supervisor) = supervisor.filter(|it| ProcessTable.of(it) == Life::Alive) {
            kill(&supervisor);
            wait_for_end(&supervisor);
        }
        loop {
            let marked = marked(attempt);
            if marked.is_empty() {
                return Ok(());
            }
            // A keeper is never killed: it alone finds what has left the tree's process group, and ends after it.
            marked.iter().filter(|it| it.name != KEEPER).for_each(|it| kill(&it.owner()));
            marked.iter().for_each(|it| wait_for_end(&it.owner()));
        }
    }

    /// The supervisor notes it; without the kernel's help there is none that hooks turn to.
    fn are_hooks_heard(&self, attempt: &Attempt, pid: u32) -> Result<Option<bool>> {
        if self.reach() == Reach::Group {
            return Ok(None);
        }
        let heard = Store::open(&self.scope)?.facts(&attempt.agent, &[EventKind::HooksHeard], None)?;
        Ok(Some(heard.iter().any(|event| event.detail["supervisor"] == pid)))
    }

    /// Sockets of supervisors that were killed, locks of git that killed processes of agents have left, and homes of clients.
    fn sweep(&self) {
        git_guard::lock_files::sweep(&self.scope);
        // What cannot be swept now is swept by the next commit.
        let _ = mala_git::commit::sweep(&Repo::new(self.scope.clone()), &ProcessTable);
        let _ = OwnedDirectory::sweep(&self.homes(), &ProcessTable);
        let desk = self.scope.state_dir().join("desk");
        for entry in fs::read_dir(desk).into_iter().flatten().flatten() {
            let pid = entry.path().file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if pid.is_some_and(|pid: u32| Process::find(pid).is_none()) {
                // Somebody else may have been faster.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn prepare(&self, tell: &mut dyn FnMut(&Event)) -> Vec<String> {
        let mala = self.mala.to_string_lossy();
        let install = |client: &Hooked| first_visit::install(client, &self.scope, &mala, tell);
        self.hooked.iter().filter_map(install).collect()
    }

    fn self_test(&self) -> Result<()> {
        let is_enforced = match jail::kernel(&self.scope) {
            Ok(_) => true,
            Err(why) if self.require_kernel => return Err(SelfTestError::Kernel(why).into()),
            Err(why @ mala_sandbox::Unsupported::AlreadyInside) => {
                return Err(SelfTestError::Kernel(why).into());
            }
            Err(_) => false,
        };
        let stage = Stage::set(self)?;
        let kernel = if is_enforced { stage.prove_kernel() } else { Ok(()) };
        let proven = kernel.and_then(|()| self.hooked.iter().try_for_each(|one| stage.prove_hook(one)));
        let cleared = stage.clear();
        proven.and(cleared)
    }
}

/// Files for the client's eyes only: they may hold what the prompt holds.
fn write_files(spec: &LaunchSpec, directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if spec.files.is_empty() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    spec.files.iter().try_for_each(|(path, text)| fs::write(path, text))
}

/// The processes that were started for this attempt by whatever means, as their environment says. The store knows only the
/// supervisor, and that from a moment after it was started: what it has started is found by this, its keeper among them, and
/// what is left if both were killed.
#[cfg(target_os = "linux")]
fn marked(attempt: &Attempt) -> Vec<Process> {
    let mark = format!("{TREE}={}", mark(attempt));
    let find = |entry: fs::DirEntry| {
        let process = Process::find(entry.file_name().to_str()?.parse().ok()?)?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        // The environment is this process's only if no other one has got its pid meanwhile.
        (is_marked && ProcessTable.of(&process.owner()) == Life::Alive).then_some(process)
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(find).collect()
}

/// Elsewhere a supervisor's own watch over its run has to do.
#[cfg(not(target_os = "linux"))]
fn marked(_attempt: &Attempt) -> Vec<Process> {
    Vec::new()
}
