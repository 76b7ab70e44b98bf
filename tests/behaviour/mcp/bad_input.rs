//! What makes no sense is answered in words, and the server lives on.

use std::fs;

use mala_tests::{Mcp, World};
use serde_json::{Value, json};

use super::{client, world};
use crate::cli::mala;

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn lines_that_are_no_messages_are_answered() {
    let world = world();
    let mut client = Mcp::start_silent(&world, &mala(&world, ["mcp"]));
    for garbage in ["hello", "{", "\u{1f980}", "[1,2]", "null", "{\"id\": 1}"] {
        client.say(garbage);
        let answer = client.hear();
        assert!(answer["error"]["message"].is_string(), "{garbage}: {answer}");
    }
    // A response and a notification, before there was anything that they could be about.
    client.say(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    let early = client.ask("tools/list", &json!({}));
    assert!(client.answer(early)["error"]["message"].is_string());
    let hello = json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let id = client.ask("initialize", &hello);
    let version = client.answer(id)["result"]["protocolVersion"].clone();
    assert!(version.as_str().unwrap() > "2025", "a version that it does speak: {version}");
    client.done("lock_acquire", &json!({"paths": ["free.txt"]}));
}

#[test]
fn hostile_names_are_just_names() {
    let world = world();
    let mut client = client(&world);
    let names = [
        "it's \"quoted\"",
        "$(touch pwned)",
        "`touch pwned`",
        "two\nlines",
        "\u{1f980} \u{202e}rtl",
        "--agent=other",
        "-",
        "a;touch pwned",
        "\u{1b}[31mred",
        "nul\u{0}inside",
    ];
    for name in names {
        let result = client.call("lock_acquire", &json!({"paths": [name], "literal": true, "reason": name}));
        if name.contains('\0') {
            assert_eq!(result["isError"], true, "no file can be called so: {result}");
            continue;
        }
        assert_eq!(result["structuredContent"]["granted"][0]["path"], *name, "{result}");
        assert_eq!(result["structuredContent"]["granted"][0]["reason"], *name);
        client.done("lock_release", &json!({"paths": [name], "literal": true}));
    }
    assert!(!world.root().join("pwned").exists());
}

#[test]
fn a_megabyte_is_taken_or_refused_and_never_the_end() {
    let world = world();
    let mut client = client(&world);
    let long = "x".repeat(1 << 20);
    for (tool, arguments) in [
        ("lock_acquire", json!({"paths": [long]})),
        ("lock_acquire", json!({"paths": ["free.txt"], "wait": long})),
        ("lock_ask", json!({"path": "held.txt", "why": long})),
        ("lock_answer", json!({"ask": long, "answer": "release"})),
        ("test_run", json!({"command": ["true", long]})),
        ("commit", json!({"message": "m", "paths": [long]})),
        ("message_send", json!({"body": long})),
        ("message_send", json!({"body": "m", "to": [long]})),
        ("message_inbox", json!({"limit": i64::MAX})),
        ("message_inbox", json!({"cursor": -1})),
        ("issue_note", json!({"issue": long, "text": "m"})),
        ("gate_check", json!({"commit": long})),
    ] {
        let result = client.call(tool, &arguments);
        assert!(!text(&result).is_empty(), "{tool}");
    }
    let many: Vec<String> = (0..2_000).map(|n| format!("many/{n}")).collect();
    assert_eq!(
        client.done("lock_acquire", &json!({"paths": many}))["granted"].as_array().unwrap().len(),
        2_000
    );
    client.done("lock_release", &json!({"all": true}));
}

#[test]
fn where_mala_cannot_work_every_call_says_why() {
    let world = World::new();
    let elsewhere = world.base().join("no-checkout");
    fs::create_dir(&elsewhere).unwrap();
    let server = mala(&world, ["-C", elsewhere.to_str().unwrap(), "mcp"]);
    let mut client = Mcp::start(&world, &server);
    for (tool, arguments) in [("lock_status", json!({})), ("test_run", json!({"command": ["true"]}))] {
        let refused = client.refused(tool, &arguments);
        assert!(text(&refused).contains("git") && text(&refused).contains("next:"), "{refused}");
    }
    world.write("mala.toml", "[lock]\nttl = 7\n");
    let mut client = super::client(&world);
    let refused = client.refused("lock_acquire", &json!({"paths": ["a"]}));
    assert!(text(&refused).contains("ttl"), "{refused}");
    world.write("mala.toml", "");
    client.done("lock_acquire", &json!({"paths": ["a"]}));
    // Another file in its place, as a person might put it there.
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::remove_file(world.state_dir().join(name)).unwrap();
    }
    fs::write(world.state_dir().join("state.db"), "no database").unwrap();
    let refused = client.refused("lock_acquire", &json!({"paths": ["b"]}));
    assert!(text(&refused).contains("state.db"), "{refused}");
}
