//! The queue: first come, first served, whoever dies in it.

use std::time::Duration;

use mala_core::Mode;
use mala_tests::invariants::{assert_one_sweep_leaves_nothing, assert_sound};
use mala_tests::{ONLY_THE_DEAD, Program, Terse, Waiter, World, eventually};

use crate::programs::{holder, puppet, queue, waiter};

#[test]
fn fifty_waiters_are_granted_in_the_order_of_their_arrival() {
    let world = World::new();
    let mut store = world.store();
    store.take("first", &["a"]);
    let names: Vec<String> = (0..50).map(|number| format!("w{number:02}")).collect();
    let mut waiters: Vec<Waiter> = names.iter().map(|name| Waiter::queue(&world, name, &["a"])).collect();
    let positions = store.status().unwrap().waiting.into_iter().map(|waiting| waiting.position);
    assert_eq!(positions.collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    store.give_back("first", &["a"]);
    let mut last = None;
    for name in &names {
        let fence = waiters.remove(0).granted()[0].fence;
        assert!(Some(fence) > last);
        last = Some(fence);
        assert!(waiters.iter().all(Waiter::is_waiting), "nobody comes before {name} has released");
        assert_eq!(store.held(), [format!("{name}: a")]);
        store.give_back(name, &["a"]);
    }
    assert_sound(&world);
}

#[test]
fn those_who_want_to_share_are_granted_together() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let sharing = ["bob", "cleo", "dan"].map(|name| Waiter::queue(&world, name, &["shared:a"]));
    let writer = Waiter::queue(&world, "eve", &["a"]);
    let behind = Waiter::queue(&world, "fay", &["shared:a"]);
    store.give_back("ann", &["a"]);
    for waiter in sharing {
        assert_eq!(waiter.granted()[0].mode, Mode::Shared);
    }
    assert_eq!(store.held(), ["bob: a", "cleo: a", "dan: a"]);
    assert!(writer.is_waiting() && behind.is_waiting(), "nobody passes the writer");
    for name in ["bob", "cleo", "dan"] {
        store.give_back(name, &["a"]);
    }
    writer.granted();
    store.give_back("eve", &["a"]);
    behind.granted();
}

#[test]
fn nobody_is_held_up_by_a_waiter_for_something_else() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a", "b"]);
    let first = Waiter::queue(&world, "bob", &["a"]);
    let second = Waiter::queue(&world, "cleo", &["b"]);
    store.give_back("ann", &["b"]);
    second.granted();
    assert!(first.is_waiting());
    store.give_back("ann", &["a"]);
    first.granted();
}

#[test]
fn a_waiter_that_needs_two_files_is_not_overtaken_by_one_that_needs_one_of_them() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("dan", &["b"]);
    let both = Waiter::queue(&world, "bob", &["a", "b"]);
    let one = Waiter::queue(&world, "cleo", &["b"]);
    store.give_back("dan", &["b"]);
    assert!(both.is_waiting() && one.is_waiting());
    store.give_back("ann", &["a"]);
    both.granted();
    assert!(one.is_waiting());
    store.give_back("bob", &["a", "b"]);
    one.granted();
}

#[test]
fn a_waiter_that_gives_up_lets_those_behind_it_pass() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("dan", &["b"]);
    let both = Waiter::queue_for(&world, mala_tests::ask("bob", &["a", "b"]), Duration::from_millis(500));
    let one = Waiter::queue(&world, "cleo", &["b"]);
    store.give_back("dan", &["b"]);
    both.refused();
    one.granted();
}

#[test]
fn a_killed_waiter_leaves_the_queue_working() {
    let world = World::new();
    let mut ann = holder(&world, "ann", "a");
    let mut queue: Vec<Program> = ["bob", "cleo", "dan"].map(|name| waiter(&world, name, "a")).into();
    queue[0].kill();
    queue[1].kill();
    ann.tell("release");
    queue[2].expect("granted 1");
    let swept = world.store().sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(swept.wake_files.len(), 2);
    assert_sound(&world);
    drop((ann, queue));
    assert_one_sweep_leaves_nothing(&world);
}

#[test]
fn a_dead_waiter_that_was_blocked_itself_blocks_nobody() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("dan", &["b"]);
    let first = Waiter::queue(&world, "bob", &["a"]);
    let mut dead = waiter(&world, "dead", "a b");
    let last = Waiter::queue(&world, "cleo", &["b"]);
    dead.kill();
    store.give_back("dan", &["b"]);
    last.granted();
    assert!(first.is_waiting());
}

#[test]
fn a_waiter_killed_after_it_was_granted_but_before_it_noticed_passes_the_lock_on() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut lucky = waiter(&world, "lucky", "a");
    let next = Waiter::queue(&world, "next", &["a"]);
    lucky.stop();
    store.give_back("ann", &["a"]);
    assert_eq!(store.held(), ["lucky: a"]);
    assert!(next.is_waiting());
    lucky.kill();
    next.granted();
    assert_sound(&world);
    store.give_back("next", &["a"]);
    assert_one_sweep_leaves_nothing(&world);
}

#[test]
fn once_a_grant_is_accepted_it_ends_with_its_owner() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut session = puppet(&world, "session", &[]);
    let mut asker = puppet(&world, "bob", &[&format!("owner={}", session.pid())]);
    queue(&mut asker, "a");
    let next = Waiter::queue(&world, "next", &["a"]);
    asker.stop();
    store.give_back("ann", &["a"]);
    let watches_the_lock = "waiter JOIN lock ON lock.id = waiter.watches WHERE waiter.agent = 'next'";
    eventually("the next waiter has seen the grant", || world.count(watches_the_lock) == 1);
    asker.resume();
    asker.expect("granted 1");
    // The process that waited lives on, but the lock is the session's now.
    session.kill();
    next.granted();
}

#[test]
fn a_waiter_of_another_host_holds_up_the_queue_no_longer_than_its_own_patience() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut abroad = waiter(&world, "abroad", "a");
    let sql = world.sql();
    sql.execute("UPDATE process SET host = 'elsewhere' WHERE pid = ?1", [abroad.pid()]).unwrap();
    abroad.kill();
    let next = waiter(&world, "next", "a");
    let before = next.ticks();
    std::thread::sleep(Duration::from_millis(300));
    assert!(next.ticks() - before <= 1, "it sleeps behind a process that it cannot see");
    sql.execute("UPDATE waiter SET deadline = 1 WHERE agent = 'abroad'", []).unwrap();
    store.give_back("ann", &["a"]);
    next.expect("granted 1");
}

#[test]
fn an_upgrade_waits_for_those_who_share() {
    let world = World::new();
    let mut store = world.store();
    let shared = store.take("ann", &["shared:a"]).remove(0);
    store.take("bob", &["shared:a"]);
    let upgrade = Waiter::queue(&world, "ann", &["a"]);
    store.give_back("bob", &["a"]);
    let lock = upgrade.granted().remove(0);
    assert_eq!((lock.id, lock.mode), (shared.id, Mode::Exclusive));
    assert_eq!(world.count("lock"), 1);
    assert_sound(&world);
}

#[test]
fn waiters_of_two_worktrees_do_not_meet() {
    let world = World::new();
    let mut here = world.store();
    let mut there = mala_store::Store::open_in(&world.state_dir(), b"/elsewhere").unwrap();
    here.take("ann", &["a"]);
    there.take("ann", &["a"]);
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    there.give_back("ann", &["a"]);
    assert!(waiter.is_waiting());
    assert!(there.held().is_empty());
    here.give_back("ann", &["a"]);
    waiter.granted();
}
