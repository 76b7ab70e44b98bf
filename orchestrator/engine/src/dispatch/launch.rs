//! Starting agents' processes.

use std::mem;

use mala_core::IssueId;
use mala_landing::{LeasedShare, NoFreePorts};
use mala_store::Progress;
use tokio::time::Instant;

use super::events::JobEvent;
use super::job::{Job, Phase, Running};
use super::stop::Stopping;
use super::{Dispatcher, causes};

use crate::around::{Around, variables};
use crate::blocking::{Answer, Cause, ClaimedIssue, Continuation};
use crate::error::Result;
use crate::event::Event;
use crate::limits::Meter;
use crate::prompt;
use crate::session::{Session, SessionOrder, agent_log};
use crate::{State, Step};

/// What the next process of a job is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The beginning of an attempt, or where an earlier one was cut off.
    Begin(Option<Continuation>),
    /// The gate has sent it back.
    Retry,
    /// It goes on after a pause, or after it has waited for others.
    GoOn { why: String },
    /// It goes on after its question.
    Answer { question: String, answer: Option<Answer> },
}

impl Dispatcher {
    /// Begins the attempt that was just claimed.
    pub(super) async fn begin(&mut self, claimed: ClaimedIssue) {
        let ClaimedIssue { attempt, issue, left } = claimed;
        let id = issue.id.clone();
        // Not chosen again: the labels of the issue may have changed since it was claimed.
        let claimed_with = attempt.profile.as_deref().unwrap_or_default();
        let Some((profile, limits)) = self.ops.options.profiles.named(claimed_with).cloned() else {
            return self.leave(&id, "there is no profile for it");
        };
        self.tell(&Event::Claimed {
            issue: id.clone(),
            title: issue.title.clone(),
            agent: attempt.agent.clone(),
            profile: profile.name.clone(),
            attempt: attempt.number,
        });
        let log = agent_log(&self.ops.options.logs, &attempt);
        self.left.remove(&id);
        self.begun.insert(id.clone());
        let meter = Meter::new(Instant::now(), self.ops.options.prices.clone());
        let share = LeasedShare::lease(self.free_slot().to_string());
        let mut job = Job::new((attempt, issue), (profile, limits), log, share, meter);
        job.session_id = left.as_ref().and_then(|left| left.session_for(&job.profile));
        self.jobs.insert(id.clone(), job);
        if self.ops.options.around.before.is_empty() {
            return self.launch(&id, Purpose::Begin(left)).await;
        }
        self.prepare(&id, left);
    }

    /// The lowest number that no attempt under way has. Those that wait keep theirs, with the databases and servers it stands for.
    fn free_slot(&self) -> usize {
        let is_taken = |number: &usize| self.jobs.values().any(|job| job.share.slot() == number.to_string());
        (1..).find(|number| !is_taken(number)).unwrap_or_default()
    }

    /// Runs what the settings want to run before an attempt.
    fn prepare(&mut self, id: &IssueId, left: Option<Continuation>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::Preparing(left);
        let Some(job) = self.jobs.get(id) else { return };
        match self.around(job) {
            Ok(around) => self.background_for(id, move || Ok(around.before()?), JobEvent::Prepared),
            Err(error) => self.stop_starting(id, &error.to_string()),
        }
    }

    /// The commands around an attempt.
    pub(super) fn around(&self, job: &Job) -> Result<Around, NoFreePorts> {
        let options = &self.ops.options;
        let variables = variables(&job.attempt, &job.share, &options.env)?;
        Around::new(&options.around, &job.share, variables, self.ops.repo.root(), &job.log)
    }

    pub(super) async fn on_prepared(&mut self, id: &IssueId, prepared: Result<()>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Preparing(left) = mem::replace(&mut job.phase, Phase::Starting) else { return };
        match prepared {
            Ok(()) if self.stopping == Stopping::No => self.launch(id, Purpose::Begin(left)).await,
            Ok(()) => self.hand_over(id, self.stopping.reason().to_owned(), Cause::Stopped),
            Err(error) => self.stop_starting(id, &causes(&error)),
        }
    }

    /// Writes down that the next process of a job begins, and starts it. One that cannot be started ends the attempt.
    pub(super) async fn launch(&mut self, id: &IssueId, purpose: Purpose) {
        let Some(job) = self.jobs.get(id) else { return };
        if let Some(why) = self.why_stopped(&job.profile.name) {
            let reason = format!("the profile `{}` is stopped: {why}", job.profile.name);
            return self.hand_over(id, reason, Cause::Stopped);
        }
        let progress = Progress { session: job.session_id.clone(), ..Progress::default() };
        let step = if job.state == State::Running { Step::Resume } else { Step::Start };
        if !self.take_step(id, step, progress).await {
            return;
        }
        let Some(job) = self.jobs.get(id) else { return };
        let session = match self.start(job, &purpose) {
            Ok(session) => session,
            Err(error) => {
                let reason = format!("the agent could not be started: {}", causes(&error));
                return self.hand_over(id, reason, Cause::Failed);
            }
        };
        let (agent, resumed, pid) = (job.attempt.agent.clone(), job.session_id.clone(), session.pid());
        let is_resumed = job.has_conversation();
        if let Some(job) = self.jobs.get_mut(id) {
            job.phase = Phase::Running(Running { session, cut: None, is_resumed, is_looked_at: false });
            job.last_turn.failure = None;
            job.meter.sign_of_life(Instant::now());
        }
        self.tell(&Event::Started { issue: id.clone(), agent, pid, session: resumed });
    }

    fn start(&self, job: &Job, purpose: &Purpose) -> Result<Box<dyn Session>> {
        let order = SessionOrder {
            attempt: &job.attempt,
            env: &variables(&job.attempt, &job.share, &self.ops.options.env)?,
            profile: &job.profile,
            prompt: &self.prompt(job, purpose),
            conversation: job.session_id.as_deref().filter(|_| job.profile.kind.has_sessions()),
            spent: job.session_id.as_ref().map(|_| job.meter.usage()).unwrap_or_default(),
            budget: job.limits.cost.map(|cost| (cost - job.meter.cost().at_least()).max(0.01)),
            log: &job.log,
        };
        self.ops.sessions.start(&order, self.session_events.clone())
    }

    /// What the process is told. Without a conversation to go on with, everything is said again.
    fn prompt(&self, job: &Job, purpose: &Purpose) -> String {
        let options = &self.ops.options;
        let rest = match purpose {
            Purpose::Begin(left) => left.as_ref().map(|left| prompt::take_up(options, &job.issue, left)),
            Purpose::Answer { question, answer } => Some(prompt::answer(question, answer.as_ref())),
            Purpose::Retry => Some(prompt::retry(options, &job.issue, &job.judgement, job.rounds)),
            Purpose::GoOn { why } => Some(prompt::resume(options, &job.issue, why)),
        };
        match rest {
            Some(rest) if job.has_conversation() => rest,
            rest => {
                let task = prompt::task(options, self.ops.repo.root(), &job.issue, &job.attempt);
                rest.map_or(task.clone(), |rest| format!("{task}\n---\n\n{rest}"))
            }
        }
    }
}
