//! Agents that say goodbye.

use std::time::Duration;

use mala_core::Life;
use mala_store::{Outcome, Party, StoreError, Which};
use mala_tests::ask::ask_as;
use mala_tests::fakes::TestLiveness;
use mala_tests::invariants::assert_sound;
use mala_tests::{Terse, Waiter, World, agent, party};

use crate::programs::waiter;

#[test]
fn an_agent_that_leaves_holds_nothing_and_is_not_known_any_more() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "pattern:src/**"]);
    store.take("bob", &["b"]);
    assert_eq!(store.leave(&agent("ann")).unwrap().len(), 2);
    assert_eq!(store.held(), ["bob: b"]);
    assert_eq!(store.log().last().unwrap(), "agent.left");
    assert_eq!(store.status().unwrap().agents.len(), 1);
    let unknown = store.release(&agent("ann"), &Which::All);
    assert!(matches!(unknown, Err(StoreError::UnknownAgent { .. })), "{unknown:?}");
    let events = world.count("event");
    assert!(store.leave(&agent("ann")).unwrap().is_empty());
    assert_eq!(world.count("event"), events, "it had left already");
    assert_sound(&world);
}

#[test]
fn a_name_that_was_left_is_free_for_another_process() {
    let world = World::new();
    let liveness = TestLiveness::default();
    let mut store = world.store().with_liveness(liveness);
    let [first, second] = [1, 2].map(|pid| Party { owner: TestLiveness::owner(pid), ..party("ann") });
    store.register(&first).unwrap();
    store.leave(&agent("ann")).unwrap();
    store.register(&second).unwrap();
    assert_eq!(store.status().unwrap().agents[0].party, second);
}

#[test]
fn what_a_leaving_agent_held_goes_to_those_who_wait() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    store.leave(&agent("ann")).unwrap();
    waiter.granted();
    assert_eq!(store.held(), ["bob: a"]);
    assert_sound(&world);
}

#[test]
fn a_waiter_that_sleeps_on_has_what_it_waited_for_at_once() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let bob = waiter(&world, "bob", "a");
    bob.stop();
    store.leave(&agent("ann")).unwrap();
    assert_eq!(store.held(), ["bob: a"]);
    bob.resume();
    bob.expect("granted 1");
}

#[test]
fn a_named_lock_stays_with_the_command_that_runs_under_it() {
    let world = World::new();
    let liveness = TestLiveness::default();
    let mut store = world.store().with_liveness(liveness.clone());
    let command = Party { owner: TestLiveness::owner(7), ..party("ann") };
    store.register(&party("ann")).unwrap();
    store.grant(&ask_as(&command, &["name:test"]));
    store.take("ann", &["a"]);
    store.leave(&agent("ann")).unwrap();
    assert_eq!(store.held(), ["ann: test"]);
    liveness.set(7, Life::Dead);
    assert!(store.held().is_empty());
}

#[test]
fn an_agent_that_left_while_it_waited_is_back_with_what_it_gets() {
    let world = World::new();
    let mut store = world.store();
    store.take("bob", &["a"]);
    let waiter = Waiter::queue(&world, "ann", &["a"]);
    store.leave(&agent("ann")).unwrap();
    store.give_back("bob", &["a"]);
    waiter.granted();
    assert_eq!(store.give_back("ann", &["a"]), 1);
    let again = store.reserve_or_wait(&mala_tests::ask("ann", &["a"]), Duration::ZERO, |_| ()).unwrap();
    assert!(matches!(again, Outcome::Granted(_)));
}
