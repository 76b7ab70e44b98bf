//! However a client leaves, nothing of it stays.

use std::fs;

use mala_tests::{Mcp, World, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::{client, client_of, is_running, world};
use crate::cli::{held, pair};

/// A client with a lock, a wait, and a test that never ends; with the pids of the server and the test.
struct Busy {
    client: Mcp,
    server: u32,
    test: u32,
}

impl Busy {
    fn start(world: &World, mut client: Mcp) -> Self {
        let pid = world.base().join("pid");
        client.done("lock_acquire", &json!({"paths": ["free.txt"]}));
        client.begin("lock_acquire", &json!({"paths": ["held.txt"], "wait": "10m"}));
        // First of all: whoever runs a test does not queue for files.
        eventually("the call waits", || world.count("waiter") == 1);
        let script =
            format!("echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 0.05; done", pid.display());
        client.begin("test_run", &json!({"command": ["sh", "-c", script]}));
        eventually("the test runs", || pid.exists());
        let test = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        fs::remove_file(pid).unwrap();
        Self { server: client.server_pid(), client, test }
    }

    /// Everything is as if it had never been there.
    fn assert_gone(world: &World, server: u32, test: u32) {
        eventually("the server has ended", || !is_running(server));
        eventually("the test has ended", || !is_running(test));
        eventually("its locks are free", || held(world) == [pair("held.txt", "other")]);
    }
}

#[test]
fn the_end_of_the_input_ends_everything() {
    let world = world();
    for client in [client(&world), client_of(&world, "ann")] {
        let Busy { client, server, test } = Busy::start(&world, client);
        let (status, said) = client.leave();
        assert!(status.success(), "{status}");
        assert!(said.iter().all(|line| line.starts_with('{')), "nothing but messages: {said:?}");
        assert_eq!(world.count("waiter"), 0);
        Busy::assert_gone(&world, server, test);
    }
}

#[test]
fn a_signal_ends_everything() {
    let world = world();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let Busy { client, server, test } = Busy::start(&world, client(&world));
        kill(Pid::from_raw(i32::try_from(server).unwrap()), signal).unwrap();
        eventually("the server has ended", || !is_running(server));
        assert_eq!(world.count("waiter"), 0);
        drop(client);
        Busy::assert_gone(&world, server, test);
    }
}

#[test]
fn a_server_that_is_killed_takes_its_tests_with_it() {
    let world = world();
    let Busy { client, server, test } = Busy::start(&world, client(&world));
    kill(Pid::from_raw(i32::try_from(server).unwrap()), Signal::SIGKILL).unwrap();
    eventually("the test has ended", || !is_running(test));
    drop(client);
    Busy::assert_gone(&world, server, test);
}

#[test]
fn a_client_that_says_nothing_gets_a_quiet_end() {
    let world = world();
    let (status, said) = Mcp::start_silent(&world, &crate::cli::mala(&world, ["mcp"])).leave();
    assert!(status.success() && said.is_empty(), "{status} {said:?}");
}
