//! What jobs are told, and which phase each of it means something in.

use mala_core::IssueId;
use mala_git::salvage::SavedRef;
use mala_landing::queue::Round;

use super::Dispatcher;
use super::feed::Found;
use super::job::Phase;
use crate::blocking::{Claim, EndResult, Fate, Fingerprint, PersonNote, PutBack, Queued, WaitOutcome};
use crate::error::{Result, causes};
use crate::session::SessionEvent;
use crate::validator::Judgement;

/// What blocking work has come to.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    Ready(Result<Found>),
    Claimed(IssueId, Result<Claim>),
    PutBack(IssueId, Result<()>),
    SessionKept(Result<()>),
    /// The landing queue has come to something.
    Round(Box<Round>),
    /// It is not worked off any more.
    QueueIdle(Result<()>),
    /// An offer that no job waited for was settled.
    Settled(IssueId, Result<()>),
    Job(IssueId, JobEvent),
}

/// What happens to one job.
#[derive(Debug)]
pub(super) enum JobEvent {
    Prepared(Result<()>),
    Session(SessionEvent),
    /// Whether the hooks of its client are called, as far as that can be known.
    Hooks(Result<Option<bool>>),
    Judged(Result<Box<(Judgement, Fingerprint)>>),
    Queued(Result<Queued>),
    WorkBack(Result<PutBack>),
    Fate(Result<Option<Fate>>),
    /// The wait of this number.
    WaitOver(u32, Result<WaitOutcome>),
    PutAside(Result<Option<SavedRef>>),
    TakenBack {
        outcome: WaitOutcome,
        back: Result<PutBack>,
    },
    Notes(Result<Vec<PersonNote>>),
    Ended(Result<EndResult>),
}

impl Dispatcher {
    pub(super) async fn on_worker_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready(ready) => self.on_ready(ready),
            WorkerEvent::Claimed(id, claim) => self.on_claimed(id, claim).await,
            WorkerEvent::PutBack(id, done) => {
                self.claiming.remove(&id);
                if let Err(source) = done {
                    self.fail("put an issue back", source);
                }
            }
            WorkerEvent::SessionKept(Ok(())) => {}
            WorkerEvent::SessionKept(Err(error)) => {
                self.warn(&format!("a session could not be written down: {}", causes(&error)));
            }
            WorkerEvent::Round(round) => self.on_round(*round).await,
            WorkerEvent::QueueIdle(worked) => self.on_queue_idle(worked),
            WorkerEvent::Settled(id, settled) => self.on_settled(&id, settled),
            WorkerEvent::Job(id, event) => self.on_job_event(&id, event).await,
        }
    }

    /// The one place that decides whether an event still means something.
    pub(super) async fn on_job_event(&mut self, id: &IssueId, event: JobEvent) {
        let event = match event {
            // It means the same in every phase.
            JobEvent::Hooks(heard) => return self.on_hooks(id, &heard),
            event => event,
        };
        let Some(job) = self.jobs.get(id) else { return };
        match (&job.phase, event) {
            (Phase::Preparing(_), JobEvent::Prepared(prepared)) => self.on_prepared(id, prepared).await,
            (Phase::Running(_), JobEvent::Session(SessionEvent::Progress { progress, usage })) => {
                self.on_progress(id, progress, usage);
            }
            (Phase::Running(_), JobEvent::Session(SessionEvent::Ended(end))) => {
                self.on_process_end(id, *end).await;
            }
            (Phase::Judging(_), JobEvent::Judged(judged)) => self.on_judged(id, judged).await,
            (Phase::Offering { .. }, JobEvent::Queued(entry)) => self.on_queued(id, entry),
            (Phase::Offered { .. }, JobEvent::Fate(fate)) => self.on_fate(id, fate),
            (Phase::PuttingBack, JobEvent::WorkBack(back)) => self.on_work_back(id, back),
            (Phase::Waiting(_), JobEvent::WaitOver(number, outcome)) if number == job.wait_number => {
                self.on_wait_over(id, outcome);
            }
            (Phase::Yielding, JobEvent::PutAside(aside)) => self.on_put_aside(id, aside),
            (Phase::TakingBack, JobEvent::TakenBack { outcome, back }) => {
                self.on_taken_back(id, outcome, back);
            }
            (Phase::Asking(_), JobEvent::Notes(notes)) => self.on_notes(id, notes).await,
            (Phase::Ending { .. }, JobEvent::Ended(ended)) => self.on_attempt_end(id, ended),
            // The job has moved on since: a stop has ended its wait or its question, or time has.
            (
                Phase::Starting
                | Phase::Preparing(_)
                | Phase::Running(_)
                | Phase::Backoff(_)
                | Phase::Judging(_)
                | Phase::Offering { .. }
                | Phase::Offered { .. }
                | Phase::PuttingBack
                | Phase::Waiting(_)
                | Phase::Yielding
                | Phase::Aside(_)
                | Phase::TakingBack
                | Phase::Due(_)
                | Phase::Asking(_)
                | Phase::Ending { .. },
                _,
            ) => {}
        }
    }

    /// What the passing of time means for each phase.
    pub(super) async fn on_tick(&mut self) {
        self.reporter.tick();
        let all: Vec<IssueId> = self.jobs.keys().cloned().collect();
        for id in &all {
            match self.jobs.get(id).map(|job| &job.phase) {
                Some(Phase::Running(_)) => self.check_time(id).await,
                Some(Phase::Backoff(_)) => self.end_backoff(id).await,
                Some(Phase::Asking(_)) => self.look_for_answer(id).await,
                Some(Phase::Due(_)) => self.look_who_waits_for(id).await,
                Some(
                    Phase::Starting
                    | Phase::Preparing(_)
                    | Phase::Judging(_)
                    | Phase::Offering { .. }
                    | Phase::Offered { .. }
                    | Phase::PuttingBack
                    | Phase::Waiting(_)
                    | Phase::Yielding
                    | Phase::Aside(_)
                    | Phase::TakingBack
                    | Phase::Ending { .. },
                )
                | None => {}
            }
        }
        self.look_at_queue();
        self.look_who_waits_in_call().await;
        self.wake_rested();
        self.poll_if_due();
    }
}
