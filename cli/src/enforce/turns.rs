//! Test commands take turns: the kernel tier holds each until its mutex is free.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mala_config::Settings;
use mala_core::{CommandPattern, Conflict, Lock, LockName, Mode, Scope, Target, Timestamp, Want};
use mala_gate::Repo;
use mala_gate::evidence::{Ended, Launch, Place, Recording, Who};
use mala_logs::telemetry::metrics;
use mala_sandbox::{Capture, Exit, Held, Hold, Ruling, Start};
use mala_store::process::Process;
use mala_store::{Cause, EventKind, Outcome, Party, Request, Store, StoreError, Wait};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::ownership::StoreOwnership;
use crate::ui::{plain, span};

/// How often somebody who waits is told what for.
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// Up to this long, waits are told in seconds.
const SECONDS_COUNT: Duration = Duration::from_secs(120);

/// Which commands wait for which mutex, and how long.
#[derive(Debug, Clone)]
pub(crate) struct TurnRules {
    pub(crate) guarded: Vec<(LockName, CommandPattern)>,
    pub(crate) longest: Duration,
    pub(crate) ttl: Duration,
}

impl From<&Settings> for TurnRules {
    fn from(settings: &Settings) -> Self {
        Self { guarded: settings.guarded(), longest: settings.test.wait, ttl: settings.lock.ttl }
    }
}

impl TurnRules {
    /// The mutexes that a command line needs, each once.
    pub(crate) fn names(&self, args: &[OsString]) -> Vec<LockName> {
        let mut names: Vec<LockName> = Vec::new();
        for (name, pattern) in &self.guarded {
            if pattern.matches(args) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

type Announced = Arc<Mutex<HashMap<u32, Option<PathBuf>>>>;

/// The turns of one agent's tree.
#[derive(Debug)]
pub(crate) struct Turns {
    scope: Scope,
    party: Party,
    rules: TurnRules,
    /// Processes of the tree whose next program is a test, because they said so, and the snapshot it runs in.
    announced: Announced,
}

impl Turns {
    pub(crate) fn new(scope: Scope, party: Party, rules: TurnRules) -> Self {
        Self { scope, party, rules, announced: Arc::default() }
    }

    /// The next program that this process becomes is a test.
    pub(crate) fn announce(&self, pid: u32, snapshot: Option<PathBuf>) {
        if let Ok(mut announced) = self.announced.lock() {
            announced.insert(pid, snapshot);
        }
    }

    /// True if the process has said so and has not become a test yet: a program is looked for in several folders.
    pub(crate) fn is_announced(&self, pid: u32) -> bool {
        self.announced.lock().is_ok_and(|announced| announced.contains_key(&pid))
    }

    /// The snapshot in this folder, if it is one of ours.
    fn snapshot(&self, folder: &Path) -> Option<Scope> {
        let folder = folder.canonicalize().ok()?;
        let is_ours = folder.starts_with(self.scope.work_dir());
        is_ours.then(|| Scope::discover(&folder).ok()).flatten().filter(|scope| scope.root() == folder)
    }

    /// The turn that this program has to wait for, if any.
    pub(crate) fn of(&self, start: &Start<'_>) -> Option<Turn> {
        let announced = self.announced.lock().ok().and_then(|announced| announced.get(&start.pid).cloned());
        let mut names = self.rules.names(start.args);
        let snapshot = announced.clone().flatten().and_then(|folder| self.snapshot(&folder));
        if snapshot.is_some() {
            // Nobody else is in there.
            names.clear();
        } else if announced.is_some() && names.is_empty() {
            names.push(LockName::test());
        }
        (snapshot.is_some() || !names.is_empty()).then(|| Turn {
            snapshot,
            scope: self.scope.clone(),
            request: Request {
                party: self.party.clone(),
                wants: names.into_iter().map(want).collect(),
                ttl: self.rules.ttl,
                reason: Some(command_line(start.args)),
            },
            longest: self.rules.longest,
            announced: self.announced.clone(),
            argv: start.args.to_vec(),
            locks: Vec::new(),
            granted: None,
            recording: None,
            capture: None,
        })
    }
}

pub(crate) fn want(name: LockName) -> Want {
    Want { target: Target::Name(name), aliases: Vec::new(), mode: Mode::Exclusive }
}

/// A command line as it is shown.
pub(crate) fn command_line(args: &[OsString]) -> String {
    args.iter().map(|arg| plain(arg.display())).collect::<Vec<_>>().join(" ")
}

/// One program that waits, runs and ends.
#[derive(Debug)]
pub(crate) struct Turn {
    scope: Scope,
    /// Where it runs, if that is not the checkout that everybody shares.
    snapshot: Option<Scope>,
    request: Request,
    longest: Duration,
    announced: Announced,
    argv: Vec<OsString>,
    locks: Vec<Lock>,
    granted: Option<Instant>,
    recording: Option<Recording>,
    /// What it prints, where that can be copied.
    capture: Option<Capture>,
}

impl Turn {
    fn take(&mut self, held: &Held) -> Result<Ruling, StoreError> {
        let Some(process) = Process::find(held.pid()) else { return Ok(Ruling::Allow) };
        // The mutex lives and dies with the program, whatever becomes of this supervisor.
        self.request.party.owner = process.owner();
        self.request.party.supervised = true;
        let mut store = Store::open(&self.scope)?;
        if self.request.wants.is_empty() {
            self.begin(held, &mut store);
            return Ok(Ruling::Allow);
        }
        let wait = Wait {
            longest: self.longest,
            on_behalf_of: Some(held.process()),
            remind_every: Some(REMIND_EVERY),
        };
        let began = Instant::now();
        let outcome = store.reserve_or_wait(&self.request, wait, |conflicts| {
            if let Some(text) = waiting_for(conflicts) {
                held.tell(&format!("mala: {text}"));
            }
        })?;
        Ok(match outcome {
            Outcome::Granted(locks) => {
                metrics().mutex_wait(&LockName::test(), began.elapsed());
                self.granted = Some(Instant::now());
                self.locks = locks;
                self.begin(held, &mut store);
                Ruling::Allow
            }
            Outcome::Refused(refusal) => {
                Ruling::Refuse { message: format!("mala: {}", no_turn(&refusal.cause, self.longest)) }
            }
        })
    }
}

impl Turn {
    fn begin(&mut self, held: &Held, store: &mut Store) {
        if let Err(error) = self.record(held, store) {
            held.tell(&format!("mala: this run counts for nothing, it cannot be recorded: {error}"));
        }
    }

    /// Notes what the program starts with.
    fn record(&mut self, held: &Held, store: &mut Store) -> Result<(), Box<dyn Error>> {
        let party = &self.request.party;
        let who = Who { agent: party.agent.clone(), issue: party.issue.clone(), run: party.run.clone() };
        let launch = Launch {
            argv: self.argv.clone(),
            cwd: std::fs::read_link(format!("/proc/{}/cwd", held.pid()))?,
            mutex: self.locks.first().and_then(|lock| match &lock.target {
                Target::Name(name) => Some(name.clone()),
                Target::File(_) | Target::Pattern(_) => None,
            }),
            place: if self.snapshot.is_some() { Place::Isolated } else { Place::Shared },
        };
        let scope = self.snapshot.as_ref().unwrap_or(&self.scope);
        let recording = Recording::begin(&Repo::new(scope.clone()), who, launch)?;
        self.capture = held.capture(File::create(recording.output_log())?)?;
        let detail = json!({ "command": self.request.reason, "evidence": recording.id() });
        store.record_fact(party, EventKind::TestStarted, None, &detail)?;
        self.recording = Some(recording);
        Ok(())
    }

    /// Notes how the program ended, and on what it ran.
    fn conclude(&mut self, exit: Option<Exit>) -> Result<(), Box<dyn Error>> {
        let Some(recording) = self.recording.take() else { return Ok(()) };
        let ended = Ended {
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            output_sha256: match self.capture.take() {
                Some(capture) => {
                    capture.finish()?;
                    Some(sha256(recording.output_log())?)
                }
                None => None,
            },
        };
        let evidence = recording.finish(ended, &StoreOwnership::new(Store::open(&self.scope)?))?;
        let detail = json!({
            "command": self.request.reason,
            "evidence": evidence.id,
            "exit_code": evidence.exit_code,
            "signal": evidence.signal,
        });
        Store::open(&self.scope)?.record_fact(&self.request.party, EventKind::TestEnded, None, &detail)?;
        Ok(())
    }
}

impl Hold for Turn {
    fn wait(&mut self, held: &Held) -> Ruling {
        if let Ok(mut announced) = self.announced.lock() {
            announced.remove(&held.pid());
        }
        self.take(held).unwrap_or_else(|error| Ruling::Refuse {
            message: format!("mala: this command needs the test mutex, which cannot be had: {error}"),
        })
    }

    fn ended(mut self: Box<Self>, exit: Option<Exit>) {
        if let Some(granted) = self.granted {
            metrics().mutex_hold(&LockName::test(), granted.elapsed());
        }
        // A run that cannot be recorded is no evidence: the gate says that it is missing.
        let _ = self.conclude(exit);
        // If the store fails now, the lock still ends with its process.
        if let Ok(mut store) = Store::open(&self.scope) {
            for lock in &self.locks {
                let _ = store.release_one(lock);
            }
        }
    }
}

/// The hash of a file, in hexadecimal digits.
fn sha256(path: &Path) -> io::Result<String> {
    let mut reader = io::BufReader::new(File::open(path)?);
    let mut hash = Sha256::new();
    loop {
        let bytes = io::BufRead::fill_buf(&mut reader)?;
        if bytes.is_empty() {
            return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        let count = bytes.len();
        hash.update(bytes);
        io::BufRead::consume(&mut reader, count);
    }
}

/// Who is in the way, e.g. "waiting for the test mutex, held by alice for 40 s (`pytest -q`)".
pub(crate) fn waiting_for(conflicts: &[Conflict]) -> Option<String> {
    let Conflict { want, holder } = conflicts.first()?;
    let since = Timestamp::now().since(holder.acquired_at);
    let held = if since < SECONDS_COUNT { format!("{} s", since.as_secs()) } else { span(since) };
    let what = holder.reason.as_deref().map(|reason| format!(" (`{}`)", plain(reason))).unwrap_or_default();
    Some(format!("waiting for the {} mutex, held by {} for {held}{what}", plain(&want.target), holder.agent))
}

/// Why a test command does not run.
pub(crate) fn no_turn(cause: &Cause, longest: Duration) -> String {
    match cause {
        Cause::TimedOut => format!(
            "its turn did not come within {} (`test.wait`), so it was not run; see who is testing: mala status",
            span(longest)
        ),
        Cause::Held | Cause::GivenUp | Cause::Deadlock(_) => {
            "its turn did not come, so it was not run; see who is testing: mala status".to_owned()
        }
    }
}
