//! The one place that owns the order of events and all state of a run.
//!
//! Sessions, timers, signals and blocking work send messages; the dispatcher takes them one by one, decides, writes the
//! step to the ledger, tells the reporter, and only then acts. Nothing else changes a job.

mod asking;
mod ending;
mod feed;
mod job;
mod launch;
mod left;
mod parked;
mod rests;
mod signs;
mod stop;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mala_core::shell::word;
use mala_core::{IssueId, RunId, Timestamp};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::clerk::{Claimed, Clerk, Fingerprint, Handed};
use crate::engine::check_checkout;
use crate::error::{EngineError, causes};
use crate::event::{Event, Reporter};
use crate::options::Options;
use crate::ports::{Attempt, Contention, Detail, Held, Interruption, Judgement, PortError, Waited};
use crate::queue::{Candidate, Queue};
use crate::session::Sign;
use crate::summary::{AttemptSummary, Left, Summary};
use crate::{State, Step};

pub(crate) use feed::find;
use feed::{Feed, Found};
use job::Job;
use stop::{Signals, Stopping};

/// How often limits are looked at and a live view is redrawn.
const TICK: Duration = Duration::from_millis(250);
/// Messages of sessions that may wait; more make the sessions wait.
const WAITING_SIGNS: usize = 1024;
/// A ledger that fails is asked again this often.
const LEDGER_TRIES: u32 = 4;
const LEDGER_PAUSE: Duration = Duration::from_millis(250);

/// What blocking work has come to.
#[derive(Debug)]
enum News {
    Ready(Result<Found, PortError>),
    Claimed(IssueId, Result<Claimed, PortError>),
    Judged(IssueId, Result<Box<(Judgement, Fingerprint)>, PortError>),
    Ended(IssueId, Result<Handed, PortError>),
    PutBack(IssueId, Result<(), PortError>),
    Unparked(IssueId, Vec<Held>, Result<Waited, PortError>),
    Notes(IssueId, Result<Vec<String>, PortError>),
    Health(Result<Contention, PortError>),
    Kept(Result<(), PortError>),
}

pub(crate) struct Dispatcher {
    clerk: Clerk,
    options: Arc<Options>,
    reporter: Box<dyn Reporter>,
    run: RunId,
    started_at: Timestamp,
    queue: Queue,
    jobs: HashMap<IssueId, Job>,
    /// Issues whose claim is under way.
    claiming: HashSet<IssueId>,
    signs: mpsc::Sender<Sign>,
    news: mpsc::UnboundedSender<News>,
    stopping: Stopping,
    feed: Feed,
    /// No agent starts before this.
    next_start: Instant,
    /// No agent of these profiles starts before this, for this reason.
    limited: HashMap<String, (Instant, String)>,
    /// Issues that are not begun before this.
    rests: HashMap<IssueId, Instant>,
    max_agents: usize,
    /// Agents are told to test in snapshots.
    isolates_tests: bool,
    begun: HashSet<IssueId>,
    attempts: Vec<AttemptSummary>,
    left: BTreeMap<IssueId, String>,
    warned: HashSet<String>,
    fatal: Option<EngineError>,
}

impl Dispatcher {
    pub(crate) fn new(clerk: Clerk, options: Arc<Options>, run: RunId, reporter: Box<dyn Reporter>) -> Self {
        // Replaced when the loop begins; until then nobody sends anything.
        let (signs, news) = (mpsc::channel(1).0, mpsc::unbounded_channel().0);
        let max_agents = options.max_agents;
        Self {
            queue: Queue::new(&options.issues),
            clerk,
            options,
            reporter,
            run,
            started_at: Timestamp::now(),
            jobs: HashMap::new(),
            claiming: HashSet::new(),
            signs,
            news,
            stopping: Stopping::No,
            feed: Feed::default(),
            next_start: Instant::now(),
            limited: HashMap::new(),
            rests: HashMap::new(),
            max_agents,
            isolates_tests: false,
            begun: HashSet::new(),
            attempts: Vec::new(),
            left: BTreeMap::new(),
            warned: HashSet::new(),
            fatal: None,
        }
    }

    /// Works until nothing is left to do. Gives the summary, the reporter, and whether something was left for the next
    /// start to make good.
    pub(crate) async fn run(mut self) -> Result<(Summary, Box<dyn Reporter>, bool), EngineError> {
        let (signs, mut sign_queue) = mpsc::channel(WAITING_SIGNS);
        let (news, mut news_queue) = mpsc::unbounded_channel();
        (self.signs, self.news) = (signs, news);
        let mut signals = Signals::listen().map_err(EngineError::Runtime)?;
        let deadline = self.options.timeout.map(|timeout| Instant::now() + timeout);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.ask_for_issues();
        self.ask_for_health();
        while !self.is_over() {
            tokio::select! {
                biased;
                () = signals.next() => self.on_signal(),
                () = until(deadline), if self.stopping == Stopping::No => self.on_timeout(),
                Some(news) = news_queue.recv() => self.on_news(news).await,
                Some(sign) = sign_queue.recv() => self.on_sign(sign).await,
                () = sleep_until(self.next_start), if self.is_waiting_to_start() => {}
                _ = ticks.tick() => self.on_tick().await,
            }
            self.take_up().await;
            self.fill();
        }
        self.finish_up().await
    }

    async fn finish_up(mut self) -> Result<(Summary, Box<dyn Reporter>, bool), EngineError> {
        let is_left_open = !self.jobs.is_empty() || !self.claiming.is_empty();
        // Dropping a session kills it; what it left is for the next start.
        let under_way: Vec<_> = self.jobs.drain().map(|(id, job)| (id, job.attempt, job.state)).collect();
        if let Some(error) = self.fatal.take() {
            return Err(error);
        }
        for (_, attempt, state) in &under_way {
            let detail = Detail { interruption: Some(Interruption::Stopped), ..Detail::default() };
            // Without it the attempt counts as killed; its work is safe either way.
            let _ = self.journal(attempt.clone(), *state, *state, detail).await;
        }
        let mut summary = self.summary().await;
        let why = "it was under way; the next start hands it over";
        summary.left.extend(under_way.into_iter().map(|(issue, ..)| Left { issue, why: why.to_owned() }));
        Ok((summary, self.reporter, is_left_open))
    }

    /// Gives out as many issues as there are agents for.
    fn fill(&mut self) {
        while self.has_room() && Instant::now() >= self.next_start {
            let Some(candidate) = self.queue.take_next() else { return };
            if !self.is_limited(&candidate) {
                self.claim(&candidate);
            }
        }
    }

    fn claim(&mut self, candidate: &Candidate) {
        let id = candidate.issue.id.clone();
        let profile = match self.options.profiles.choose(&candidate.issue) {
            Some((profile, _)) => profile.clone(),
            None => return self.leave(&id, "there is no profile for it"),
        };
        if let Err(error) = crate::engine::find_program(&profile) {
            return self.leave(&id, &error.to_string());
        }
        self.next_start = Instant::now() + self.options.stagger;
        self.claiming.insert(id.clone());
        let (clerk, run) = (self.clerk.clone(), self.run.clone());
        // Who names an issue wants it tried, however often it was.
        let is_asked_for = self.options.issues.contains(&id) && !self.begun.contains(&id);
        let issue = id.clone();
        self.background(
            move || {
                check_checkout(&clerk)?;
                clerk.claim(&run, &issue, &profile.name, is_asked_for)
            },
            |claimed| News::Claimed(id, claimed),
        );
    }

    /// Runs blocking work beside the loop. If it panics, that is an error like any other.
    fn background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PortError> + Send + 'static,
        tell: impl FnOnce(Result<T, PortError>) -> News + Send + 'static,
    ) {
        let news = self.news.clone();
        tokio::spawn(async move {
            let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(panic.into()));
            // Without a receiver the run is over.
            let _ = news.send(tell(done));
        });
    }

    async fn on_news(&mut self, news: News) {
        match news {
            News::Ready(ready) => self.on_ready(ready),
            News::Claimed(id, claimed) => self.on_claimed(id, claimed).await,
            News::Judged(id, judged) => self.on_judged(&id, judged).await,
            News::Ended(id, ended) => self.on_ended_attempt(&id, ended),
            News::Unparked(id, awaited, waited) => self.on_unparked(&id, &awaited, waited),
            News::Notes(id, notes) => self.on_notes(&id, notes).await,
            News::Health(Ok(contention)) => self.mitigate(&contention),
            // It is looked at again when the next attempt ends.
            News::Health(Err(_)) | News::Kept(Ok(())) => {}
            News::Kept(Err(error)) => {
                self.warn(&format!("a session could not be written down: {}", causes(&*error)));
            }
            News::PutBack(id, done) => {
                self.claiming.remove(&id);
                if let Err(source) = done {
                    self.fail("put an issue back", source);
                }
            }
        }
    }

    async fn on_claimed(&mut self, id: IssueId, claimed: Result<Claimed, PortError>) {
        match claimed {
            Ok(Claimed::Yes(taken)) if self.stopping == Stopping::No => {
                self.claiming.remove(&id);
                self.begin(*taken).await;
            }
            Ok(Claimed::Yes(taken)) => {
                let attempt = taken.attempt;
                let (clerk, why) = (self.clerk.clone(), self.stopping.reason().to_owned());
                self.queue.put_back(&id);
                self.background(move || clerk.undo(&attempt, &why), |done| News::PutBack(id, done));
            }
            Ok(Claimed::Gone(why)) => self.leave(&id, &why),
            Ok(Claimed::TooOften(times)) => {
                let limit = self.options.attempts;
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                self.leave(&id, &format!("it was tried {times} and the limit is {limit}; try it once more: mala run --issue {}", word(id.as_str())));
            }
            Ok(Claimed::FilesHeld(held)) => {
                self.claiming.remove(&id);
                self.queue.put_back(&id);
                let holders: Vec<String> =
                    held.iter().map(|held| format!("`{}` by `{}`", held.file, held.by)).collect();
                let why = format!("its files are held: {}", holders.join(", "));
                if self.left.insert(id.clone(), why.clone()).as_ref() != Some(&why) {
                    self.tell(&Event::PutBack { issue: id, why, held });
                }
            }
            Err(error) => {
                self.claiming.remove(&id);
                let why = format!("it could not be claimed: {}", causes(&*error));
                self.warn(&format!("{id}: {why}"));
                self.left.insert(id.clone(), why);
                self.queue.put_back(&id);
            }
        }
    }

    /// The issue is not worked on in this run.
    fn leave(&mut self, id: &IssueId, why: &str) {
        self.claiming.remove(id);
        self.queue.settle(id, false);
        self.left.insert(id.clone(), why.to_owned());
        self.tell(&Event::PutBack { issue: id.clone(), why: why.to_owned(), held: Vec::new() });
    }

    fn may_begin_more(&self) -> bool {
        let limit = self.options.max_issues.unwrap_or(usize::MAX);
        self.stopping == Stopping::No && self.begun.len() + self.claiming.len() < limit
    }

    /// True if an issue may be given out at this moment. As many may wait as may work, so that unfinished work stays little.
    fn has_room(&self) -> bool {
        self.may_begin_more()
            && self.has_seat()
            && self.jobs.len() + self.claiming.len() < self.max_agents.saturating_mul(2)
            && !self.feed.is_about_to_answer()
    }

    /// True if one more agent may work. Those that are parked do not.
    fn has_seat(&self) -> bool {
        let working = self.jobs.values().filter(|job| job.parked.is_none()).count();
        working + self.claiming.len() < self.max_agents
    }

    fn is_waiting_to_start(&self) -> bool {
        self.has_room() && self.queue.peek().is_some()
    }

    fn is_over(&self) -> bool {
        if self.stopping == Stopping::Now {
            return true;
        }
        if !self.jobs.is_empty() || !self.claiming.is_empty() {
            return false;
        }
        if !self.may_begin_more() {
            return true;
        }
        let is_idle = self.queue.peek().is_none() && !self.queue.has_resting();
        is_idle && self.feed.is_up_to_date() && !self.options.watch
    }

    /// Writes a step to the ledger and takes it. Nothing may be done on the strength of a step before this returned true.
    async fn step(&mut self, id: &IssueId, step: Step, detail: Detail) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let from = job.state;
        let to = match from.after(step) {
            Ok(to) => to,
            Err(impossible) => {
                self.fail("go on", impossible.into());
                return false;
            }
        };
        match self.journal(job.attempt.clone(), from, to, detail).await {
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

    async fn journal(
        &self,
        attempt: Attempt,
        from: State,
        to: State,
        detail: Detail,
    ) -> Result<(), PortError> {
        let ledger = self.clerk.ledger.clone();
        let work = move || {
            let mut tries = 1;
            loop {
                match ledger.advance(&attempt, from, to, &detail) {
                    Err(_) if tries < LEDGER_TRIES => {
                        tries += 1;
                        std::thread::sleep(LEDGER_PAUSE);
                    }
                    done => return done,
                }
            }
        };
        tokio::task::spawn_blocking(work).await?
    }

    /// Without its journal a run must not go on: everything ends, and the next start makes it good.
    fn fail(&mut self, what: &'static str, source: PortError) {
        self.stopping = Stopping::Now;
        self.fatal.get_or_insert(EngineError::Port { what, source });
    }

    fn tell(&mut self, event: &Event) {
        self.reporter.report(Timestamp::now(), event);
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
        let costs: Vec<f64> = self.attempts.iter().filter_map(|attempt| attempt.cost).collect();
        let (ledger, since) = (self.clerk.ledger.clone(), self.started_at);
        let contention = tokio::task::spawn_blocking(move || ledger.contention(since)).await;
        Summary {
            run: self.run.clone(),
            started_at: self.started_at,
            ended_at: Timestamp::now(),
            recovered: Vec::new(),
            not_accepted: Vec::new(),
            blocked: Vec::new(),
            stopped: (self.stopping != Stopping::No).then(|| self.stopping.reason().to_owned()),
            left: std::mem::take(&mut self.left)
                .into_iter()
                .map(|(issue, why)| Left { issue, why })
                .collect(),
            cost: (!costs.is_empty()).then(|| costs.iter().sum()),
            tokens: self.attempts.iter().map(|attempt| attempt.tokens).sum(),
            attempts: std::mem::take(&mut self.attempts),
            contention: contention.ok().and_then(Result::ok).unwrap_or_default(),
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
