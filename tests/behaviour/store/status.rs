//! One picture of everything that goes on.

use mala_core::{Life, Timestamp};
use mala_store::{EventFilter, Extent, Party, process};
use mala_tests::ask::ask_as;
use mala_tests::{ONLY_THE_DEAD, Terse, Waiter, World, agent, party};

use crate::programs::holder;

#[test]
fn status_shows_agents_locks_waiters_and_named_locks() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["name:test", "a"]);
    store.take("bob", &["b"]);
    holder(&world, "gone", "c").kill();
    let _bob = Waiter::queue(&world, "bob", &["name:test"]);
    let _cleo = Waiter::queue(&world, "cleo", &["name:test"]);
    let status = store.status().unwrap();
    let agents: Vec<_> = status.agents.iter().map(|one| (one.party.agent.as_str(), one.life)).collect();
    assert_eq!(
        agents,
        [("ann", Life::Alive), ("bob", Life::Alive), ("cleo", Life::Alive), ("gone", Life::Dead)],
        "running agents come first"
    );
    assert_eq!(status.locks, store.locks().unwrap());
    let waiting: Vec<_> = status.waiting.iter().map(|w| (w.agent.as_str(), w.position)).collect();
    assert_eq!(waiting, [("bob", 1), ("cleo", 2)]);
    assert_eq!(status.mutexes.len(), 1);
    let mutex = &status.mutexes[0];
    assert_eq!((mutex.name.as_str(), &mutex.queue[..]), ("test", &[agent("bob"), agent("cleo")][..]));
    assert_eq!(mutex.holder.as_ref().unwrap().0, agent("ann"));
    assert_eq!(
        status.health.lock_waits, 0,
        "turns are there to be waited for; only how long it takes counts"
    );
}

#[test]
fn a_fresh_checkout_has_an_empty_status() {
    let world = World::new();
    let mut store = world.store();
    let status = store.status().unwrap();
    assert!(status.agents.is_empty() && status.locks.is_empty() && status.waiting.is_empty());
    assert!(store.events(&EventFilter::default()).unwrap().is_empty());
    assert!(store.leftovers(ONLY_THE_DEAD).unwrap().is_empty());
}

#[test]
fn a_name_stays_with_the_process_that_used_it_first() {
    let world = World::new();
    let mut store = world.store();
    store.register(&party("ann")).unwrap();
    let other = holder(&world, "other", "a");
    store.register(&Party { owner: other.owner(), ..party("ann") }).unwrap();
    let registered = |store: &mut mala_store::Store| store.status().unwrap().agents[0].party.owner.clone();
    assert_eq!(registered(&mut store), process::current());
    assert_eq!(store.log().iter().filter(|kind| *kind == "agent.joined").count(), 2);
}

#[test]
fn others_changes_can_be_noticed_without_reading_anything() {
    let world = World::new();
    let (mut mine, mut theirs) = (world.store(), world.store());
    let before = mine.data_version().unwrap();
    assert_eq!(mine.data_version().unwrap(), before);
    theirs.take("ann", &["a"]);
    assert_ne!(mine.data_version().unwrap(), before);
}

#[test]
fn a_person_can_free_what_another_host_holds_and_nothing_else() {
    let world = World::new();
    let mut store = world.store();
    let abroad = mala_core::Owner { host: "elsewhere".into(), boot_id: "other".into(), ..process::current() };
    store.grant(&ask_as(&Party { owner: abroad, ..party("ann") }, &["a"]));
    store.take("bob", &["b"]);
    let extent = Extent { foreign_locks: true, keep_events_since: Timestamp::from_millis(0) };
    let leftovers = store.leftovers(extent).unwrap();
    assert_eq!(store.sweep(extent).unwrap(), leftovers);
    assert_eq!(leftovers.locks.len(), 1);
    assert_eq!(store.held(), ["bob: b"]);
    assert_eq!(store.log().last().unwrap(), "lock.released");
    mala_tests::invariants::assert_sound(&world);
}
