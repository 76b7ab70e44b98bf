//! Leases: what time takes, and what it never takes.

use std::time::Duration;

use mala_core::{Life, Owner};
use mala_store::{Outcome, Party, Renewed, Request, Store, Which, process};
use mala_tests::ask::ask_as;
use mala_tests::fakes::{TestClock, TestLiveness};
use mala_tests::{ONLY_THE_DEAD, Terse, World, agent, ask, party, want, wants};

const TTL: Duration = Duration::from_secs(60);

fn store(world: &World) -> (Store, TestClock) {
    let clock = TestClock::default();
    (world.store().with_clock(clock.clone()), clock)
}

fn take(store: &mut Store, party: &Party, file: &str) {
    store.grant(&Request { ttl: TTL, ..ask_as(party, &[file]) });
}

fn supervised(name: &str) -> Party {
    Party { supervised: true, ..party(name) }
}

fn abroad(name: &str) -> Party {
    let owner = Owner { host: "elsewhere".into(), boot_id: "other".into(), ..process::current() };
    Party { owner, ..party(name) }
}

#[test]
fn a_live_supervised_holder_keeps_its_lock_at_three_times_its_lease() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &supervised("ann"), "a");
    clock.advance(3 * TTL);
    assert_eq!(store.held(), ["ann: a"]);
    store.refuse("bob", &["a"]);
    store.sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(store.held(), ["ann: a"]);
}

#[test]
fn a_lease_is_as_long_as_it_was_said_to_be_whatever_is_done_to_the_clock() {
    for hours in [-9, 9] {
        let world = World::new();
        let (mut store, clock) = store(&world);
        take(&mut store, &party("ann"), "a");
        clock.step_hours(hours);
        store.refuse("bob", &["a"]);
        clock.advance(TTL - Duration::from_millis(1));
        let left = store.locks().unwrap().remove(0).lease.expires_at.since(store.now());
        assert_eq!(left, Duration::from_millis(1), "people are told what is left of it");
        store.renew(&agent("ann"), &Which::All, None).unwrap();
        clock.step_hours(-2 * hours);
        clock.advance(TTL - Duration::from_millis(1));
        store.refuse("bob", &["a"]);
        clock.advance(Duration::from_millis(1));
        store.take("bob", &["a"]);
    }
}

#[test]
fn what_was_stored_before_a_restart_lies_before_what_comes_after_it() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &abroad("ann"), "a");
    // The machine was started again, and its wall clock is wrong.
    world.sql().execute("UPDATE boot SET id = 'the last one'", []).unwrap();
    clock.step_hours(-100);
    let mut store = world.store().with_clock(clock.clone());
    store.refuse("bob", &["a"]);
    clock.advance(TTL);
    store.take("bob", &["a"]);
    assert_eq!(world.count("boot"), 2);
}

#[test]
fn an_unsupervised_holder_loses_its_lock_with_its_lease() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &party("ann"), "a");
    clock.advance(3 * TTL);
    assert!(store.held().is_empty());
    store.take("bob", &["a"]);
    assert_eq!(store.held(), ["bob: a"]);
}

#[test]
fn a_supervised_holder_on_another_host_is_worth_its_lease() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &Party { supervised: true, ..abroad("ann") }, "a");
    clock.advance(TTL - Duration::from_millis(1));
    store.refuse("bob", &["a"]);
    clock.advance(Duration::from_millis(1));
    store.take("bob", &["a"]);
}

#[test]
fn at_the_instant_of_expiry_list_check_and_reserve_agree() {
    for (party, short_of_expiry, is_held) in [
        (party("ann"), 1, true),
        (party("ann"), 0, false),
        (abroad("ann"), 1, true),
        (abroad("ann"), 0, false),
        (supervised("ann"), 0, true),
    ] {
        let world = World::new();
        let (mut store, clock) = store(&world);
        take(&mut store, &party, "a");
        clock.advance(TTL - Duration::from_millis(short_of_expiry));
        let note = format!("{short_of_expiry} ms before: {party:?}");
        assert_eq!(!store.locks().unwrap().is_empty(), is_held, "{note}");
        assert_eq!(!store.holders(&want("a")).unwrap().is_empty(), is_held, "{note}");
        assert_eq!(!store.status().unwrap().locks.is_empty(), is_held, "{note}");
        assert_eq!(!store.check(&agent("bob"), &wants(&["a"])).unwrap().is_empty(), is_held, "{note}");
        assert_eq!(store.leftovers(ONLY_THE_DEAD).unwrap().locks.is_empty(), is_held, "{note}");
        let outcome = store.reserve(&ask("bob", &["a"])).unwrap();
        assert_eq!(matches!(outcome, Outcome::Refused(_)), is_held, "{note}");
    }
}

#[test]
fn a_renewal_starts_the_lease_anew() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &party("ann"), "a");
    for _ in 0..3 {
        clock.advance(TTL - Duration::from_millis(1));
        assert!(matches!(store.renew(&agent("ann"), &Which::All, None).unwrap(), Renewed::Done(_)));
    }
    assert_eq!(store.held(), ["ann: a"]);
    store.renew(&agent("ann"), &Which::These(wants(&["a"])), Some(2 * TTL)).unwrap();
    clock.advance(TTL);
    assert_eq!(store.held(), ["ann: a"]);
    clock.advance(TTL);
    assert!(store.held().is_empty());
}

#[test]
fn what_is_not_held_any_more_is_not_renewed_and_neither_is_the_rest() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &party("ann"), "a");
    clock.advance(TTL / 2);
    take(&mut store, &party("ann"), "b");
    clock.advance(TTL / 2);
    let before = store.locks().unwrap();
    let renewed = store.renew(&agent("ann"), &Which::These(wants(&["a", "b"])), None).unwrap();
    assert_eq!(renewed, Renewed::NotHeld(wants(&["a"])));
    assert_eq!(store.locks().unwrap(), before);
    assert!(!store.log().contains(&"lock.renewed".to_owned()));
}

#[test]
fn a_sweep_renews_the_lapsed_lease_of_a_live_supervised_holder() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    take(&mut store, &supervised("ann"), "a");
    clock.advance(2 * TTL);
    assert!(store.sweep(ONLY_THE_DEAD).unwrap().locks.is_empty());
    assert_eq!(store.locks().unwrap()[0].lease.expires_at, store.now().plus(TTL));
}

#[test]
fn asking_again_after_expiry_is_a_new_lock() {
    let world = World::new();
    let (mut store, clock) = store(&world);
    let old = store.grant(&Request { ttl: TTL, ..ask("ann", &["a"]) }).remove(0);
    clock.advance(TTL);
    let new = store.take("ann", &["a"]).remove(0);
    assert_ne!(old.id, new.id);
    assert!(new.fence > old.fence);
    assert_eq!(store.log()[1..], ["lock.acquired", "lock.expired", "lock.acquired"]);
}

#[test]
fn death_ends_a_supervised_lock_long_before_its_lease() {
    let world = World::new();
    let liveness = TestLiveness::default();
    let mut store = world.store().with_liveness(liveness.clone());
    take(&mut store, &Party { owner: TestLiveness::owner(7), ..supervised("ann") }, "a");
    assert_eq!(store.held(), ["ann: a"]);
    liveness.set(7, Life::Dead);
    assert!(store.held().is_empty());
    store.take("bob", &["a"]);
}
