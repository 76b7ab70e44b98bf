//! `mala mcp`: the commands as tools, to clients that speak the Model Context Protocol.

mod bad_input;
mod calls;
mod clients;
mod endings;
mod official;
mod trees;
mod waits;

use std::path::Path;

use mala_tests::{Mcp, World};

use crate::cli::{done, mala};

/// A checkout with two tracked files, in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

/// A client that nobody supervises.
fn client(world: &World) -> Mcp {
    Mcp::start(world, &mala(world, ["mcp"]))
}

/// A client of a server in the process tree of an agent.
fn client_of(world: &World, agent: &str) -> Mcp {
    Mcp::start(world, &mala(world, ["exec", "--agent", agent, "--", crate::cli::MALA, "mcp"]))
}

fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
