use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hook::parse;

const EVENTS: [&str; 10] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
    "Notification",
];
const GEMINI_EVENTS: [&str; 7] =
    ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd", "Notification"];

fn call(client: Client, event: &str) -> HookCall {
    let payload = json!({
        "session_id": "s", "cwd": "/w", "hook_event_name": event, "tool_name": "Bash",
        "tool_input": {"command": "pytest", "description": "run"},
    });
    parse(client, payload.to_string().as_bytes()).unwrap()
}

fn said(client: Client, event: &str, answer: &Answer) -> Value {
    let rendered = render(&call(client, event), answer);
    assert_eq!((rendered.code, rendered.stderr.as_str()), (0, ""), "{client} {event}");
    serde_json::from_str(&rendered.stdout).unwrap()
}

fn deny() -> Answer {
    Answer::Deny { reason: "held by B".to_owned() }
}

fn rewrite() -> Answer {
    Answer::Allow { context: None, rewrite: Some("mala test -- pytest".to_owned()) }
}

#[test]
fn a_refused_tool_is_refused_in_each_clients_own_words() {
    let claude_like = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "held by B"
    }});
    assert_eq!(said(Client::Claude, "PreToolUse", &deny()), claude_like);
    assert_eq!(said(Client::Codex, "PreToolUse", &deny()), claude_like);
    assert_eq!(
        said(Client::Gemini, "BeforeTool", &deny()),
        json!({"decision": "deny", "reason": "held by B"})
    );
    assert_eq!(said(Client::Opencode, "PreToolUse", &deny()), json!({"deny": "held by B"}));
}

#[test]
fn a_call_is_put_off_where_the_client_can_do_that_and_refused_elsewhere() {
    let defer = Answer::Defer { reason: "held by B".to_owned() };
    let output = &said(Client::Claude, "PreToolUse", &defer)["hookSpecificOutput"];
    assert_eq!(
        (&output["permissionDecision"], &output["permissionDecisionReason"]),
        (&"defer".into(), &"held by B".into())
    );
    for (client, event) in
        [(Client::Codex, "PreToolUse"), (Client::Gemini, "BeforeTool"), (Client::Opencode, "PreToolUse")]
    {
        assert_eq!(said(client, event, &defer), said(client, event, &deny()));
    }
}

#[test]
fn a_plain_yes_leaves_the_decision_to_the_person_at_the_client() {
    for answer in [Answer::Continue, Answer::Allow { context: None, rewrite: None }] {
        for client in Client::ALL {
            let event = if client == Client::Gemini { "BeforeTool" } else { "PreToolUse" };
            assert_eq!(said(client, event, &answer), json!({}), "{client}");
        }
    }
}

#[test]
fn a_rewritten_command_keeps_the_rest_of_the_input() {
    let input = json!({"command": "mala test -- pytest", "description": "run"});
    let claude = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": input}});
    assert_eq!(said(Client::Claude, "PreToolUse", &rewrite()), claude);
    let codex = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input
    }});
    assert_eq!(said(Client::Codex, "PreToolUse", &rewrite()), codex);
    let mut bypassing = call(Client::Claude, "PreToolUse");
    bypassing.permission_mode = Some("bypassPermissions".to_owned());
    let rendered: Value = serde_json::from_str(&render(&bypassing, &rewrite()).stdout).unwrap();
    assert_eq!(rendered, codex);
    let gemini = json!({"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": input}});
    assert_eq!(said(Client::Gemini, "BeforeTool", &rewrite()), gemini);
    assert_eq!(said(Client::Opencode, "PreToolUse", &rewrite()), json!({"args": input}));
}

#[test]
fn a_stopping_agent_is_sent_back_with_the_reason() {
    let back = Answer::SendBack { reason: "tests are missing".to_owned() };
    let block = json!({"decision": "block", "reason": "tests are missing"});
    assert_eq!(said(Client::Claude, "Stop", &back), block);
    assert_eq!(said(Client::Claude, "SubagentStop", &back), block);
    assert_eq!(said(Client::Codex, "Stop", &back), block);
    let deny = json!({"decision": "deny", "reason": "tests are missing"});
    assert_eq!(said(Client::Gemini, "AfterAgent", &back), deny);
    assert_eq!(said(Client::Opencode, "Stop", &back), json!({"send_back": "tests are missing"}));
}

#[test]
fn context_reaches_the_agent_where_the_client_passes_it_on() {
    let context = Answer::Context("B asks for src/a.rs".to_owned());
    for client in Client::ALL {
        let events: &[&str] = if client == Client::Gemini { &GEMINI_EVENTS } else { &EVENTS };
        for event in events {
            let said = said(client, event, &context);
            let reaches = match client {
                Client::Opencode => said.get("context").is_some(),
                _ => said.pointer("/hookSpecificOutput/additionalContext").is_some(),
            };
            let carries = carries_context(&call(client, event));
            assert!(
                reaches == carries || (client == Client::Opencode && !carries),
                "{client} {event} {said}"
            );
        }
    }
    // As context it would make a stopping agent go on.
    assert!(said(Client::Claude, "Stop", &context).get("hookSpecificOutput").is_none());
}

/// The fields Codex accepts; with any other it ignores the whole answer.
fn is_known_to_codex(event: &str, answer: &Value) -> bool {
    let top = [
        "continue",
        "decision",
        "reason",
        "stopReason",
        "suppressOutput",
        "systemMessage",
        "hookSpecificOutput",
    ];
    let inner: &[&str] = match event {
        "PreToolUse" => &[
            "hookEventName",
            "permissionDecision",
            "permissionDecisionReason",
            "updatedInput",
            "additionalContext",
        ],
        "PostToolUse" | "SessionStart" | "UserPromptSubmit" | "SubagentStart" => {
            &["hookEventName", "additionalContext"]
        }
        _ => &[],
    };
    let keys = |value: &Value| {
        value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    keys(answer).iter().all(|key| top.contains(&key.as_str()))
        && keys(&answer["hookSpecificOutput"]).iter().all(|key| inner.contains(&key.as_str()))
}

fn answers(text: &str) -> [Answer; 6] {
    let text = || text.to_owned();
    [
        Answer::Allow { context: Some(text()), rewrite: Some(text()) },
        Answer::Allow { context: None, rewrite: None },
        Answer::Deny { reason: text() },
        Answer::Context(text()),
        Answer::Continue,
        Answer::SendBack { reason: text() },
    ]
}

/// What every answer must be, whatever is in it.
fn check(client: Client, event: &str, rendered: &Rendered) {
    match rendered.code {
        0 => {
            let value: Value = serde_json::from_str(&rendered.stdout).unwrap();
            assert!(value.is_object());
            assert!(client != Client::Codex || is_known_to_codex(event, &value), "{event} {value}");
            assert!(value.get("continue").is_none(), "a tool would still run");
            assert!(rendered.stdout.len() < 120_000, "{}", rendered.stdout.len());
        }
        2 => assert!(rendered.stdout.is_empty() && !rendered.stderr.trim().is_empty()),
        code => panic!("{client} {event} ends with {code}"),
    }
}

#[test]
fn every_answer_to_every_event_is_valid_for_hostile_text() {
    let long = "x\u{1F600}\"\\".repeat(1_000);
    let hostile = [
        "",
        " \n ",
        "a\nb\"c'd\\e",
        "\u{1b}[2J\u{7}\u{0}",
        "\u{202E}evil",
        &long,
        "$(reboot) `reboot`",
        "</script>",
    ];
    for text in hostile {
        for client in Client::ALL {
            let events: &[&str] = if client == Client::Gemini { &GEMINI_EVENTS } else { &EVENTS };
            for event in events {
                for answer in answers(text) {
                    check(client, event, &render(&call(client, event), &answer));
                }
                check(client, event, &render_failure(Some(&call(client, event)), text));
            }
            check(client, "", &render_failure(None, text));
        }
    }
}

#[test]
fn a_refusal_always_has_a_reason_without_control_characters() {
    for reason in ["", "\u{1b}[31m\u{8}", &"é".repeat(100_000)] {
        let said = said(Client::Codex, "PreToolUse", &Answer::Deny { reason: reason.to_owned() });
        let reason = said.pointer("/hookSpecificOutput/permissionDecisionReason").unwrap().as_str().unwrap();
        assert!(!reason.is_empty() && reason.chars().count() <= MAX_REASON);
        assert!(!reason.chars().any(char::is_control));
    }
}

#[test]
fn when_mala_fails_nothing_is_written_and_nobody_runs_in_circles() {
    for client in Client::ALL {
        let (before, stop) = match client {
            Client::Gemini => ("BeforeTool", "AfterAgent"),
            _ => ("PreToolUse", "Stop"),
        };
        assert_eq!(render_failure(None, "bad JSON").code, 2);
        let rendered = render_failure(Some(&call(client, before)), "the store cannot be read");
        assert_eq!((rendered.code, rendered.stderr.as_str()), (2, "the store cannot be read\n"));
        let mut stopping = call(client, stop);
        assert_eq!(render_failure(Some(&stopping), "x").code, 2);
        stopping.was_sent_back = true;
        assert_eq!(render_failure(Some(&stopping), "x").code, 0);
        assert_eq!(render_failure(Some(&call(client, "SessionStart")), "x").code, 0);
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_valid_answer(text in any::<String>(), client in 0..4_usize, event in 0..7_usize) {
        let client = Client::ALL[client];
        let event = if client == Client::Gemini { GEMINI_EVENTS[event] } else { EVENTS[event] };
        for answer in answers(&text) {
            check(client, event, &render(&call(client, event), &answer));
        }
    }
}
