//! Many at once: processes and threads that want the same.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mala_store::{Outcome, Released, Store, Which};
use mala_tests::invariants::assert_sound;
use mala_tests::{Program, Terse, World, agent, ask, wants};

use crate::programs::RESERVE_LOOP;

#[test]
fn thirty_two_processes_never_hold_one_file_twice_and_never_fail() {
    const PROCESSES: usize = 32;
    const ROUNDS: usize = 200;
    let world = World::new();
    let proof = world.base().join("proof");
    let mut racers: Vec<Program> = (0..PROCESSES)
        .map(|number| {
            let mut command = world.command(RESERVE_LOOP);
            command
                .arg(world.root())
                .arg(format!("racer-{number}"))
                .args(["a", &ROUNDS.to_string()])
                .arg(&proof);
            Program::start(&mut command)
        })
        .collect();
    for racer in &mut racers {
        racer.tell("go");
    }
    let mut wins = 0;
    for racer in racers {
        let (status, said) = racer.finish();
        assert!(status.success(), "a racer failed");
        wins += said[0].parse::<usize>().unwrap();
    }
    let count = |kind: &str| usize::try_from(world.count(&format!("event WHERE kind = '{kind}'"))).unwrap();
    assert_eq!((count("lock.acquired"), count("lock.released")), (wins, wins));
    assert_eq!(count("lock.acquired") + count("lock.refused"), PROCESSES * ROUNDS);
    assert!(wins > 0);
    assert_sound(&world);
}

#[test]
fn two_releases_at_once_both_succeed_and_one_event_is_written() {
    let world = World::new();
    let mut stores = [world.store(), world.store()];
    for round in 1..=100 {
        stores[0].take("ann", &["a"]);
        let start = Barrier::new(2);
        let freed: usize = thread::scope(|scope| {
            let releases = stores.each_mut().map(|store| {
                scope.spawn(|| {
                    start.wait();
                    match store.release(&agent("ann"), &Which::These(wants(&["a"]))).unwrap() {
                        Released::Done(locks) => locks.len(),
                        Released::NotYours(foreign) => panic!("{foreign:?}"),
                    }
                })
            });
            releases.into_iter().map(|release| release.join().unwrap()).sum()
        });
        assert_eq!(freed, 1);
        assert_eq!(world.count("event WHERE kind = 'lock.released'"), round);
    }
}

/// Takes all of `files` over and over; counts how often it got them.
fn fight_for(store: &mut Store, name: &str, files: &[&str], rounds: usize) -> usize {
    let mut wins = 0;
    for _ in 0..rounds {
        match store.reserve(&ask(name, files)).unwrap() {
            Outcome::Granted(locks) => {
                assert_eq!(locks.len(), files.len());
                wins += 1;
                assert_eq!(store.give_back(name, files), files.len());
            }
            Outcome::Refused(refusal) => {
                assert!(!refusal.conflicts.is_empty(), "a refusal names what is in the way");
                assert!(refusal.conflicts.iter().all(|conflict| conflict.holder.agent != agent(name)));
            }
        }
    }
    wins
}

#[test]
fn of_overlapping_sets_nobody_ever_holds_a_part() {
    let world = World::new();
    let sets: [(&str, &[&str]); 2] =
        [("ann", &["a", "b", "c", "pattern:src/**"]), ("bob", &["d", "c", "b", "src/x"])];
    let (start, done) = (Barrier::new(3), AtomicBool::new(false));
    let mut watcher = world.store();
    thread::scope(|scope| {
        let fights = sets.map(|(name, files)| {
            let (mut store, start) = (world.store(), &start);
            scope.spawn(move || {
                start.wait();
                fight_for(&mut store, name, files, 1_000)
            })
        });
        let watch = scope.spawn(|| {
            start.wait();
            while !done.load(Ordering::SeqCst) {
                let held = watcher.held();
                for (name, files) in sets {
                    let count = held.iter().filter(|lock| lock.starts_with(name)).count();
                    assert!(count == 0 || count == files.len(), "{name} holds a part: {held:?}");
                }
            }
        });
        let wins = fights.map(|fight| fight.join());
        done.store(true, Ordering::SeqCst);
        watch.join().unwrap();
        for wins in wins {
            assert!(wins.unwrap() > 0);
        }
    });
    assert_sound(&world);
}

#[test]
fn one_of_many_who_open_a_new_store_at_once_makes_it() {
    for _ in 0..10 {
        let world = World::new();
        let (scope, start) = (world.scope(), Barrier::new(8));
        thread::scope(|threads| {
            for number in 0..8 {
                let (scope, start) = (&scope, &start);
                threads.spawn(move || {
                    start.wait();
                    let mut store = Store::open(scope).unwrap();
                    store.take(&format!("agent-{number}"), &[&format!("file-{number}")]);
                });
            }
        });
        assert_eq!(world.store().held().len(), 8);
        let mode: String = world.sql().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}
