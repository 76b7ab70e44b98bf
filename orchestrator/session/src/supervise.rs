//! One agent under supervision, from its registration to the end of its process tree.
//!
//! The agent is known to the store before its command starts, and everything that was started for it has ended before this
//! returns. Its locks are given back by the caller, or stay with the run that it worked for.

use std::env;
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mala_config::Settings;
use mala_core::{AttemptId, Owner, Scope};
use mala_gate::claim;
use mala_logs::telemetry::spans::{self, Span};
use mala_sandbox::Exit;
use mala_store::{Party, Store, process};

use crate::background::{Background, Task, Warn};
use crate::guard::{LostLock, StoreGuard};
use crate::ignored::{Ignored, IgnoredAhead};
use crate::supervisor_socket::{self, RunCommand, SupervisorSocket};
use crate::turns::{TurnRules, Turns};
use crate::{SessionError, git_guard, jail};

/// How often open files are compared with locks.
const LOST_LOCKS_INTERVAL: Duration = Duration::from_secs(1);

/// Tells an agent its name.
const AGENT: &str = "MALA_AGENT";

/// What to run as an agent, and for whom.
#[derive(Debug)]
pub struct Supervision {
    pub scope: Scope,
    pub settings: Settings,
    pub party: Party,
    /// What the agent is called in traces.
    pub profile: String,
    /// The attempt of a run that this is, by which the run finds it.
    pub attempt: Option<AttemptId>,
    /// Whether the kernel holds the agent to its locks.
    pub is_enforced: bool,
}

/// The program around a supervision.
#[derive(Clone)]
pub struct Surroundings {
    /// Runs what a process of the tree asks for.
    pub run_for_tree: RunCommand,
    /// Hears what a person should know.
    pub notify: Arc<dyn Fn(Notice) + Send + Sync>,
    /// Ends this process, and with it the tree: the process that the agent worked for is gone. Nothing if the agent works
    /// for nobody else.
    pub on_owner_ended: Option<fn()>,
}

/// Something that a person should know.
#[derive(Debug)]
pub enum Notice {
    /// A program of the tree goes on writing to a file whose lock the agent has lost.
    LockLost(LostLock),
    /// Something beside the agent does not work.
    Trouble(String),
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// An agent whose tree is gone.
#[derive(Debug)]
pub struct SupervisedEnd {
    pub guard: Arc<StoreGuard>,
    pub exit: Exit,
    span: Span,
}

impl SupervisedEnd {
    /// Tells the collector how it ended.
    pub fn conclude(&self) {
        spans::ended(&self.span, self.exit.code, self.exit.signal);
        self.guard.turns().end_span();
    }
}

impl Supervision {
    /// Runs the command as the agent, until nothing of its tree is left. `command` is made when everything else is ready.
    pub fn run(
        &self,
        surroundings: &Surroundings,
        command: impl FnOnce() -> Command,
    ) -> Result<SupervisedEnd, SessionError> {
        let Self { scope, settings, party, .. } = self;
        #[cfg(target_os = "linux")]
        jail::freeze_git()?;
        let ignored = Arc::new(Ignored::in_checkout(scope));
        let ahead = self.is_enforced.then(|| IgnoredAhead::start(&ignored, jail::index_file(scope)));
        let ahead = ahead.transpose()?;
        let store = self.register()?;
        let span = spans::agent(&party.agent, &self.profile);
        let turns = Turns::new(scope.clone(), party.clone(), TurnRules::from(settings), span.clone());
        let guard = Arc::new(StoreGuard::new(store, party, turns, settings, ignored)?);
        let beside = self.start_background(&guard, surroundings);
        let exit = match ahead {
            Some(ahead) => self.run_enforced(&guard, ahead, surroundings, command),
            None => self.run_plain(surroundings, command),
        };
        drop(beside);
        guard.turns().settle();
        guard.tree_ended();
        // The tree is dead, so what its git left is nobody's. Threads that end with the process may keep the guard until then.
        guard.git_guard().end();
        if let Some(attempt) = self.attempt {
            // If that fails, the attempt names a process that has ended.
            let _ =
                Store::open(scope).and_then(|mut store| store.end_supervision(attempt, &process::current()));
        }
        // If the command was not started, the agent keeps what it held before.
        Ok(SupervisedEnd { guard, span, exit: exit? })
    }

    /// Makes the agent known, unless somebody else is running under its name.
    fn register(&self) -> Result<Store, SessionError> {
        let mut store = Store::open(&self.scope)?;
        store.join(&self.party)?;
        claim::note(&mut store, &self.scope, &self.party)?;
        if let Some(attempt) = self.attempt {
            // Whoever ends the attempt later finds this process by it.
            store.supervise(attempt, &process::current())?;
        }
        Ok(store)
    }

    fn run_enforced(
        &self,
        guard: &Arc<StoreGuard>,
        ahead: IgnoredAhead,
        surroundings: &Surroundings,
        command: impl FnOnce() -> Command,
    ) -> Result<Exit, SessionError> {
        let directory = self.scope.state_dir().join("desk");
        let socket = SupervisorSocket::open(&directory, &self.party, guard, surroundings.run_for_tree)?;
        let _watch = OwnerWatch::start(&self.party.owner, surroundings, Some(socket.socket()))?;
        let mut exempt = ahead.end();
        exempt.retain(|directory| !guard.is_held_by_others(directory, true));
        let exempt = exempt.iter().map(|directory| self.scope.root().join(directory)).collect();
        let mut command = with_git_environment(command());
        command.env(AGENT, self.party.agent.as_str()).env(supervisor_socket::VARIABLE, socket.socket());
        let jail = jail::jail(&self.scope, exempt, self.reserved(guard), guard.git_guard().others().roots());
        Ok(mala_sandbox::run(&jail, guard.clone(), command)?)
    }

    /// What is mala's or people's: refs, slots, and for agents of a run what people tell them.
    fn reserved(&self, guard: &StoreGuard) -> Vec<PathBuf> {
        let refs = guard.git_guard().reserved_refs().paths().cloned();
        let people = self.party.run.is_some().then(|| self.scope.people_dir());
        refs.chain(self.slots()).chain(people).collect()
    }

    /// Where slots lie. They are there before the agent is, which could take their place otherwise. Where they cannot be made, as in
    /// a home that is read-only, nobody will use any.
    fn slots(&self) -> Option<PathBuf> {
        let slots = mala_git::slot::directory(&self.scope, &self.settings.queue.directory)?;
        std::fs::create_dir_all(&slots).ok()?;
        slots.canonicalize().ok()
    }

    /// Without the kernel's help: the agent is known, and bound by what it asks for.
    fn run_plain(
        &self,
        surroundings: &Surroundings,
        command: impl FnOnce() -> Command,
    ) -> Result<Exit, SessionError> {
        let _watch = OwnerWatch::start(&self.party.owner, surroundings, None)?;
        let mut command = with_git_environment(command());
        command.env(AGENT, self.party.agent.as_str());
        Ok(mala_sandbox::run_unprotected(command)?)
    }

    /// What goes on beside the agent: its open files are compared with its locks, its leases renewed, and what is due is done.
    fn start_background(&self, guard: &Arc<StoreGuard>, surroundings: &Surroundings) -> Background {
        let tasks = vec![
            watch_lost_locks(guard, surroundings),
            sum_up_staged(guard),
            Task::renew(&self.scope, &self.party.agent, &self.settings),
            Task::escalate(&self.scope),
            Task::sweep(&self.scope, &self.settings),
            Task::close_object_readers(),
        ];
        let notify = surroundings.notify.clone();
        let warn: Warn = Arc::new(move |text| notify(Notice::Trouble(text.to_owned())));
        Background::start(tasks, &warn)
    }
}

fn with_git_environment(mut command: Command) -> Command {
    command.envs(git_guard::environment::variables(|name| env::var_os(name)));
    command.env(mala_git::STARTED_WITH, mala_git::started_with());
    command
}

fn watch_lost_locks(guard: &Arc<StoreGuard>, surroundings: &Surroundings) -> Task {
    let (guard, notify) = (guard.clone(), surroundings.notify.clone());
    Task::new("compare open files with locks", LOST_LOCKS_INTERVAL, move || {
        guard.git_guard().clear();
        guard.record_commits();
        guard.lost()?.into_iter().for_each(|lost| notify(Notice::LockLost(lost)));
        Ok(())
    })
}

/// Keeps what is known about staged files small.
fn sum_up_staged(guard: &Arc<StoreGuard>) -> Task {
    let guard = guard.clone();
    Task::new("sum up what was staged", LOST_LOCKS_INTERVAL, move || Ok(guard.git_guard().sum_up_staged()?))
}

/// Watches the process that the agent works for until it is dropped. If that process ends, so does this one, and with it the
/// agent's tree.
struct OwnerWatch {
    stop: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl OwnerWatch {
    /// Nothing to watch for an agent that works for nobody else.
    fn start(owner: &Owner, surroundings: &Surroundings, socket: Option<&Path>) -> io::Result<Option<Self>> {
        let Some(end) = surroundings.on_owner_ended else { return Ok(None) };
        let (stopped, stop) = io::pipe()?;
        let (owner, socket) = (owner.clone(), socket.map(Path::to_owned));
        let watch = move || {
            if !process::wait_for_end_until(&owner, stopped.as_fd()) {
                return;
            }
            if let Some(socket) = socket {
                let _ = std::fs::remove_file(socket);
            }
            end();
        };
        let thread = Some(thread::Builder::new().name("owner".to_owned()).spawn(watch)?);
        Ok(Some(Self { stop, thread }))
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
