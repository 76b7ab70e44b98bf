//! In an agent's process tree the supervisor answers, whatever the client forgot to hand on.

use mala_tests::Mcp;
use serde_json::json;

use super::{client_of, world};
use crate::cli::{MALA, held, mala, pair};

#[test]
fn a_server_in_an_agents_tree_acts_as_that_agent() {
    let world = world();
    let mut ann = client_of(&world, "ann");
    let answer = ann.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    assert_eq!(answer["granted"][0]["agent"], "ann");
    assert_eq!(held(&world), [pair("free.txt", "ann"), pair("held.txt", "other")]);
    let refused = ann.refused("lock_acquire", &json!({"paths": ["held.txt"]}));
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("`held.txt` is held by `other`"),
        "{refused}"
    );
    assert!(refused["structuredContent"]["hint"].as_str().unwrap().contains("lock_ask"), "{refused}");
    let message = "- \u{1f980}\n".repeat(5_000);
    ann.done("message_send", &json!({"body": message}));
    ann.done("lock_release", &json!({"all": true}));
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

#[test]
fn a_client_that_hands_no_variables_on_is_known_all_the_same() {
    let world = world();
    let path = std::env::var("PATH").unwrap();
    let bare = ["exec", "--agent", "ann", "--", "env", "-i", &format!("PATH={path}"), MALA, "mcp"];
    let mut ann = Mcp::start(&world, &mala(&world, bare));
    ann.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    assert_eq!(ann.done("test_run", &json!({"command": ["true"]}))["agent"], "ann");
    let lie =
        ["exec", "--agent", "bob", "--", "env", "-i", &format!("PATH={path}"), "MALA_AGENT=ann", MALA, "mcp"];
    let mut bob = Mcp::start(&world, &mala(&world, lie));
    bob.done("lock_acquire", &json!({"paths": ["of-bob.txt"]}));
    let all = [pair("free.txt", "ann"), pair("held.txt", "other"), pair("of-bob.txt", "bob")];
    assert_eq!(held(&world), all);
}

#[test]
fn tests_and_commits_in_a_tree_are_the_agents() {
    let world = world();
    let mut ann = client_of(&world, "ann");
    ann.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    let script = "echo ann was here > free.txt; echo tested";
    let tested = ann.done("test_run", &json!({"command": ["sh", "-c", script]}));
    assert_eq!(tested["agent"], "ann", "{tested}");
    assert!(tested["output"].as_str().unwrap().contains("tested"), "{tested}");
    let stolen = ann.refused("test_run", &json!({"command": ["sh", "-c", "echo mine > held.txt"]}));
    assert!(stolen["structuredContent"]["output"].as_str().unwrap().contains("held by `other`"), "{stolen}");
    let made = ann.done("commit", &json!({"message": "bd-3: ann was here"}));
    assert_eq!((&made["agent"], &made["files"]), (&json!("ann"), &json!(["free.txt"])), "{made}");
    assert_eq!(world.git(&["status", "--short"]), "");
    let verdict = ann.done("gate_check", &json!({"issue": "bd-3"}));
    assert_eq!(verdict["verdict"], "pass");
}
