//! Which profile an issue gets now: one that is limited gives way to another, and one that cannot work is stopped.

use std::mem;

use mala_core::{Issue, IssueId};
use tokio::time::Instant;

use super::Dispatcher;
use super::events::JobEvent;
use super::job::Phase;
use crate::blocking::Cause;
use crate::cost::price_line;
use crate::error::Result;
use crate::event::Event;
use crate::ready::ReadyIssue;
use crate::session::SessionEnd;

/// So many starts in a row without one reply of a model are no accident.
const MAX_SILENT_STARTS: u32 = 3;

/// What is known of a profile besides its settings.
#[derive(Debug, Default)]
pub(super) struct ProfileHealth {
    /// Until when it was told to slow down, and the words.
    pub(super) limited: Option<(Instant, String)>,
    /// Why it is not started again in this run.
    stopped: Option<String>,
    /// It was said that its client calls no hooks.
    is_unhooked: bool,
    /// Starts in a row that have failed without a reply of a model.
    silent_starts: u32,
}

/// What becomes of an issue that is next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Profile(String),
    /// Its profile was told to slow down.
    Rest {
        until: Instant,
        why: String,
    },
    /// It stays ready for another run.
    Leave(String),
}

impl Dispatcher {
    /// The profile for an issue, or why there is none now.
    pub(super) fn choose_profile(&self, issue: &Issue) -> Choice {
        let profiles = &self.ops.options.profiles;
        let Some((chosen, _)) = profiles.choose(issue) else {
            return Choice::Leave("there is no profile for it".to_owned());
        };
        let first = self.availability(&chosen.name);
        let fallback = profiles.fallback.as_deref().filter(|name| *name != chosen.name);
        match (first, fallback) {
            (Choice::Profile(name), _) => Choice::Profile(name),
            (unavailable, Some(fallback)) => match self.availability(fallback) {
                Choice::Profile(name) => Choice::Profile(name),
                _ => unavailable,
            },
            (unavailable, None) => unavailable,
        }
    }

    /// Why a profile is not started again in this run, if it is not.
    pub(super) fn why_stopped(&self, name: &str) -> Option<&str> {
        self.profiles.get(name)?.stopped.as_deref()
    }

    /// A process has ended. Where a limit in dollars is set and it cannot be told what it cost, no other of its profile begins.
    pub(super) fn check_prices(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get(id) else { return };
        if self.ops.options.budget.or(job.limits.cost).is_none() {
            return;
        }
        let cost = job.meter.cost();
        let Some(model) = cost.unpriced().next() else { return };
        let name = job.profile.name.clone();
        let health = self.profiles.entry(name.clone()).or_default();
        if health.stopped.is_none() {
            let why =
                format!("a limit in dollars is set, and there is no price for `{model}`, which it has used");
            health.stopped = Some(why.clone());
            self.warn(&format!(
                "the profile `{name}` is stopped for this run: {why}; its issues stay ready. To go on, {}",
                price_line(model)
            ));
        }
    }

    fn availability(&self, name: &str) -> Choice {
        if let Some(why) = self.why_stopped(name) {
            return Choice::Leave(format!("the profile `{name}` is stopped: {why}"));
        }
        match self.profiles.get(name).and_then(|health| health.limited.clone()) {
            Some((until, why)) => Choice::Rest { until, why },
            None => Choice::Profile(name.to_owned()),
        }
    }

    /// True if an issue that is next rests or is left. Gives the profile otherwise.
    pub(super) fn take_profile(&mut self, next: &ReadyIssue) -> Option<String> {
        let id = &next.issue.id;
        match self.choose_profile(&next.issue) {
            Choice::Profile(name) => return Some(name),
            Choice::Rest { until, why } => self.rest(id, until, &why),
            Choice::Leave(why) => self.leave(id, &why),
        }
        None
    }

    pub(super) fn forget_past_limits(&mut self) {
        let now = Instant::now();
        for health in self.profiles.values_mut() {
            health.limited.take_if(|(until, _)| *until <= now);
        }
    }

    pub(super) fn limit_profile(&mut self, name: String, until: Instant, why: String) {
        self.profiles.entry(name).or_default().limited = Some((until, why));
    }

    /// Asks once for each process whether its client has called hooks before the tool that has just run.
    pub(super) fn look_at_hooks(&mut self, id: &IssueId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Running(running) = &mut job.phase else { return };
        if job.profile.kind.client().is_none() || mem::replace(&mut running.is_looked_at, true) {
            return;
        }
        let (ops, attempt, pid) = (self.ops.clone(), job.attempt.clone(), running.session.pid());
        self.background_for(id, move || ops.sessions.are_hooks_heard(&attempt, pid), JobEvent::Hooks);
    }

    /// Says it once for each profile, and counts each attempt.
    pub(super) fn on_hooks(&mut self, id: &IssueId, heard: &Result<Option<bool>>) {
        let Some(job) = self.jobs.get_mut(id).filter(|_| matches!(heard, Ok(Some(false)))) else { return };
        job.is_unhooked = true;
        let (agent, profile) = (job.attempt.agent.clone(), job.profile.name.clone());
        let health = self.profiles.entry(profile.clone()).or_default();
        if !mem::replace(&mut health.is_unhooked, true) {
            self.tell(&Event::Unhooked { issue: id.clone(), agent, profile });
        }
    }

    /// Looks whether a process that has ended says that no other one of its profile can do better. True if the attempt is over.
    pub(super) fn brake(&mut self, id: &IssueId, end: &SessionEnd) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let (name, kind) = (job.profile.name.clone(), job.profile.kind);
        let health = self.profiles.entry(name.clone()).or_default();
        let has_said = end.report.message.as_ref().is_some_and(|said| !said.trim().is_empty());
        let has_replied = has_said || end.report.usage.turns > 0;
        // Who kills a process is not its profile.
        let has_failed = end.failure().is_some() && !end.is_torn() && end.report.limited.is_none();
        health.silent_starts = match has_replied {
            // What a program of one's own prints is nobody's reply.
            false if has_failed && kind.has_model() => health.silent_starts + 1,
            _ => 0,
        };
        let why = match &end.report.denied {
            Some(denied) => denied.clone(),
            None if health.silent_starts >= MAX_SILENT_STARTS => {
                let failure = end.failure().unwrap_or_default();
                format!("{MAX_SILENT_STARTS} starts without a reply of its model; the last time {failure}")
            }
            None => return false,
        };
        if health.stopped.is_none() {
            health.stopped = Some(why.clone());
            self.warn(&format!(
                "the profile `{name}` is stopped for this run: {why}; its issues stay ready. Start its program by hand to see \
                 what is wrong, then: mala run"
            ));
        }
        self.hand_over(id, format!("the profile `{name}` cannot work: {why}"), Cause::Stopped);
        true
    }
}
