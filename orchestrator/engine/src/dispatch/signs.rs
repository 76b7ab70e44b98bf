//! What sessions tell, and how time passes for them.

use std::time::Duration;

use mala_agents::stream::{Limited, Progress, Terminal, Usage};
use mala_core::{IssueId, Timestamp};
use tokio::time::Instant;

use super::job::Pause;
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, News};
use crate::State;
use crate::Step;
use crate::clerk::Cause;
use crate::event::Event;
use crate::limits::{Limit, Reached};
use crate::ports::{Attempt, Detail};
use crate::session::{Ended, Sign, Stop, What};

/// Pauses where nobody says how long they take: the first, doubled each time, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Never go on sooner than this, whatever the client says.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

impl Dispatcher {
    pub(super) async fn on_sign(&mut self, sign: Sign) {
        let Sign { issue, what } = sign;
        match what {
            What::Progress { progress, usage } => self.on_progress(&issue, progress, usage),
            What::Ended(ended) => self.on_ended(&issue, *ended).await,
        }
    }

    fn on_progress(&mut self, id: &IssueId, progress: Vec<Progress>, usage: Usage) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.meter.sign_of_life(Timestamp::now());
        job.meter.set_usage(usage);
        let agent = job.attempt.agent.clone();
        let (mut events, mut sessions) = (Vec::new(), Vec::new());
        for one in progress {
            match one {
                Progress::Session(session) => {
                    job.session_id = Some(session.clone());
                    sessions.push((job.attempt.clone(), job.state, session));
                }
                Progress::Doing(what) => {
                    job.pauses = 0;
                    events.push(Event::Doing { issue: id.clone(), agent: agent.clone(), what });
                }
                Progress::Usage => {
                    let (tokens, usage) = (job.tokens(), job.meter.usage());
                    let Usage { cost, turns, .. } = usage;
                    events.push(Event::Used { issue: id.clone(), agent: agent.clone(), tokens, cost, turns });
                }
                Progress::Limited(limited) => {
                    let what = format!("told to slow down: {}", limited.message);
                    events.push(Event::Doing { issue: id.clone(), agent: agent.clone(), what });
                }
            }
        }
        let reached = job.meter.spent(&job.limits);
        events.into_iter().for_each(|event| self.tell(&event));
        for (attempt, state, session) in sessions {
            self.keep_session(attempt, state, session);
        }
        if let Some(Reached { reason, .. }) = reached {
            self.end_early(id, &reason);
        }
        self.check_budget();
    }

    /// Writes down how the conversation is called, at once: whoever resumes a killed run needs it.
    fn keep_session(&self, attempt: Attempt, state: State, session: String) {
        let ledger = self.clerk.ledger.clone();
        let detail = Detail { session: Some(session), ..Detail::default() };
        // The next step writes it again, so a failure here is not the end.
        self.background(move || ledger.advance(&attempt, state, state, &detail), News::Kept);
    }

    /// The process has ended: pause, or ask the gate.
    async fn on_ended(&mut self, id: &IssueId, ended: Ended) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.session = None;
        job.meter.set_usage(ended.report.usage);
        job.meter.end_process();
        if let Some(session) = &ended.report.session {
            job.session_id = Some(session.clone());
        }
        if let Some(why) = self.clerk.launcher.own_failure(&job.attempt) {
            return self.stop_starting(id, &why);
        }
        let said = ended.report.message.clone().filter(|text| !text.trim().is_empty());
        job.is_torn = ended.is_torn();
        job.failure = failure(&ended);
        job.message = said.or_else(|| Some(ended.stderr.clone()).filter(|text| !text.trim().is_empty()));
        self.check_budget();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let nudge = job.nudge.take();
        let is_put_off = ended.report.terminal.as_ref().is_some_and(Terminal::is_put_off);
        job.is_put_off_for_nothing &= is_put_off;
        if job.last_call.is_some() || self.stopping != Stopping::No {
            return self.ask_gate(id).await;
        }
        match (&ended.report.limited, nudge) {
            (Some(limited), _) => self.pause(id, limited),
            (None, Some(why)) => self.launch(id, Purpose::GoOn { why }).await,
            (None, None) if is_put_off && self.put_off(id).await => {}
            (None, None) => self.ask_gate(id).await,
        }
    }

    /// The agent's turn is over; the gate decides. In a hurry nobody is asked any more.
    pub(super) async fn ask_gate(&mut self, id: &IssueId) {
        if self.stopping == Stopping::Hurry || self.stopping == Stopping::Now {
            let reason = self.stopping.reason().to_owned();
            return self.hand_over(id, &reason, Cause::Stopped);
        }
        let Some(job) = self.jobs.get(id) else { return };
        let detail = Detail { session: job.session_id.clone(), ..Detail::default() };
        if job.state == State::Running && !self.step(id, Step::End, detail).await {
            return;
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.gates += 1;
        job.gate_errors = 0;
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Gating { issue: id.clone(), agent });
        self.judge(id);
    }

    pub(super) fn judge(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get(id) else { return };
        let (attempt, message, is_torn) = (job.attempt.clone(), job.message.clone(), job.is_torn);
        let (clerk, id) = (self.clerk.clone(), id.clone());
        self.background(
            move || {
                if is_torn {
                    clerk.launcher.reap(&attempt)?;
                }
                clerk.judge(&attempt, message.as_deref()).map(Box::new)
            },
            |judged| News::Judged(id, judged),
        );
    }

    fn pause(&mut self, id: &IssueId, limited: &Limited) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let now = Timestamp::now();
        let span = match limited.until {
            Some(until) => until.since(now).max(SHORTEST_PAUSE),
            None => FIRST_PAUSE.saturating_mul(1 << job.pauses.min(10)).min(LONGEST_PAUSE),
        };
        job.pauses += 1;
        let why = limited.message.clone();
        let until = Instant::now() + span;
        job.pause = Some(Pause { until, since: now, why: why.clone() });
        let (agent, profile) = (job.attempt.agent.clone(), job.profile.name.clone());
        // Whoever begins now with the same account would be told the same.
        self.limited.insert(profile, (until, why.clone()));
        self.tell(&Event::Paused { issue: id.clone(), agent, why, until: now.plus(span) });
    }

    pub(super) async fn on_tick(&mut self) {
        self.reporter.tick();
        let now = Timestamp::now();
        let all: Vec<IssueId> = self.jobs.keys().cloned().collect();
        for id in all {
            self.check_time(&id, now).await;
            self.end_pause(&id, now).await;
            self.look_for_answer(&id).await;
        }
        self.look_who_waits_for_due().await;
        self.wake_rested();
        self.poll_if_due();
    }

    async fn check_time(&mut self, id: &IssueId, now: Timestamp) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.session.is_none() || job.last_call.is_some() || job.nudge.is_some() {
            return;
        }
        if job.meter.timed_out(&job.limits, now, |_| Duration::ZERO).is_none() {
            return;
        }
        // It looks late; what it waited for others does not count, and only the ledger knows that. If it cannot say,
        // nobody is cut off for it: the next tick asks again.
        let (ledger, agent) = (self.clerk.ledger.clone(), job.attempt.agent.clone());
        let (mut meter, limits) = (job.meter.clone(), job.limits);
        let asked = tokio::task::spawn_blocking(move || {
            // A test may run for long without a word.
            if let Some(tested) = ledger.last_tested(&agent, meter.last_sign()).ok()? {
                meter.sign_of_life(tested);
            }
            let waited = |since| ledger.waited(&agent, since).unwrap_or(Duration::MAX);
            Some((meter.last_sign(), meter.timed_out(&limits, now, waited)))
        });
        let Ok(Some((last_sign, reached))) = asked.await else { return };
        match reached {
            Some(Reached { limit: Limit::Idle, reason }) => self.nudge(id, reason),
            Some(Reached { reason, .. }) => self.end_early(id, &reason),
            None => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.meter.sign_of_life(last_sign);
                }
            }
        }
    }

    /// The agent is silent. If its session can be spoken to, it is told so, once; else, and the next time, it has had enough.
    fn nudge(&mut self, id: &IssueId, reason: String) {
        let grace = self.options.grace;
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (Some(session), true, false) = (&job.session, job.has_conversation(), job.is_nudged) else {
            return self.end_early(id, &reason);
        };
        session.stop(Stop::Ask(grace));
        job.is_nudged = true;
        job.nudge = Some(reason.clone());
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Nudged { issue: id.clone(), agent, why: reason });
    }

    async fn end_pause(&mut self, id: &IssueId, now: Timestamp) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(pause) = job.pause.take_if(|pause| pause.until <= Instant::now()) else { return };
        job.meter.pause(now.since(pause.since), now);
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Resumed { issue: id.clone(), agent });
        self.launch(id, Purpose::GoOn { why: pause.why }).await;
    }

    /// The agent has had enough: it is asked to end, what it has done is judged, and it gets no further round.
    pub(super) fn end_early(&mut self, id: &IssueId, reason: &str) {
        let grace = self.options.grace;
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.last_call.is_none() {
            job.last_call = Some(reason.to_owned());
            if let Some(session) = &job.session {
                session.stop(Stop::Ask(grace));
            }
        }
    }
}

/// How a process failed, if it did.
fn failure(ended: &Ended) -> Option<String> {
    if !ended.is_success() {
        return Some(ended.how());
    }
    let terminal = ended.report.terminal.as_ref().filter(|terminal| terminal.is_error)?;
    Some(format!("the agent ended with `{}`", terminal.reason))
}
