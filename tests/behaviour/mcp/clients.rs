//! The real agent clients, which start the server themselves, with a model that follows a script.

use std::fs;
use std::path::Path;

use mala_agents::Client as Kind;
use mala_agents::install::{self, server};
use mala_tests::World;
use mala_tests::clients::{CODE_MODE, Client, Ended, Installed};
use mala_tests::model::{Model, Reply, Talk, call, javascript, say};
use serde_json::{Value, json};

use super::world;
use crate::cli::{MALA, done, held, pair};

fn installed() -> Option<&'static Installed> {
    Installed::or_skip(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// What every client is made to do: lock a free file, fail to lock a held one, look around, and write to `other`.
fn steps() -> [(&'static str, Value); 4] {
    [
        ("lock_acquire", json!({"paths": ["free.txt"]})),
        ("lock_acquire", json!({"paths": ["held.txt"]})),
        ("lock_status", json!({})),
        ("message_send", json!({"to": ["other"], "body": "free.txt is mine for a while"})),
    ]
}

fn whoami() -> String {
    format!("{MALA} whoami --json")
}

/// The texts that the model was shown for its calls, in order.
fn told(talk: &Talk) -> Vec<String> {
    talk.results().into_iter().map(|result| result.text.replace("\\\"", "\"")).collect()
}

/// The results are those of `agent`, who is also whoever the client's shell speaks for.
fn assert_acts_as(world: &World, ended: &Ended, talk: &Talk, is_agent: impl Fn(&str) -> bool) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = told(talk);
    let me = told[4].split("\"agent\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    assert!(is_agent(me), "{me}: {told:#?}");
    assert!(told[0].contains(&format!("\"agent\":\"{me}\"")) && told[0].contains("free.txt"), "{told:#?}");
    assert!(told[1].contains("other") && told[1].contains("lock_ask"), "{told:#?}");
    assert!(told[2].contains(&format!("\"id\":\"{me}\"")), "{told:#?}");
    let inbox = done(world, "msg inbox --agent other --json").json();
    assert_eq!(inbox["messages"][0]["from"], json!({"kind": "agent", "name": me}), "{inbox}");
    assert_eq!(held(world), [pair("held.txt", "other")], "what it held is free again");
}

fn claude_script() -> mala_tests::model::Script {
    let call_of = |(tool, arguments): (&str, Value)| call(&format!("mcp__mala__{tool}"), arguments);
    let script = steps()
        .into_iter()
        .map(call_of)
        .fold(mala_tests::model::Script::default(), |script, step| script.then(step));
    let shell = call("Bash", json!({"command": whoami(), "description": "as the script says"}));
    script.then(shell).then(say("done"))
}

fn with_mala(client: Client<'_>) -> Client<'_> {
    let servers = json!({"mcpServers": {"mala": {"command": MALA, "args": ["mcp"]}}});
    client.arg("--strict-mcp-config").arg("--mcp-config").arg(servers.to_string())
}

#[test]
fn claude_calls_the_tools_as_its_own_session() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    let talk = model.talk(claude_script());
    let ended = with_mala(Client::claude(installed, &world, &talk)).run();
    assert_acts_as(&world, &ended, &talk, |agent| agent.starts_with("claude-"));
}

#[test]
fn claude_under_enforcement_calls_the_tools_as_its_agent() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    let talk = model.talk(claude_script());
    let ended = with_mala(Client::claude(installed, &world, &talk)).under(MALA, "ann").run();
    assert_acts_as(&world, &ended, &talk, |agent| agent == "ann");
}

/// Codex's model writes JavaScript, from which it calls the tools.
fn codex_script() -> mala_tests::model::Script {
    let step = |(tool, arguments): (&str, Value)| -> Reply {
        javascript(&format!("text(JSON.stringify(await tools.mcp__mala__{tool}({arguments})))"))
    };
    let script = steps()
        .into_iter()
        .map(step)
        .fold(mala_tests::model::Script::default(), |script, step| script.then(step));
    let shell = javascript(&format!("text(await tools.exec_command({}))", json!({"cmd": whoami()})));
    script.then(shell).then(say("done"))
}

fn codex<'a>(installed: &'a Installed, world: &'a World, talk: &'a Talk) -> Client<'a> {
    let server = format!(r#"mcp_servers.mala={{command="{MALA}",args=["mcp"]}}"#);
    Client::codex(installed, world, talk).model(CODE_MODE).arg("-c").arg(server)
}

#[test]
fn codex_calls_the_tools_as_its_own_session() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    let talk = model.talk(codex_script());
    let ended = codex(installed, &world, &talk).run();
    assert_acts_as(&world, &ended, &talk, |agent| agent.starts_with("codex-"));
}

#[test]
fn codex_under_enforcement_calls_the_tools_as_its_agent() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    let talk = model.talk(codex_script());
    // Codex hands only a few variables on to its servers.
    let ended = codex(installed, &world, &talk).under(MALA, "bob").run();
    assert_acts_as(&world, &ended, &talk, |agent| agent == "bob");
}

/// Puts mala's tools into the project's own settings, as `mala init` does.
fn install_in(world: &World, kind: Kind) {
    let change = match kind {
        Kind::Opencode => install::plan(kind, None, MALA).unwrap(),
        Kind::Claude | Kind::Codex | Kind::Gemini => server::plan(kind, None, MALA).unwrap().unwrap(),
    };
    world.write(change.path, &change.text);
}

#[test]
fn claude_finds_the_tools_that_init_has_set_up() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    install_in(&world, Kind::Claude);
    let talk = model.talk(claude_script());
    let ended = Client::claude(installed, &world, &talk).run();
    assert_acts_as(&world, &ended, &talk, |agent| agent.starts_with("claude-"));
}

#[test]
fn codex_finds_the_tools_that_init_has_set_up_in_a_trusted_project() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    install_in(&world, Kind::Codex);
    let talk = model.talk(codex_script());
    let root = world.root().canonicalize().unwrap();
    let trust = format!(r#"projects={{{}={{trust_level="trusted"}}}}"#, json!(root));
    let client = Client::codex(installed, &world, &talk).model(CODE_MODE).arg("-c").arg(trust);
    assert_acts_as(&world, &client.run(), &talk, |agent| agent.starts_with("codex-"));
}

/// The model was offered mala's tools.
fn assert_offered(ended: &Ended, talk: &Talk) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let tools: Vec<String> = talk.requests().iter().flat_map(mala_tests::model::Request::tools).collect();
    let is_offered = |name: &str| tools.iter().any(|tool| tool.contains("mala") && tool.ends_with(name));
    assert!(is_offered("lock_acquire") && is_offered("issue_note"), "{tools:?}");
}

#[test]
fn gemini_finds_the_tools_that_init_has_set_up_in_a_trusted_folder() {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    install_in(&world, Kind::Gemini);
    let talk = model.talk([say("done")]);
    let client = Client::gemini(installed, &world, &talk);
    let trusted = json!({ world.root().to_str().unwrap(): "TRUST_FOLDER" });
    fs::create_dir_all(client.home().join(".gemini")).unwrap();
    fs::write(client.home().join(".gemini/trustedFolders.json"), trusted.to_string()).unwrap();
    assert_offered(&client.run(), &talk);
}

#[test]
fn opencode_finds_the_tools_that_its_plugin_brings() {
    let Some(installed) = installed() else { return };
    let Some(program) = installed.opencode_or_skip() else { return };
    let (world, model) = (world(), Model::start());
    install_in(&world, Kind::Opencode);
    let talk = model.talk([say("done")]);
    assert_offered(&Client::opencode(program, &world, &talk).run(), &talk);
}
