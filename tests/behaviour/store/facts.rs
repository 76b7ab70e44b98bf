//! Facts: what others tell the store, and what events are about.

use mala_core::{Fence, IssueId, RunId, Target};
use mala_store::{EventFilter, EventKind, Party, StoreError, TargetKind};
use mala_tests::fakes::TestClock;
use mala_tests::{Terse, World, agent, party, want};
use serde_json::json;

fn file(path: &str) -> Target {
    want(path).target
}

#[test]
fn a_file_a_pattern_and_a_name_are_told_apart_in_the_log() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["test", "pattern:test/*", "name:test"]);
    let events = store.events(&EventFilter { kind: Some("lock.acquired".into()), ..EventFilter::default() });
    let events: Vec<_> =
        events.unwrap().into_iter().map(|event| (event.path.unwrap(), event.target)).collect();
    let expected = [("test", TargetKind::File), ("test/*", TargetKind::Pattern), ("test", TargetKind::Name)];
    assert_eq!(events, expected.map(|(path, kind)| (path.to_owned(), Some(kind))));
}

#[test]
fn a_fact_is_in_the_log_with_all_that_was_told() {
    let world = World::new();
    let mut store = world.store();
    let party = Party {
        issue: Some(IssueId::new("proj-1").unwrap()),
        run: Some(RunId::new("run-1").unwrap()),
        ..party("ann")
    };
    let detail = json!({ "holder": "bob", "program": "sed" });
    let seq = store.record_fact(&party, EventKind::WriteRefused, Some(&file("src/a")), &detail).unwrap();
    let event = store.event(seq).unwrap().unwrap();
    assert_eq!((event.kind.as_str(), event.agent.as_deref()), ("write.refused", Some("ann")));
    assert_eq!((event.issue.as_deref(), event.run.as_deref()), (Some("proj-1"), Some("run-1")));
    assert_eq!((event.path.as_deref(), event.target), (Some("src/a"), Some(TargetKind::File)));
    assert_eq!((event.lock, event.detail), (None, detail));
}

#[test]
fn what_the_store_says_itself_cannot_be_told_to_it() {
    let world = World::new();
    let mut store = world.store();
    for kind in EventKind::ALL {
        let told = store.record_fact(&party("ann"), *kind, None, &json!({}));
        match told {
            Ok(_) => assert!(kind.is_fact()),
            Err(StoreError::NotAFact { kind: named }) => {
                assert!(!kind.is_fact());
                assert_eq!(named, kind.as_str());
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(!EventKind::LockAcquired.is_fact() && EventKind::CommitMade.is_fact());
}

#[test]
fn facts_are_picked_by_agent_kind_and_event_whatever_the_clock_says() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    let mut tell = |name: &str, kind| store.record_fact(&party(name), kind, None, &json!({})).unwrap();
    let early = tell("ann", EventKind::TestStarted);
    clock.step_hours(-2);
    let started = tell("ann", EventKind::TestStarted);
    tell("bob", EventKind::TestStarted);
    let ended = tell("ann", EventKind::TestEnded);
    tell("ann", EventKind::CommitMade);
    let since = Fence(started);
    store.take("ann", &["a"]);
    let mut facts = |kinds: &[EventKind], since| -> Vec<i64> {
        store.facts(&agent("ann"), kinds, since).unwrap().into_iter().map(|event| event.seq).collect()
    };
    let tests = [EventKind::TestStarted, EventKind::TestEnded];
    assert_eq!(facts(&tests, None), [early, started, ended]);
    assert_eq!(facts(&tests, Some(since)), [started, ended]);
    assert_eq!(facts(&tests[1..], None), [ended]);
    assert_eq!(facts(&[], None), Vec::<i64>::new());
}
