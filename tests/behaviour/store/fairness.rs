//! Whoever is ready to wait does not pass those who wait already.

use std::time::Duration;

use mala_store::Outcome;
use mala_tests::invariants::assert_sound;
use mala_tests::{Terse, Waiter, World, ask};

/// Asks as somebody who would wait, for what must be given at once.
fn get_at_once(world: &World, name: &str, wants: &[&str]) {
    let outcome = world.store().reserve_or_wait(&ask(name, wants), Duration::ZERO, |_| ()).unwrap();
    assert!(matches!(outcome, Outcome::Granted(_)), "{name} has to wait for {wants:?}: {outcome:?}");
}

#[test]
fn a_stream_of_readers_cannot_starve_a_waiting_writer() {
    let world = World::new();
    let mut store = world.store();
    store.take("r0", &["shared:a"]);
    let writer = Waiter::queue(&world, "writer", &["a"]);
    let readers = ["r1", "r2", "r3"].map(|name| Waiter::queue(&world, name, &["shared:a"]));
    assert_eq!(store.held(), ["r0: a"]);
    store.give_back("r0", &["a"]);
    writer.granted();
    assert_eq!(store.held(), ["writer: a"]);
    assert!(readers.iter().all(Waiter::is_waiting));
    store.give_back("writer", &["a"]);
    for reader in readers {
        reader.granted();
    }
    assert_sound(&world);
}

#[test]
fn a_request_that_does_not_wait_is_judged_against_holders_only() {
    let world = World::new();
    let mut store = world.store();
    store.take("r0", &["shared:a"]);
    let writer = Waiter::queue(&world, "writer", &["a"]);
    store.take("r1", &["shared:a"]);
    assert!(writer.is_waiting());
}

#[test]
fn what_an_agent_holds_already_is_no_reason_to_wait() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "shared:b"]);
    store.take("other", &["c"]);
    let _writer = Waiter::queue(&world, "bob", &["a", "b", "c"]);
    get_at_once(&world, "ann", &["a", "shared:b"]);
    get_at_once(&world, "ann", &["a", "free"]);
}

#[test]
fn nobody_queues_behind_those_who_wait_for_it() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "shared:s"]);
    let bob = Waiter::queue(&world, "bob", &["a", "b", "s"]);
    let cleo = Waiter::queue(&world, "cleo", &["b", "c"]);
    get_at_once(&world, "ann", &["b"]);
    get_at_once(&world, "ann", &["c"]);
    get_at_once(&world, "ann", &["s"]);
    store.leave(&mala_tests::agent("ann")).unwrap();
    bob.granted();
    store.leave(&mala_tests::agent("bob")).unwrap();
    cleo.granted();
    assert_sound(&world);
}

#[test]
fn holding_one_thing_is_no_way_past_those_who_wait_for_another() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("other", &["c"]);
    let _bob = Waiter::queue(&world, "bob", &["a"]);
    let cleo = Waiter::queue(&world, "cleo", &["b", "c"]);
    let ann = Waiter::queue(&world, "ann", &["a", "b"]);
    store.give_back("other", &["c"]);
    cleo.granted();
    assert!(ann.is_waiting());
    store.give_back("cleo", &["b"]);
    ann.granted();
}

#[test]
fn an_agent_under_a_named_lock_takes_what_is_free_and_queues_for_nothing() {
    let world = World::new();
    let mut store = world.store();
    store.take("r0", &["shared:a"]);
    let writer = Waiter::queue(&world, "writer", &["a"]);
    store.take("ann", &["name:test"]);
    get_at_once(&world, "ann", &["shared:a"]);
    assert!(writer.is_waiting());
}

#[test]
fn whoever_queues_for_something_free_hears_what_those_ahead_wait_for() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let _first = Waiter::queue(&world, "bob", &["a", "b"]);
    let _second = Waiter::queue(&world, "cleo", &["b", "c"]);
    let mut heard = Vec::new();
    let outcome = store
        .reserve_or_wait(&ask("dan", &["c"]), Duration::from_millis(1), |conflicts| {
            heard.extend(conflicts.iter().map(|c| format!("{}: {}", c.holder.agent, c.holder.target)));
        })
        .unwrap();
    assert_eq!(heard, ["ann: a"]);
    let Outcome::Refused(refusal) = outcome else { panic!("it was granted") };
    assert_eq!(mala_tests::terse::holders(&refusal), ["ann: a"]);
}
