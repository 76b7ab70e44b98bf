//! How long an agent has waited for others and when it had its turn to test, read from the log.

use std::time::Duration;

use mala_core::{AgentId, Timestamp};
use mala_store::{Event, EventFilter, EventKind, TargetKind};
use serde_json::Value;

use super::BlockingOps;
use crate::error::Result;

/// Everything that ends a wait.
const ENDS: &[EventKind] = &[EventKind::WaitGranted, EventKind::WaitTimedOut, EventKind::WaitAbandoned];

/// Everything by which a lock is no longer its holder's.
const LOSSES: &[EventKind] =
    &[EventKind::LockReleased, EventKind::LockExpired, EventKind::LockOrphaned, EventKind::LockTaken];

impl BlockingOps {
    /// How much of the time since `since` the agent has spent waiting for locks and for its turn to test.
    pub(crate) fn waited(&self, agent: &AgentId, since: Timestamp) -> Result<Duration> {
        let mut store = self.store()?;
        // From the beginning: a wait may have begun before.
        let filter = EventFilter { agent: Some(agent.to_string()), ..EventFilter::default() };
        let events = store.events(&filter)?;
        Ok(waited(&events, since, store.now()))
    }

    /// Agents that have waited for files or for a turn for at least so long, and still do.
    pub(crate) fn waiting_for(&self, span: Duration) -> Result<Vec<AgentId>> {
        let mut store = self.store()?;
        let then = store.now().minus(span);
        Ok(store.waiting_since(then)?)
    }

    /// When since `since` the agent last had a turn to test: now, while it has one. Such a command may be silent for long.
    pub(crate) fn last_tested(&self, agent: &AgentId, since: Timestamp) -> Result<Option<Timestamp>> {
        let mut store = self.store()?;
        if store.locks()?.iter().any(|lock| lock.is_named() && lock.agent == *agent) {
            return Ok(Some(store.now()));
        }
        let filter =
            EventFilter { agent: Some(agent.to_string()), since: Some(since), ..EventFilter::default() };
        Ok(last_turn(&store.events(&filter)?))
    }
}

/// How much of the time from `since` to `now` the agent of `events`, oldest first, has spent waiting. Waits of several of
/// its processes at once count once.
fn waited(events: &[Event], since: Timestamp, now: Timestamp) -> Duration {
    let mut total = Duration::ZERO;
    let mut open: Vec<&Value> = Vec::new();
    let mut begun: Option<Timestamp> = None;
    let mut add = |from: Timestamp, to: Timestamp| total += to.since(from.max(since));
    for event in events {
        let waiter = &event.detail["waiter"];
        if event.kind == EventKind::WaitStarted.as_str() {
            begun = begun.or(Some(event.at));
            open.push(waiter);
        } else if ENDS.iter().any(|kind| kind.as_str() == event.kind) {
            open.retain(|other| *other != waiter);
            if let Some(from) = begun.take_if(|_| open.is_empty()) {
                add(from, event.at);
            }
        }
    }
    if let Some(from) = begun {
        add(from, now);
    }
    total
}

/// When the last turn to test in `events`, oldest first, was over.
fn last_turn(events: &[Event]) -> Option<Timestamp> {
    let is_end = |event: &&Event| {
        event.target == Some(TargetKind::Name) && LOSSES.iter().any(|kind| kind.as_str() == event.kind)
    };
    events.iter().rfind(is_end).map(|event| event.at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(waiter: &str, seconds: i64, kind: EventKind) -> Event {
        Event {
            seq: seconds,
            at: at(seconds),
            kind: kind.as_str().to_owned(),
            agent: Some("ann".to_owned()),
            issue: None,
            run: None,
            lock: None,
            path: Some("a".to_owned()),
            target: None,
            detail: json!({ "waiter": waiter }),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn waits_are_added_up_and_one_that_goes_on_counts_too() {
        let events = [
            event("a", 10, EventKind::WaitStarted),
            event("a", 12, EventKind::LockAcquired),
            event("a", 15, EventKind::WaitGranted),
            event("b", 20, EventKind::WaitStarted),
            event("b", 26, EventKind::WaitTimedOut),
            event("c", 40, EventKind::WaitStarted),
        ];
        let seconds = |since, now| waited(&events, at(since), at(now)).as_secs();
        assert_eq!(seconds(0, 50), 5 + 6 + 10);
        assert_eq!(seconds(13, 50), 2 + 6 + 10, "only what lies behind the moment");
        assert_eq!(waited(&events[..3], at(16), at(50)), Duration::ZERO);
    }

    #[test]
    fn waits_of_several_processes_at_once_count_once_and_until_the_last_has_ended() {
        let events = [
            event("a", 10, EventKind::WaitStarted),
            event("b", 12, EventKind::WaitStarted),
            event("a", 14, EventKind::WaitGranted),
            event("b", 20, EventKind::WaitAbandoned),
            event("b", 21, EventKind::WaitGranted),
        ];
        assert_eq!(waited(&events, at(0), at(50)), Duration::from_secs(10));
    }

    #[test]
    fn a_turn_to_test_is_over_when_its_lock_is_given_back_or_lost() {
        let about = |target, seconds, kind| Event { target: Some(target), ..event("a", seconds, kind) };
        let events = [
            about(TargetKind::Name, 10, EventKind::LockAcquired),
            about(TargetKind::Name, 20, EventKind::LockReleased),
            about(TargetKind::Name, 30, EventKind::LockOrphaned),
            about(TargetKind::Name, 40, EventKind::LockRefused),
            about(TargetKind::File, 50, EventKind::LockReleased),
        ];
        assert_eq!(last_turn(&events[..1]), None);
        assert_eq!(last_turn(&events[..2]), Some(at(20)));
        assert_eq!(last_turn(&events), Some(at(30)), "neither a refusal nor a file is a turn");
    }
}
