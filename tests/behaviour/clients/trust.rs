//! When codex runs the hooks of a project: only those that the user has trusted, each by a hash of what it runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use mala_tests::World;
use mala_tests::clients::{Client, Installed};
use mala_tests::model::{Model, patch, say};
use serde_json::{Value, json};

use super::installed;

const HOOK: &str = concat!("sh ", env!("CARGO_MANIFEST_DIR"), "/clients/hook.sh");

/// What codex knows of the hooks in this checkout. It is asked the way its own user interface asks.
fn listed(installed: &Installed, world: &World, codex_home: &Path) -> Vec<Value> {
    let mut command = Command::new(installed.codex());
    command.arg("app-server").current_dir(world.root()).env("CODEX_HOME", codex_home).env("HOME", codex_home);
    let mut server =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let client = json!({"name": "mala-tests", "title": "mala-tests", "version": "1"});
    for message in [
        json!({"id": 1, "method": "initialize", "params": {"clientInfo": client}}),
        json!({"method": "initialized"}),
        json!({"id": 2, "method": "hooks/list", "params": {"cwds": [world.root()]}}),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let answers = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answer = answers
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
        .find(|answer| answer["id"] == 2)
        .expect("codex lists its hooks");
    server.kill().unwrap();
    server.wait().unwrap();
    answer["result"]["data"][0]["hooks"].as_array().cloned().unwrap_or_default()
}

#[test]
fn codex_runs_a_projects_hooks_once_they_are_trusted() {
    let Some(installed) = installed() else { return };
    let world = World::new();
    let hook = json!({"matcher": "*", "hooks": [{"type": "command", "command": HOOK, "timeout": 30}]});
    world.write(".codex/hooks.json", &json!({"hooks": {"PreToolUse": [hook]}}).to_string());
    let model = Model::start();
    let script = || [patch("*** Add File: denied-by-code.txt\n+x"), say("Finished.")];
    let written = world.root().join("denied-by-code.txt");

    let talk = model.talk(script());
    let client = Client::codex(installed, &world, &talk);
    let home = client.home().to_owned();
    let codex_home = home.join(".codex");
    assert_eq!(client.run().code, Some(0));
    assert!(written.exists(), "hooks that nobody has trusted do not run, and nobody is told: {talk:?}");

    fs::remove_file(&written).unwrap();
    let hooks = listed(installed, &world, &codex_home);
    let key = world.root().join(".codex/hooks.json:pre_tool_use:0:0");
    assert_eq!(hooks.len(), 1, "{hooks:?}");
    assert_eq!((&hooks[0]["trustStatus"], &hooks[0]["key"]), (&json!("untrusted"), &json!(key)));
    let config = codex_home.join("config.toml");
    let trusted =
        format!("\n[hooks.state.{}]\ntrusted_hash = {}\n", hooks[0]["key"], hooks[0]["currentHash"]);
    let before = fs::read_to_string(&config).unwrap_or_default();
    fs::write(&config, format!("{before}{trusted}")).unwrap();
    assert_eq!(listed(installed, &world, &codex_home)[0]["trustStatus"], "trusted");

    let talk = model.talk(script());
    let ended = Client::codex(installed, &world, &talk).at_home(&home).run();
    assert_eq!(ended.code, Some(0));
    assert!(!written.exists() && talk.results()[0].text.contains("because of the code"), "{talk:?}");
}
