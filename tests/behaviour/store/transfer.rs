//! Handing locks over.

use mala_core::Mode;
use mala_store::{Renewed, StoreError, Which};
use mala_tests::invariants::assert_sound;
use mala_tests::{Terse, World, agent, party, wants};

use crate::programs::puppet;

#[test]
fn a_hundred_locks_are_handed_over_together_with_higher_fences() {
    let world = World::new();
    let mut store = world.store();
    let names: Vec<String> = (0..100).map(|number| format!("file-{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = store.take("ann", &names);
    store.register(&party("bob")).unwrap();
    let moved = store.hand_all("ann", "bob");
    assert_eq!(moved.len(), 100);
    let highest = before.iter().map(|lock| lock.fence).max().unwrap();
    assert!(moved.iter().all(|lock| lock.fence > highest && lock.agent == agent("bob")));
    assert!(store.locks().unwrap().iter().all(|lock| moved.contains(lock)));
    assert_eq!(store.log().iter().filter(|kind| *kind == "lock.transferred").count(), 100);
    assert_sound(&world);
    store.refuse("ann", &["file-007"]);
}

#[test]
fn an_heir_that_shares_the_file_already_ends_up_with_one_lock() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:a"]);
    store.take("bob", &["shared:a", "b"]);
    let moved = store.hand_all("ann", "bob");
    assert_eq!(moved.len(), 1);
    assert_eq!(store.held(), ["bob: a", "bob: b"]);
    assert_eq!(moved[0].mode, Mode::Shared);
    assert_sound(&world);
    assert_eq!(store.take("bob", &["a"])[0].mode, Mode::Exclusive);
}

#[test]
fn handing_over_to_oneself_loses_nothing() {
    let world = World::new();
    let mut store = world.store();
    let before = store.take("ann", &["a", "b"]);
    let moved = store.hand_all("ann", "ann");
    assert_eq!(store.held(), ["ann: a", "ann: b"]);
    assert!(moved.iter().zip(&before).all(|(after, before)| after.fence > before.fence));
    assert_sound(&world);
}

#[test]
fn unknown_and_dead_heirs_inherit_nothing() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let before = (store.locks().unwrap(), store.log());
    let unknown = store.transfer(&agent("ann"), &agent("bob"), &Which::All);
    assert!(matches!(unknown, Err(StoreError::UnknownAgent { agent }) if agent.as_str() == "bob"));
    let nobody = store.transfer(&agent("nobody"), &agent("ann"), &Which::All);
    assert!(matches!(nobody, Err(StoreError::UnknownAgent { agent }) if agent.as_str() == "nobody"));
    assert_eq!((store.locks().unwrap(), store.log()), before);

    let mut dead = puppet(&world, "dead", &[]);
    dead.tell("reserve d");
    dead.expect("granted 1");
    dead.kill();
    let before = (store.locks().unwrap(), store.log());
    let gone = store.transfer(&agent("ann"), &agent("dead"), &Which::All);
    assert!(matches!(gone, Err(StoreError::AgentGone { .. })));
    assert_eq!((store.locks().unwrap(), store.log()), before);
}

#[test]
fn what_is_not_held_is_not_handed_over_and_neither_is_the_rest() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("bob", &["b"]);
    let moved = store.transfer(&agent("ann"), &agent("bob"), &Which::These(wants(&["a", "b"]))).unwrap();
    assert_eq!(moved, Renewed::NotHeld(wants(&["b"])));
    assert_eq!(store.held(), ["ann: a", "bob: b"]);
}

#[test]
fn a_lock_is_not_handed_over_from_under_another_that_the_giver_keeps() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["pattern:src/**", "src/a"]);
    store.register(&party("bob")).unwrap();
    let before = (store.locks().unwrap(), store.log());
    let refused = store.transfer(&agent("ann"), &agent("bob"), &Which::These(wants(&["src/a"])));
    assert!(matches!(&refused, Err(StoreError::StillHeld { .. })), "{refused:?}");
    assert_eq!((store.locks().unwrap(), store.log()), before);
    assert_eq!(store.hand_all("ann", "bob").len(), 2);
    assert_sound(&world);
}

#[test]
fn an_heir_gets_a_wider_lock_beside_the_narrower_one_it_has() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:pattern:src/*", "shared:src/a"]);
    store.take("bob", &["shared:src/a"]);
    store.hand_all("ann", "bob");
    assert_eq!(store.held(), ["bob: src/*", "bob: src/a"]);
    assert_sound(&world);
}
