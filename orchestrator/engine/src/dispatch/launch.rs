//! Starting agents' processes.

use mala_core::IssueId;
use mala_store::Progress;
use tokio::time::Instant;

use super::job::{Job, Phase, Running};
use super::{Dispatcher, causes};

use crate::blocking::{Answer, Cause, ClaimedIssue, Continuation};
use crate::error::Result;
use crate::event::Event;
use crate::limits::Meter;
use crate::prompt;
use crate::session::{Session, SessionOrder, file_name};
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
        let folder = self.ops.options.logs.join(self.run.as_str());
        let log = folder.join(format!("{}.log", file_name(attempt.agent.as_str())));
        self.left.remove(&id);
        self.begun.insert(id.clone());
        let meter = Meter::new(Instant::now(), self.ops.options.prices.clone());
        let mut job = Job::new((attempt, issue), (profile, limits), log, meter);
        job.session_id = left.as_ref().and_then(|left| left.session_for(&job.profile));
        self.jobs.insert(id.clone(), job);
        self.launch(&id, Purpose::Begin(left)).await;
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
            job.phase = Phase::Running(Running { session, cut: None, is_resumed });
            job.last_turn.failure = None;
            job.meter.sign_of_life(Instant::now());
        }
        self.tell(&Event::Started { issue: id.clone(), agent, pid, session: resumed });
    }

    fn start(&self, job: &Job, purpose: &Purpose) -> Result<Box<dyn Session>> {
        let order = SessionOrder {
            attempt: &job.attempt,
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
