//! While a process runs: what its session tells, and how time passes for it.

use std::mem;
use std::time::Duration;

use mala_agents::stream::{Limited, Progress, Terminal, Usage};
use mala_core::{Attempt, IssueId};
use tokio::time::Instant;

use super::job::{Backoff, Cut, Phase, Turn, WaitHistory};
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, WorkerEvent};
use crate::State;
use crate::event::Event;
use crate::limits::{Limit, Reached};
use crate::session::{SessionEnd, Stop};

/// Backoff where the client does not say how long: the first, doubled each time, and the longest.
const FIRST_BACKOFF: Duration = Duration::from_secs(30);
const MAX_BACKOFF: Duration = Duration::from_secs(30 * 60);
/// Never go on sooner than this, whatever the client says.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

impl Dispatcher {
    pub(super) fn on_progress(&mut self, id: &IssueId, progress: Vec<Progress>, usage: Usage) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.meter.sign_of_life(Instant::now());
        job.meter.set_usage(usage);
        let agent = job.attempt.agent.clone();
        let (mut events, mut sessions) = (Vec::new(), Vec::new());
        let (mut is_denied, mut has_used_a_tool) = (false, false);
        for one in progress {
            match one {
                Progress::Session(session) => {
                    job.session_id = Some(session.clone());
                    sessions.push((job.attempt.clone(), job.state, session));
                }
                Progress::Doing(what) => {
                    job.backoffs = 0;
                    events.push(Event::Doing { issue: id.clone(), agent: agent.clone(), what });
                }
                Progress::Usage => {
                    let (tokens, cost) = (job.tokens(), job.meter.cost().exact());
                    let turns = job.meter.usage().turns;
                    events.push(Event::Used { issue: id.clone(), agent: agent.clone(), tokens, cost, turns });
                }
                Progress::ToolEnded => has_used_a_tool = true,
                Progress::Denied => is_denied = true,
                Progress::Limited(limited) => {
                    let what = format!("told to slow down: {}", limited.message);
                    events.push(Event::Doing { issue: id.clone(), agent: agent.clone(), what });
                }
            }
        }
        if is_denied && let Some(session) = job.session() {
            session.end(Stop::Ask(self.ops.options.grace));
        }
        if has_used_a_tool {
            self.look_at_hooks(id);
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        let reached = job.meter.spent(&job.limits);
        events.into_iter().for_each(|event| self.tell(&event));
        for (attempt, state, session) in sessions {
            self.keep_session(attempt, state, session);
        }
        if let Some(Reached { reason, .. }) = reached {
            self.end_early(id, reason);
        }
        self.check_budget();
    }

    /// Writes down how the conversation is called, at once: whoever resumes a killed run needs it.
    fn keep_session(&self, attempt: Attempt, state: State, session: String) {
        let ops = self.ops.clone();
        let progress = mala_store::Progress { session: Some(session), ..Default::default() };
        // The next step writes it again, so a failure here is not the end.
        self.background(move || ops.advance(&attempt, (state, state), &progress), WorkerEvent::SessionKept);
    }

    /// The process has ended: back off, wait, go on, or ask the gate.
    pub(super) async fn on_process_end(&mut self, id: &IssueId, end: SessionEnd) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Running(running) = mem::replace(&mut job.phase, Phase::Starting) else { return };
        job.meter.set_usage(end.report.usage.clone());
        job.meter.end_process();
        if let Some(session) = &end.report.session {
            job.session_id = Some(session.clone());
        }
        if let Some(why) = &end.launch_failure {
            return self.stop_starting(id, why);
        }
        job.last_turn = turn(&end);
        if self.stopping == Stopping::No {
            if running.is_resumed && running.cut.is_none() && could_not_resume(&end) {
                return self.begin_conversation_anew(id).await;
            }
            if self.brake(id, &end) {
                return;
            }
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_put_off = end.report.terminal.as_ref().is_some_and(Terminal::is_put_off);
        if !is_put_off && job.waits == WaitHistory::PutOffForNothing {
            job.waits = WaitHistory::Fine;
        }
        self.check_prices(id);
        self.check_budget();
        if self.stopping != Stopping::No {
            return self.ask_gate(id, running.cut.and_then(Cut::last_call)).await;
        }
        match (running.cut, &end.report.limited) {
            (Some(Cut::LastCall(reason)), _) => self.ask_gate(id, Some(reason)).await,
            (_, Some(limited)) => self.back_off(id, limited),
            (Some(Cut::Nudge(why)), None) => self.launch(id, Purpose::GoOn { why }).await,
            (None, None) if is_put_off && self.put_off(id).await => {}
            (None, None) => self.ask_gate(id, None).await,
        }
    }

    /// The client has lost its conversation. The attempt goes on all the same, with the whole task.
    async fn begin_conversation_anew(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.session_id = None;
        let purpose = match job.judgement.failed.is_empty() {
            true => {
                Purpose::GoOn { why: "its client could not go on with its earlier conversation".to_owned() }
            }
            false => Purpose::Retry,
        };
        self.launch(id, purpose).await;
    }

    fn back_off(&mut self, id: &IssueId, limited: &Limited) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let now = self.ops.clock.now();
        let span = match limited.until {
            Some(until) => until.since(now).max(MIN_BACKOFF),
            None => FIRST_BACKOFF.saturating_mul(1 << job.backoffs.min(10)).min(MAX_BACKOFF),
        };
        job.backoffs += 1;
        let why = limited.message.clone();
        let (since, until_by_clock) = (Instant::now(), now.plus(span));
        let until = since + span;
        job.phase = Phase::Backoff(Backoff { until, until_by_clock, since, why: why.clone() });
        let (agent, profile) = (job.attempt.agent.clone(), job.profile.name.clone());
        // Another agent that begins now with the same account would be told the same.
        self.limit_profile(profile, until, why.clone());
        self.tell(&Event::Paused { issue: id.clone(), agent, why, until: until_by_clock });
    }

    pub(super) async fn end_backoff(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Backoff(Backoff { until, until_by_clock, since, why }) = &job.phase else { return };
        let now = Instant::now();
        // Whichever comes first: a clock that was set back must not hold it up, and the limit goes on while the machine sleeps.
        if *until > now && *until_by_clock > self.ops.clock.now() {
            return;
        }
        let why = why.clone();
        job.meter.pause(now.saturating_duration_since(*since), now);
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Resumed { issue: id.clone(), agent });
        self.launch(id, Purpose::GoOn { why }).await;
    }

    pub(super) async fn check_time(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get(id) else { return };
        let is_cut = !matches!(&job.phase, Phase::Running(running) if running.cut.is_none());
        let now = Instant::now();
        if is_cut || job.meter.timed_out(&job.limits, now, |_| Duration::ZERO).is_none() {
            return;
        }
        // It looks late; what it waited for others does not count, and only the store knows that. If it cannot say,
        // nobody is cut off for it: the next tick asks again.
        let (ops, agent) = (self.ops.clone(), job.attempt.agent.clone());
        let (mut meter, limits) = (job.meter.clone(), job.limits);
        let asked = tokio::task::spawn_blocking(move || {
            // A test may run for long without a word.
            let silent = now.saturating_duration_since(meter.last_sign());
            if let Some(ago) = ops.last_turn(&agent, silent).ok()? {
                meter.sign_of_life(now.checked_sub(ago).unwrap_or(now));
            }
            let waited =
                |since| ops.waited(&agent, now.saturating_duration_since(since)).unwrap_or(Duration::MAX);
            Some((meter.last_sign(), meter.timed_out(&limits, now, waited)))
        });
        let Ok(Some((last_sign, reached))) = asked.await else { return };
        match reached {
            Some(Reached { limit: Limit::Idle, reason }) => self.nudge(id, reason),
            Some(Reached { reason, .. }) => self.end_early(id, reason),
            None => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.meter.sign_of_life(last_sign);
                }
            }
        }
    }

    /// The agent is silent. If its session can be spoken to, it is told so, once; else, and the next time, it has had enough.
    fn nudge(&mut self, id: &IssueId, reason: String) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if !job.has_conversation() || mem::replace(&mut job.is_nudged, true) {
            return self.end_early(id, reason);
        }
        let agent = job.attempt.agent.clone();
        self.cut(id, Cut::Nudge(reason.clone()));
        self.tell(&Event::Nudged { issue: id.clone(), agent, why: reason });
    }

    /// The agent has had enough: it is asked to end, what it has done is judged, and it gets no further round.
    fn end_early(&mut self, id: &IssueId, reason: String) {
        self.cut(id, Cut::LastCall(reason));
    }

    /// Asks the process to end. A last call stands, and replaces a nudge.
    fn cut(&mut self, id: &IssueId, cut: Cut) {
        let Some(Phase::Running(running)) = self.jobs.get_mut(id).map(|job| &mut job.phase) else { return };
        if !matches!(running.cut, Some(Cut::LastCall(_))) {
            running.session.end(Stop::Ask(self.ops.options.grace));
            running.cut = Some(cut);
        }
    }
}

/// True if a process that was to go on with a conversation has failed before anything was said in it.
fn could_not_resume(end: &SessionEnd) -> bool {
    let report = &end.report;
    let is_silent =
        report.usage.turns == 0 && report.message.as_ref().is_none_or(|said| said.trim().is_empty());
    let has_reason = report.limited.is_some() || report.denied.is_some() || end.is_torn();
    is_silent && !has_reason && end.failure().is_some()
}

fn turn(end: &SessionEnd) -> Turn {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.trim().is_empty());
    let message = end.report.message.as_ref().and_then(text).or_else(|| text(&end.stderr));
    Turn { is_torn: end.is_torn(), failure: end.failure(), message }
}
