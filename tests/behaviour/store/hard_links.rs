//! Files with several names: every name is the same lock.

use std::ffi::OsStr;
use std::fs;

use mala_core::claim::Reading;
use mala_core::{Mode, Want};
use mala_store::{Outcome, Released, Request, Store, Which};
use mala_tests::ask::linked;
use mala_tests::terse::{granted, holders, refused};
use mala_tests::{FOREVER, Terse, Waiter, World, agent, ask};

/// A checkout in which `one` and `deep/two` are one file.
fn world() -> World {
    let world = World::new();
    world.write("one", "text");
    fs::create_dir(world.root().join("deep")).unwrap();
    fs::hard_link(world.root().join("one"), world.root().join("deep/two")).unwrap();
    world
}

fn typed(world: &World, text: &str) -> Want {
    world.scope().want(world.root(), OsStr::new(text), Mode::Exclusive, Reading::Guess).unwrap()
}

fn reserve(store: &mut Store, name: &str, wants: &[Want]) -> Outcome {
    store.reserve(&Request { wants: wants.to_vec(), ..ask(name, &[]) }).unwrap()
}

#[test]
fn another_name_of_a_held_file_is_held_too() {
    let world = world();
    let mut store = world.store();
    granted(reserve(&mut store, "ann", &[typed(&world, "one")]));
    for alias in ["one", "deep/two", "deep/*", "deep", "**/two", "o*"] {
        assert_eq!(
            holders(&refused(reserve(&mut store, "bob", &[typed(&world, alias)]))),
            ["ann: one"],
            "{alias}"
        );
    }
    // Whoever does not know of the links meets them all the same.
    assert_eq!(holders(&store.refuse("bob", &["deep/two"])), ["ann: one"]);
    assert_eq!(store.holders(&typed(&world, "deep/two")).unwrap().len(), 1);
}

#[test]
fn a_held_pattern_that_covers_one_name_holds_the_file() {
    let world = world();
    let mut store = world.store();
    store.take("ann", &["pattern:deep/*"]);
    assert_eq!(holders(&refused(reserve(&mut store, "bob", &[typed(&world, "one")]))), ["ann: deep/*"]);
}

#[test]
fn its_owner_asks_and_releases_by_any_name() {
    let world = world();
    let mut store = world.store();
    let lock = granted(reserve(&mut store, "ann", &[typed(&world, "one")])).remove(0);
    let again = granted(reserve(&mut store, "ann", &[typed(&world, "deep/two")])).remove(0);
    assert_eq!((again.id, again.fence), (lock.id, lock.fence));
    let both = granted(reserve(&mut store, "ann", &[typed(&world, "deep/two"), typed(&world, "one")]));
    assert_eq!((both.len(), world.count("lock")), (1, 1));
    let released = store.release(&agent("ann"), &Which::These(vec![typed(&world, "deep/two")])).unwrap();
    assert!(matches!(released, Released::Done(locks) if locks.len() == 1));
    assert_eq!((world.count("lock"), world.count("alias")), (0, 0));
}

#[test]
fn others_cannot_release_it_by_another_name() {
    let world = world();
    let mut store = world.store();
    granted(reserve(&mut store, "ann", &[typed(&world, "one")]));
    store.take("bob", &["elsewhere"]);
    let released = store.release(&agent("bob"), &Which::These(vec![typed(&world, "deep/two")])).unwrap();
    assert!(matches!(released, Released::NotYours(foreign) if foreign[0].holder.agent == agent("ann")));
}

#[test]
fn a_link_made_after_the_lock_is_learned_when_its_owner_asks_again() {
    let world = world();
    let mut store = world.store();
    granted(reserve(&mut store, "ann", &[typed(&world, "one")]));
    fs::hard_link(world.root().join("one"), world.root().join("three")).unwrap();
    let again = granted(reserve(&mut store, "ann", &[typed(&world, "three")])).remove(0);
    assert_eq!(again.aliases.len(), 2);
    assert_eq!(holders(&store.refuse("bob", &["three"])), ["ann: one"]);
    assert_eq!(holders(&store.refuse("bob", &["pattern:t*"])), ["ann: one"]);
}

#[test]
fn one_can_wait_for_two_names_of_one_file() {
    let world = world();
    let mut store = world.store();
    store.take("ann", &["one"]);
    let request = Request { wants: vec![typed(&world, "one"), typed(&world, "deep/two")], ..ask("bob", &[]) };
    let waiter = Waiter::queue_for(&world, request, FOREVER);
    store.give_back("ann", &["one"]);
    assert_eq!(waiter.granted().len(), 1);
    assert_eq!(holders(&store.refuse("ann", &["deep/two"])), ["bob: deep/two"]);
}

#[test]
fn a_waiter_waits_for_every_name() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["y"]);
    let request = Request { wants: vec![linked("x", &["y", "z"])], ..ask("bob", &[]) };
    let waiter = Waiter::queue_for(&world, request, FOREVER);
    store.give_back("ann", &["y"]);
    let lock = waiter.granted().remove(0);
    assert_eq!(lock.aliases.len(), 2);
    store.refuse("ann", &["z"]);
}

#[test]
fn an_heir_with_another_name_of_the_same_file_gets_one_lock() {
    let world = World::new();
    let mut store = world.store();
    let shared = |want: Want| Want { mode: Mode::Shared, ..want };
    granted(reserve(&mut store, "ann", &[shared(linked("x", &["y"]))]));
    granted(reserve(&mut store, "bob", &[shared(linked("y", &["x"]))]));
    store.hand_all("ann", "bob");
    assert_eq!((world.count("lock"), world.count("alias")), (1, 1));
    mala_tests::invariants::assert_sound(&world);
}
