//! Giving locks back.

use mala_store::{Released, StoreError, Which};
use mala_tests::terse::holders;
use mala_tests::{Terse, World, agent, wants};

#[test]
fn releasing_twice_is_fine() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    assert_eq!(store.give_back("ann", &["a"]), 1);
    assert_eq!(store.give_back("ann", &["a"]), 0);
    assert_eq!(store.log()[1..], ["lock.acquired", "lock.released"]);
    store.take("bob", &["a"]);
}

#[test]
fn releasing_everything_releases_only_ones_own_files() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "pattern:src/**", "name:test"]);
    store.take("bob", &["b"]);
    let released = store.release(&agent("ann"), &Which::All).unwrap();
    assert!(matches!(released, Released::Done(locks) if locks.len() == 2));
    assert_eq!(store.held(), ["bob: b", "ann: test"]);
}

#[test]
fn what_belongs_to_somebody_else_is_not_released_and_nothing_else_is_either() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("bob", &["b"]);
    let log = store.log();
    match store.release(&agent("bob"), &Which::These(wants(&["b", "a"]))).unwrap() {
        Released::NotYours(foreign) => {
            assert_eq!(foreign.len(), 1);
            assert_eq!(
                (foreign[0].holder.agent.as_str(), foreign[0].holder.target.as_bytes()),
                ("ann", &b"a"[..])
            );
        }
        Released::Done(locks) => panic!("released {locks:?}"),
    }
    assert_eq!(store.held(), ["ann: a", "bob: b"]);
    assert_eq!(store.log(), log);
}

#[test]
fn a_shared_file_is_released_by_one_and_kept_by_the_other() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:a"]);
    store.take("bob", &["shared:a"]);
    assert_eq!(store.give_back("ann", &["a"]), 1);
    assert_eq!(store.held(), ["bob: a"]);
    assert_eq!(store.give_back("ann", &["a"]), 0, "again, it is fine");
    assert_eq!(holders(&store.refuse("ann", &["a"])), ["bob: a"]);
}

#[test]
fn an_agent_that_nobody_knows_releases_nothing() {
    let world = World::new();
    let mut store = world.store();
    let released = store.release(&agent("nobody"), &Which::All);
    assert!(matches!(released, Err(StoreError::UnknownAgent { .. })));
    assert!(store.log().is_empty());
}
