//! Test commands take turns: the kernel tier holds each until its mutex is free.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mala_config::Settings;
use mala_core::ports::Liveness;
use mala_core::text::{plain, span};
use mala_core::{
    CommandPattern, Conflict, Life, Lock, LockName, Mode, Owner, Scope, Target, Timestamp, Want,
};
use mala_gate::TestRun;
use mala_gate::evidence::{Launch, Place, command_line, lossy};
use mala_git::Repo;
use mala_logs::telemetry::metrics;
use mala_logs::telemetry::spans::{self, Span};
use mala_sandbox::{Capture, Exit, Held, Hold, Ruling, Start};
use mala_store::process::{Process, ProcessTable};
use mala_store::{Cause, Outcome, Party, Request, Store, StoreError, Wait};

use crate::acquire::wait_for_mutex;

/// How often somebody who waits is told what for.
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// Up to this long, waits are told in seconds.
const SECONDS_COUNT: Duration = Duration::from_secs(120);
/// How long anybody waits until what a program did is written down.
const LONGEST_RECORDING: Duration = Duration::from_secs(10);
/// How soon it is noticed that a program has ended, if nobody says so.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Which commands wait for which mutex, and how long.
#[derive(Debug, Clone)]
pub struct TurnRules {
    pub guarded: Vec<(LockName, CommandPattern)>,
    pub longest: Duration,
    pub ttl: Duration,
}

impl From<&Settings> for TurnRules {
    fn from(settings: &Settings) -> Self {
        Self { guarded: settings.guarded(), longest: settings.test.wait, ttl: settings.lock.ttl }
    }
}

impl TurnRules {
    /// The mutexes that a command line needs, each once.
    pub fn names(&self, args: &[OsString]) -> Vec<LockName> {
        let mut names: Vec<LockName> = Vec::new();
        for (name, pattern) in &self.guarded {
            if pattern.matches(args) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// True if a program that is called so may need one.
    fn are_about(&self, program: &OsStr) -> bool {
        self.guarded.iter().any(|(_, pattern)| pattern.is_about(program))
    }
}

/// What a process has said about the test that it becomes.
#[derive(Debug, Clone, Default)]
pub struct Announcement {
    /// The mutexes that it has already: it waited for them itself, because it would not wait for long.
    pub locks: Vec<Lock>,
}

type Announced = Arc<Mutex<HashMap<u32, Announcement>>>;

/// The turns of one agent's tree.
#[derive(Debug)]
pub struct Turns {
    scope: Scope,
    party: Party,
    rules: TurnRules,
    /// What the agent does is told as a part of this, as long as its command runs.
    span: Mutex<Span>,
    /// Processes of the tree whose next program is a test, because they said so.
    announced: Announced,
    running: Running,
}

/// Programs that have had their turn and are not recorded yet.
#[derive(Debug, Clone, Default)]
struct Running(Arc<(Mutex<Vec<Owner>>, Condvar)>);

impl Running {
    fn add(&self, program: Owner) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(program);
    }

    fn remove(&self, program: &Owner) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| known != program);
        self.0.1.notify_all();
    }

    fn settle(&self) {
        let is_over = |program: &Owner| ProcessTable.of(program) == Life::Dead;
        let (began, (running, recorded)) = (Instant::now(), &*self.0);
        let mut programs = running.lock().unwrap_or_else(PoisonError::into_inner);
        while programs.iter().any(is_over) && began.elapsed() < LONGEST_RECORDING {
            let waited = recorded.wait_timeout(programs, LOOK_AGAIN);
            (programs, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Turns {
    pub fn new(scope: Scope, party: Party, rules: TurnRules, span: Span) -> Self {
        Self {
            scope,
            party,
            rules,
            span: Mutex::new(span),
            announced: Arc::default(),
            running: Running::default(),
        }
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The agent's session, for a collector.
    pub fn span(&self) -> Span {
        self.span.lock().map_or_else(|_| Span::none(), |span| span.clone())
    }

    /// The agent's session is over.
    pub fn end_span(&self) {
        if let Ok(mut span) = self.span.lock() {
            *span = Span::none();
        }
    }

    /// Returns when every program that has ended is recorded: who started it may ask for the record next.
    pub fn settle(&self) {
        self.running.settle();
    }

    /// The next program that this process becomes is a test.
    pub fn announce(&self, pid: u32, announcement: Announcement) {
        if let Ok(mut announced) = self.announced.lock() {
            announced.insert(pid, announcement);
        }
    }

    /// True if the process has said so and has not become a test yet: a program is looked for in several folders.
    pub fn is_announced(&self, pid: u32) -> bool {
        self.announced.lock().is_ok_and(|announced| announced.contains_key(&pid))
    }

    /// The turn that this program has to wait for, if any.
    pub fn of(&self, start: &Start<'_>) -> Option<Turn> {
        let announced = self.announced.lock().ok().and_then(|announced| announced.get(&start.pid).cloned());
        let mut names =
            if self.rules.are_about(start.called) { self.rules.names(start.args()) } else { Vec::new() };
        if announced.is_some() && names.is_empty() {
            names.push(LockName::test());
        }
        (!names.is_empty()).then(|| Turn {
            span: self.span(),
            scope: self.scope.clone(),
            request: Request {
                party: self.party.clone(),
                wants: names.into_iter().map(want).collect(),
                ttl: self.rules.ttl,
                reason: Some(command_line(start.args())),
            },
            longest: self.rules.longest,
            announced: self.announced.clone(),
            running: self.running.clone(),
            argv: start.args().to_vec(),
            held: announced.map(|said| said.locks).filter(|locks| !locks.is_empty()).map(HeldMutexes::new),
            test: None,
            capture: None,
        })
    }
}

pub fn want(name: LockName) -> Want {
    Want { target: Target::Name(name), aliases: Vec::new(), mode: Mode::Exclusive }
}

/// Mutexes that one test command holds.
#[derive(Debug)]
pub struct HeldMutexes {
    locks: Vec<Lock>,
    since: Instant,
}

impl HeldMutexes {
    /// None, for a command below one that holds what it needs.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    fn new(locks: Vec<Lock>) -> Self {
        Self { locks, since: Instant::now() }
    }

    pub fn into_locks(self) -> Vec<Lock> {
        self.locks
    }

    /// The one that a record names.
    pub fn name(&self) -> Option<&LockName> {
        self.names().next()
    }

    fn names(&self) -> impl Iterator<Item = &LockName> {
        self.locks.iter().filter_map(|lock| match &lock.target {
            Target::Name(name) => Some(name),
            Target::File(_) | Target::Pattern(_) => None,
        })
    }

    /// Hands them on. All of them are tried; what fails ends with its process.
    pub fn release(self, store: &mut Store) -> Result<(), StoreError> {
        self.names().for_each(|name| metrics().mutex_hold(name, self.since.elapsed()));
        let released: Vec<_> = self.locks.iter().map(|lock| store.release_one(lock)).collect();
        released.into_iter().try_for_each(|released| released.map(drop))
    }
}

/// Waits for the mutexes of a test command. Gives, in words, why its turn did not come.
pub fn take_turn(
    store: &mut Store,
    request: &Request,
    wait: Wait<'_>,
    span: &Span,
    mut tell: impl FnMut(&str),
) -> Result<Result<HeldMutexes, String>, StoreError> {
    let (began, longest) = (Instant::now(), wait.longest);
    let names: Vec<String> = request.wants.iter().map(|want| want.target.to_string()).collect();
    let _waiting = span.in_scope(|| spans::lock_wait(&request.party.agent, &names.join(", ")));
    let outcome =
        wait_for_mutex(store, request, Wait { remind_every: Some(REMIND_EVERY), ..wait }, |conflicts| {
            if let Some(text) = waiting_for(conflicts) {
                tell(&text);
            }
        })?;
    Ok(match outcome {
        Outcome::Granted(locks) => {
            let held = HeldMutexes::new(locks);
            held.names().for_each(|name| metrics().mutex_wait(name, began.elapsed()));
            Ok(held)
        }
        Outcome::Refused(refusal) => Err(no_turn(&refusal.cause, longest)),
    })
}

/// One program that waits, runs and ends.
#[derive(Debug)]
pub struct Turn {
    scope: Scope,
    request: Request,
    longest: Duration,
    announced: Announced,
    running: Running,
    argv: Vec<OsString>,
    /// The agent's; from when it asks for its turn, that of this program.
    span: Span,
    /// What it holds already, or from when its turn has come.
    held: Option<HeldMutexes>,
    test: Option<TestRun>,
    /// What it prints, where that can be copied.
    capture: Option<Capture>,
}

impl Turn {
    fn take(&mut self, held: &Held) -> Result<Ruling, StoreError> {
        let Some(process) = Process::find(held.pid()) else { return Ok(Ruling::Allow) };
        // The mutex lives and dies with the program, whatever becomes of this supervisor.
        self.request.party.owner = process.owner();
        self.request.party.supervised = true;
        self.running.settle();
        if self.held.is_none() {
            let mut store = Store::open(&self.scope)?;
            let wait = Wait { longest: self.longest, on_behalf_of: Some(held.process()), remind_every: None };
            let tell = |text: &str| held.tell(&format!("mala: {text}"));
            match take_turn(&mut store, &self.request, wait, &self.span, tell)? {
                Ok(mutexes) => self.held = Some(mutexes),
                Err(why) => {
                    spans::failed(&self.span, &why);
                    return Ok(Ruling::Refuse { message: format!("mala: {why}") });
                }
            }
        }
        if let Err(error) = self.begin(held) {
            held.tell(&format!("mala: this run counts for nothing, it cannot be recorded: {error}"));
        }
        Ok(Ruling::Allow)
    }

    /// Notes what the program starts with.
    fn begin(&mut self, held: &Held) -> Result<(), Box<dyn Error>> {
        let launch = Launch {
            argv: self.argv.clone(),
            cwd: std::fs::read_link(format!("/proc/{}/cwd", held.pid()))?,
            mutex: self.held.as_ref().and_then(HeldMutexes::name).cloned(),
            place: Place::Shared,
        };
        let repo = Repo::new(self.scope.clone());
        let test = TestRun::begin((&self.scope, &repo), &self.request.party, launch, self.span.clone())?;
        self.capture = held.capture(test.output()?)?;
        self.test = Some(test);
        self.running.add(self.request.party.owner.clone());
        Ok(())
    }

    /// Notes how the program ended, and on what it ran.
    fn conclude(&mut self, exit: Option<Exit>) -> Result<(), Box<dyn Error>> {
        let Some(test) = self.test.take() else { return Ok(()) };
        let capture = self.capture.take();
        let is_output_saved = capture.is_some();
        capture.map(Capture::finish).transpose()?;
        test.conclude(exit, is_output_saved)?;
        Ok(())
    }
}

impl Hold for Turn {
    fn wait(&mut self, held: &Held) -> Ruling {
        let mutex = self.request.wants.iter().find_map(|want| match &want.target {
            Target::Name(name) => Some(name),
            Target::File(_) | Target::Pattern(_) => None,
        });
        self.span = self.span.in_scope(|| spans::test(mutex, &lossy(&self.argv)));
        if let Ok(mut announced) = self.announced.lock() {
            announced.remove(&held.pid());
        }
        self.take(held).unwrap_or_else(|error| Ruling::Refuse {
            message: format!("mala: this command needs the test mutex, which cannot be had: {error}"),
        })
    }

    fn ended(mut self: Box<Self>, exit: Option<Exit>) {
        if let Some(test) = &mut self.test {
            test.note_end();
        }
        // A run that cannot be recorded is no evidence: the gate says that it is missing.
        let _ = self.conclude(exit);
        // If the store fails now, the lock still ends with its process.
        if let (Some(held), Ok(mut store)) = (self.held.take(), Store::open(&self.scope)) {
            let _ = held.release(&mut store);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.remove(&self.request.party.owner);
    }
}

/// Actor is in the way, e.g. "waiting for the test mutex, held by alice for 40 s (`pytest -q`)".
fn waiting_for(conflicts: &[Conflict]) -> Option<String> {
    let Conflict { want, holder } = conflicts.first()?;
    let since = Timestamp::now().since(holder.acquired_at);
    let held = if since < SECONDS_COUNT { format!("{} s", since.as_secs()) } else { span(since) };
    let what = holder.reason.as_deref().map(|reason| format!(" (`{}`)", plain(reason))).unwrap_or_default();
    Some(format!("waiting for the {} mutex, held by {} for {held}{what}", plain(&want.target), holder.agent))
}

/// Why a test command does not run.
fn no_turn(cause: &Cause, longest: Duration) -> String {
    match cause {
        Cause::TimedOut => format!(
            "its turn did not come within {}, so it was not run; see who is testing: mala status; wait longer: \
             mala test --wait 1h -- COMMAND; or set `test.wait` in the settings",
            span(longest)
        ),
        Cause::Held | Cause::GivenUp | Cause::Deadlock(_) => {
            "its turn did not come, so it was not run; see who is testing: mala status".to_owned()
        }
    }
}
