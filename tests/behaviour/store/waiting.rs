//! Waiting: how it ends, and what it leaves behind.

use std::time::Duration;

use mala_core::Owner;
use mala_store::{Cause, Outcome, Party, Request, Which, process};
use mala_tests::ask::ask_as;
use mala_tests::invariants::assert_sound;
use mala_tests::terse::{holders, refused};
use mala_tests::{
    FOREVER, ONLY_THE_DEAD, Program, Terse, Waiter, World, agent, ask, eventually, party, wants,
};

use crate::programs::{holder, puppet, queue, waiter};

fn abroad(name: &str) -> Party {
    Party {
        owner: Owner { host: "elsewhere".into(), boot_id: "other".into(), ..process::current() },
        ..party(name)
    }
}

#[test]
fn what_is_free_is_granted_without_waiting() {
    let world = World::new();
    let outcome =
        world.store().reserve_or_wait(&ask("ann", &["a"]), FOREVER, |_| panic!("nothing is in the way"));
    assert!(matches!(outcome, Ok(Outcome::Granted(_))));
    assert_eq!(world.store().log(), ["agent.joined", "lock.acquired"]);
}

#[test]
fn a_waiter_is_told_what_is_in_the_way_and_gets_it_when_it_is_released() {
    let world = World::new();
    let mut store = world.store();
    let held = store.take("ann", &["a", "b"]);
    let waiter = Waiter::queue(&world, "bob", &["a", "b"]);
    let waiting = store.status().unwrap().waiting;
    assert_eq!(
        waiting.iter().map(|w| (w.agent.as_str(), w.position)).collect::<Vec<_>>(),
        [("bob", 1), ("bob", 1)]
    );
    store.give_back("ann", &["a"]);
    assert!(waiter.is_waiting(), "all or none");
    store.give_back("ann", &["b"]);
    let locks = waiter.granted();
    assert!(locks.iter().all(|lock| lock.fence > held[1].fence));
    assert_eq!(store.locks().unwrap(), locks);
    assert_eq!((world.count("waiter"), world.count("wanted")), (0, 0));
    assert_sound(&world);
}

#[test]
fn a_wait_that_times_out_leaves_nothing_behind() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let outcome = store.reserve_or_wait(&ask("bob", &["a", "b"]), Duration::from_millis(50), |_| ()).unwrap();
    let refusal = refused(outcome);
    assert_eq!((refusal.cause.clone(), holders(&refusal)), (Cause::TimedOut, vec!["ann: a".to_owned()]));
    assert_eq!((world.count("waiter"), world.count("wanted")), (0, 0));
    assert!(world.wake_files().is_empty());
    assert_eq!(store.log().last().unwrap(), "wait.timed_out");
    store.give_back("ann", &["a"]);
    assert!(store.held().is_empty(), "nothing is granted to somebody who has left");
}

#[test]
fn a_waiter_looks_once_more_when_its_time_is_over() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let waiter = Waiter::queue_for(&world, ask("bob", &["a"]), Duration::from_secs(2));
    // Free, without anybody to wake the waiter.
    world.sql().execute("DELETE FROM lock", []).unwrap();
    waiter.granted();
    assert_eq!(store.held(), ["bob: a"]);
}

#[test]
fn one_can_wait_for_ever() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let waiter = Waiter::queue_for(&world, ask("bob", &["a"]), Duration::MAX);
    store.give_back("ann", &["a"]);
    waiter.granted();
}

#[test]
fn kill_9_of_the_holder_wakes_the_waiter() {
    let world = World::new();
    let mut ann = holder(&world, "ann", "a name:test pattern:src/**");
    let waiters = [("bob", "a"), ("cleo", "name:test"), ("dan", "src/x")]
        .map(|(name, wanted)| Waiter::queue(&world, name, &[wanted]));
    ann.kill();
    for waiter in waiters {
        waiter.granted();
    }
    assert_sound(&world);
}

#[test]
fn the_end_of_a_foreign_holders_lease_wakes_the_waiter() {
    let world = World::new();
    let mut store = world.store();
    store.grant(&Request { ttl: Duration::from_secs(1), ..ask_as(&abroad("ann"), &["a"]) });
    Waiter::queue(&world, "bob", &["a"]).granted();
    assert_eq!(store.log().iter().filter(|kind| *kind == "lock.expired").count(), 1);
}

#[test]
fn a_lease_cut_short_wakes_the_waiter() {
    let world = World::new();
    let mut store = world.store();
    store.grant(&ask_as(&abroad("ann"), &["a"]));
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    store.renew(&agent("ann"), &Which::All, Some(Duration::from_millis(50))).unwrap();
    waiter.granted();
}

#[test]
fn a_renewed_lease_keeps_the_waiter_waiting() {
    let world = World::new();
    let mut store = world.store();
    let short = Request { ttl: Duration::from_millis(1_500), ..ask_as(&abroad("ann"), &["a"]) };
    let lock = store.grant(&short).remove(0);
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    store.renew(&agent("ann"), &Which::All, Some(FOREVER)).unwrap();
    eventually("the first lease is over", || {
        store.now() > lock.lease.expires_at.plus(Duration::from_millis(50))
    });
    assert!(waiter.is_waiting());
    store.give_back("ann", &["a"]);
    waiter.granted();
}

#[test]
fn a_transfer_makes_the_waiter_watch_the_heir() {
    let world = World::new();
    let mut store = world.store();
    let mut ann = holder(&world, "ann", "a");
    let mut heir = holder(&world, "heir", "b");
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    store.hand_all("ann", "heir");
    ann.kill();
    assert_eq!(store.held(), ["heir: a", "heir: b"]);
    assert!(waiter.is_waiting());
    heir.kill();
    waiter.granted();
}

#[test]
fn a_transfer_to_the_waiter_itself_ends_its_wait() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let waiter = Waiter::queue(&world, "bob", &["a"]);
    store.hand_all("ann", "bob");
    assert_eq!(waiter.granted().len(), 1);
    assert_eq!(store.held(), ["bob: a"]);
    assert_sound(&world);
}

#[test]
fn the_holder_of_a_named_lock_never_queues_for_files() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["name:test"]);
    store.take("bob", &["a"]);
    for wanted in [&["a"][..], &["pattern:*"], &["a", "name:other"]] {
        let outcome =
            store.reserve_or_wait(&ask("ann", wanted), FOREVER, |_| panic!("it must not queue")).unwrap();
        assert_eq!(refused(outcome).cause, Cause::Held);
    }
    assert_eq!(world.count("waiter"), 0);
}

#[test]
fn the_holder_of_a_named_lock_may_queue_for_another_name() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["name:test"]);
    store.take("bob", &["name:build"]);
    let waiter = Waiter::queue(&world, "ann", &["name:build"]);
    store.give_back("bob", &["name:build"]);
    waiter.granted();
}

#[test]
fn a_named_lock_of_an_ended_session_does_not_keep_the_next_one_from_queueing() {
    let world = World::new();
    let mut store = world.store();
    holder(&world, "ann", "name:test").kill();
    store.take("bob", &["a"]);
    let waiter = Waiter::queue(&world, "ann", &["a"]);
    store.give_back("bob", &["a"]);
    waiter.granted();
}

#[test]
fn a_grant_that_was_lost_before_the_waiter_noticed_is_no_grant() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut slow = puppet(&world, "slow", &["ttl=100"]);
    queue(&mut slow, "a");
    slow.stop();
    store.give_back("ann", &["a"]);
    assert_eq!(world.count("waiter WHERE granted_at IS NOT NULL"), 1);
    eventually("the lease of the grant is over", || store.held().is_empty());
    store.take("bob", &["a"]);
    slow.resume();
    eventually("the waiter has looked again", || world.count("waiter WHERE watches IS NOT NULL") == 1);
    assert_eq!(slow.heard_already(), None);
    store.give_back("bob", &["a"]);
    slow.expect("granted 1");
    assert_sound(&world);
}

#[test]
fn a_late_asker_does_not_get_its_expired_lock_back_before_those_who_wait() {
    let world = World::new();
    let mut store = world.store();
    let short = Request { ttl: Duration::from_millis(1_500), ..ask("ann", &["a"]) };
    store.grant(&short);
    let bob = waiter(&world, "bob", "a");
    bob.stop();
    eventually("the lease is over", || store.held().is_empty());
    assert_eq!(holders(&store.refuse("ann", &["a"])), ["bob: a"]);
    bob.resume();
    bob.expect("granted 1");
}

#[test]
fn waiters_sleep() {
    let world = World::new();
    let _ann = holder(&world, "ann", "a b");
    let mut waiters: Vec<Program> = Vec::new();
    for number in 0..20 {
        waiters.push(waiter(&world, &format!("w{number}"), if number % 2 == 0 { "a" } else { "shared:b" }));
    }
    let ticks = |waiters: &[Program]| waiters.iter().map(Program::ticks).collect::<Vec<_>>();
    let before = ticks(&waiters);
    std::thread::sleep(Duration::from_secs(1));
    for (before, after) in before.iter().zip(ticks(&waiters)) {
        assert!(after - before <= 1, "a waiter used {} ticks in a second", after - before);
    }
}

#[test]
fn a_store_that_fails_while_somebody_waits_keeps_no_place_for_them() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut bob = waiter(&world, "bob", "a");
    let sql = world.sql();
    sql.execute_batch(
        "CREATE TRIGGER broken BEFORE INSERT ON event WHEN NEW.kind = 'lock.acquired'
         BEGIN SELECT RAISE(ABORT, 'not today'); END; DELETE FROM lock;",
    )
    .unwrap();
    // Rung by hand: the waiter looks, and the store fails.
    std::fs::write(&world.wake_files()[0], [1]).unwrap();
    assert!(bob.hear().starts_with("error"));
    eventually("the waiter has ended", || bob.has_ended());
    assert_eq!((world.count("waiter"), world.count("wanted")), (0, 0));
    assert!(world.wake_files().is_empty());
    assert!(store.check(&agent("ann"), &wants(&["a"])).unwrap().is_empty());
    assert!(store.leftovers(ONLY_THE_DEAD).unwrap().is_empty());
}
