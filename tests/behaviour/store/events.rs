//! The log: every change is there, once, in order, or it did not happen.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use mala_core::{IssueId, Owner, RunId};
use mala_store::{EventFilter, EventKind, Extent, Party, Request, StoreError, Which, process};
use mala_tests::ask::ask_as;
use mala_tests::fakes::TestClock;
use mala_tests::invariants::assert_sound;
use mala_tests::{ONLY_THE_DEAD, Terse, World, agent, ask, party};

use crate::programs::puppet;

#[test]
fn a_reserve_outside_any_run_is_in_the_log() {
    let world = World::new();
    let mut store = world.store();
    let lock = store.take("ann", &["src/a"]).remove(0);
    let event = store.event(lock.fence.0).unwrap().unwrap();
    assert_eq!((event.kind.as_str(), event.run.as_deref()), ("lock.acquired", None));
    assert_eq!((event.agent.as_deref(), event.path.as_deref()), (Some("ann"), Some("src/a")));
    assert_eq!(event.lock.as_deref(), Some(lock.id.0.as_str()));
}

#[test]
fn events_carry_the_issue_and_the_run() {
    let world = World::new();
    let mut store = world.store();
    let (issue, run) = (IssueId::new("proj-12").unwrap(), RunId::new("run-1").unwrap());
    store.grant(&ask_as(&Party { issue: Some(issue), run: Some(run), ..party("ann") }, &["a"]));
    for event in store.events(&EventFilter::default()).unwrap() {
        assert_eq!((event.issue.as_deref(), event.run.as_deref()), (Some("proj-12"), Some("run-1")));
    }
}

#[test]
fn events_can_be_picked_by_agent_kind_lock_time_and_number() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    let lock = store.take("ann", &["a"]).remove(0);
    clock.advance(Duration::from_secs(1));
    let since = store.now();
    store.take("bob", &["b"]);
    store.refuse("bob", &["a"]);
    store.give_back("ann", &["a"]);
    let mut kinds = |filter: EventFilter| -> Vec<String> {
        store.events(&filter).unwrap().into_iter().map(|event| event.kind).collect()
    };
    let all = EventFilter::default;
    assert_eq!(
        kinds(EventFilter { agent: Some("bob".into()), ..all() }),
        ["agent.joined", "lock.acquired", "lock.refused"]
    );
    assert_eq!(kinds(EventFilter { kind: Some("lock.acquired".into()), ..all() }).len(), 2);
    assert_eq!(kinds(EventFilter { lock: Some(lock.id.0), ..all() }), ["lock.acquired", "lock.released"]);
    assert_eq!(kinds(EventFilter { since: Some(since), ..all() }).len(), 4);
    assert_eq!(kinds(EventFilter { after: Some(lock.fence.0), ..all() }).len(), 4);
    assert_eq!(kinds(EventFilter { limit: Some(1), ..all() }), ["lock.released"]);
    assert_eq!(store.event(999).unwrap(), None);
}

#[test]
fn an_event_that_cannot_be_written_leaves_no_change_behind() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["held"]);
    store.register(&party("bob")).unwrap();
    let before = (store.locks().unwrap(), store.log());
    let trigger =
        "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no events today'); END";
    world.sql().execute_batch(trigger).unwrap();

    let failures = [
        store.reserve(&ask("ann", &["a", "b"])).map(drop),
        store.reserve(&ask("new", &["a"])).map(drop),
        store.reserve(&ask("bob", &["held"])).map(drop),
        store.reserve_or_wait(&ask("bob", &["held"]), Duration::from_secs(60), |_| ()).map(drop),
        store.release(&agent("ann"), &Which::All).map(drop),
        store.renew(&agent("ann"), &Which::All, None).map(drop),
        store.transfer(&agent("ann"), &agent("bob"), &Which::All).map(drop),
    ];
    for (number, failure) in failures.into_iter().enumerate() {
        assert!(matches!(&failure, Err(StoreError::Sql { .. })), "{number}: {failure:?}");
    }
    assert_eq!((store.locks().unwrap(), store.log()), before);
    assert_eq!((world.count("lock"), world.count("waiter"), world.count("wanted")), (1, 0, 0));
    assert!(world.wake_files().is_empty());

    world.sql().execute_batch("DROP TRIGGER broken").unwrap();
    store.take("ann", &["a", "b"]);
    assert_sound(&world);
}

#[test]
fn an_expired_lock_ends_before_the_next_one_begins() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    store.grant(&Request { ttl: Duration::from_secs(1), ..ask("ann", &["a"]) });
    clock.advance(Duration::from_secs(1));
    store.take("bob", &["a"]);
    assert_eq!(store.log()[1..], ["lock.acquired", "agent.joined", "lock.expired", "lock.acquired"]);
}

#[test]
fn an_orphaned_lock_ends_before_the_next_one_begins() {
    let world = World::new();
    let mut store = world.store();
    let gone = Owner { start_time: 1, ..process::current() };
    store.grant(&ask_as(&Party { owner: gone, ..party("ann") }, &["a"]));
    store.take("bob", &["a"]);
    assert_eq!(store.log()[1..], ["lock.acquired", "agent.joined", "lock.orphaned", "lock.acquired"]);
}

/// A lock that is both expired and orphaned.
fn leave_a_dead_lock(world: &World) {
    let gone = Owner { start_time: 1, ..process::current() };
    let party = Party { owner: gone, ..party("ann") };
    let request = Request { ttl: Duration::from_millis(1), ..ask_as(&party, &["a"]) };
    let mut store = world.store();
    let lock = store.grant(&request).remove(0);
    mala_tests::eventually("the lease is over", || store.now() >= lock.lease.expires_at);
}

fn ends(world: &World) -> usize {
    let ends = |kind: &String| {
        [EventKind::LockExpired, EventKind::LockOrphaned].iter().any(|end| end.as_str() == kind)
    };
    world.store().log().iter().filter(|kind| ends(kind)).count()
}

#[test]
fn two_racing_sweepers_write_one_end_of_a_lock_that_is_expired_and_orphaned() {
    for _ in 0..10 {
        let world = World::new();
        leave_a_dead_lock(&world);
        let (start, mut stores) = (Barrier::new(2), [world.store(), world.store()]);
        let swept: usize = thread::scope(|scope| {
            let sweeps = stores.each_mut().map(|store| {
                scope.spawn(|| {
                    start.wait();
                    store.sweep(ONLY_THE_DEAD).unwrap().locks.len()
                })
            });
            sweeps.into_iter().map(|sweep| sweep.join().unwrap()).sum()
        });
        assert_eq!((swept, ends(&world), world.count("lock")), (1, 1, 0));
        assert_sound(&world);
    }
}

#[test]
fn a_sweeping_and_a_reserving_process_write_one_end() {
    for _ in 0..5 {
        let world = World::new();
        leave_a_dead_lock(&world);
        let (mut one, mut two, mut taker) =
            (puppet(&world, "one", &[]), puppet(&world, "two", &[]), puppet(&world, "taker", &[]));
        one.tell("sweep");
        taker.tell("reserve a");
        two.tell("sweep");
        taker.expect("granted 1");
        for sweeper in [&one, &two] {
            assert!(sweeper.hear().starts_with("swept"));
        }
        assert_eq!(ends(&world), 1);
        assert_sound(&world);
    }
}

#[test]
fn pruning_keeps_the_newest_event_so_that_fences_go_on_growing() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    let fence = store.take("ann", &["a"])[0].fence;
    store.give_back("ann", &["a"]);
    clock.advance(Duration::from_secs(1));
    let extent = Extent { keep_events_since: store.now(), ..ONLY_THE_DEAD };
    let old = store.leftovers(extent).unwrap().old_events;
    assert_eq!(store.sweep(extent).unwrap().old_events, old);
    assert_eq!((old, world.count("event")), (2, 1));
    assert!(store.take("ann", &["a"])[0].fence > fence);
}
