//! The one place that owns the order of events and all state of a run.
//!
//! Sessions, timers, signals and blocking work send messages; the dispatcher takes them one by one, decides, writes the
//! step to the journal, tells the reporter, and only then acts. Nothing else changes a job.

mod asking;
mod backoff;
mod claims;
mod ending;
mod events;
mod feed;
mod job;
mod judging;
mod landing;
mod launch;
mod parked;
mod profiles;
mod running;
mod stop;
#[cfg(test)]
mod tests;
mod unfinished;
mod yielding;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use mala_core::{AgentId, Attempt, Interruption, IssueId, RunId, Timestamp};
use mala_store::Progress;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::blocking::BlockingOps;
use crate::error::{EngineError, Result, causes, step};
use crate::event::{Event, Reporter};
use crate::ready::ReadyIssues;
use crate::session::SessionEvents;
use crate::summary::{AttemptSummary, Left, Summary};
use crate::{State, Step};

use events::{JobEvent, WorkerEvent};
use feed::Feed;
pub(crate) use feed::find;
use job::Job;
use landing::QueueWork;
use profiles::ProfileHealth;
pub(crate) use stop::interrupts;
use stop::{Interrupts, Stopping};

/// How often limits are looked at and a live view is redrawn.
const TICK: Duration = Duration::from_millis(250);
/// More make the sessions wait.
const MAX_QUEUED_SESSION_EVENTS: usize = 1024;
/// How often a step is written to a store that fails, and the pause in between.
const MAX_JOURNAL_TRIES: u32 = 4;
const JOURNAL_RETRY_PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Dispatcher {
    ops: BlockingOps,
    reporter: Box<dyn Reporter>,
    run: RunId,
    started_at: Timestamp,
    started: Instant,
    ready: ReadyIssues,
    jobs: HashMap<IssueId, Job>,
    /// Issues whose claim is under way.
    claiming: HashSet<IssueId>,
    session_events: SessionEvents,
    worker_events: mpsc::UnboundedSender<WorkerEvent>,
    stopping: Stopping,
    feed: Feed,
    queue: QueueWork,
    /// No agent starts before this.
    next_start: Instant,
    profiles: HashMap<String, ProfileHealth>,
    /// Issues that are not begun before this.
    rests: HashMap<IssueId, Instant>,
    max_agents: usize,
    /// Agents whose places are free because they wait in the middle of a call.
    waiting_in_call: HashSet<AgentId>,
    looked_at_waits: Option<Instant>,
    begun: HashSet<IssueId>,
    attempts: Vec<AttemptSummary>,
    left: BTreeMap<IssueId, String>,
    warned: HashSet<String>,
    fatal: Option<EngineError>,
}

impl Dispatcher {
    pub(crate) fn new(ops: BlockingOps, run: RunId, reporter: Box<dyn Reporter>) -> Self {
        // Replaced when the loop begins; until then nobody sends anything.
        let (session_events, worker_events) = (mpsc::channel(1).0, mpsc::unbounded_channel().0);
        let max_agents = ops.options.max_agents;
        Self {
            ready: ReadyIssues::new(&ops.options.issues),
            reporter,
            run,
            started_at: ops.clock.now(),
            started: Instant::now(),
            ops,
            jobs: HashMap::new(),
            claiming: HashSet::new(),
            session_events,
            worker_events,
            stopping: Stopping::No,
            feed: Feed::default(),
            queue: QueueWork::default(),
            next_start: Instant::now(),
            profiles: HashMap::new(),
            rests: HashMap::new(),
            max_agents,
            waiting_in_call: HashSet::new(),
            looked_at_waits: None,
            begun: HashSet::new(),
            attempts: Vec::new(),
            left: BTreeMap::new(),
            warned: HashSet::new(),
            fatal: None,
        }
    }

    /// Works until nothing is left to do. Gives the summary, the reporter, and whether something was left for the next
    /// start to make good.
    pub(crate) async fn run(
        mut self,
        mut interrupts: Interrupts,
    ) -> Result<(Summary, Box<dyn Reporter>, bool)> {
        let (sender, mut session_events) = mpsc::channel(MAX_QUEUED_SESSION_EVENTS);
        self.session_events = sender;
        let (sender, mut worker_events) = mpsc::unbounded_channel();
        self.worker_events = sender;
        let deadline = self.ops.options.timeout.map(|timeout| Instant::now() + timeout);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.ask_for_issues();
        self.work_queue();
        while !self.is_over() {
            tokio::select! {
                biased;
                Some(()) = interrupts.recv() => self.on_interrupt(),
                () = until(deadline), if self.stopping == Stopping::No => self.on_timeout(),
                Some(event) = worker_events.recv() => self.on_worker_event(event).await,
                Some((id, event)) = session_events.recv() => self.on_job_event(&id, JobEvent::Session(event)).await,
                () = sleep_until(self.next_start), if self.is_waiting_to_start() => {}
                _ = ticks.tick() => self.on_tick().await,
            }
            self.take_up().await;
            self.fill();
            self.leave_stuck();
            self.audit_at_end();
        }
        self.finish_up().await
    }

    async fn finish_up(mut self) -> Result<(Summary, Box<dyn Reporter>, bool)> {
        let is_left_open = !self.jobs.is_empty() || !self.claiming.is_empty();
        // Dropping a session kills it; what it left is for the next start.
        let under_way: Vec<_> = self.jobs.drain().map(|(id, job)| (id, job.attempt, job.state)).collect();
        if let Some(error) = self.fatal.take() {
            return Err(error);
        }
        for (_, attempt, state) in &under_way {
            let progress = Progress { interruption: Some(Interruption::Stopped), ..Progress::default() };
            // Without it the attempt counts as killed; its work is safe either way.
            let _ = self.journal(attempt.clone(), (*state, *state), progress).await;
        }
        let mut summary = self.summary().await;
        let why = "it was under way; the next start hands it over";
        summary.left.extend(under_way.into_iter().map(|(issue, ..)| Left { issue, why: why.to_owned() }));
        Ok((summary, self.reporter, is_left_open))
    }

    /// Runs blocking work beside the loop. If it panics, that is an error like any other.
    fn background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
        event: impl FnOnce(Result<T>) -> WorkerEvent + Send + 'static,
    ) {
        let events = self.worker_events.clone();
        tokio::spawn(async move {
            let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(panic.into()));
            // Without a receiver the run is over.
            let _ = events.send(event(done));
        });
    }

    /// The same for a job, which is told what the work has come to.
    fn background_for<T: Send + 'static>(
        &self,
        id: &IssueId,
        work: impl FnOnce() -> Result<T> + Send + 'static,
        event: impl FnOnce(Result<T>) -> JobEvent + Send + 'static,
    ) {
        let id = id.clone();
        self.background(work, |done| WorkerEvent::Job(id, event(done)));
    }

    fn is_over(&self) -> bool {
        if self.stopping == Stopping::Now {
            return true;
        }
        !self.queue.is_busy() && self.has_nothing_left()
    }

    /// True if no work is left, besides what is done with the landing queue.
    fn has_nothing_left(&self) -> bool {
        if !self.jobs.is_empty() || !self.claiming.is_empty() {
            return false;
        }
        if !self.may_begin_more() {
            return true;
        }
        self.is_idle() && !self.ops.options.watch
    }

    /// True if no issue is ready or about to be, as far as is known.
    fn is_idle(&self) -> bool {
        self.ready.peek().is_none() && !self.ready.has_resting() && self.feed.is_up_to_date()
    }

    /// Writes a step to the journal and takes it. Nothing may be done on the strength of a step before this returned true.
    async fn take_step(&mut self, id: &IssueId, step: Step, progress: Progress) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let from = job.state;
        let to = match from.after(step) {
            Ok(to) => to,
            Err(impossible) => {
                self.fail("go on", impossible.into());
                return false;
            }
        };
        match self.journal(job.attempt.clone(), (from, to), progress).await {
            Ok(()) => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.state = to;
                }
                true
            }
            Err(source) => {
                self.fail("write the journal", source);
                false
            }
        }
    }

    async fn journal(&self, attempt: Attempt, (from, to): (State, State), progress: Progress) -> Result<()> {
        let ops = self.ops.clone();
        let work = move || {
            let mut tries = 1;
            loop {
                match ops.advance(&attempt, (from, to), &progress) {
                    Err(_) if tries < MAX_JOURNAL_TRIES => {
                        tries += 1;
                        std::thread::sleep(JOURNAL_RETRY_PAUSE);
                    }
                    done => return done,
                }
            }
        };
        tokio::task::spawn_blocking(work).await?
    }

    /// Without its journal a run must not go on: everything ends, and the next start makes it good.
    fn fail(&mut self, what: &'static str, source: EngineError) {
        self.stopping = Stopping::Now;
        self.fatal.get_or_insert(step(what)(source));
    }

    fn tell(&mut self, event: &Event) {
        self.reporter.report(self.ops.clock.now(), event);
    }

    /// Says something once.
    fn warn(&mut self, text: &str) {
        if self.warned.insert(text.to_owned()) {
            self.tell(&Event::Warning { text: text.to_owned() });
        }
    }

    async fn summary(&mut self) -> Summary {
        self.forget_closed().await;
        self.note_what_is_left();
        let ops = self.ops.clone();
        let queued = tokio::task::spawn_blocking(move || ops.queued()).await;
        // What waits there is safe, also if it cannot be listed now.
        self.left.extend(queued.ok().and_then(Result::ok).unwrap_or_default());
        let ops = self.ops.clone();
        let contention = tokio::task::spawn_blocking(move || ops.contention()).await;
        Summary {
            run: self.run.clone(),
            started_at: self.started_at,
            ended_at: self.ops.clock.now(),
            took: self.started.elapsed(),
            recovered: Vec::new(),
            not_accepted: Vec::new(),
            blocked: Vec::new(),
            stopped: (self.stopping != Stopping::No).then(|| self.stopping.reason().to_owned()),
            left: std::mem::take(&mut self.left)
                .into_iter()
                .map(|(issue, why)| Left { issue, why })
                .collect(),
            cost: self.attempts.iter().map(|attempt| &attempt.cost).collect(),
            tokens: self.attempts.iter().map(|attempt| attempt.tokens).sum(),
            attempts: std::mem::take(&mut self.attempts),
            contention: contention.ok().and_then(Result::ok).unwrap_or_default(),
            unnotified: Vec::new(),
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
