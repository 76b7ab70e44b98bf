//! Taking locks: who gets what, and what a refusal says.

use std::time::Duration;

use mala_core::{Mode, Scope, Target, Want};
use mala_store::{Cause, Request, Store};
use mala_tests::ask::key;
use mala_tests::terse::{granted, holders};
use mala_tests::{Terse, World, agent, ask, want, wants};

#[test]
fn a_free_file_is_granted_and_listed() {
    let world = World::new();
    let mut store = world.store();
    let locks = store.take("ann", &["src/a.rs"]);
    assert_eq!((locks[0].mode, locks[0].agent.as_str()), (Mode::Exclusive, "ann"));
    assert_eq!(store.locks().unwrap(), locks);
    assert_eq!(store.holders(&want("src/a.rs")).unwrap(), locks);
}

#[test]
fn an_exclusive_lock_keeps_everybody_else_out() {
    let world = World::new();
    let mut store = world.store();
    let held = store.take("ann", &["a"]);
    for wanted in ["a", "shared:a", "pattern:*", "shared:pattern:?"] {
        let refusal = store.refuse("bob", &[wanted]);
        assert_eq!(refusal.cause, Cause::Held);
        assert_eq!(refusal.conflicts[0].holder, held[0], "{wanted}");
        assert_eq!(store.check(&agent("bob"), &wants(&[wanted])).unwrap(), refusal.conflicts);
    }
    store.take("bob", &["b", "pattern:x/**"]);
    assert_eq!(store.held(), ["ann: a", "bob: b", "bob: x/**"]);
}

#[test]
fn shared_locks_stand_beside_each_other_and_keep_writers_out() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["shared:a"]);
    store.take("bob", &["shared:a"]);
    store.take("cleo", &["shared:pattern:**"]);
    assert_eq!(holders(&store.refuse("dan", &["a"])).len(), 3);
    assert_eq!(store.held(), ["cleo: **", "ann: a", "bob: a"]);
}

#[test]
fn asking_four_times_is_one_row_with_its_first_fence() {
    let world = World::new();
    let mut store = world.store();
    let first = store.take("ann", &["a"]).remove(0);
    for _ in 0..3 {
        let again = store.take("ann", &["a"]).remove(0);
        assert_eq!((&again.id, again.fence), (&first.id, first.fence));
        assert!(again.lease.expires_at >= first.lease.expires_at);
    }
    assert_eq!(world.count("lock"), 1);
    assert_eq!(store.log(), ["agent.joined", "lock.acquired"]);
}

#[test]
fn asking_again_never_shortens_a_lease() {
    let world = World::new();
    let mut store = world.store();
    let first = store.take("ann", &["a"]).remove(0);
    let shorter = Request { ttl: Duration::from_secs(1), ..ask("ann", &["a"]) };
    assert_eq!(store.grant(&shorter)[0].lease, first.lease);
    let longer = Request { ttl: Duration::from_secs(10_000), ..ask("ann", &["a"]) };
    let longer = store.grant(&longer).remove(0).lease;
    assert!(longer.expires_at > first.lease.expires_at);
    assert_eq!(longer.ttl, Duration::from_secs(10_000));
}

#[test]
fn an_upgrade_is_refused_while_others_share_and_granted_afterwards() {
    let world = World::new();
    let mut store = world.store();
    let shared = store.take("ann", &["shared:a"]).remove(0);
    store.take("bob", &["shared:a"]);
    assert_eq!(holders(&store.refuse("ann", &["a"])), ["bob: a"]);
    assert_eq!(store.locks().unwrap()[0].mode, Mode::Shared, "a refused upgrade changes nothing");
    store.give_back("bob", &["a"]);
    let exclusive = store.take("ann", &["a"]).remove(0);
    assert_eq!((exclusive.mode, &exclusive.id), (Mode::Exclusive, &shared.id));
    assert!(exclusive.fence > shared.fence);
    assert_eq!(store.log().last().unwrap(), "lock.upgraded");
    assert_eq!(world.count("lock"), 1);
    store.refuse("bob", &["shared:a"]);
}

#[test]
fn asking_for_less_keeps_the_stronger_mode() {
    let world = World::new();
    let mut store = world.store();
    let exclusive = store.take("ann", &["a"]).remove(0);
    let again = store.take("ann", &["shared:a"]).remove(0);
    assert_eq!((again.mode, again.fence), (Mode::Exclusive, exclusive.fence));
}

#[test]
fn a_target_wanted_twice_is_one_lock_in_its_stronger_mode() {
    let world = World::new();
    let mut store = world.store();
    let locks = store.take("ann", &["shared:a", "a", "shared:a"]);
    assert_eq!(locks.iter().map(|lock| lock.mode).collect::<Vec<_>>(), [Mode::Exclusive]);
    assert_eq!(world.count("lock"), 1);
}

#[test]
fn files_and_names_are_different_things() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["test"]);
    store.take("bob", &["name:test"]);
    assert_eq!(holders(&store.refuse("cleo", &["name:test"])), ["bob: test"]);
    assert_eq!(holders(&store.refuse("cleo", &["pattern:**"])), ["ann: test"]);
}

#[test]
fn every_conflict_is_reported_with_its_holder_and_nothing_is_taken() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("bob", &["shared:b", "name:test"]);
    store.take("cleo", &["shared:b", "pattern:src/**"]);
    let refusal = store.refuse("dan", &["src/x", "free", "name:test", "b", "a"]);
    let mut named = holders(&refusal);
    named.sort();
    assert_eq!(named, ["ann: a", "bob: b", "bob: test", "cleo: b", "cleo: src/**"]);
    let wanted: Vec<String> = refusal.conflicts.iter().map(|c| c.want.target.to_string()).collect();
    assert_eq!(wanted, ["a", "b", "b", "src/x", "test"], "in key order");
    assert!(store.held().iter().all(|lock| !lock.starts_with("dan")));
}

#[test]
fn later_holders_have_higher_fences() {
    let world = World::new();
    let mut store = world.store();
    let mut last = store.take("ann", &["a"])[0].fence;
    store.give_back("ann", &["a"]);
    for name in ["bob", "cleo", "ann"] {
        let fence = store.take(name, &["a"])[0].fence;
        assert!(fence > last);
        last = fence;
        store.give_back(name, &["a"]);
    }
}

#[test]
fn linked_worktrees_share_a_store_and_do_not_collide() {
    let world = World::new();
    world.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    world.git(&["worktree", "add", "-q", "../linked"]);
    let linked = Scope::discover(&world.root().with_file_name("linked")).unwrap();
    let (mut here, mut there) = (world.store(), Store::open(&linked).unwrap());
    assert_eq!(here.path(), there.path());
    here.take("ann", &["a", "pattern:src/**", "name:test"]);
    there.take("bob", &["a", "pattern:src/**", "name:test"]);
    assert_eq!(here.held(), ["ann: a", "ann: src/**", "ann: test"]);
    assert_eq!(there.held(), ["bob: a", "bob: src/**", "bob: test"]);
    assert_eq!(there.log().iter().filter(|kind| *kind == "lock.acquired").count(), 3);
    here.refuse("cleo", &["a"]);
}

#[test]
fn long_paths_and_paths_that_are_not_text_lock_like_any_other() {
    let world = World::new();
    let mut store = world.store();
    let raw = b"src/\xff\n'$(x)\".rs".to_vec();
    for name in ["x".repeat(300).into_bytes(), "d/".repeat(3_000).into_bytes(), raw] {
        let want = Want { target: Target::File(key(&name)), aliases: Vec::new(), mode: Mode::Exclusive };
        let request = |agent| Request { wants: vec![want.clone()], ..ask(agent, &[]) };
        let lock = granted(store.reserve(&request("ann")).unwrap()).remove(0);
        assert_eq!(lock.target.as_bytes(), name);
        assert_eq!(store.holders(&want).unwrap(), [lock]);
        assert!(store.reserve(&request("bob")).is_ok_and(|o| matches!(o, mala_store::Outcome::Refused(_))));
    }
}

#[test]
fn ids_of_many_locks_are_all_different() {
    let world = World::new();
    let mut store = world.store();
    let names: Vec<String> = (0..3_000).map(|number| format!("file-{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let locks = store.take("ann", &names);
    let ids: std::collections::HashSet<_> = locks.iter().map(|lock| lock.id.clone()).collect();
    assert_eq!((locks.len(), ids.len()), (3_000, 3_000));
    assert_eq!(store.locks().unwrap(), locks);
}
