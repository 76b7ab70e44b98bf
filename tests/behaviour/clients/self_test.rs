//! Before the first issue is given out, `mala run` proves that what protects agents works.
//!
//! The client is a script here: what is proven comes before it is started.

use std::fs;

use mala_tests::World;
use serde_json::Value;

use crate::cli::{Answer, done, held, mala};

/// A checkout with an issue for an agent of kind claude, whose profile has this environment.
fn world(env: &str) -> World {
    let world = World::new();
    let client = world.base().join("client.sh");
    let started = world.base().join("started");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"MALA-OUTCOME: no-change: it works"}"#;
    fs::write(&client, format!("touch '{}'; cat > /dev/null; echo '{result}'\n", started.display())).unwrap();
    let settings = format!(
        "[issues]\nsource = \"builtin\"\n[run]\nprofile = \"claude\"\nno_change = \"close\"\n[agents.claude]\ncommand = [\"sh\", \"{}\"]\nenv = {{ {env} }}\n",
        client.display()
    );
    world.write("mala.toml", &settings);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "issue add --id bd-1 Work");
    world
}

fn run(world: &World) -> Answer {
    mala(world, ["run", "--json"]).output().unwrap().into()
}

#[test]
fn before_the_first_issue_the_kernel_and_the_clients_hook_are_proven() {
    let world = world("");
    let answer = run(&world);
    assert_eq!(answer.code, 0, "{answer:?}");
    let log = done(&world, "logs list --self-tests --json --limit 1000").json();
    let events: Vec<&Value> = log["events"].as_array().unwrap().iter().collect();
    let is_refusal = |event: &&&Value| {
        event["kind"] == "write.refused"
            && event["agent"].as_str().is_some_and(|agent| agent.starts_with("self-test-"))
    };
    let refused: Vec<&&Value> = events.iter().filter(is_refusal).collect();
    let by_hook = |event: &&&Value| event["detail"]["by"] == "hook";
    assert_eq!(refused.iter().filter(|event| by_hook(event)).count(), 1, "by the hook: {refused:?}");
    assert_eq!(refused.iter().filter(|event| !by_hook(event)).count(), 1, "by the kernel: {refused:?}");
    let claim = events.iter().find(|event| event["kind"] == "run.started");
    let claimed_at = claim.expect("the run is in the log")["seq"].as_i64().unwrap();
    assert!(refused.iter().all(|event| event["seq"].as_i64().unwrap() < claimed_at), "all of it before");
    let of_agents = done(&world, "logs list --json").json()["events"].as_array().unwrap().clone();
    assert!(
        of_agents.iter().all(|event| event["kind"] != "write.refused" && event["kind"] != "lock.refused"),
        "no agent was refused anything: {of_agents:?}"
    );
    let tried = refused[0]["agent"].as_str().unwrap();
    let named = done(&world, &format!("logs list --agent {tried} --kind write.refused --json")).json();
    assert_eq!(named["events"].as_array().unwrap().len(), 2, "who is asked for by name is shown: {named}");
    assert_eq!(held(&world), [], "and nothing of it is left");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_hook_that_does_not_work_keeps_a_run_from_beginning() {
    // An environment in which mala refuses to judge anything.
    let world = world("MALA_LOCK_TTL = \"soon\"");
    let answer = run(&world);
    assert_eq!(answer.code, 1, "{answer:?}");
    for words in ["none was started", "the hook of claude (profile `claude`)", "MALA_LOCK_TTL", "mala doctor"]
    {
        assert!(answer.err.contains(words) || answer.out.contains(words), "no word of {words:?}: {answer:?}");
    }
    assert!(!world.base().join("started").exists(), "no agent was started");
    assert_eq!(done(&world, "issue show bd-1 --json").json()["issue"]["status"], "open");
    assert_eq!(held(&world), []);
}
