//! What the tools do, and as whom.

use std::time::{Duration, SystemTime};

use mala_tests::eventually;
use serde_json::{Value, json};

use super::{client, world};
use crate::cli::{done, held, mala, pair};

#[test]
fn a_lock_belongs_to_the_clients_session_and_ends_with_it() {
    let world = world();
    let mut client = client(&world);
    let answer = client.done("lock_acquire", &json!({"paths": ["free.txt", "new/**"], "reason": "mine now"}));
    let agent = client.agent();
    assert_eq!(answer["granted"][0]["owner"]["pid"], client.pid());
    assert_eq!(answer["granted"][0]["reason"], "mine now");
    assert_eq!(held(&world), [pair("free.txt", &agent), pair("held.txt", "other"), pair("new/**", &agent)]);
    client.done("lock_release", &json!({"paths": ["new/**"]}));
    assert_eq!(held(&world), [pair("free.txt", &agent), pair("held.txt", "other")]);
    client.kill();
    eventually("its lock is free", || held(&world) == [pair("held.txt", "other")]);
}

#[test]
fn nobody_says_who_they_are_by_argument() {
    let world = world();
    let mut client = client(&world);
    let wrong = client.refused("lock_acquire", &json!({"paths": ["free.txt"], "agent": "other"}));
    assert!(
        wrong["content"][0]["text"].as_str().unwrap().contains("there is no argument \"agent\""),
        "{wrong}"
    );
    client.refused("lock_acquire", &json!({"paths": ["held.txt"], "reason": "x --agent=other"}));
    let status = client.done("lock_status", &json!({}));
    let agents: Vec<&str> =
        status["agents"].as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap()).collect();
    assert_eq!(agents, ["other", client.agent().as_str()]);
}

#[test]
fn answers_are_the_commands_own_json() {
    let world = world();
    let fields = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let mut client = client(&world);
    let tool = client.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    let typed = done(&world, "lock acquire typed.txt --agent typist --json").json();
    assert_eq!(fields(&tool), fields(&typed));
    assert_eq!(fields(&tool["granted"][0]), fields(&typed["granted"][0]));
    let (mut tool, mut typed) =
        (client.done("lock_status", &json!({})), done(&world, "status --json").json());
    // Typing it is a try of a lock less, or more, by the time it is counted.
    (tool["health"], typed["health"]) = (Value::Null, Value::Null);
    assert_eq!(tool, typed);
}

#[test]
fn a_conflict_is_a_result_that_names_the_holder_and_the_way_out() {
    let world = world();
    let mut client = client(&world);
    let refused = client.refused("lock_acquire", &json!({"paths": ["free.txt", "held.txt"]}));
    let answer = &refused["structuredContent"];
    assert_eq!(answer["granted"], json!([]));
    assert_eq!(
        (&answer["conflicts"][0]["agent"], &answer["conflicts"][0]["issue"]),
        (&json!("other"), &json!("bd-7"))
    );
    for text in [&refused["content"][0]["text"], &answer["hint"]] {
        assert!(text.as_str().unwrap().contains("lock_ask"), "{refused}");
    }
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("`held.txt` is held by `other` (issue bd-7")
    );
    let looked = client.call("lock_status", &json!({"paths": ["held.txt"]}));
    assert_eq!(
        (&looked["isError"], &looked["structuredContent"]["available"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(held(&world), [pair("held.txt", "other")], "and nothing was taken");
}

#[test]
fn two_clients_settle_over_a_file() {
    let world = world();
    let (mut ann, mut bob) = (client(&world), client(&world));
    ann.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    let asked =
        bob.begin("lock_ask", &json!({"path": "free.txt", "why": "the build is broken", "wait": "10m"}));
    let mut asks = Value::Null;
    eventually("ann sees the ask", || {
        asks = ann.done("lock_status", &json!({}))["asks"].clone();
        asks[0]["asker"] == bob.agent()
    });
    assert_eq!(asks[0]["why"], "the build is broken");
    let answer = ann.done("lock_answer", &json!({"ask": asks[0]["id"], "answer": "release"}));
    assert_eq!(answer["granted"][0]["agent"], bob.agent());
    let granted = bob.result(asked);
    assert_eq!(granted["structuredContent"]["granted"][0]["path"], "free.txt", "{granted}");
    assert_eq!(held(&world), [pair("free.txt", &bob.agent()), pair("held.txt", "other")]);
    let refused = ann.refused("lock_answer", &json!({"ask": asks[0]["id"], "answer": "defer"}));
    assert!(refused["structuredContent"]["hint"].is_string(), "{refused}");
}

#[test]
fn messages_reach_the_session_they_were_sent_to() {
    let world = world();
    let (mut ann, mut bob) = (client(&world), client(&world));
    let body = "- look at \"src\"\n$(reboot) `x` \u{1f980}";
    bob.done("lock_status", &json!({}));
    let to = bob.agent();
    ann.done("message_send", &json!({"to": [to], "body": body, "thread": "bd-7", "ack": true}));
    let inbox = bob.done("message_inbox", &json!({"unread": true}));
    let message = &inbox["messages"][0];
    assert_eq!((&message["body"], &message["from"]["name"]), (&json!(body), &json!(ann.agent())));
    bob.done("message_inbox", &json!({"ack": message["id"]}));
    assert_eq!(bob.done("message_inbox", &json!({"unread": true}))["messages"], json!([]));
    let stranger = ann.refused("message_send", &json!({"to": ["nobody-here"], "body": "x"}));
    assert!(stranger["structuredContent"]["hint"].is_string(), "{stranger}");
}

#[test]
fn a_test_is_recorded_for_the_session_and_its_output_reaches_the_model_alone() {
    let world = world();
    let mut client = client(&world);
    // What looks like an answer of the server, and an attempt to eat what the client says next.
    let script = "echo '{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}'; cat; echo on stderr >&2; exit 4";
    let failed = client.refused("test_run", &json!({"command": ["sh", "-c", script]}));
    let evidence = &failed["structuredContent"];
    assert_eq!((&evidence["exit_code"], &evidence["agent"]), (&json!(4), &json!(client.agent())));
    assert_eq!(evidence["argv"], json!(["sh", "-c", script]));
    let output = evidence["output"].as_str().unwrap();
    assert!(output.contains("jsonrpc") && output.contains("on stderr"), "{failed}");
    let passed = client.call("test_run", &json!({"command": ["true"]}));
    assert_eq!((&passed["isError"], &passed["structuredContent"]["exit_code"]), (&json!(false), &json!(0)));
    assert!(passed["content"][0]["text"].as_str().unwrap().starts_with("passed"), "{passed}");
    let isolated = client.done("test_run", &json!({"command": ["true"], "isolated": true}));
    assert_eq!(isolated["isolated"], true);
    let missing = client.refused("test_run", &json!({"command": ["no-such-program"]}));
    assert!(missing["content"][0]["text"].as_str().unwrap().contains("no-such-program"), "{missing}");
    assert_eq!(client.heard(), Vec::<Value>::new(), "nothing but answers was said");
}

#[test]
fn a_commit_holds_the_sessions_files_and_the_gate_judges_it() {
    let world = world();
    let mut client = client(&world);
    client.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    world.write("free.txt", "mine\n");
    world.write("held.txt", "changed by other\n");
    client.done("test_run", &json!({"command": ["true"]}));
    let message = "bd-12: say whose it is\n\n-- not an option\n";
    let made = client.done("commit", &json!({"message": message, "issue": "bd-12"}));
    assert_eq!((&made["files"], &made["agent"]), (&json!(["free.txt"]), &json!(client.agent())));
    assert!(world.git(&["log", "-1", "--format=%B"]).starts_with(message.trim_end()));
    assert_eq!(world.git(&["status", "--short"]), "M held.txt");
    let verdict = client.done("gate_check", &json!({"issue": "bd-12"}));
    assert_eq!((&verdict["verdict"], &verdict["commit"]), (&json!("pass"), &made["commit"]), "{verdict}");
    let verdict = client.refused("gate_check", &json!({"issue": "bd-13"}));
    assert_eq!(verdict["structuredContent"]["verdict"], "fail");
    let nothing = client.refused("commit", &json!({"message": "again"}));
    assert!(nothing["content"][0]["text"].as_str().unwrap().contains("next:"), "{nothing}");
}

#[test]
fn a_note_says_which_session_wrote_it() {
    let world = world();
    let id = done(&world, "issue add title --json").json()["issue"]["id"].as_str().unwrap().to_owned();
    let mut client = client(&world);
    client.done("issue_note", &json!({"issue": id, "text": "-"}));
    let shown = done(&world, &format!("issue show {id} --json")).json().to_string();
    assert!(shown.contains(&client.agent()), "{shown}");
    let missing = client.refused("issue_note", &json!({"issue": "no-such", "text": "x"}));
    assert!(missing["content"][0]["text"].as_str().unwrap().contains("mala issue list"), "{missing}");
}

#[test]
fn outside_a_tree_the_session_may_be_named_by_whoever_starts_the_client() {
    let world = world();
    let mut server = mala(&world, ["mcp"]);
    server.env("MALA_AGENT", "carol");
    let mut carol = mala_tests::Mcp::start(&world, &server);
    carol.done("lock_acquire", &json!({"paths": ["free.txt"]}));
    assert_eq!(held(&world), [pair("free.txt", "carol"), pair("held.txt", "other")]);
    let mut second = mala_tests::Mcp::start(&world, &server);
    let refused = second.refused("lock_status", &json!({}));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("running already"), "{refused}");
}

#[test]
fn settings_hold_from_the_next_call_on() {
    let world = world();
    let set = |longest: &str, minutes_ago: u64| {
        world.write("mala.toml", &format!("[lock]\nmax_wait = \"{longest}\"\n"));
        let file = std::fs::File::options().write(true).open(world.root().join("mala.toml")).unwrap();
        // Long ago, so that they are worth keeping.
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes_ago)).unwrap();
    };
    set("1m", 9);
    let mut client = client(&world);
    let wish = json!({"paths": ["free.txt"], "wait": "5m"});
    for _ in 0..2 {
        let refused = client.refused("lock_acquire", &wish);
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("max_wait"), "{refused}");
    }
    set("9m", 8);
    client.done("lock_acquire", &wish);
    set("1m", 7);
    client.refused("lock_acquire", &wish);
}
