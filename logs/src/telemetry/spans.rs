//! The spans of mala: their names, their attributes, and how they are made.
//!
//! A run has issues, an issue has agents and gates, an agent waits for locks and runs tests. What is known only at the end is
//! recorded with [`outcome`], [`failed`] and `Span::record` under the names in [`field`].

use mala_core::{AgentId, IssueId, LockName, RunId};
pub use tracing::Span;
use tracing::field::Empty;

use crate::secrets::mask_args;

pub const RUN: &str = "run";
pub const ISSUE: &str = "issue";
pub const AGENT: &str = "agent";
pub const GATE: &str = "gate";
pub const LOCK_WAIT: &str = "lock.wait";
pub const TEST: &str = "test";

/// Names of attributes.
pub mod field {
    pub const RUN: &str = "mala.run";
    pub const ISSUE: &str = "mala.issue";
    pub const AGENT: &str = "mala.agent";
    pub const PROFILE: &str = "mala.profile";
    pub const ATTEMPT: &str = "mala.attempt";
    pub const TARGET: &str = "mala.target";
    pub const MUTEX: &str = "mala.mutex";
    pub const COMMAND: &str = "mala.command";
    pub const EXIT_CODE: &str = "mala.exit_code";
    pub const SIGNAL: &str = "mala.signal";
    pub const OUTCOME: &str = "mala.outcome";
    pub(super) const STATUS: &str = "otel.status_code";
    pub(super) const DESCRIPTION: &str = "otel.status_description";
}

/// A span with fields that are known now, and those that every span may get at its end.
macro_rules! span {
    ($name:expr $(, $field:expr => $value:expr)* $(,)?) => {
        tracing::info_span!(
            target: "mala",
            $name,
            $({ $field } = $value,)*
            { field::OUTCOME } = Empty,
            { field::STATUS } = Empty,
            { field::DESCRIPTION } = Empty,
        )
    };
}

/// One `mala run`.
pub fn run(run: &RunId) -> Span {
    span!(RUN, field::RUN => tracing::field::display(run))
}

/// One attempt at an issue.
pub fn issue(issue: &IssueId, attempt: u32) -> Span {
    span!(ISSUE, field::ISSUE => tracing::field::display(issue), field::ATTEMPT => attempt)
}

/// One session of an agent.
pub fn agent(agent: &AgentId, profile: &str) -> Span {
    span!(
        AGENT,
        field::AGENT => tracing::field::display(agent),
        field::PROFILE => profile,
        field::EXIT_CODE => Empty,
        field::SIGNAL => Empty,
    )
}

/// One judgement of the gate, of an agent's work or of a person's.
pub fn gate(agent: Option<&AgentId>, issue: Option<&IssueId>) -> Span {
    let span = span!(GATE, field::AGENT => Empty, field::ISSUE => Empty);
    if let Some(agent) = agent {
        span.record(field::AGENT, tracing::field::display(agent));
    }
    if let Some(issue) = issue {
        span.record(field::ISSUE, tracing::field::display(issue));
    }
    span
}

/// One wait for a lock on `target`.
pub fn lock_wait(agent: &AgentId, target: &str) -> Span {
    span!(LOCK_WAIT, field::AGENT => tracing::field::display(agent), field::TARGET => target)
}

/// One guarded command, from when it asks for its turn. One that runs apart from all others needs no mutex.
pub fn test<S: AsRef<str>>(mutex: Option<&LockName>, args: &[S]) -> Span {
    let span = span!(
        TEST,
        field::MUTEX => Empty,
        field::COMMAND => Empty,
        field::EXIT_CODE => Empty,
        field::SIGNAL => Empty,
    );
    if let Some(mutex) = mutex {
        span.record(field::MUTEX, tracing::field::display(mutex));
    }
    if !span.is_disabled() {
        span.record(field::COMMAND, mask_args(args).join(" "));
    }
    span
}

/// How it ended.
pub fn outcome(span: &Span, outcome: &str) {
    span.record(field::OUTCOME, outcome);
}

/// How a process ended.
pub fn ended(span: &Span, exit_code: Option<i32>, signal: Option<i32>) {
    match (exit_code, signal) {
        (Some(code), _) => {
            span.record(field::EXIT_CODE, code);
            outcome(span, if code == 0 { "pass" } else { "fail" });
        }
        (None, Some(signal)) => {
            span.record(field::SIGNAL, signal);
            outcome(span, "killed");
        }
        (None, None) => {}
    }
}

/// It ended badly.
pub fn failed(span: &Span, reason: &str) {
    span.record(field::STATUS, "ERROR");
    span.record(field::DESCRIPTION, reason);
}
