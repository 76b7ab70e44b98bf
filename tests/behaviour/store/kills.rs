//! `kill -9` at any moment: no lock stays behind, and no half change.

use std::time::Duration;

use mala_tests::invariants::{assert_one_sweep_leaves_nothing, assert_sound};
use mala_tests::{Program, World, eventually};

use crate::programs::{LOCK_STORM, WAIT_LOOP};

const STORMS: usize = 6;
const KILLS: usize = 300;
const BATCH: usize = 30;

fn storm(world: &World, number: usize) -> Program {
    Program::start(world.command(LOCK_STORM).arg(world.root()).arg(format!("storm-{number}")))
}

#[test]
fn three_hundred_kills_in_a_storm_leave_no_lock_and_no_half_change() {
    let world = World::new();
    world.store();
    let mut storms: Vec<Program> = (0..STORMS).map(|number| storm(&world, number)).collect();
    eventually("the storm has begun", || world.count("event") > 0);
    for kill in 1..=KILLS {
        std::thread::sleep(Duration::from_micros(fastrand::u64(..15_000)));
        let number = fastrand::usize(..STORMS);
        storms[number].kill();
        storms[number] = storm(&world, number);
        if kill % BATCH == 0 {
            for storm in &mut storms {
                assert!(!storm.has_ended(), "a storm has failed by itself");
            }
            assert_sound(&world);
        }
    }
    drop(storms);
    assert_sound(&world);
    assert_one_sweep_leaves_nothing(&world);
    for kind in [
        "lock.acquired",
        "lock.orphaned",
        "lock.expired",
        "lock.transferred",
        "wait.started",
        "wait.abandoned",
    ] {
        assert!(world.count(&format!("event WHERE kind = '{kind}'")) > 0, "the storm has seen no `{kind}`");
    }
}

#[test]
fn whoever_is_killed_in_the_queue_the_others_are_never_left_asleep() {
    let world = World::new();
    world.store();
    let wait_loop = |number: usize| {
        Program::start(world.command(WAIT_LOOP).arg(world.root()).arg(format!("loop-{number}")))
    };
    let mut loops: Vec<Program> = (0..STORMS).map(wait_loop).collect();
    for _ in 0..KILLS / 5 {
        std::thread::sleep(Duration::from_micros(fastrand::u64(..5_000)));
        let number = fastrand::usize(..STORMS);
        loops[number].kill();
        for (other, patient) in loops.iter().enumerate() {
            if other != number {
                while patient.heard_already().is_some() {}
                patient.expect("round");
            }
        }
        loops[number] = wait_loop(number);
    }
    drop(loops);
    assert_sound(&world);
    assert_one_sweep_leaves_nothing(&world);
}
