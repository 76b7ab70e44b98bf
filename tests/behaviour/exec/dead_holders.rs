//! A dead holder's lock is free at once, and its programs die a moment later. Every way to the file waits for them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mala_core::{AgentId, Mode};
use mala_sandbox::has_writers;
use mala_session::{acquire_or_wait, transfer};
use mala_store::{Outcome, Party, Request, Store, Wait, Which, process};
use mala_tests::World;
use serde_json::json;

use super::{exec, world};
use crate::cli::{MALA, mala, run};

const FILE: &str = "free.txt";
const SECOND: Duration = Duration::from_secs(1);

/// `dead` held the file, and is: a program of its still has it open for writing, for a second.
fn orphan_a_writer(world: &World) {
    let script = format!("sleep 1 3>> {FILE} & echo ready; wait");
    let mut holder = world.command("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = holder.id().to_string();
    let taken =
        mala(world, ["lock", "acquire", FILE, "--agent", "dead", "--owner-pid", &pid]).output().unwrap();
    assert!(taken.status.success(), "{taken:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(has_writers(&world.root().join(FILE)).unwrap());
}

/// A way to the file, by name.
type Way<'a> = (&'a str, &'a dyn Fn(&World));

/// Whoever has the file now has it for itself.
fn assert_closed(world: &World, way: &str) {
    assert!(!has_writers(&world.root().join(FILE)).unwrap(), "`{way}` did not wait for the dead's writer");
}

#[test]
fn every_command_waits_for_what_a_dead_holder_left_open() {
    let write = |root: &Path| {
        json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": root, "tool_name": "Write",
            "tool_input": { "file_path": root.join(FILE), "content": "x" }, "tool_use_id": "t1" })
    };
    let hook = |world: &World| {
        let mut hook =
            mala(world, ["hook", "claude"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        hook.stdin.take().unwrap().write_all(write(world.root()).to_string().as_bytes()).unwrap();
        let output = hook.wait_with_output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("deny"), "{output:?}");
    };
    let line = |line: &'static str| move |world: &World| assert_eq!(run(world, line).code, 0, "{line}");
    let ways: [Way<'_>; 6] = [
        ("lock acquire", &line("lock acquire free.txt --agent next")),
        ("lock acquire --wait", &line("lock acquire free.txt --agent next --wait 5s")),
        ("lock ask", &line("lock ask free.txt --agent next --why test")),
        ("hook", &hook),
        ("exec", &|world| assert_eq!(exec(world, "next", "echo next >> free.txt").code, 0)),
        ("lock acquire in a tree", &|world| {
            assert_eq!(exec(world, "next", &format!("{MALA} lock acquire free.txt")).code, 0);
        }),
    ];
    for (way, take) in ways {
        let world = world();
        orphan_a_writer(&world);
        take(&world);
        assert_closed(&world, way);
    }
}

/// An agent of this process.
fn party(name: &str) -> Party {
    let agent = AgentId::new(name).unwrap();
    Party { agent, owner: process::current(), supervised: false, issue: None, run: None }
}

fn wish(world: &World) -> Request {
    let want =
        world.scope().want(world.root(), FILE.as_ref(), Mode::Exclusive, mala_core::claim::Reading::Literal);
    Request { party: party("next"), wants: vec![want.unwrap()], ttl: 60 * SECOND, reason: None }
}

#[test]
fn a_parked_agent_that_gets_its_file_waits_for_what_a_dead_holder_left_open() {
    let world = world();
    orphan_a_writer(&world);
    let mut store = Store::open(&world.scope()).unwrap();
    let wait = Wait { longest: 5 * SECOND, on_behalf_of: None, remind_every: None };
    let outcome = acquire_or_wait(&world.scope(), &mut store, &wish(&world), wait, |_| ()).unwrap();
    assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
    assert_closed(&world, "parking");
}

#[test]
fn a_transfer_moves_nothing_that_a_dead_program_has_open() {
    let world = world();
    let mut store = Store::open(&world.scope()).unwrap();
    store.join(&party("next")).unwrap();
    orphan_a_writer(&world);
    let (from, to) = (AgentId::new("dead").unwrap(), party("next").agent);
    let moved = transfer(&world.scope(), &mut store, None, (&from, &to), &Which::All);
    let held = store.locks().unwrap();
    let has_it = held.iter().any(|lock| lock.agent == to && lock.target.to_string() == FILE);
    assert!(!has_it || !has_writers(&world.root().join(FILE)).unwrap(), "{moved:?}");
}
