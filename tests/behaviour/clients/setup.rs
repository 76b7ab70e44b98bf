//! Hooks as `mala init` sets them up: what switches them off is seen, and agents cannot do it.

use std::fs;

use mala_agents::install::server;
use mala_agents::{Client, install};
use mala_tests::{World, write_script};
use serde_json::{Value, json};

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// A checkout with mala's hooks for this client.
fn set_up(client: Client) -> World {
    let world = World::new();
    let change = install::plan(client, None, MALA).unwrap();
    world.write(change.path, &change.text);
    world
}

/// What the doctor says about the client's hooks.
fn doctor(world: &World, client: Client) -> Value {
    doctor_on(world, &format!("{client} hooks"))
}

fn doctor_on(world: &World, name: &str) -> Value {
    let answer: Answer = mala(world, ["doctor", "--json"]).env_remove("CODEX_HOME").output().unwrap().into();
    let checks = answer.json()["checks"].as_array().unwrap().clone();
    checks.into_iter().find(|check| check["name"] == name).expect("the client is looked at")
}

/// Writes a file of the user's.
fn at_home(world: &World, path: &str, text: &str) {
    let path = world.home().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn hooks_that_are_switched_off_are_seen_wherever_that_is_done() {
    let off = r#"{"disableAllHooks": true}"#;
    let world = set_up(Client::Claude);
    at_home(&world, ".claude/settings.json", off);
    assert_eq!(
        doctor(&world, Client::Claude)["status"],
        "ok",
        "the project's word counts more than the user's"
    );
    world.write(".claude/settings.local.json", off);
    let check = doctor(&world, Client::Claude);
    assert_eq!(check["status"], "fail", "{check}");
    assert!(
        check["detail"].as_str().unwrap().contains("`disableAllHooks` in `.claude/settings.local.json`"),
        "{check}"
    );
    let init: Answer = mala(&world, ["init", "--yes", "--client", "claude"]).output().unwrap().into();
    assert_eq!(init.code, 2, "{init:?}");
    assert!(init.err.contains("`.claude/settings.local.json` switches all hooks off"), "{init:?}");

    let world = set_up(Client::Gemini);
    at_home(&world, ".gemini/settings.json", r#"{"hooksConfig": {"enabled": false}}"#);
    assert_eq!(doctor(&world, Client::Gemini)["status"], "fail");
    let world = set_up(Client::Codex);
    at_home(&world, ".codex/config.toml", "[features]\nhooks = false\n");
    assert_eq!(doctor(&world, Client::Codex)["status"], "fail");
}

#[test]
fn the_doctor_runs_the_very_hook_that_is_set_up() {
    for client in Client::ALL {
        let world = set_up(client);
        let works = doctor(&world, client);
        assert_ne!(works["status"], "fail", "{works}");
        let lost = install::plan(client, None, "/nowhere/mala").unwrap();
        world.write(lost.path, &lost.text);
        let check = doctor(&world, client);
        assert_eq!(check["status"], "fail", "{check}");
        assert!(check["detail"].as_str().unwrap().contains("/nowhere/mala: not found"), "{check}");
    }
}

#[test]
fn the_doctor_does_not_wait_forever_for_a_hook() {
    let world = set_up(Client::Claude);
    let pid = world.base().join("pid");
    let hook = world.base().join("mala");
    write_script(&hook, &format!("#!/bin/sh\necho $$ > {}\nsleep 600\n", pid.display()));
    let slow = install::plan(Client::Claude, None, hook.to_str().unwrap()).unwrap();
    world.write(slow.path, &slow.text);
    let check = doctor(&world, Client::Claude);
    assert_eq!(check["status"], "fail", "{check}");
    assert!(check["detail"].as_str().unwrap().contains("does not end within 10 s"), "{check}");
    let hook = fs::read_to_string(pid).unwrap();
    mala_tests::eventually("it is gone", || !std::path::Path::new("/proc").join(hook.trim()).exists());
}

#[test]
fn the_doctor_starts_the_very_server_that_is_set_up() {
    for client in [Client::Claude, Client::Codex, Client::Gemini] {
        let world = set_up(client);
        let tools = || doctor_on(&world, &format!("{client} tools"));
        assert_eq!((&tools()["status"], &tools()["fix"]), (&json!("warn"), &json!("set them up: mala init")));
        let path = server::path(client).unwrap();
        write_script(&world.root().join("stranger"), "#!/bin/sh\ntouch was-run\n");
        for (program, status) in [(MALA, "ok"), ("/nowhere/mala", "fail"), ("./stranger", "fail")] {
            let existing = fs::read_to_string(world.root().join(path)).ok();
            let change = server::plan(client, existing.as_deref(), program).unwrap().unwrap();
            world.write(change.path, &change.text);
            let check = tools();
            assert_eq!(check["status"], status, "{check}");
            assert!(check["detail"].as_str().unwrap().contains(&format!("`{program} mcp`")), "{check}");
        }
        assert!(!world.root().join("was-run").exists());
    }
}

#[test]
fn the_doctor_says_what_a_client_wants_before_it_calls_hooks() {
    let world = set_up(Client::Codex);
    let check = doctor(&world, Client::Codex);
    assert_eq!(
        (&check["status"], &check["fix"]),
        (&json!("warn"), &json!("start codex here and accept what it asks"))
    );
    let key = world.root().join(".codex/hooks.json:pre_tool_use:0:0");
    at_home(
        &world,
        ".codex/config.toml",
        &format!("[hooks.state.\"{}\"]\ntrusted_hash = \"x\"\n", key.display()),
    );
    assert_eq!(doctor(&world, Client::Codex)["status"], "ok");

    let world = set_up(Client::Gemini);
    assert_eq!(doctor(&world, Client::Gemini)["status"], "warn");
    let trusted = json!({ world.base().canonicalize().unwrap().to_str().unwrap(): "TRUST_FOLDER" });
    at_home(&world, ".gemini/trustedFolders.json", &trusted.to_string());
    assert_eq!(doctor(&world, Client::Gemini)["status"], "ok");
}

#[test]
fn under_mala_exec_nobody_touches_the_hooks_of_clients() {
    let world = set_up(Client::Claude);
    let before = fs::read_to_string(world.root().join(".claude/settings.json")).unwrap();
    for write in [
        "echo '{}' > .claude/settings.json",
        "echo '{\"disableAllHooks\": true}' > .claude/settings.local.json",
        "rm .claude/settings.json",
        "mv .claude elsewhere",
        "mkdir .codex && echo '{}' > .codex/hooks.json",
        "mkdir -p .opencode/plugin && echo '' > .opencode/plugin/mala.js",
    ] {
        let tried: Answer =
            mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", write]).output().unwrap().into();
        assert_ne!(tried.code, 0, "{write}: {tried:?}");
    }
    assert_eq!(fs::read_to_string(world.root().join(".claude/settings.json")).unwrap(), before);
    assert!(!world.root().join(".claude/settings.local.json").exists());
    let honest = "mkdir -p .claude/commands && echo x > .claude/commands/fix.md";
    let done: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", honest]).output().unwrap().into();
    assert_eq!(done.code, 0, "the rest of the folder is like any other: {done:?}");
}

#[test]
fn the_end_of_a_turn_frees_what_is_committed_but_not_in_a_run() {
    let world = World::new();
    world.write("free.txt", "x\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other");
    let stop = json!({ "hook_event_name": "Stop", "session_id": "s", "cwd": world.root(), "stop_hook_active": false });
    let script = format!(
        "{MALA} lock acquire free.txt > /dev/null; {MALA} hook claude <<< \"$STOP\" > /dev/null; {MALA} lock list --json"
    );
    let run = |more: &[&str]| -> Vec<Value> {
        let mut exec = mala(&world, ["exec", "--agent", "me"]);
        exec.args(more).args(["--", "bash", "-c", &script]).env("STOP", stop.to_string());
        let answer: Answer = exec.output().unwrap().into();
        answer.json()["locks"].as_array().unwrap().iter().map(|lock| lock["path"].clone()).collect()
    };
    assert_eq!(run(&[]), ["held.txt"]);
    assert_eq!(run(&["--run", "r1"]), ["free.txt", "held.txt"], "the gate may send the agent back to it");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}
