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
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::Dispatcher;
use super::job::Job;
use crate::blocking::Cause;
use crate::event::{Event, StopCause};
use crate::limits::span;
use crate::session::Stop;

/// How long an agent may take to end in a hurry.
const HURRY_GRACE: Duration = Duration::from_secs(2);

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

/// Each one is a wish to end the run sooner.
pub(crate) type Interrupts = mpsc::UnboundedReceiver<()>;

/// The signals that end a run.
pub(crate) fn interrupts() -> io::Result<Interrupts> {
    let (sender, interrupts) = mpsc::unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).is_ok() {} });
    }
    Ok(interrupts)
}

impl Dispatcher {
    pub(super) fn on_interrupt(&mut self) {
        match self.stopping {
            Stopping::No => self.drain(
                "the run was stopped",
                "no new work; agents are asked to end, and what they have done is judged (again: faster)",
                StopCause::Person,
            ),
            Stopping::Drain(_) => {
                self.stopping = Stopping::Hurry;
                self.tell(&Event::Stopping {
                    how: "agents are ended, and their work is handed over (again: now)".to_owned(),
                    cause: StopCause::Person,
                });
                self.stop_sessions(Stop::Ask(HURRY_GRACE));
            }
            Stopping::Hurry | Stopping::Now => {
                self.stopping = Stopping::Now;
                let how = "now; the next start hands over what is left".to_owned();
                self.tell(&Event::Stopping { how, cause: StopCause::Person });
                self.stop_sessions(Stop::Kill);
            }
        }
    }

    pub(super) fn on_timeout(&mut self) {
        let limit = self.ops.options.timeout.map(span).unwrap_or_default();
        self.drain(&format!("the run's time of {limit} is over"), "the run's time is over", StopCause::Time);
    }

    /// The run has cost too much: nothing new begins, and what runs is judged and handed over.
    pub(super) fn check_budget(&mut self) {
        let Some(budget) = self.ops.options.budget.filter(|_| self.stopping == Stopping::No) else { return };
        let running: f64 = self.jobs.values().map(|job| job.meter.cost().at_least()).sum();
        let spent = running + self.attempts.iter().map(|attempt| attempt.cost.at_least()).sum::<f64>();
        if spent > budget {
            let reason = format!("the run has cost ${spent:.2}, more than its budget of ${budget:.2}");
            self.drain(&reason, "the budget is spent", StopCause::Budget);
        }
    }

    /// No agent can be started, through no fault of theirs. Nothing new begins, and whoever is at work may finish.
    pub(super) fn stop_starting(&mut self, id: &IssueId, why: &str) {
        let reason = format!("agents cannot be started: {why}");
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Drain(reason.clone());
            self.tell(&Event::Stopping { how: reason.clone(), cause: StopCause::Agents });
        }
        self.hand_over(id, reason, Cause::Stopped);
    }

    fn drain(&mut self, reason: &str, how: &str, cause: StopCause) {
        self.stopping = Stopping::Drain(reason.to_owned());
        self.tell(&Event::Stopping { how: how.to_owned(), cause });
        let grace = self.ops.options.grace;
        self.stop_sessions(Stop::Ask(grace));
        self.leave_queue();
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
