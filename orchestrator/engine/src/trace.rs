//! A run for a collector: a span for it, for each attempt at an issue and for each judgement of the gate.
//!
//! Agents tell about themselves: `mala exec` is handed what its spans are a part of, in the environment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mala_core::{IssueId, Timestamp};
use mala_logs::telemetry::spans::{self, Span};
use mala_logs::telemetry::{GateResult, metrics, traceparent};

use crate::event::{Event, Reporter};

/// The spans that are open.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    run: Span,
    attempts: HashMap<IssueId, Attempt>,
}

#[derive(Debug)]
struct Attempt {
    span: Span,
    gate: Option<Span>,
}

impl Default for Trace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Open { run: Span::none(), attempts: HashMap::new() })))
    }
}

impl Trace {
    /// What an agent that works on the issue is to be told; nothing if no trace is sent.
    pub(crate) fn parent(&self, issue: &IssueId) -> Option<String> {
        self.open().attempts.get(issue).and_then(|attempt| traceparent(&attempt.span))
    }

    /// Tells events, and passes them on.
    pub fn of(&self, next: Box<dyn Reporter>) -> Box<dyn Reporter> {
        Box::new(Traced { trace: self.clone(), next })
    }

    /// Spans are worth having even if somebody failed in the middle of it.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Traced {
    trace: Trace,
    next: Box<dyn Reporter>,
}

impl Reporter for Traced {
    fn report(&mut self, at: Timestamp, event: &Event) {
        self.trace.open().tell(event);
        self.next.report(at, event);
    }

    fn tick(&mut self) {
        self.next.tick();
    }
}

impl Open {
    fn tell(&mut self, event: &Event) {
        match event {
            Event::RunStarted { run, .. } => self.run = spans::run(run),
            Event::Claimed { issue, attempt, .. } => {
                let span = self.run.in_scope(|| spans::issue(issue, *attempt));
                self.attempts.insert(issue.clone(), Attempt { span, gate: None });
            }
            Event::Gating { issue, agent } => {
                if let Some(attempt) = self.attempts.get_mut(issue) {
                    attempt.gate = Some(attempt.span.in_scope(|| spans::gate(Some(agent), Some(issue))));
                }
            }
            Event::Rejected { issue, failed, .. } => {
                metrics().gate_result(GateResult::Fail);
                let names: Vec<&str> = failed.iter().map(|check| check.name.as_str()).collect();
                self.judged(issue, Err(&names.join(", ")));
            }
            Event::Done { issue, .. } => {
                metrics().gate_result(GateResult::Pass);
                self.judged(issue, Ok(()));
                self.end(issue, "done", None);
            }
            Event::HandedOver { issue, reason, is_blocked, .. } => {
                self.end(issue, if *is_blocked { "blocked" } else { "handed over" }, Some(reason));
            }
            Event::PutBack { issue, why, .. } => self.end(issue, "put back", Some(why)),
            Event::RunEnded { .. } => {
                self.attempts.clear();
                self.run = Span::none();
            }
            _ => {}
        }
    }

    fn judged(&mut self, issue: &IssueId, verdict: Result<(), &str>) {
        let Some(gate) = self.attempts.get_mut(issue).and_then(|attempt| attempt.gate.take()) else { return };
        spans::outcome(&gate, if verdict.is_ok() { "pass" } else { "fail" });
        if let Err(failed) = verdict {
            spans::failed(&gate, failed);
        }
    }

    fn end(&mut self, issue: &IssueId, outcome: &str, reason: Option<&String>) {
        let Some(attempt) = self.attempts.remove(issue) else { return };
        spans::outcome(&attempt.span, outcome);
        if let Some(reason) = reason {
            spans::failed(&attempt.span, reason);
        }
    }
}
