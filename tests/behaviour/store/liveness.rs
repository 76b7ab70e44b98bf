//! A lock lives and dies with its owner's process.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use mala_core::Owner;
use mala_store::{Party, Standing, process};
use mala_tests::ask::ask_as;
use mala_tests::invariants::{assert_one_sweep_leaves_nothing, assert_sound};
use mala_tests::{ONLY_THE_DEAD, Terse, World, party};

use crate::cli::{done, held, mala};
use crate::programs::{holder, puppet};

const ALL_KINDS: &[&str] = &["file", "pattern:src/**", "name:test"];

fn owned_by(name: &str, owner: Owner) -> Party {
    Party { owner, supervised: true, ..party(name) }
}

#[test]
fn kill_9_frees_files_patterns_and_names_for_the_next_asker_at_once() {
    let world = World::new();
    let mut store = world.store();
    let mut ann = holder(&world, "ann", &ALL_KINDS.join(" "));
    assert_eq!(store.refuse("bob", ALL_KINDS).conflicts.len(), 3);
    ann.kill();
    assert!(store.held().is_empty());
    store.take("bob", ALL_KINDS);
    assert_eq!(store.log().iter().filter(|kind| *kind == "lock.orphaned").count(), 3);
    assert_sound(&world);
}

#[test]
fn a_live_holder_keeps_its_locks_even_when_it_is_stopped() {
    let world = World::new();
    let mut store = world.store();
    let ann = holder(&world, "ann", "a");
    store.refuse("bob", &["a"]);
    ann.stop();
    store.refuse("bob", &["a"]);
    ann.resume();
    assert_eq!(store.held(), ["ann: a"]);
}

#[test]
fn the_same_pid_with_another_start_time_is_another_process() {
    let world = World::new();
    let mut store = world.store();
    let me = process::current();
    let earlier = Owner { start_time: me.start_time - 1, ..me };
    store.grant(&ask_as(&owned_by("ann", earlier), &["a"]));
    assert!(store.held().is_empty());
    store.take("bob", &["a"]);
    assert_eq!(store.held(), ["bob: a"]);
}

/// What is held of a lock whose owner ran before the machine was restarted, with `change` made to what is known of it.
fn held_after_restart(change: &str) -> usize {
    let world = World::new();
    done(&world, "lock acquire a --agent ann");
    world.sql().execute_batch(&format!("UPDATE process SET boot_id = 'before' {change}")).unwrap();
    held(&world).len()
}

#[test]
fn a_restart_of_the_machine_ends_everything_from_before() {
    assert_eq!(held_after_restart(""), 0);
}

#[test]
fn a_container_with_the_same_host_name_is_not_this_machine_before_a_restart() {
    for change in [", node = 'another'", ", node = NULL", ", host = 'another'"] {
        assert_eq!(held_after_restart(change), 1, "{change}");
    }
}

#[test]
fn without_a_home_nothing_fails_and_what_was_before_a_restart_is_left_to_its_lease() {
    let world = World::new();
    let acquire = |agent: &str| {
        let mut mala = mala(&world, ["lock", "acquire", "a", "--agent", agent]);
        mala.env_remove("HOME").env_remove("XDG_STATE_HOME").status().unwrap().code()
    };
    assert_eq!(acquire("ann"), Some(0));
    world.sql().execute_batch("UPDATE process SET boot_id = 'before'").unwrap();
    assert_eq!(acquire("bob"), Some(1));
}

#[test]
fn a_process_of_another_host_is_never_judged_by_its_pid() {
    let world = World::new();
    let mut store = world.store();
    let nowhere =
        Owner { host: "elsewhere".into(), boot_id: "other".into(), pid: u32::MAX, start_time: 1, node: None };
    store.grant(&ask_as(&owned_by("ann", nowhere), &["a"]));
    assert_eq!(store.held(), ["ann: a"]);
    store.refuse("bob", &["a"]);
    assert!(store.sweep(ONLY_THE_DEAD).unwrap().is_empty());
}

#[test]
fn a_new_session_of_the_same_name_does_not_inherit_what_the_old_one_left() {
    let world = World::new();
    let mut store = world.store();
    let mut old = holder(&world, "ann", "a b");
    old.kill();
    let fence = store.take("ann", &["a"])[0].fence;
    assert_eq!(store.held(), ["ann: a"], "only what was asked for");
    let log = store.log();
    assert_eq!(log[3..], ["agent.joined", "lock.orphaned", "lock.acquired"]);
    assert!(fence.0 > 3);
    store.take("bob", &["b"]);
}

#[test]
fn a_sweep_puts_away_what_the_dead_left_and_says_what_it_was() {
    let world = World::new();
    let mut store = world.store();
    let mut ann = holder(&world, "ann", &ALL_KINDS.join(" "));
    store.take("bob", &["mine"]);
    ann.kill();
    let leftovers = store.leftovers(ONLY_THE_DEAD).unwrap();
    assert!(leftovers.locks.iter().all(|(_, standing)| *standing == Standing::Orphaned));
    assert_eq!(store.sweep(ONLY_THE_DEAD).unwrap(), leftovers);
    assert_eq!(leftovers.locks.len(), 3);
    assert!(store.sweep(ONLY_THE_DEAD).unwrap().is_empty());
    assert_eq!(store.held(), ["bob: mine"]);
    store.give_back("bob", &["mine"]);
    assert_one_sweep_leaves_nothing(&world);
}

#[test]
fn locks_live_with_the_owner_that_was_named_not_with_the_process_that_asked() {
    let world = World::new();
    let mut store = world.store();
    let mut session = puppet(&world, "nobody", &[]);
    let mut asker = puppet(&world, "ann", &[&format!("owner={}", session.pid())]);
    asker.tell("reserve a");
    asker.expect("granted 1");
    asker.kill();
    assert_eq!(store.held(), ["ann: a"]);
    session.kill();
    assert!(store.held().is_empty());
}

#[test]
fn whoever_watches_a_process_hears_of_its_end_and_can_be_told_to_stop() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let owner = process::Process::find(child.id()).unwrap().owner();
    let watch = |owner: Owner| {
        let (stopped, stop) = io::pipe().unwrap();
        (stop, thread::spawn(move || process::wait_for_end_until(&owner, stopped.as_fd())))
    };
    let (mut stop, watching) = watch(owner.clone());
    stop.write_all(&[0]).unwrap();
    assert!(!watching.join().unwrap(), "the process goes on");
    let (_stop, watching) = watch(owner);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(watching.join().unwrap(), "it has ended");
}
