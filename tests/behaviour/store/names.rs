//! Named locks: one process at a time, and never part of a circle.

use std::process::{Command, Stdio};
use std::time::Duration;

use mala_store::{Outcome, Party, Wait, Which};
use mala_tests::{FOREVER, Terse, Waiter, World, agent, ask, ask_as, party};

/// A process that is there until it is killed.
fn sleeper() -> std::process::Child {
    Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("sleep runs")
}

fn owned_by(name: &str, child: &std::process::Child) -> Party {
    let process = mala_store::process::Process::find(child.id()).expect("it runs");
    Party { owner: process.owner(), supervised: true, ..party(name) }
}

#[test]
fn two_processes_of_one_agent_do_not_hold_a_name_together() {
    let world = World::new();
    let mut store = world.store();
    let mut child = sleeper();
    store.take("ann", &["name:test"]);
    let second = ask_as(&owned_by("ann", &child), &["name:test"]);
    assert!(matches!(store.reserve(&second).unwrap(), Outcome::Refused(_)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_name_ends_with_its_process_and_not_with_the_agents_other_locks() {
    let world = World::new();
    let mut store = world.store();
    let mut child = sleeper();
    let Outcome::Granted(locks) = store.reserve(&ask_as(&owned_by("ann", &child), &["name:test"])).unwrap()
    else {
        panic!("it is free")
    };
    store.take("ann", &["a"]);
    store.release(&agent("ann"), &Which::All).unwrap();
    assert_eq!(store.held(), ["ann: test"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.held(), Vec::<String>::new());
    // The next holder is not disturbed by a late release of the first one.
    store.take("ann", &["name:test"]);
    assert!(!store.release_one(&locks[0]).unwrap());
    assert_eq!(store.held(), ["ann: test"]);
}

#[test]
fn a_name_is_passed_on_to_the_next_process_of_the_same_agent() {
    let world = World::new();
    let mut store = world.store();
    let Outcome::Granted(locks) = store.reserve(&ask("ann", &["name:test"])).unwrap() else {
        panic!("it is free")
    };
    let next = Waiter::queue(&world, "ann", &["name:test"]);
    assert!(next.is_waiting());
    assert!(store.release_one(&locks[0]).unwrap());
    assert!(next.granted()[0].fence > locks[0].fence);
}

#[test]
fn waiting_for_a_name_is_never_refused_as_a_circle() {
    let world = World::new();
    let mut store = world.store();
    store.take("bob", &["a"]);
    let _ann = Waiter::queue(&world, "ann", &["a"]);
    // Another process of ann runs the tests; they end whatever bob does.
    let Outcome::Granted(locks) = store.reserve(&ask("ann", &["name:test"])).unwrap() else {
        panic!("it is free")
    };
    let bob = Waiter::queue(&world, "bob", &["name:test"]);
    assert!(bob.is_waiting());
    assert!(store.release_one(&locks[0]).unwrap());
    bob.granted();
}

#[test]
#[cfg(target_os = "linux")]
fn a_wait_ends_with_the_process_on_whose_behalf_it_was() {
    use mala_store::Cause;
    use mala_tests::eventually;
    use rustix::process::{PidfdFlags, pidfd_open};

    let world = World::new();
    let mut store = world.store();
    store.take("bob", &["name:test"]);
    let mut child = sleeper();
    let request = ask_as(&owned_by("ann", &child), &["name:test"]);
    let pid = rustix::process::Pid::from_child(&child);
    let mut waiting = world.store();
    let outcome = std::thread::scope(|threads| {
        let waits = threads.spawn(move || {
            let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            let on_behalf_of = Some(std::os::fd::AsFd::as_fd(&handle));
            let wait = Wait { longest: FOREVER, on_behalf_of, remind_every: None };
            waiting.reserve_or_wait(&request, wait, |_| ()).unwrap()
        });
        eventually("ann queues", || store.status().unwrap().waiting.len() == 1);
        child.kill().unwrap();
        child.wait().unwrap();
        waits.join().unwrap()
    });
    let Outcome::Refused(refusal) = outcome else { panic!("bob has it") };
    assert_eq!(refusal.cause, Cause::GivenUp);
    assert_eq!(store.status().unwrap().waiting, []);
}

#[test]
fn who_waits_is_told_again_who_is_in_the_way() {
    let world = World::new();
    let mut store = world.store();
    let Outcome::Granted(locks) = store.reserve(&ask("bob", &["name:test"])).unwrap() else {
        panic!("it is free")
    };
    let cleo = Waiter::queue(&world, "cleo", &["name:test"]);
    let (tell, told) = std::sync::mpsc::channel();
    let mut waiting = world.store();
    let ann = std::thread::spawn(move || {
        let wait =
            Wait { longest: FOREVER, on_behalf_of: None, remind_every: Some(Duration::from_secs(600)) };
        let tell = |conflicts: &[mala_core::Conflict]| {
            tell.send(conflicts.first().map(|conflict| conflict.holder.agent.to_string())).unwrap();
        };
        waiting.reserve_or_wait(&ask("ann", &["name:test"]), wait, tell).unwrap()
    });
    assert_eq!(told.recv().unwrap().as_deref(), Some("bob"));
    assert!(store.release_one(&locks[0]).unwrap());
    let lock = cleo.granted().remove(0);
    assert_eq!(told.recv().unwrap().as_deref(), Some("cleo"));
    assert!(store.release_one(&lock).unwrap());
    assert!(matches!(ann.join().unwrap(), Outcome::Granted(_)));
}
