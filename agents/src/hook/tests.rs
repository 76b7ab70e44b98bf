use serde_json::json;

use super::*;

fn call(value: &Value) -> Result<HookCall, PayloadError> {
    parse(Client::Claude, value.to_string().as_bytes())
}

fn before_tool() -> Value {
    json!({
        "session_id": "s1", "transcript_path": "/h/t.jsonl", "cwd": "/w", "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "/w/a"}, "tool_use_id": "t1"
    })
}

#[test]
fn a_call_is_read_and_what_a_client_adds_is_ignored() {
    let mut payload = before_tool();
    payload["brand_new"] = json!({"deep": [1, 2.5, -3, null, true]});
    payload["agent_id"] = json!("sub1");
    let call = call(&payload).unwrap();
    assert_eq!(call.event, Event::BeforeTool);
    assert_eq!((call.session.as_str(), call.cwd.to_str().unwrap()), ("s1", "/w"));
    assert_eq!(call.subagent.as_deref(), Some("sub1"));
    assert_eq!(call.transcript, Some(PathBuf::from("/h/t.jsonl")));
    assert_eq!(call.tool.unwrap().input, json!({"file_path": "/w/a"}));
}

#[test]
fn what_a_decision_needs_must_be_there_and_of_the_right_kind() {
    for field in ["hook_event_name", "session_id", "cwd", "tool_name", "tool_input"] {
        for wrong in [Some(json!(null)), Some(json!("")), Some(json!(7)), None] {
            let mut payload = before_tool();
            match &wrong {
                Some(wrong) => payload[field] = wrong.clone(),
                None => drop(payload.as_object_mut().unwrap().remove(field)),
            }
            let is_free = field == "tool_input" && wrong.as_ref().is_some_and(|wrong| !wrong.is_null());
            assert_eq!(call(&payload).is_err(), !is_free, "{field} {wrong:?}");
        }
    }
    for (field, wrong) in
        [("cwd", json!("w")), ("stop_hook_active", json!("yes")), ("transcript_path", json!(1))]
    {
        let mut payload = before_tool();
        payload[field] = wrong;
        assert!(call(&payload).is_err(), "{field}");
    }
}

#[test]
fn every_event_has_one_name_here_and_each_clients_own_there() {
    let event = |client, name: &str| {
        let mut payload = before_tool();
        payload["hook_event_name"] = json!(name);
        parse(client, payload.to_string().as_bytes()).unwrap().event
    };
    for (name, expected) in [
        ("SessionStart", Event::SessionStart),
        ("UserPromptSubmit", Event::PromptSubmit),
        ("PostToolUse", Event::AfterTool),
        ("PostToolUseFailure", Event::AfterToolFailed),
        ("Stop", Event::Stop),
        ("SubagentStart", Event::SubagentStart),
        ("SubagentStop", Event::SubagentStop),
        ("SessionEnd", Event::SessionEnd),
        ("PreCompact", Event::Other("PreCompact".to_owned())),
    ] {
        assert_eq!(event(Client::Codex, name), expected);
        assert_eq!(expected.name(Client::Codex), name);
    }
    for (name, expected) in [
        ("BeforeTool", Event::BeforeTool),
        ("AfterTool", Event::AfterTool),
        ("BeforeAgent", Event::PromptSubmit),
        ("AfterAgent", Event::Stop),
        ("PreToolUse", Event::Other("PreToolUse".to_owned())),
    ] {
        assert_eq!(event(Client::Gemini, name), expected);
        assert_eq!(expected.name(Client::Gemini), name);
    }
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    let text = before_tool().to_string();
    let with = |mark: &[u8]| parse(Client::Claude, &[mark, text.as_bytes()].concat());
    assert!(with(b"\xEF\xBB\xBF").is_ok());
    assert!(with(b"\xEF\xBB\xBF\xEF\xBB\xBF").is_err());
}

#[test]
fn what_is_not_one_json_object_in_utf8_is_an_error() {
    for bad in [
        &b""[..],
        b" \n",
        b"null",
        b"[]",
        b"{",
        b"{} {}",
        b"not json",
        b"{\"session_id\":\"\xff\"}",
        b"{\"session_id\":\"\\ud800\"}",
    ] {
        assert!(parse(Client::Claude, bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
    }
    for more in ["{}", "x", "\0"] {
        let text = format!("{} {more}", before_tool());
        assert!(parse(Client::Claude, text.as_bytes()).is_err(), "{more:?}");
    }
}

#[test]
fn a_key_that_occurs_twice_is_an_error_at_any_depth() {
    let text = before_tool().to_string();
    let twice = text.replacen('{', r#"{"cwd":"/elsewhere","#, 1);
    assert!(parse(Client::Claude, twice.as_bytes()).is_err());
    let deep = text.replace(r#"{"file_path":"/w/a"}"#, r#"{"x":[{"file_path":"/w/a","file_path":"/w/b"}]}"#);
    assert_ne!(deep, text);
    assert!(parse(Client::Claude, deep.as_bytes()).is_err());
}

#[test]
fn nesting_is_bounded_and_a_megabyte_is_read() {
    let mut payload = before_tool();
    payload["tool_input"] = json!({"file_path": "/w/a", "content": "é\n".repeat(400_000)});
    assert!(call(&payload).is_ok());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = before_tool().to_string().replace(r#"{"file_path":"/w/a"}"#, &deep);
    assert!(parse(Client::Claude, text.as_bytes()).is_err());
}

#[test]
fn names_in_a_call_are_short() {
    for field in ["session_id", "cwd", "transcript_path", "agent_id", "tool_name", "tool_use_id"] {
        let mut payload = before_tool();
        payload[field] = json!(format!("/{}", "a/".repeat(5_000)));
        let error = call(&payload).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("10001 bytes"), "{error}");
    }
}
