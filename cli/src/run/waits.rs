//! How long an agent has waited for others, read from the log.

use std::time::Duration;

use mala_core::Timestamp;
use mala_store::{Event, EventKind};

/// Everything that ends a wait.
const ENDS: &[EventKind] =
    &[EventKind::LockAcquired, EventKind::LockUpgraded, EventKind::WaitTimedOut, EventKind::WaitAbandoned];

/// How much of the time from `since` to `now` the agent of `events`, oldest first, has spent waiting. Waits of several of
/// its processes at once count once.
pub(super) fn waited(events: &[Event], since: Timestamp, now: Timestamp) -> Duration {
    let mut total = Duration::ZERO;
    let mut open: Vec<&Event> = Vec::new();
    let mut begun: Option<Timestamp> = None;
    let mut add = |from: Timestamp, to: Timestamp| total += to.since(from.max(since));
    for event in events {
        if event.kind == EventKind::WaitStarted.as_str() {
            begun = begun.or(Some(event.at));
            open.push(event);
        } else if let Some(place) =
            is_end(event).then(|| open.iter().position(|start| ends(event, start))).flatten()
        {
            open.remove(place);
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

/// True for an event that ends a wait. A lock that came without waiting does not.
fn is_end(event: &Event) -> bool {
    let is = |kind: &EventKind| kind.as_str() == event.kind;
    let waited = |event: &Event| !event.detail["waited_ms"].is_null();
    ENDS.iter().any(is) && (event.kind != EventKind::LockAcquired.as_str() || waited(event))
}

/// True if `end` is about the wait that `start` began: it names the same place in the queue, or the lock that was waited
/// for has come.
fn ends(end: &Event, start: &Event) -> bool {
    match &end.detail["waiter"] {
        serde_json::Value::Null => end.path == start.path,
        waiter => *waiter == start.detail["waiter"],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seconds: i64, kind: EventKind, waited: Option<u64>) -> Event {
        about("a", seconds, kind, waited)
    }

    fn about(path: &str, seconds: i64, kind: EventKind, waited: Option<u64>) -> Event {
        Event {
            seq: seconds,
            at: at(seconds),
            kind: kind.as_str().to_owned(),
            agent: Some("ann".to_owned()),
            issue: None,
            run: None,
            lock: None,
            path: Some(path.to_owned()),
            target: None,
            detail: json!({ "waited_ms": waited }),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn waits_are_added_up_and_one_that_goes_on_counts_too() {
        let events = [
            event(10, EventKind::WaitStarted, None),
            event(12, EventKind::LockAcquired, None),
            event(15, EventKind::LockAcquired, Some(5000)),
            event(20, EventKind::WaitStarted, None),
            event(26, EventKind::WaitTimedOut, None),
            event(40, EventKind::WaitStarted, None),
        ];
        let seconds = |since, now| waited(&events, at(since), at(now)).as_secs();
        assert_eq!(seconds(0, 50), 5 + 6 + 10);
        assert_eq!(seconds(13, 50), 2 + 6 + 10, "only what lies behind the moment");
        assert_eq!(waited(&events[..3], at(16), at(50)), Duration::ZERO);
    }

    #[test]
    fn waits_of_several_processes_at_once_count_once_and_until_the_last_has_ended() {
        let events = [
            about("a", 10, EventKind::WaitStarted, None),
            about("b", 12, EventKind::WaitStarted, None),
            about("a", 14, EventKind::LockAcquired, Some(4000)),
            about("b", 20, EventKind::LockAcquired, Some(8000)),
            about("b", 21, EventKind::LockAcquired, Some(1)),
        ];
        assert_eq!(waited(&events, at(0), at(50)), Duration::from_secs(10));
    }
}
