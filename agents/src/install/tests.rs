use proptest::prelude::*;
use serde_json::Value;

use super::*;

const JSON_CLIENTS: [Client; 3] = [Client::Claude, Client::Codex, Client::Gemini];

fn installed(client: Client, existing: Option<&str>) -> String {
    plan(client, existing, "mala").unwrap().text
}

/// Put in, put in again, and taken out: the bytes are the same.
fn check_round(client: Client, text: &str) {
    let with = installed(client, Some(text));
    assert_ne!(with, text, "nothing was put in");
    assert_eq!(installed(client, Some(&with)), with, "a second time changes something");
    if client != Client::Gemini {
        let value: Value = serde_json::from_str(&with).unwrap_or_else(|error| panic!("{error}\n{with}"));
        for event in events(client) {
            let groups = value["hooks"][event].as_array().unwrap();
            let mine = groups.iter().filter(|group| group.to_string().contains(" hook "));
            assert_eq!(mine.count(), 1, "{event}\n{with}");
        }
        assert!(client != Client::Claude || value["disableAllHooks"] == false);
    }
    let lone = |text: &str| text.replace("\r\n", "").contains('\n');
    assert!(!text.contains("\r\n") || lone(text) || !lone(&with), "other line ends:\n{with:?}");
    assert_eq!(remove(client, &with).unwrap(), Removal::Text(text.to_owned()), "not as it was:\n{with}");
}

const SHAPES: &[&str] = &[
    "",
    "\n",
    " \r\n\t",
    "{}",
    "{}\n",
    "{ }",
    "{\n}\n",
    "{\r\n}\r\n",
    "{\"a\":1}",
    "{\"a\": 1}\n",
    "{\n  \"a\": 1\n}\n",
    "{\n  \"a\": 1\n}",
    "{\n\t\"a\": {\n\t\t\"b\": [1, 2]\n\t}\n}\n",
    "{\r\n    \"a\": 1,\r\n    \"b\": \"x\\\"{}\"\r\n}\r\n",
    "  {\"a\":1}  \n\n",
    "{\"hooks\":{}}",
    "{\"hooks\": { }}",
    "{\n  \"hooks\": {\n  }\n}\n",
    "{\"hooks\":{\"PreToolUse\":[],\"BeforeTool\":[]}}",
    "{\"hooks\":{\"PreToolUse\":[ ],\"Stop\":[\n]}}",
    "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[{\"type\":\"command\",\"command\":\"./x.sh\"}]}]}}",
    "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          { \"type\": \"command\", \"command\": \"say done\" }\n        ]\n      }\n    ]\n  },\n  \"model\": \"m\"\n}\n",
    "{\n  \"model\": \"m\",\n  \"hooks\": {\n    \"Other\": [1]\n  }\n}\n",
    "{\"disableAllHooks\": false}",
    "{\"disableAllHooks\":false,\"hooks\":{\"Stop\":[]}}",
    "{\"hooks\":{\"Stop\":[]},\"disableAllHooks\": false}\n",
    "{\"é\": \"\\u00e9\u{1F600}\"}",
];

#[test]
fn what_was_there_stays_and_comes_back_exactly() {
    for client in JSON_CLIENTS {
        for shape in SHAPES {
            check_round(client, shape);
        }
    }
}

/// The same for mala's tools. A file with a server of that name is not touched.
fn check_server_round(client: Client, text: &str) {
    let plan = |text: &str| server::plan(client, Some(text), "/my tools/mala").unwrap().unwrap().text;
    let with = plan(text);
    assert_ne!(with, text, "nothing was put in");
    assert_eq!(plan(&with), with, "a second time changes something");
    assert_eq!(server::command(client, &with).unwrap(), ["/my tools/mala", "mcp"], "{with}");
    assert_eq!(
        server::remove(client, &with).unwrap(),
        Removal::Text(text.to_owned()),
        "not as it was:\n{with}"
    );
    let moved = server::plan(client, Some(&with), "mala").unwrap().unwrap().text;
    assert_eq!(server::command(client, &moved).unwrap(), ["mala", "mcp"], "{moved}");
}

const SERVERS: &[&str] = &[
    "{\"mcpServers\":{}}",
    "{\"mcpServers\": { }}\n",
    "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n",
    "{\"a\": 1, \"mcpServers\": {\"other\": {\"url\": \"y\"}}, \"b\": [2]}",
];

#[test]
fn tools_come_and_go_without_a_trace() {
    for client in [Client::Claude, Client::Gemini] {
        for shape in SHAPES.iter().chain(SERVERS) {
            check_server_round(client, shape);
        }
    }
    for shape in [
        "",
        "model = \"x\"",
        "model = \"x\"\n",
        "a = 1\r\n[features]\r\nhooks = true\r\n",
        "[mcp_servers.other]\ncommand = \"y\"\n\n# the end",
    ] {
        check_server_round(Client::Codex, shape);
    }
}

#[test]
fn a_file_that_mala_made_for_its_tools_is_deleted_again() {
    for client in JSON_CLIENTS {
        let text = server::plan(client, None, "mala").unwrap().unwrap().text;
        assert_eq!(server::plan(client, Some(&text), "mala").unwrap().unwrap().text, text);
        assert_eq!(server::remove(client, &text).unwrap(), Removal::Delete, "{text}");
    }
    assert_eq!(server::plan(Client::Opencode, None, "mala").unwrap(), None, "its plugin has them");
    assert!(installed(Client::Opencode, None).contains("config.mcp = { mala: {"));
}

#[test]
fn hooks_and_tools_can_share_a_file() {
    for shape in SHAPES {
        let hooks = installed(Client::Gemini, Some(shape));
        let both = server::plan(Client::Gemini, Some(&hooks), "mala").unwrap().unwrap().text;
        assert_eq!(server::remove(Client::Gemini, &both).unwrap(), Removal::Text(hooks.clone()));
        assert_eq!(hook_command(Client::Gemini, &both), hook_command(Client::Gemini, &hooks));
    }
}

#[test]
fn a_server_of_the_same_name_that_is_not_ours_stays() {
    for (client, text) in [
        (
            Client::Claude,
            "{\n  \"mcpServers\": {\n    \"mala\": {\n      \"command\": \"mala\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
        ),
        (Client::Gemini, "{\"mcpServers\": {\"mala\": {\"url\": \"x\"}}} // mine"),
        (Client::Codex, "[mcp_servers.mala]\ncommand = \"mala\"\nargs = [\"-C\", \"..\", \"mcp\"]\n"),
    ] {
        assert_eq!(server::plan(client, Some(text), "/other/mala").unwrap().unwrap().text, text);
        assert_eq!(server::remove(client, text).unwrap(), Removal::Unchanged);
    }
}

#[test]
fn files_to_which_no_server_can_be_added_are_named() {
    let error = |client, text| server::plan(client, Some(text), "mala").unwrap_err().to_string();
    assert!(
        error(Client::Claude, "{\n  \"a\": ,\n}").starts_with("`.mcp.json` cannot be read at line 2, column")
    );
    assert!(
        error(Client::Claude, "{\"mcpServers\": []}")
            .contains("`mcpServers` in `.mcp.json` is not an object")
    );
    assert!(
        error(Client::Codex, "a = 1\nb = \n").starts_with("`.codex/config.toml` cannot be read at line 2")
    );
    assert!(error(Client::Codex, "mcp_servers = {}\n").starts_with("`.codex/config.toml` cannot be read"));
}

#[test]
fn comments_and_trailing_commas_stay_in_a_file_that_may_have_them() {
    for shape in [
        "// mine\n{\n  // a\n  \"a\": 1, // b\n  /* c */\n}\n",
        "{ /* nothing */ }",
        "{\"hooks\": {\"BeforeTool\": [1,],},}",
    ] {
        check_round(Client::Gemini, shape);
        let error = plan(Client::Claude, Some(shape), "mala").unwrap_err();
        assert!(matches!(error, InstallError::Syntax { .. }), "{error}");
    }
}

#[test]
fn a_file_that_mala_made_is_deleted_again() {
    for client in Client::ALL {
        let text = installed(client, None);
        assert_eq!(plan(client, Some(&text), "mala").unwrap().text, text);
        assert_eq!(remove(client, &text).unwrap(), Removal::Delete, "{text}");
    }
}

#[test]
fn a_new_file_reads_like_one_written_by_hand() {
    let text = installed(Client::Codex, None);
    let start = "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      \
                 { \"hooks\": [{ \"type\": \"command\", \"command\": \"mala hook codex\", \"timeout\": 30 }] }\n    ],\n    \
                 \"PostToolUse\": [\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with("    ]\n  }\n}\n"), "{text}");
    let root: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = root.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["hooks"], "codex refuses the whole file for any other key");
}

#[test]
fn new_lines_are_indented_like_those_around_them() {
    let text = installed(Client::Codex, Some("{\n\t\"description\": \"x\"\n}\n"));
    assert!(
        text.starts_with("{\n\t\"description\": \"x\",\n\t\"hooks\": {\n\t\t\"PreToolUse\": [\n\t\t\t{ "),
        "{text}"
    );
}

#[test]
fn claude_is_told_to_stop_when_the_hook_fails() {
    let text = installed(Client::Claude, None);
    let root: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(root["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"], "block");
    assert_eq!(root["hooks"]["PreToolUse"][0]["matcher"], "*");
    assert_eq!(root["disableAllHooks"], false);
}

#[test]
fn hooks_of_an_older_place_are_replaced_and_those_of_others_kept() {
    let old = plan(Client::Claude, Some("{\"a\":1}"), "/old place/mala").unwrap().text;
    let new = installed(Client::Claude, Some(&old));
    assert!(!new.contains("/old place") && new.contains("\"mala hook claude\""));
    assert_eq!(new, installed(Client::Claude, Some("{\"a\":1}")));
    let shared = r#"{"hooks":{"Stop":[{"hooks":[{"command":"mala hook claude"},{"command":"say"}]}]}}"#;
    let without = r#"{"hooks":{"Stop":[{"hooks":[{"command":"say"}]}]}}"#;
    assert_eq!(remove(Client::Claude, shared).unwrap(), Removal::Text(without.to_owned()));
}

#[test]
fn commands_that_only_look_similar_are_not_ours() {
    for command in
        ["echo mala hook claude2", "notmala hook claude", "mala hook codex", "mala hook", "hook claude"]
    {
        let text = format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{{\"command\":\"{command}\"}}]}}]}}}}");
        assert_eq!(remove(Client::Claude, &text).unwrap(), Removal::Unchanged, "{command}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone_and_named() {
    let error = |text: &str| plan(Client::Claude, Some(text), "mala").unwrap_err();
    let broken = error("{\n  \"a\": ,\n}").to_string();
    assert!(broken.starts_with("`.claude/settings.json` cannot be read at line 2, column"), "{broken}");
    assert!(matches!(error("[]"), InstallError::Kind { .. }));
    assert!(matches!(error("{\"hooks\": null}"), InstallError::Kind { .. }));
    assert!(matches!(error("{\"hooks\": {\"Stop\": {}}}"), InstallError::Kind { .. }));
    assert!(matches!(error("{\"hooks\": {}, \"hooks\": {}}"), InstallError::Twice { .. }));
    assert!(matches!(error("{\"disableAllHooks\": true}"), InstallError::SwitchedOff { .. }));
    assert!(matches!(error(&"[".repeat(100_000)), InstallError::Syntax { .. }));
    let foreign = plan(Client::Opencode, Some("export const X = 1"), "mala").unwrap_err();
    assert!(matches!(foreign, InstallError::Foreign { .. }));
}

/// JSON in many layouts.
fn json_text() -> impl Strategy<Value = String> {
    let blank = || prop::sample::select(vec!["", " ", "\n", "\n  ", "\r\n\t"]);
    let leaf = prop::sample::select(vec!["1", "null", "\"x\"", "true", "\"]}\"", "{}", "[]"])
        .prop_map(str::to_owned);
    let value = leaf.prop_recursive(3, 24, 4, move |inner| {
        let element = (blank(), inner.clone(), blank()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        let member = (blank(), "[a-d]", blank(), inner, blank())
            .prop_map(|(a, key, b, value, c)| format!("{a}\"{key}\":{b}{value}{c}"));
        prop_oneof![
            prop::collection::vec(element, 1..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 1..4).prop_map(|items| format!("{{{}}}", items.join(","))),
        ]
    });
    let event = prop::sample::select(vec!["PreToolUse", "Stop", "BeforeTool", "Else"]);
    let hooks = (event, prop::collection::vec((blank(), value.clone(), blank()), 0..3), blank(), blank());
    let hooks = hooks.prop_map(|(event, items, a, b)| {
        let items: Vec<String> = items.into_iter().map(|(a, value, b)| format!("{a}{value}{b}")).collect();
        let inside = if items.is_empty() { a.to_owned() } else { items.join(",") };
        format!("{{{b}\"{event}\":{a}[{inside}]{b}}}")
    });
    let members = prop_oneof![
        value.prop_map(|value| ("x".to_owned(), value)),
        hooks.prop_map(|hooks| ("hooks".to_owned(), hooks)),
    ];
    let root = (blank(), prop::option::of((members, blank(), blank())), blank(), blank());
    root.prop_map(|(before, member, inside, behind)| match member {
        None => format!("{before}{{{inside}}}{behind}"),
        Some(((key, value), a, b)) => format!("{before}{{{a}\"{key}\":{b}{value}{inside}}}{behind}"),
    })
}

proptest! {
    #[test]
    fn any_file_comes_back_exactly(text in json_text(), client in prop::sample::select(JSON_CLIENTS.to_vec())) {
        check_round(client, &text);
        if client != Client::Codex {
            check_server_round(client, &text);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        for client in JSON_CLIENTS {
            let _ = plan(client, Some(&text), "mala");
            let _ = remove(client, &text);
            let _ = server::plan(client, Some(&text), "mala");
            let _ = server::remove(client, &text);
        }
    }
}

#[test]
fn what_switches_hooks_off_is_known() {
    for (client, text) in [
        (Client::Claude, "{\"a\": 1, \"disableAllHooks\": true}"),
        (Client::Gemini, "{ // mine\n\"hooksConfig\": {\"enabled\": false}, }"),
        (Client::Codex, "[features]\nhooks = false\n"),
    ] {
        assert!(switches_off(client, text), "{client}");
    }
    for (client, text) in [
        (Client::Claude, "{\"disableAllHooks\": false}"),
        (Client::Claude, "{\"x\": {\"disableAllHooks\": true}}"),
        (Client::Claude, "nonsense"),
        (Client::Gemini, "{\"hooksConfig\": {\"enabled\": true}}"),
        (Client::Codex, "[features]\nother = false\n"),
    ] {
        assert!(!switches_off(client, text), "{client}: {text}");
    }
}

#[test]
fn the_command_of_a_hook_is_found_among_others() {
    for client in JSON_CLIENTS {
        let event = events(client)[0];
        let other = format!(
            "{{\"hooks\": {{\"{event}\": [{{\"hooks\": [{{\"type\": \"command\", \"command\": \"./x.sh\"}}]}}]}}}}"
        );
        assert_eq!(hook_command(client, &other), None);
        let with = plan(client, Some(&other), "/my tools/mala").unwrap().text;
        let command = format!("'/my tools/mala' hook {client}");
        assert_eq!(hook_command(client, &with), Some(command));
    }
    let plugin = plan(Client::Opencode, None, "mala").unwrap().text;
    assert_eq!(hook_command(Client::Opencode, &plugin).as_deref(), Some("mala hook opencode"));
}
