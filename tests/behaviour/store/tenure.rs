//! Who held a file alone, now or some time ago.

use std::time::Duration;

use mala_core::{Fence, Key, Life};
use mala_store::{Extent, Party, Request, Store};
use mala_tests::ask::{ask_as, key, linked};
use mala_tests::fakes::{TestClock, TestLiveness};
use mala_tests::{ONLY_THE_DEAD, Terse, World, agent, ask, party};

fn owned(store: &mut Store, name: &str, path: &str, since: Option<Fence>) -> Option<Fence> {
    store.owned(&agent(name), &key(path), since).unwrap()
}

#[test]
fn a_held_file_is_owned_by_its_name_by_its_other_names_and_by_patterns() {
    let world = World::new();
    let mut store = world.store();
    let lock = store.grant(&Request { wants: vec![linked("a", &["link/a"])], ..ask("ann", &[]) }).remove(0);
    let pattern = store.take("ann", &["pattern:src/**"]).remove(0);
    assert_eq!(owned(&mut store, "ann", "a", None), Some(lock.fence));
    assert_eq!(owned(&mut store, "ann", "link/a", None), Some(lock.fence));
    assert_eq!(owned(&mut store, "ann", "src/x/y", None), Some(pattern.fence));
    assert_eq!(owned(&mut store, "ann", "other", None), None);
    assert_eq!(owned(&mut store, "bob", "a", None), None);
    let keys = ["a", "other", "src/z"].map(key);
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap(), [key("a"), key("src/z")]);
}

#[test]
fn what_another_one_has_held_since_is_not_the_earlier_holders() {
    let world = World::new();
    let mut store = world.store();
    let keys = ["a", "src/z"].map(key);
    store.take("ann", &["a", "pattern:src/**"]);
    store.leave(&agent("ann")).unwrap();
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap(), keys, "nobody has had them since");
    store.take("bob", &["a"]);
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap(), keys, "bob may have just got it");
    store.leave(&agent("bob")).unwrap();
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap(), [key("src/z")], "bob had it");
    assert_eq!(store.held_last(&agent("bob"), &keys, None).unwrap(), [key("a")]);
    store.take("ann", &["a"]);
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap(), keys, "it is ann's again");
}

#[test]
fn what_is_merely_shared_is_not_owned_until_it_is_upgraded() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:a"]);
    assert_eq!(owned(&mut store, "ann", "a", None), None);
    store.give_back("ann", &["a"]);
    assert_eq!(owned(&mut store, "ann", "a", None), None);
    store.take("ann", &["shared:a"]);
    let fence = store.take("ann", &["a"])[0].fence;
    assert_eq!(owned(&mut store, "ann", "a", None), Some(fence));
    store.give_back("ann", &["a"]);
    assert_eq!(owned(&mut store, "ann", "a", None), Some(fence));
}

#[test]
fn a_released_file_was_owned_until_then_and_not_after() {
    let world = World::new();
    let mut store = world.store();
    let start = store.newest_event().unwrap();
    let lock = store.grant(&Request { wants: vec![linked("a", &["b"])], ..ask("ann", &[]) }).remove(0);
    store.take("ann", &["pattern:src/**"]);
    let held = store.newest_event().unwrap();
    store.leave(&agent("ann")).unwrap();
    for path in ["a", "b", "src/x"] {
        for since in [None, Some(start), Some(held)] {
            assert!(owned(&mut store, "ann", path, since).is_some(), "{path} since {since:?}");
        }
        let later = store.newest_event().unwrap();
        assert_eq!(owned(&mut store, "ann", path, Some(later)), None, "{path}");
    }
    assert_eq!(owned(&mut store, "ann", "a", None), Some(lock.fence));
}

#[test]
fn what_was_held_was_held_whatever_becomes_of_the_clock() {
    for hours in [-3, 3] {
        let world = World::new();
        let clock = TestClock::default();
        let mut store = world.store().with_clock(clock.clone());
        store.take("ann", &["early"]);
        store.give_back("ann", &["early"]);
        let claim = store.newest_event().unwrap();
        clock.step_hours(hours);
        store.take("ann", &["a"]);
        clock.step_hours(hours);
        store.give_back("ann", &["a"]);
        assert!(owned(&mut store, "ann", "a", Some(claim)).is_some(), "{hours} h");
        assert_eq!(owned(&mut store, "ann", "early", Some(claim)), None, "{hours} h");
    }
}

#[test]
fn of_several_holds_the_last_one_counts() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.give_back("ann", &["a"]);
    let second = store.take("ann", &["a"])[0].fence;
    assert_eq!(owned(&mut store, "ann", "a", None), Some(second));
    store.give_back("ann", &["a"]);
    assert_eq!(owned(&mut store, "ann", "a", None), Some(second));
    let third = store.take("bob", &["a"])[0].fence;
    assert_eq!(owned(&mut store, "ann", "a", None), Some(second));
    assert_eq!(owned(&mut store, "bob", "a", None), Some(third));
}

#[test]
fn whoever_hands_a_lock_over_has_owned_it() {
    let world = World::new();
    let mut store = world.store();
    let before = store.take("ann", &["a"])[0].fence;
    store.register(&party("bob")).unwrap();
    let after = store.hand_all("ann", "bob")[0].fence;
    assert_eq!(owned(&mut store, "ann", "a", None), Some(before));
    assert_eq!(owned(&mut store, "bob", "a", None), Some(after));
}

#[test]
fn a_lease_that_ran_out_ends_the_hold_when_that_is_noticed() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    let ttl = Duration::from_secs(5);
    let lock = store.grant(&Request { ttl, ..ask("ann", &["a"]) }).remove(0);
    clock.advance(Duration::from_secs(60));
    let over = store.newest_event().unwrap();
    assert_eq!(owned(&mut store, "ann", "a", Some(over)), Some(lock.fence), "nobody else has had it since");
    store.sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(world.count("lock"), 0);
    assert_eq!(owned(&mut store, "ann", "a", Some(over)), Some(lock.fence));
    let noticed = store.newest_event().unwrap();
    assert_eq!(owned(&mut store, "ann", "a", Some(noticed)), None);
}

#[test]
fn a_dead_agents_files_were_its_own() {
    let world = World::new();
    let liveness = TestLiveness::default();
    let mut store = world.store().with_liveness(liveness.clone());
    let gone = Party { owner: TestLiveness::owner(1), ..party("ann") };
    let fence = store.grant(&ask_as(&gone, &["a"]))[0].fence;
    liveness.set(1, Life::Dead);
    assert_eq!(owned(&mut store, "ann", "a", None), Some(fence));
    store.sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(owned(&mut store, "ann", "a", None), Some(fence));
}

#[test]
fn old_holds_go_with_the_events_of_their_time() {
    let world = World::new();
    let clock = TestClock::default();
    let mut store = world.store().with_clock(clock.clone());
    store.take("ann", &["a"]);
    store.give_back("ann", &["a"]);
    clock.advance(Duration::from_secs(1));
    store.take("ann", &["b"]);
    store.give_back("ann", &["b"]);
    store.sweep(Extent { keep_events_since: store.now(), ..ONLY_THE_DEAD }).unwrap();
    assert_eq!(owned(&mut store, "ann", "a", None), None);
    assert!(owned(&mut store, "ann", "b", None).is_some());
}

#[test]
fn two_hundred_paths_are_judged_together_beside_a_long_log() {
    let world = World::in_memory();
    let mut store = world.store();
    store.take("ann", &["pattern:docs/**"]);
    store.take("bob", &["mine"]);
    store.leave(&agent("ann")).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO event (at, scope, kind, agent, lock, path, detail, target)
         SELECT 0, 1, 'lock.released', 'ann', 'l' || i, CAST('src/' || i AS BLOB), '{}', 0 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO tenure (scope, agent, kind, path, fence, until)
         SELECT 1, 'ann', 0, CAST('src/' || i AS BLOB), i, 0 FROM n;";
    world.sql().execute_batch(fill).unwrap();
    let keys: Vec<Key> = (0..200).map(|number| key(format!("src/{}", number * 200 + 1))).collect();
    assert_eq!(store.held_last(&agent("ann"), &keys, None).unwrap().len(), 100);
}
