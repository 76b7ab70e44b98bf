//! What the clients really tell their hooks, kept in `tests/clients/fixtures` for whoever parses it.
//!
//! A test compares every payload with the file of its name, so a client that is moved to another version shows what has
//! changed. `MALA_RECORD=1 cargo test -p mala-tests recorded` writes the files anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use mala_tests::World;
use mala_tests::clients::{CODE_MODE, Client, Recorder, claude_hooks, codex_hooks, gemini_hooks};
use mala_tests::model::{Model, Script, call, javascript, patch, say};
use serde_json::{Value, json};

use super::{Claude, Gemini, MCP_SERVER, installed, with_mcp};

const CLAUDE_EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
];

const CODEX_EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
];

const GEMINI_EVENTS: &[&str] =
    &["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"];

const NOTEBOOK: &str = r#"{"cells":[{"cell_type":"code","execution_count":null,"id":"c1","metadata":{},"outputs":[],"source":["1"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}"#;

/// Whatever a patch of codex can do to files.
const PATCH: &str = "*** Add File: new.txt
+new
*** Update File: changed.txt
@@
-one
+two
*** Update File: moved.txt
*** Move to: there.txt
@@
-one
+two
*** Delete File: gone.txt";

/// `PreToolUse-Write`, with `-subagent` for a call of a sub-agent.
fn name(payload: &Value) -> String {
    let event = payload["hook_event_name"].as_str().unwrap();
    let tool = payload["tool_name"].as_str().or_else(|| payload["tool_calls"][0]["tool_name"].as_str());
    let source = payload["source"].as_str().filter(|source| *source != "startup");
    let whose = payload.get("agent_id").filter(|_| tool.is_some()).map(|_| "subagent");
    [Some(event), tool, source, whose].into_iter().flatten().collect::<Vec<_>>().join("-")
}

/// Compares the payloads, the first of each name, with the fixtures of a client.
fn compare(client: &str, payloads: Vec<Value>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/fixtures").join(client);
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    for payload in payloads {
        seen.entry(name(&payload)).or_insert(payload);
    }
    if std::env::var_os("MALA_RECORD").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, payload) in &seen {
            fs::write(folder.join(format!("{name}.json")), format!("{payload:#}\n")).unwrap();
        }
    }
    let fixtures = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let known: BTreeMap<String, Value> = fixtures
        .map(|path| {
            let payload = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), payload)
        })
        .collect();
    assert_eq!(
        seen.keys().collect::<Vec<_>>(),
        known.keys().collect::<Vec<_>>(),
        "{client}: other hooks fired"
    );
    for (name, payload) in &seen {
        assert_eq!(payload, &known[name], "{client}: {name}\nnow: {payload:#}\nbefore: {:#}", known[name]);
    }
}

#[test]
fn claude_tells_its_hooks_what_the_fixtures_say() {
    let Some(installed) = installed() else { return };
    let world = World::new();
    world.write("book.ipynb", NOTEBOOK);
    let claude = Claude(&world);
    let book = world.root().join("book.ipynb");
    let model = Model::start();
    let talk = model.talk(
        Script::from([
            claude.write("a.txt", "one\n"),
            claude.edit("a.txt", "one", "two"),
            claude.bash("cat a.txt"),
            claude.bash("cat a.txt; exit 3"),
            call("ToolSearch", json!({"query": "select:NotebookEdit,Monitor", "max_results": 2})),
            call(
                "Monitor",
                json!({"command": "echo x > w.txt", "description": "watch", "timeout_ms": 5000, "persistent": false}),
            ),
            claude.read("book.ipynb"),
            call(
                "NotebookEdit",
                json!({"notebook_path": book, "cell_id": "c1", "new_source": "2", "edit_mode": "replace"}),
            ),
            claude.save("m.txt", "saved\n"),
            claude.delegate("PART: write a file."),
            say("done"),
            // Should the monitored command end only now, it wakes the model once more.
            say("done"),
        ])
        .when("PART: write")
        .then(claude.write("part.txt", "part\n"))
        .then(say("done")),
    );
    let recorder = Recorder::new(&world);
    let client =
        Client::claude(installed, &world, &talk).settings(claude_hooks(&recorder.command(), CLAUDE_EVENTS));
    let home = client.home().to_owned();
    let ended = with_mcp(client).run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    compare("claude", recorder.payloads(&world, &home));
}

/// Codex with a hook on every event.
fn codex(world: &World, model_name: &'static str, script: Script) -> Vec<Value> {
    let Some(installed) = installed() else { return Vec::new() };
    let model = Model::start();
    let talk = model.talk(script);
    let recorder = Recorder::new(world);
    let client = Client::codex(installed, world, &talk).model(model_name);
    let client = codex_hooks(client, &recorder.command(), CODEX_EVENTS);
    let client =
        client.arg("-c").arg(format!(r#"mcp_servers.files={{command="node",args=["{MCP_SERVER}"]}}"#));
    let home = client.home().to_owned();
    let ended = client.run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    recorder.payloads(world, &home)
}

#[test]
fn codex_tells_its_hooks_what_the_fixtures_say() {
    let world = World::new();
    for file in ["sub/keep.txt", "changed.txt", "moved.txt", "gone.txt"] {
        world.write(file, "one\n");
    }
    let script = Script::from([
        patch(PATCH),
        call("exec_command", json!({"cmd": "cat ../new.txt; exit 3", "workdir": "sub"})),
        // A shell that waits for input gets it without a hook.
        call("exec_command", json!({"cmd": "cat > typed.txt", "tty": true, "yield_time_ms": 250})),
        call("write_stdin", json!({"session_id": 1, "chars": "typed\n\u{4}"})),
        say("done"),
    ]);
    let payloads = codex(&world, "gpt-5.5", script);
    if !payloads.is_empty() {
        compare("codex", payloads);
    }
}

#[test]
fn codex_in_code_mode_tells_its_hooks_what_the_fixtures_say() {
    let world = World::new();
    let save = json!({"path": world.root().join("m.txt"), "text": "saved\n"});
    let script = Script::from([
        javascript(
            r#"text(await tools.apply_patch("*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"))"#,
        ),
        javascript(r#"text(await tools.exec_command({cmd: "cat a.txt; exit 3"}))"#),
        javascript(&format!("text(await tools.mcp__files__save({save}))")),
        call(
            "collaboration.spawn_agent",
            json!({"task_name": "part", "message": "PART: write a file.", "fork_turns": "none"}),
        ),
        call("collaboration.wait_agent", json!({"timeout_ms": 60000})),
        say("done"),
        say("done"),
    ])
    .when("PART: write")
    .then(javascript(
        r#"text(await tools.apply_patch("*** Begin Patch\n*** Add File: p.txt\n+p\n*** End Patch\n"))"#,
    ))
    .then(say("done"));
    let payloads = codex(&world, CODE_MODE, script);
    if !payloads.is_empty() {
        compare("codex-code-mode", payloads);
    }
}

#[test]
fn gemini_tells_its_hooks_what_the_fixtures_say() {
    let Some(installed) = installed() else { return };
    let world = World::new();
    let gemini = Gemini(&world);
    let model = Model::start();
    let talk = model.talk([
        gemini.write("a.txt", "one\n"),
        gemini.replace("a.txt", "one", "two"),
        gemini.shell("cat a.txt; exit 3"),
        say("done"),
    ]);
    let recorder = Recorder::new(&world);
    let hooks = gemini_hooks(&recorder.command(), GEMINI_EVENTS);
    let client = Client::gemini(installed, &world, &talk).settings(hooks);
    let home = client.home().to_owned();
    let ended = client.run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    compare("gemini", recorder.payloads(&world, &home));
}
