//! Long calls hold nobody up, and end when nobody wants them any more.

use std::fs;

use mala_tests::{Mcp, World, eventually};
use serde_json::{Value, json};

use super::{client, client_of, is_running, world};
use crate::cli::{done, held, pair};

/// Calls for a held file, and returns when the call stands in the queue.
fn queue(world: &World, client: &mut Mcp) -> i64 {
    let id = client.begin("lock_acquire", &json!({"paths": ["held.txt"], "wait": "10m"}));
    eventually("it waits", || world.count("waiter") == 1);
    id
}

/// Starts a test that writes its pid to `pid` and never ends, and returns the call and the pid.
fn endless_test(world: &World, client: &mut Mcp, trap: &str) -> (i64, u32) {
    let pid = world.base().join("pid");
    let script =
        format!("{trap} echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 0.05; done", pid.display());
    let id = client.begin("test_run", &json!({"command": ["sh", "-c", script]}));
    eventually("the test runs", || pid.exists());
    (id, fs::read_to_string(&pid).unwrap().trim().parse().unwrap())
}

fn is_test_free(world: &World) -> bool {
    done(world, "status --json").json()["mutexes"]
        .as_array()
        .unwrap()
        .iter()
        .all(|mutex| mutex["holder"] == Value::Null)
}

#[test]
fn a_call_that_waits_holds_up_no_other_and_gets_what_it_waits_for() {
    let world = world();
    let (mut ann, mut bob) = (client(&world), client(&world));
    ann.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    let waiting = bob.begin("lock_acquire", &json!({"paths": ["free.txt"], "wait": "10m"}));
    eventually("it waits", || world.count("waiter") == 1);
    bob.done("lock_acquire", &json!({"paths": ["beside.txt"]}));
    let ping = bob.ask("ping", &json!({}));
    assert_eq!(bob.answer(ping)["result"], json!({}));
    ann.done("lock_release", &json!({"all": true}));
    let granted = bob.result(waiting);
    assert_eq!(granted["structuredContent"]["granted"][0]["owner"]["pid"], bob.pid(), "{granted}");
    assert_eq!(
        held(&world),
        [pair("beside.txt", &bob.agent()), pair("free.txt", &bob.agent()), pair("held.txt", "other")]
    );
}

#[test]
fn a_cancelled_wait_leaves_the_queue_and_is_not_answered() {
    let world = world();
    for mut client in [client(&world), client_of(&world, "ann")] {
        let id = queue(&world, &mut client);
        client.cancel(id);
        eventually("it has left the queue", || world.count("waiter") == 0);
        client.done("lock_status", &json!({}));
        assert_eq!(client.heard(), Vec::<Value>::new(), "a cancelled request is not answered");
    }
    assert_eq!(world.wake_files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_cancelled_test_is_ended_and_the_next_has_its_turn() {
    let world = world();
    for mut client in [client(&world), client_of(&world, "ann")] {
        let (id, pid) = endless_test(&world, &mut client, "");
        client.cancel(id);
        eventually("the test has ended", || !is_running(pid));
        eventually("the turn is free", || is_test_free(&world));
        client.done("test_run", &json!({"command": ["true"]}));
        fs::remove_file(world.base().join("pid")).unwrap();
    }
}

#[test]
fn a_test_that_does_not_want_to_end_is_killed() {
    let world = world();
    for mut client in [client(&world), client_of(&world, "ann")] {
        let (id, pid) = endless_test(&world, &mut client, "trap '' TERM INT HUP;");
        client.cancel(id);
        eventually("the test has ended", || !is_running(pid));
        client.done("lock_status", &json!({}));
        fs::remove_file(world.base().join("pid")).unwrap();
    }
}

#[test]
fn two_tests_of_one_client_take_turns() {
    let world = world();
    let log = world.base().join("log");
    let script = format!("echo begin >> {0}; sleep 0.1; echo end >> {0}", log.display());
    let mut client = client(&world);
    let calls: Vec<i64> =
        (0..4).map(|_| client.begin("test_run", &json!({"command": ["sh", "-c", script]}))).collect();
    for id in calls {
        assert_eq!(client.result(id)["isError"], false);
    }
    assert_eq!(fs::read_to_string(log).unwrap(), "begin\nend\n".repeat(4));
}

#[test]
fn a_wait_tells_how_it_goes_to_whoever_asked_for_that() {
    let world = world();
    for mut client in [client(&world), client_of(&world, "ann")] {
        let call = json!({"name": "lock_acquire", "arguments": {"paths": ["held.txt"], "wait": "10m"},
            "_meta": {"progressToken": 17}});
        let id = client.ask("tools/call", &call);
        let told = client.hear();
        assert_eq!(
            (&told["method"], &told["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!(17))
        );
        assert!(told["params"]["message"].as_str().unwrap().contains("held by `other`"), "{told}");
        client.cancel(id);
        eventually("it has left the queue", || world.count("waiter") == 0);
    }
}

#[test]
fn a_wait_for_an_issue_ends_with_it_and_holds_up_no_other_call() {
    let world = world();
    for mut client in [client(&world), client_of(&world, "ann")] {
        let issue = done(&world, "issue add title --json").json()["issue"]["id"].as_str().unwrap().to_owned();
        let refused = client.refused("issue_wait", &json!({"issue": issue, "timeout": "20ms"}));
        assert_eq!(refused["structuredContent"]["state"], "timeout", "{refused}");
        let (waiting, cancelled) = (
            client.begin("issue_wait", &json!({ "issue": issue })),
            client.begin("issue_wait", &json!({ "issue": issue })),
        );
        client.done("lock_status", &json!({}));
        client.cancel(cancelled);
        done(&world, &format!("issue close {issue}"));
        let ended = client.result(waiting);
        assert_eq!(
            (&ended["isError"], &ended["structuredContent"]["state"]),
            (&json!(false), &json!("landed"))
        );
        assert!(ended["content"][0]["text"].as_str().unwrap().contains("has landed"), "{ended}");
        client.done("lock_status", &json!({}));
        assert_eq!(client.heard(), Vec::<Value>::new(), "a cancelled request is not answered");
        let missing = client.refused("issue_wait", &json!({"issue": "no-such"}));
        assert!(missing["content"][0]["text"].as_str().unwrap().contains("no-such"), "{missing}");
    }
}

#[test]
fn a_wait_that_is_over_says_so_and_what_to_do() {
    let world = world();
    let mut client = client(&world);
    let refused = client.refused("lock_acquire", &json!({"paths": ["held.txt"], "wait": "20ms"}));
    assert_eq!(refused["structuredContent"]["cause"], "timeout");
    assert!(refused["structuredContent"]["hint"].as_str().unwrap().contains("lock_ask"), "{refused}");
    let wrong = client.refused("lock_acquire", &json!({"paths": ["held.txt"], "wait": "soon"}));
    assert!(wrong["content"][0]["text"].as_str().unwrap().contains("soon"), "{wrong}");
}
