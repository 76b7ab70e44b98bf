//! How a run ends before its work does.
//!
//! | asked | agents | what they have done | locks |
//! | --- | --- | --- | --- |
//! | once | asked to end | judged, then done or handed over | released by the ending |
//! | twice | killed | handed over | released by the ending |
//! | three times | killed | the journal says where they were; the next start hands it over | free with the process |

use std::io;
use std::time::Duration;

use mala_core::IssueId;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Dispatcher;
use super::job::Job;
use crate::clerk::Cause;
use crate::event::Event;
use crate::limits::span;
use crate::session::Stop;

/// How long an agent may take to end in a hurry.
const SHORT_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stopping {
    No,
    /// Nothing new begins; what is at the gate is finished.
    Drain(String),
    Hurry,
    Now,
}

impl Stopping {
    /// Why, as the end of a sentence.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Drain(reason) => reason,
            Self::No | Self::Hurry | Self::Now => "the run was stopped",
        }
    }
}

/// The signals that end a run.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [a, b, c] = kinds.map(signal);
        Ok(Self([a?, b?, c?]))
    }

    pub(super) async fn next(&mut self) {
        let [a, b, c] = &mut self.0;
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
        }
    }
}

impl Dispatcher {
    pub(super) fn on_signal(&mut self) {
        match self.stopping {
            Stopping::No => self.drain(
                "the run was stopped",
                "no new work; agents are asked to end, and what they have done is judged (again: faster)",
            ),
            Stopping::Drain(_) => {
                self.stopping = Stopping::Hurry;
                self.tell(&Event::Stopping {
                    how: "agents are ended, and their work is handed over (again: now)".to_owned(),
                });
                self.stop_sessions(Stop::Ask(SHORT_GRACE));
            }
            Stopping::Hurry | Stopping::Now => {
                self.stopping = Stopping::Now;
                self.tell(&Event::Stopping { how: "now; the next start hands over what is left".to_owned() });
                self.stop_sessions(Stop::Kill);
            }
        }
    }

    pub(super) fn on_timeout(&mut self) {
        let limit = self.options.timeout.map(span).unwrap_or_default();
        self.drain(&format!("the run's time of {limit} is over"), "the run's time is over");
    }

    /// The run has cost too much: nothing new begins, and what runs is judged and handed over.
    pub(super) fn check_budget(&mut self) {
        let Some(budget) = self.options.budget.filter(|_| self.stopping == Stopping::No) else { return };
        let running: f64 = self.jobs.values().filter_map(|job| job.meter.usage().cost).sum();
        let spent = running + self.attempts.iter().filter_map(|attempt| attempt.cost).sum::<f64>();
        if spent > budget {
            let reason = format!("the run has cost ${spent:.2}, more than its budget of ${budget:.2}");
            self.drain(&reason, "the budget is spent");
        }
    }

    /// No agent can be started, through no fault of theirs. Nothing new begins, and whoever is at work may finish.
    pub(super) fn stop_starting(&mut self, id: &IssueId, why: &str) {
        let reason = format!("agents cannot be started: {why}");
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Drain(reason.clone());
            self.tell(&Event::Stopping { how: reason.clone() });
        }
        self.hand_over(id, reason, Cause::Stopped);
    }

    fn drain(&mut self, reason: &str, how: &str) {
        self.stopping = Stopping::Drain(reason.to_owned());
        self.tell(&Event::Stopping { how: how.to_owned() });
        let grace = self.options.grace;
        self.stop_sessions(Stop::Ask(grace));
        let at_rest = self.jobs.iter().filter(|(_, job)| job.is_at_rest());
        let at_rest: Vec<IssueId> = at_rest.map(|(id, _)| id.clone()).collect();
        for id in at_rest {
            self.hand_over(&id, reason.to_owned(), Cause::Stopped);
        }
    }

    fn stop_sessions(&self, how: Stop) {
        self.jobs.values().filter_map(Job::session).for_each(|session| session.end(how));
    }
}
