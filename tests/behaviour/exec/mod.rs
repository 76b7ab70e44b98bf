//! `mala exec`: ownership is physical.

mod ancestors;
mod dead_holders;
mod deputy;
mod ends;
mod fallback;
mod git_commands;
mod hand_overs;
mod ignored;
mod programs;
mod reach;
mod signals;
mod staged;
mod writes;

use std::fs;

use mala_tests::World;

use crate::cli::{Answer, done, mala};

/// Runs a shell script as an agent under enforcement.
fn exec(world: &World, agent: &str, script: &str) -> Answer {
    mala(world, ["exec", "--agent", agent, "--", "sh", "-c", script]).output().unwrap().into()
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.root().join(path)).unwrap_or_default()
}

/// A checkout in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}
