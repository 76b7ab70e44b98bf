//! Agents never wait for each other in a circle: the request that would close one is refused at once.

use mala_store::{Refusal, Store, StoreError, Which};
use mala_tests::terse::{circle, holders, refused};
use mala_tests::{FOREVER, Terse, Waiter, World, agent, ask, wants};

/// A wait that must be refused, without a moment in the queue.
fn refuse_to_wait(store: &mut Store, name: &str, texts: &[&str]) -> Refusal {
    let outcome = store.reserve_or_wait(&ask(name, texts), FOREVER, |_| panic!("it must not queue"));
    refused(outcome.unwrap())
}

#[test]
fn two_agents_do_not_wait_for_each_other() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("bob", &["b"]);
    let ann = Waiter::queue(&world, "ann", &["b"]);
    let refusal = refuse_to_wait(&mut store, "bob", &["a"]);
    assert_eq!(circle(&refusal), ["bob", "ann"]);
    assert_eq!(holders(&refusal), ["ann: a"]);
    assert_eq!(store.log().last().unwrap(), "wait.refused");
    assert_eq!((world.count("waiter"), world.wake_files().len()), (1, 1), "only ann waits");
    store.give_back("bob", &["b"]);
    ann.granted();
}

#[test]
fn three_agents_do_not_wait_for_each_other() {
    let world = World::new();
    let mut store = world.store();
    for (name, file) in [("ann", "a"), ("bob", "b"), ("cleo", "c")] {
        store.take(name, &[file]);
    }
    let _ann = Waiter::queue(&world, "ann", &["b"]);
    let _bob = Waiter::queue(&world, "bob", &["pattern:c*"]);
    assert_eq!(circle(&refuse_to_wait(&mut store, "cleo", &["a"])), ["cleo", "ann", "bob"]);
}

#[test]
fn a_place_in_the_queue_can_close_a_circle() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("cleo", &["c"]);
    store.take("dan", &["b"]);
    let _bob = Waiter::queue(&world, "bob", &["a", "b"]);
    let cleo = Waiter::queue(&world, "cleo", &["b"]);
    store.give_back("dan", &["b"]);
    assert!(cleo.is_waiting(), "bob comes first, although `b` is free");
    assert_eq!(circle(&refuse_to_wait(&mut store, "ann", &["c"])), ["ann", "cleo", "bob"]);
}

#[test]
fn every_one_of_many_waits_counts() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let others = ["v", "w", "x", "y", "z"];
    let mut waits = Vec::new();
    for other in others {
        store.take(other, &[other]);
        waits.push(Waiter::queue(&world, "ann", &[other]));
    }
    for other in others {
        assert_eq!(circle(&refuse_to_wait(&mut store, other, &["a"])), [other, "ann"]);
    }
    store.give_back("x", &["x"]);
    waits.remove(2).granted();
    // Nobody waits for `x` itself any more, and that is no circle.
    let _x = Waiter::queue(&world, "x", &["a"]);
}

#[test]
fn two_who_share_do_not_both_wait_to_write() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:a"]);
    store.take("bob", &["shared:a"]);
    let ann = Waiter::queue(&world, "ann", &["a"]);
    assert_eq!(circle(&refuse_to_wait(&mut store, "bob", &["a"])), ["bob", "ann"]);
    store.give_back("bob", &["a"]);
    ann.granted();
}

#[test]
fn taking_what_others_wait_for_can_close_a_circle_too() {
    let world = World::new();
    let mut store = world.store();
    store.take("bob", &["b"]);
    store.take("dan", &["d"]);
    let _ann = Waiter::queue(&world, "ann", &["b"]);
    let _bob = Waiter::queue(&world, "bob", &["d", "free"]);
    let before = store.locks().unwrap();
    let refusal = store.refuse("ann", &["free"]);
    assert_eq!(circle(&refusal), ["ann", "bob"]);
    assert!(refusal.conflicts.is_empty());
    assert_eq!(store.locks().unwrap(), before);
    assert_eq!(store.log().last().unwrap(), "wait.refused");
    store.take("cleo", &["free"]);
}

#[test]
fn handing_over_can_close_a_circle_too() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("bob", &["b"]);
    store.take("cleo", &["c"]);
    let _cleo = Waiter::queue(&world, "cleo", &["a"]);
    let _bob = Waiter::queue(&world, "bob", &["c"]);
    let before = (store.locks().unwrap(), store.log());
    // bob waits for cleo, and cleo would wait for bob.
    let refused = store.transfer(&agent("ann"), &agent("bob"), &Which::These(wants(&["a"])));
    let Err(StoreError::Deadlock { circle }) = refused else { panic!("{refused:?}") };
    assert_eq!(mala_store::show_circle(&circle), "bob -> cleo -> bob");
    assert_eq!((store.locks().unwrap(), store.log()), before);
}

#[test]
fn waiting_for_the_same_thing_is_no_circle() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "b"]);
    let bob = Waiter::queue(&world, "bob", &["a", "b"]);
    let cleo = Waiter::queue(&world, "cleo", &["b", "a"]);
    store.give_back("ann", &["a", "b"]);
    bob.granted();
    store.give_back("bob", &["a", "b"]);
    cleo.granted();
}

#[test]
fn a_waiter_that_has_died_or_left_closes_no_circle() {
    let world = World::new();
    let mut store = world.store();
    store.take("bob", &["b"]);
    let mut ann = crate::programs::holder(&world, "ann", "a");
    crate::programs::queue(&mut ann, "b");
    assert_eq!(circle(&refuse_to_wait(&mut store, "bob", &["a"])), ["bob", "ann"]);
    ann.kill();
    store.take("bob", &["a"]);
}
