//! A run without processes: a real store and a real checkout, sessions and verdicts that the test speaks for, and time that
//! passes when nothing else does.

use std::collections::VecDeque;
use std::future::Future;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mala_agents::start::{Kind, Profile, PromptBy};
use mala_agents::stream::{Limited, Progress, Report, Terminal, Usage};
use mala_config::{HealthSettings, Hold, LockSettings, NoChange, TakeAdded, Variables};
use mala_core::ports::Clock;
use mala_core::{Attempt, CheckName, EntryState, Issue, IssueId, PersonId, Priority, Scope, Timestamp, Who};
use mala_git::{Repo, RepoPath, salvage};
use mala_landing::queue::{Audited, Outcome, Round, Settled};
use mala_store::{
    EntryChange, EntryFilter, EventFilter, EventKind, IssueName, NewIssue, NewLanding, Store, process,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::blocking::BlockingOps;
use crate::dispatch::Dispatcher;
use crate::error::{EngineError, Result};
use crate::event::{Event, Reporter};
use crate::landing_queue::LandingQueue;
use crate::limits::Limits;
use crate::options::{AroundOptions, Keeping, Options, Profiles, Prompts, UnversionedOptions};
use crate::session::{Session, SessionEnd, SessionEvent, SessionEvents, SessionOrder, Sessions, Stop};
use crate::source::BuiltIn;
use crate::summary::Summary;
use crate::validator::{FailedCheck, Judgement, Offer, Validator};

/// In the time of the test, which passes at once.
const TEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The time of the runtime, which a test may have paused, as moments.
#[derive(Debug, Clone)]
struct RuntimeClock {
    base: Timestamp,
    since: Instant,
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.base.plus(self.since.elapsed())
    }

    fn uptime(&self) -> Duration {
        self.since.elapsed()
    }
}

/// A session that was started, for the test to speak for.
#[derive(Debug)]
pub(super) struct FakeSession {
    pub(super) attempt: Attempt,
    pub(super) prompt: String,
    pub(super) conversation: Option<String>,
    events: SessionEvents,
    stops: mpsc::UnboundedReceiver<Stop>,
}

#[derive(Debug)]
struct FakeHandle(mpsc::UnboundedSender<Stop>);

impl Session for FakeHandle {
    fn pid(&self) -> u32 {
        1
    }

    fn end(&self, how: Stop) {
        let _ = self.0.send(how);
    }
}

impl FakeSession {
    async fn tell(&self, event: SessionEvent) {
        self.events.send((self.attempt.issue.clone(), event)).await.unwrap();
    }

    pub(super) async fn tells(&self, progress: Progress, usage: Usage) {
        self.tell(SessionEvent::Progress { progress: vec![progress], usage }).await;
    }

    pub(super) async fn ends(self, end: SessionEnd) {
        self.tell(SessionEvent::Ended(Box::new(end))).await;
    }

    /// Ends its turn with these words.
    pub(super) async fn says(self, message: &str) {
        self.ends(said(message)).await;
    }

    /// How it is asked to end.
    pub(super) async fn stop(&mut self) -> Stop {
        timeout(TEST_TIMEOUT, self.stops.recv()).await.expect("it is asked to end").unwrap()
    }
}

pub(super) fn said(message: &str) -> SessionEnd {
    let report =
        Report { session: Some("s1".to_owned()), message: Some(message.to_owned()), ..Report::default() };
    SessionEnd { status: Ok(ExitStatus::from_raw(0)), report, stderr: String::new(), launch_failure: None }
}

/// A process that a signal has ended.
pub(super) fn killed(signal: i32) -> SessionEnd {
    SessionEnd { status: Ok(ExitStatus::from_raw(signal)), ..said("") }
}

pub(super) fn limited(until: Option<Timestamp>) -> SessionEnd {
    let mut end = said("");
    end.report.limited = Some(Limited { until, message: "slow down".to_owned() });
    end
}

pub(super) fn put_off() -> SessionEnd {
    let mut end = said("");
    end.report.terminal =
        Some(Terminal { reason: "tool_deferred".to_owned(), is_error: false, message: None });
    end
}

#[derive(Default)]
struct FakeSessions {
    started: Mutex<Option<mpsc::UnboundedSender<FakeSession>>>,
    /// Starts that fail before one succeeds.
    failures: Mutex<u32>,
    reaped: Mutex<u32>,
    /// What is known of the clients' hooks.
    hooks_heard: Mutex<Option<bool>>,
}

impl Sessions for FakeSessions {
    fn self_test(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _tell: &mut dyn FnMut(&Event)) -> Vec<String> {
        Vec::new()
    }

    fn start(&self, order: &SessionOrder<'_>, events: SessionEvents) -> Result<Box<dyn Session>> {
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(std::io::Error::other("no such program").into());
        }
        let (sender, stops) = mpsc::unbounded_channel();
        let session = FakeSession {
            attempt: order.attempt.clone(),
            prompt: order.prompt.to_owned(),
            conversation: order.conversation.map(str::to_owned),
            events,
            stops,
        };
        self.started.lock().unwrap().as_ref().unwrap().send(session).unwrap();
        Ok(Box::new(FakeHandle(sender)))
    }

    fn reap(&self, _attempt: &Attempt) -> Result<()> {
        *self.reaped.lock().unwrap() += 1;
        Ok(())
    }

    fn are_hooks_heard(&self, _attempt: &Attempt, _pid: u32) -> Result<Option<bool>> {
        Ok(*self.hooks_heard.lock().unwrap())
    }

    fn sweep(&self) {}
}

/// Says what the test wants it to, and else that something is missing.
#[derive(Default)]
struct FakeValidator(Mutex<VecDeque<Result<Judgement>>>);

impl Validator for FakeValidator {
    fn judge(&self, _attempt: &Attempt, _last_message: Option<&str>) -> Result<Judgement> {
        self.0.lock().unwrap().pop_front().unwrap_or_else(|| Ok(rejected("nothing is committed")))
    }
}

/// Settles entries as the test wants it to, and else lands them.
#[derive(Default)]
struct FakeQueue {
    /// Set with the world's own store.
    store: Mutex<Option<Store>>,
    answers: Mutex<VecDeque<QueueAnswer>>,
}

/// What a round says about the first entry in line.
#[derive(Debug, Clone)]
pub(super) enum QueueAnswer {
    Land,
    Conflict,
    Hold,
    /// The round itself fails.
    Break,
    /// It takes until somebody hangs up.
    Hang,
}

impl FakeQueue {
    fn round(&self, hangup: BorrowedFd<'_>) -> Result<Round> {
        let mut store = self.store.lock().unwrap();
        let store = store.as_mut().unwrap();
        let open = EntryFilter { open: true, ..EntryFilter::default() };
        let mut round = Round::default();
        let Some(mut entry) = store.entries(&open).unwrap().into_iter().next() else { return Ok(round) };
        let change = EntryChange { reason: Some("as the test says".to_owned()), ..EntryChange::default() };
        if entry.state == EntryState::Held {
            entry = store.advance_entry(entry.id, entry.state, EntryState::Waiting, &change).unwrap();
        }
        let mut to = |state| store.advance_entry(entry.id, entry.state, state, &change).unwrap();
        match self.answers.lock().unwrap().pop_front().unwrap_or(QueueAnswer::Land) {
            QueueAnswer::Land => {
                to(EntryState::Green);
                let landing = NewLanding {
                    branch: entry.branch.clone(),
                    from: entry.base.clone(),
                    to: entry.head.clone(),
                    directory: None,
                    entries: vec![(entry.id, entry.head.clone())],
                    changes: Vec::new(),
                    freed: Vec::new(),
                    owner: process::current(),
                };
                store.begin_landing(&landing).unwrap();
                store.finish_landing(&entry.branch).unwrap();
                let outcome = Outcome::Landed(entry.head.clone());
                round.settled.push(Settled { entry, outcome });
            }
            QueueAnswer::Conflict => {
                let entry = to(EntryState::Conflict);
                round
                    .settled
                    .push(Settled { entry, outcome: Outcome::Conflict(vec![RepoPath::from_bytes("a.txt")]) });
            }
            QueueAnswer::Hold => {
                let entry = to(EntryState::Held);
                round.waiting.push((entry, "a person is in the way".to_owned()));
            }
            QueueAnswer::Break => return Err(std::io::Error::other("no slot").into()),
            QueueAnswer::Hang => {
                wait_for_hangup(hangup);
            }
        }
        Ok(round)
    }
}

fn wait_for_hangup(hangup: BorrowedFd<'_>) {
    let mut nothing = Vec::new();
    std::fs::File::from(hangup.try_clone_to_owned().unwrap()).read_to_end(&mut nothing).unwrap();
}

impl LandingQueue for FakeQueue {
    fn work(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()> {
        loop {
            let round = self.round(hangup)?;
            let has_progress = round.has_progress();
            if tell(round).is_break() || !has_progress {
                return Ok(());
            }
        }
    }

    fn audit(&self, hangup: BorrowedFd<'_>, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()> {
        let commit = mala_git::Oid::parse(&"a".repeat(40)).unwrap();
        let mut say = |audited| _ = tell(Round { audits: vec![audited], ..Round::default() });
        say(Audited::Begun { commit: commit.clone(), landings: 1 });
        if let Some(QueueAnswer::Hang) = self.answers.lock().unwrap().pop_front() {
            wait_for_hangup(hangup);
            return Ok(());
        }
        say(Audited::Passed { commit });
        Ok(())
    }

    fn repair(&self) -> Result<Vec<RepoPath>> {
        Ok(Vec::new())
    }
}

pub(super) fn accepted() -> Judgement {
    Judgement { accepted: true, commits: vec!["c1".to_owned()], ..Judgement::default() }
}

pub(super) fn rejected(detail: &str) -> Judgement {
    let check = FailedCheck {
        name: CheckName::Command,
        detail: detail.to_owned(),
        evidence: Vec::new(),
        output: None,
    };
    Judgement { failed: vec![check], ..Judgement::default() }
}

struct Recorder(mpsc::UnboundedSender<Event>);

impl Reporter for Recorder {
    fn report(&mut self, _at: Timestamp, event: &Event) {
        let _ = self.0.send(event.clone());
    }
}

pub(super) struct World {
    pub(super) scope: Scope,
    pub(super) store: Store,
    pub(super) options: Options,
    clock: RuntimeClock,
    sessions: Arc<FakeSessions>,
    validator: Arc<FakeValidator>,
    queue: Arc<FakeQueue>,
    /// Before the checkout goes, the store is closed.
    _dir: tempfile::TempDir,
}

/// What a script sees of a run.
pub(super) struct Stage {
    sessions: mpsc::UnboundedReceiver<FakeSession>,
    events: mpsc::UnboundedReceiver<Event>,
    interrupts: mpsc::UnboundedSender<()>,
}

impl Stage {
    pub(super) async fn session(&mut self) -> FakeSession {
        timeout(TEST_TIMEOUT, self.sessions.recv()).await.expect("a session is started").unwrap()
    }

    /// Everything that is told until `is_it` is, which is returned.
    pub(super) async fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = timeout(TEST_TIMEOUT, self.events.recv()).await.expect("it is told").unwrap();
            if is_it(&event) {
                return event;
            }
        }
    }

    pub(super) fn interrupt(&self) {
        self.interrupts.send(()).unwrap();
    }
}

impl World {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("checkout");
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
            let out = Command::new("git").args(identity).args(args).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        };
        let at = root.to_str().unwrap();
        git(&["init", "-q", "-b", "main", at]);
        git(&["-C", at, "commit", "-q", "--allow-empty", "-m", "start"]);
        let scope = Scope::discover(&root).unwrap();
        let clock =
            RuntimeClock { base: Timestamp::now().plus(Duration::from_secs(3600)), since: Instant::now() };
        let store = Store::open(&scope).unwrap().with_clock(clock.clone());
        let options = options(&scope);
        let (sessions, validator, queue) = (Arc::default(), Arc::default(), Arc::default());
        Self { scope, store, options, clock, sessions, validator, queue, _dir: dir }
    }

    /// What the landing queue says, in this order.
    pub(super) fn queue(&self, answers: impl IntoIterator<Item = QueueAnswer>) {
        self.queue.answers.lock().unwrap().extend(answers);
    }

    /// A verdict that sends a commit, which writes `text` to `a.txt`, to the landing queue, as the first attempt at `id`.
    pub(super) fn offered(&self, id: &str, text: &str) -> Judgement {
        let repo = Repo::new(self.scope.clone());
        let base = repo.resolve("HEAD").unwrap().unwrap();
        let git = mala_git::Git::at(repo.root());
        let blob = git.line(&["hash-object", "-w", "--stdin"], text.as_bytes()).unwrap();
        let tree = git.line(&["mktree"], format!("100644 blob {blob}\ta.txt\n").as_bytes()).unwrap();
        let head = git.line(&["commit-tree", &tree, "-p", base.as_str()], b"offered\n").unwrap();
        let head = mala_git::Oid::parse(&head).unwrap();
        let pinned = mala_git::candidate::pin(&repo, &IssueId::new(id).unwrap(), 1, &head).unwrap();
        let offer = Offer { pin: pinned.name, base, head };
        Judgement { accepted: true, offer: Some(offer), ..Judgement::default() }
    }

    pub(super) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.scope.root().join(name)).ok()
    }

    pub(super) fn issue(&mut self, name: &str, files: &[&str]) -> IssueId {
        let new = NewIssue {
            name: IssueName::Given(IssueId::new(name).unwrap()),
            title: name.to_owned(),
            description: String::new(),
            design: String::new(),
            acceptance: String::new(),
            priority: Priority::NORMAL,
            kind: "task".to_owned(),
            labels: Vec::new(),
            needs: Vec::new(),
            files: files.iter().map(|&file| file.to_owned()).collect(),
            parent: None,
        };
        self.store.add_issue(&person(), &new).unwrap().id
    }

    /// What the gate says, in this order.
    pub(super) fn judge(&self, judgements: impl IntoIterator<Item = Result<Judgement>>) {
        self.validator.0.lock().unwrap().extend(judgements);
    }

    pub(super) fn fail_starts(&self, times: u32) {
        *self.sessions.failures.lock().unwrap() = times;
    }

    pub(super) fn hear_hooks(&self, heard: Option<bool>) {
        *self.sessions.hooks_heard.lock().unwrap() = heard;
    }

    pub(super) fn reaped(&self) -> u32 {
        *self.sessions.reaped.lock().unwrap()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn limits(&mut self, limits: Limits) {
        self.options.profiles.known[0].1 = limits;
    }

    /// A connection of its own, for a script that changes something while the run goes on.
    pub(super) fn other_store(&self) -> Store {
        Store::open(&self.scope).unwrap().with_clock(self.clock.clone())
    }

    pub(super) fn dispatcher(&mut self) -> (Dispatcher, Stage, mpsc::UnboundedReceiver<()>) {
        let (started, sessions) = mpsc::unbounded_channel();
        *self.sessions.started.lock().unwrap() = Some(started);
        let (reporter, events) = mpsc::unbounded_channel();
        let (interrupts, interrupted) = mpsc::unbounded_channel();
        let run = self.store.begin_run(&self.options.owner, &serde_json::json!({})).unwrap().id;
        *self.queue.store.lock().unwrap() = Some(self.other_store());
        let ops = BlockingOps {
            store: Arc::new(Mutex::new(self.other_store())),
            source: Arc::new(BuiltIn::new(self.other_store())),
            sessions: self.sessions.clone(),
            validator: self.validator.clone(),
            queue: self.queue.clone(),
            repo: Repo::new(self.scope.clone()),
            options: Arc::new(self.options.clone()),
            clock: Arc::new(self.clock.clone()),
        };
        let dispatcher = Dispatcher::new(ops, run, Box::new(Recorder(reporter)));
        (dispatcher, Stage { sessions, events, interrupts }, interrupted)
    }

    /// Runs until the end, while `script` speaks for the agents.
    pub(super) async fn run<F: Future<Output = ()>>(
        &mut self,
        script: impl FnOnce(Stage) -> F,
    ) -> Result<Summary, EngineError> {
        let (dispatcher, stage, interrupts) = self.dispatcher();
        let (ended, ()) = tokio::join!(timeout(TEST_TIMEOUT, dispatcher.run(interrupts)), script(stage));
        let (summary, ..) = ended.expect("the run ends")?;
        Ok(summary)
    }

    /// The only attempt at an issue.
    pub(super) fn attempt(&mut self, id: &str) -> Attempt {
        self.store.attempts(&IssueId::new(id).unwrap()).unwrap().pop().expect("it was tried")
    }

    pub(super) fn shown(&mut self, id: &str) -> Issue {
        self.store.issue(&IssueId::new(id).unwrap()).unwrap().unwrap()
    }

    /// The states that an issue's attempts have gone through, as the journal says.
    pub(super) fn journal(&mut self, id: &str) -> Vec<String> {
        let kind = Some(EventKind::AttemptAdvanced.as_str().to_owned());
        let events = self.store.events(&EventFilter { kind, ..EventFilter::default() }).unwrap();
        let steps = events.iter().filter(|event| event.issue.as_deref() == Some(id));
        let moves = steps.filter(|event| event.detail["from"] != event.detail["to"]);
        moves.map(|event| event.detail["to"].as_str().unwrap().to_owned()).collect()
    }
}

pub(super) fn person() -> Who {
    Who::Person(PersonId::new("pat").unwrap())
}

fn options(scope: &Scope) -> Options {
    let profile = Profile {
        name: "fake".to_owned(),
        kind: Kind::Claude,
        model: None,
        command: vec!["sh".to_owned()],
        prompt_by: PromptBy::Stdin,
        labels: Vec::new(),
        env: Default::default(),
        install: None,
    };
    let hour = Duration::from_secs(3600);
    Options {
        owner: process::current(),
        max_agents: 4,
        max_issues: None,
        issues: Vec::new(),
        watch: false,
        timeout: None,
        stagger: Duration::from_millis(1),
        attempts: 1,
        retry_pause: Duration::from_secs(10),
        answer_wait: Duration::from_secs(60),
        no_change: NoChange::Ask,
        take_added: TakeAdded::NextRun,
        resume: false,
        allow_dirty: false,
        queue_only: false,
        hold: Hold::Landing,
        env: Variables::default(),
        notify: mala_config::Settings::default().notify,
        around: AroundOptions { before: Vec::new(), after: Vec::new(), timeout: Duration::from_secs(60) },
        gate_attempts: 3,
        budget: None,
        typed_budget: None,
        prices: Default::default(),
        profiles: Profiles {
            known: vec![(profile, Limits::default())],
            forced: None,
            default: "fake".to_owned(),
            fallback: None,
        },
        mark: Default::default(),
        required: Vec::new(),
        prompts: Prompts::default(),
        keeping: Keeping::Store,
        lock: LockSettings { ttl: hour, max_ttl: hour, max_wait: hour, groups: Vec::new() },
        health: HealthSettings { waited_share: 1.0, mutex_wait: hour },
        unversioned: UnversionedOptions {
            limits: salvage::Limits { file_bytes: 1 << 20, total_bytes: 1 << 20, files: 100 },
            build: Vec::new(),
        },
        mala: "mala".to_owned(),
        logs: scope.state_dir().join("logs"),
        poll: Duration::from_secs(2),
        grace: Duration::from_secs(20),
    }
}
