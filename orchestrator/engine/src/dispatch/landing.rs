//! Work in the landing queue: how it gets there, how the queue is worked off, and how it comes back.
//!
//! An attempt whose work is offered has no process and counts for no limit. The queue is worked off beside the loop, which is told
//! of every round; when nothing can move any more, the work begins again as soon as something may have changed.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mala_core::{CheckName, Entry, IssueId};
use mala_git::RepoPath;
use mala_landing::queue::{Audited, Outcome, Rejection, Round, Settled};
use tokio::time::Instant;

use super::events::JobEvent;
use super::job::{AfterWait, Due, Phase};
use super::stop::Stopping;
use super::{Dispatcher, WorkerEvent, causes};
use crate::State;
use crate::blocking::{Awaited, Away, Cause, EndKind, Fate, PutBack, Queued, WaitOutcome};
use crate::error::{EngineError, Result};
use crate::event::{Event, Held};
use crate::landing_queue::LandingQueue;
use crate::validator::{FailedCheck, Judgement, OUTPUT_TAIL_BYTES};

/// How often an offer is queued before the attempt is given up.
const MAX_OFFER_TRIES: u32 = 3;
/// How often the queue is looked at while something in it waits for people or other agents.
const HELD_POLL: Duration = Duration::from_secs(2);
/// How often it is looked at otherwise: people offer, too, and nobody tells this process.
const ARRIVAL_POLL: Duration = Duration::from_secs(10);
/// Rounds that fail themselves, one after the other, before the queue is left to a person.
const MAX_FAILED_ROUNDS: u32 = 3;

/// Why work is not back in the checkout.
const HAS_CHANGED: &str = "its files have changed since";

/// Something that is done with the queue beside the loop.
type QueueTask =
    fn(&(dyn LandingQueue + 'static), BorrowedFd<'_>, &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<()>;

/// What the dispatcher knows of the landing queue.
#[derive(Debug, Default)]
pub(super) struct QueueWork {
    /// It is being worked off.
    is_under_way: bool,
    /// Dropping the writer ends that.
    hangup: Option<PipeWriter>,
    /// Something has happened since that began.
    is_stale: bool,
    /// When nothing could move any more.
    idle_since: Option<Instant>,
    /// Rounds that failed, one after the other.
    failed: u32,
    /// Something has landed since the last audit.
    has_landed: bool,
    /// Offers that no job waits for and that are being settled.
    settling: u32,
}

impl QueueWork {
    pub(super) fn is_busy(&self) -> bool {
        self.is_under_way || self.settling > 0
    }
}

impl Dispatcher {
    /// The fast checks have passed: the work goes into the queue and out of the checkout.
    pub(super) fn offer(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::Offering { tries: 0 };
        self.try_to_offer(id);
    }

    fn try_to_offer(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (Phase::Offering { tries }, Some(offer)) = (&mut job.phase, job.judgement.offer.clone()) else {
            return;
        };
        *tries += 1;
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        let priority = i64::from(job.issue.priority.number());
        self.background_for(id, move || ops.enqueue(&attempt, &offer, priority), JobEvent::Queued);
    }

    pub(super) fn on_queued(&mut self, id: &IssueId, queued: Result<Queued>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Offering { tries } = job.phase else { return };
        match queued {
            Ok(Queued { entry, checkout }) => {
                (job.state, job.checkout) = (State::Offered, checkout);
                job.phase = Phase::Offered { entry: entry.id };
                let agent = job.attempt.agent.clone();
                let commit = entry.head.to_string();
                let frees_files = entry.frees_files;
                if frees_files {
                    self.ready.free_files(id);
                }
                self.tell(&Event::Queued { issue: id.clone(), agent, entry: entry.id, commit, frees_files });
                if self.stopping == Stopping::No {
                    self.work_queue();
                } else {
                    self.leave_queued(id);
                }
            }
            Err(error) if tries < MAX_OFFER_TRIES => {
                self.warn(&format!(
                    "{id}: its work could not be queued, which is tried again: {}",
                    causes(&error)
                ));
                self.try_to_offer(id);
            }
            Err(error) => {
                let (cause, why) = (self.cause(), causes(&error));
                self.hand_over(id, format!("its work could not be queued: {why}"), cause);
            }
        }
    }

    /// Has the queue worked off, unless it is: then it is looked at once more afterwards.
    pub(super) fn work_queue(&mut self) {
        if self.stopping != Stopping::No || self.queue.failed >= MAX_FAILED_ROUNDS {
            return;
        }
        if self.queue.is_under_way {
            self.queue.is_stale = true;
            return;
        }
        self.begin_queue_task(LandingQueue::work);
    }

    /// When nothing is left to do, what has landed is audited.
    pub(super) fn audit_at_end(&mut self) {
        let is_wanted = self.queue.has_landed && !self.ops.options.queue_only;
        if is_wanted && self.stopping == Stopping::No && self.has_nothing_left() && !self.queue.is_busy() {
            self.queue.has_landed = false;
            self.begin_queue_task(LandingQueue::audit);
        }
    }

    fn begin_queue_task(&mut self, work: QueueTask) {
        let Ok((hangup, writer)) = io::pipe() else { return };
        (self.queue.is_under_way, self.queue.hangup) = (true, Some(writer));
        (self.queue.is_stale, self.queue.idle_since) = (false, None);
        let (queue, events) = (self.ops.queue.clone(), self.worker_events.clone());
        let mut tell = move |round| match events.send(WorkerEvent::Round(Box::new(round))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        self.background(move || work(&*queue, hangup.as_fd(), &mut tell), WorkerEvent::QueueIdle);
    }

    /// What is held may be free by now, and somebody may have offered something.
    pub(super) fn look_at_queue(&mut self) {
        let is_awaited = self.jobs.values().any(|job| matches!(job.phase, Phase::Offered { .. }));
        let pause = if is_awaited { HELD_POLL } else { ARRIVAL_POLL };
        if self.queue.idle_since.is_some_and(|since| since.elapsed() >= pause) {
            self.work_queue();
        }
    }

    /// Nothing in the queue can move any more, or nobody could work it off.
    pub(super) fn on_queue_idle(&mut self, worked: Result<()>) {
        (self.queue.is_under_way, self.queue.hangup) = (false, None);
        match worked {
            Err(error) => self.on_failed_round(&error),
            Ok(()) if self.queue.is_stale => self.work_queue(),
            Ok(()) => {
                self.queue.idle_since = Some(Instant::now());
                self.look_for_dropped();
            }
        }
    }

    pub(super) async fn on_round(&mut self, mut round: Round) {
        if round.failure.is_none() {
            self.queue.failed = 0;
        }
        for path in &round.left_alone {
            self.warn(&format!(
                "`{path}` was written by somebody while a landing was cut off, and was left alone"
            ));
        }
        for command in &round.flaky {
            self.warn(&format!("`{command}` is flaky: it failed and passed on the same tree"));
        }
        if let Some(why) = round.red_base.take().filter(|why| self.warned.insert(why.clone())) {
            self.tell(&Event::BranchRed { why });
        }
        for (entry, why) in round.waiting {
            let text = format!("{}|{why}", entry.id);
            if self.warned.insert(text) {
                self.tell(&Event::Held { issue: entry.issue, entry: entry.id, why });
            }
        }
        for audited in round.audits {
            self.tell(&audit_event(audited));
        }
        for settled in round.settled {
            self.queue.has_landed |= matches!(settled.outcome, Outcome::Landed(_));
            self.on_entry_settled(settled).await;
        }
        if let Some(failure) = round.failure {
            self.on_failed_round(&failure.into());
            self.queue.is_stale = false;
        }
    }

    /// A person may have dropped what a job waits for.
    fn look_for_dropped(&self) {
        for (id, job) in self.jobs.iter().filter(|(_, job)| matches!(job.phase, Phase::Offered { .. })) {
            let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
            self.background_for(id, move || ops.fate(&attempt), JobEvent::Fate);
        }
    }

    pub(super) fn on_fate(&mut self, id: &IssueId, fate: Result<Option<Fate>>) {
        if let Ok(Some(Fate::Rejected(why))) = fate {
            let cause = self.cause();
            self.hand_over(id, why, cause);
        }
    }

    /// Git, the store or a slot failed: nobody is to blame.
    fn on_failed_round(&mut self, error: &EngineError) {
        self.queue.idle_since = Some(Instant::now());
        if matches!(error, EngineError::Queue(error) if error.is_stopped() || error.is_busy()) {
            return;
        }
        self.queue.failed += 1;
        self.warn(&format!("the landing queue failed: {}", causes(error)));
    }

    async fn on_entry_settled(&mut self, settled: Settled) {
        let Settled { entry, outcome } = settled;
        let waits = |phase: &Phase| matches!(phase, Phase::Offered { entry: waits } if *waits == entry.id);
        let id = self.jobs.iter().find(|(_, job)| waits(&job.phase)).map(|(id, _)| id.clone());
        let Some(id) = id else { return self.settle(&entry, &outcome) };
        match outcome {
            Outcome::Landed(commit) => {
                let commits = vec![commit.to_string()];
                self.set_judgement(&id, Judgement { accepted: true, commits, ..Judgement::default() });
                self.end(&id, EndKind::Accept);
            }
            Outcome::Conflict(files) => {
                let failed = self.conflict_of(&id, files).await;
                self.on_rejected_entry(&id, failed).await;
            }
            Outcome::Red(rejection) => self.on_rejected_entry(&id, red(&rejection)).await,
            Outcome::Failed(why) => {
                let cause = self.cause();
                self.hand_over(&id, why, cause);
            }
        }
    }

    /// What its agent is told of a conflict: both sides, and whose the other one is.
    async fn conflict_of(&self, id: &IssueId, files: Vec<RepoPath>) -> Vec<FailedCheck> {
        let Some(job) = self.jobs.get(id) else { return Vec::new() };
        let (ops, attempt, looked_at) = (self.ops.clone(), job.attempt.clone(), files.clone());
        let landed = tokio::task::spawn_blocking(move || ops.landed_in(&attempt, &looked_at)).await;
        // The files alone say enough if that cannot be found out.
        conflict(&files, &landed.ok().and_then(Result::ok).unwrap_or_default())
    }

    fn set_judgement(&mut self, id: &IssueId, judgement: Judgement) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.judgement = judgement;
        }
    }

    async fn on_rejected_entry(&mut self, id: &IssueId, failed: Vec<FailedCheck>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let offer = job.judgement.offer.take();
        job.judgement = Judgement { failed, offer, ..Judgement::default() };
        let no_round = self.no_further_round(id, false);
        self.on_rejection(id, no_round).await;
    }

    /// The work goes back into the checkout before the session goes on.
    pub(super) fn put_work_back(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::PuttingBack;
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        self.background_for(id, move || ops.put_back_work(&attempt), JobEvent::WorkBack);
    }

    pub(super) fn on_work_back(&mut self, id: &IssueId, back: Result<PutBack>) {
        match back {
            Ok(PutBack::Held(by)) => self.wait_for_own_files(id, by),
            Ok(back) => self.retry_with(id, (back == PutBack::Overtaken).then_some(HAS_CHANGED)),
            Err(error) => {
                let (cause, why) = (self.cause(), causes(&error));
                self.hand_over(id, format!("its work could not be put back: {why}"), cause);
            }
        }
    }

    /// Others have taken files of rejected work, which were free since the offer: it stands in the queue for them like anybody else.
    fn wait_for_own_files(&mut self, id: &IssueId, by: Vec<Held>) {
        if self.stopping != Stopping::No {
            return self.hand_over(id, self.stopping.reason().to_owned(), Cause::Stopped);
        }
        let now = Instant::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        (job.away, job.awaited, job.parked_since) = (Some(Away::Rejected), Awaited::default(), now);
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Parked { issue: id.clone(), agent, awaits: by, issues: Vec::new() });
        self.begin_wait(id);
    }

    /// The wait of rejected work for its files is over.
    pub(super) fn rejected_work_back(&mut self, id: &IssueId, outcome: &WaitOutcome, back: Result<PutBack>) {
        match (back, outcome) {
            // Somebody was faster once more.
            (Ok(PutBack::Held(by)), WaitOutcome::Granted(_)) => self.wait_for_own_files(id, by),
            (Ok(PutBack::Held(_)), _) => self.retry_with(id, Some("others hold its files")),
            (back, _) => self.on_work_back(id, back),
        }
    }

    /// The session goes on with what was rejected. If its work is not in the checkout, it is told so and `why`.
    fn retry_with(&mut self, id: &IssueId, why: Option<&str>) {
        let since = Instant::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let (Some(why), Some(offer)) = (why, &job.judgement.offer) {
            job.judgement.failed.push(not_in_place(&offer.pin, why));
        }
        job.phase = Phase::Due(Due { since, next: AfterWait::Retry, is_awaited: false });
    }

    /// Tells what became of an entry that no job waits for, and ends its attempt, which an earlier run has begun.
    fn settle(&mut self, entry: &Entry, outcome: &Outcome) {
        let fate = match outcome {
            Outcome::Landed(commit) => Fate::Landed(commit.to_string()),
            Outcome::Conflict(files) => Fate::Rejected(text(&conflict(files, &BTreeMap::new()))),
            Outcome::Red(rejection) => Fate::Rejected(text(&red(rejection))),
            Outcome::Failed(why) => Fate::Rejected(why.clone()),
        };
        let (issue, id) = (entry.issue.clone(), entry.id);
        self.tell(&match &fate {
            Fate::Landed(commit) => Event::Landed { issue, entry: id, commit: commit.clone() },
            Fate::Rejected(why) => Event::EntryRejected { issue, entry: id, why: why.clone() },
        });
        let (attempt, Some(issue)) = (entry.attempt, entry.issue.clone()) else { return };
        self.queue.settling += 1;
        let (ops, id) = (self.ops.clone(), issue.clone());
        let work = move || match attempt {
            Some(attempt) => ops.settle_attempt(attempt, &fate),
            None => ops.close_landed(&id, &fate),
        };
        self.background(work, move |settled| WorkerEvent::Settled(issue, settled));
    }

    pub(super) fn on_settled(&mut self, id: &IssueId, settled: Result<()>) {
        self.queue.settling -= 1;
        match settled {
            Ok(()) => self.ask_for_issues(),
            Err(error) => self.warn(&format!("{id}: its end could not be written down: {}", causes(&error))),
        }
    }

    /// Leaves what nothing will move any more in this run: a person is in the way, or the branch is red.
    pub(super) fn leave_stuck(&mut self) {
        let has_failed = (1..MAX_FAILED_ROUNDS).contains(&self.queue.failed);
        let is_waiting = self.queue.idle_since.is_some() && !self.queue.is_busy() && !has_failed;
        let is_all_offered = self.jobs.values().all(|job| matches!(job.phase, Phase::Offered { .. }));
        let has_more = !self.claiming.is_empty() || (self.may_begin_more() && !self.is_idle());
        if is_waiting && is_all_offered && !has_more && !self.ops.options.watch {
            self.leave_queue();
        }
    }

    /// Leaves everything in the queue for later. A round that is under way is told to end, and waited for: it may be moving the
    /// branch, and what it validates would count as killed.
    pub(super) fn leave_queue(&mut self) {
        self.queue.hangup = None;
        let offered = self.jobs.iter().filter(|(_, job)| matches!(job.phase, Phase::Offered { .. }));
        let offered: Vec<IssueId> = offered.map(|(id, _)| id.clone()).collect();
        for id in offered {
            self.leave_queued(&id);
        }
    }

    fn leave_queued(&mut self, id: &IssueId) {
        self.jobs.remove(id);
        // The summary names what waits.
        self.ready.settle(id, false);
    }
}

fn audit_event(audited: Audited) -> Event {
    match audited {
        Audited::Begun { commit, landings } => Event::AuditBegun { commit: commit.to_string(), landings },
        Audited::Passed { commit } => {
            Event::AuditEnded { commit: commit.to_string(), passed: true, why: None }
        }
        Audited::Failed { commit, why } => {
            Event::AuditEnded { commit: commit.to_string(), passed: false, why: Some(why) }
        }
    }
}

fn red(rejection: &Rejection) -> Vec<FailedCheck> {
    let below: Vec<String> = rejection.below.iter().map(ToString::to_string).collect();
    let below = if below.is_empty() {
        String::new()
    } else {
        format!("; it was tested on top of {}, which passes without it", below.join(", "))
    };
    let failed = rejection.validation.results.iter().filter(|result| !result.has_passed());
    failed
        .map(|result| FailedCheck {
            name: CheckName::Command,
            detail: format!(
                "`{}` failed on what you offered, run by mala ({}): see `{}`{below}",
                result.command,
                result.ending(),
                result.output_log
            ),
            evidence: Vec::new(),
            output: result.output_tail(OUTPUT_TAIL_BYTES),
        })
        .collect()
}

fn conflict(files: &[RepoPath], landed: &BTreeMap<RepoPath, IssueId>) -> Vec<FailedCheck> {
    let named = |path: &RepoPath| match landed.get(path) {
        Some(issue) => format!("`{path}` (landed with `{issue}`)"),
        None => format!("`{path}`"),
    };
    let files = files.iter().map(named).collect::<Vec<_>>().join(", ");
    vec![FailedCheck {
        name: CheckName::Outcome,
        detail: format!(
            "the branch has changed {files} since you began, in a way that does not merge with yours: look at the \
             branch's version with `git show HEAD:FILE`, bring both together, then offer again with `mala commit`"
        ),
        evidence: Vec::new(),
        output: None,
    }]
}

fn not_in_place(pin: &str, why: &str) -> FailedCheck {
    FailedCheck {
        name: CheckName::CleanStatus,
        detail: format!(
            "your work is not in the checkout, because {why}: it is kept in {pin}; look at it with `git show {pin}`, at a file of \
             it with `git show {pin}:FILE`, and at what that started from with `git show {pin}^:FILE`"
        ),
        evidence: Vec::new(),
        output: None,
    }
}

fn text(failed: &[FailedCheck]) -> String {
    failed.iter().map(|check| check.detail.as_str()).collect::<Vec<_>>().join("; ")
}
