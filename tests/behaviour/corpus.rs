//! The table of harmful and harmless calls, asked of the real hook where somebody else holds everything: with the kernel
//! behind it and without.

use std::fs;
use std::process::Command;

use mala_tests::World;
use serde_json::{Value, json};

use crate::cli::{Answer, MALA, done, mala};

const HARMFUL: &str = include_str!("../../agents/tests/corpus/harmful.toml");
const HARMLESS: &str = include_str!("../../agents/tests/corpus/harmless.toml");

/// The checkout of the table, in which `other` holds everything and has uncommitted work.
fn world() -> World {
    let world = World::new();
    for path in ["src/a.rs", "src/b.rs", "docs/a.md", "run.sh"] {
        world.write(path, "text\n");
    }
    world.write("mala.toml", "[test]\ncommands = [\"cargo test\", \"pytest\"]\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire . --agent other");
    world.write("src/b.rs", "half an edit\n");
    world
}

/// One call of the table.
struct Call {
    shown: String,
    payload: Value,
    /// It would touch the checkout, or is wrong in it; what is merely unknown passes.
    is_denied: bool,
    is_unknown: bool,
}

fn calls(world: &World, table: &str) -> Vec<Call> {
    let root = world.root().to_str().unwrap();
    let table = table.replace("/w/", &format!("{root}/")).replace("\"/w\"", &format!("\"{root}\""));
    let table: toml::Table = table.parse().unwrap();
    let calls = table["call"].as_array().unwrap().iter().enumerate();
    calls.map(|(number, call)| read(world, root, number, call)).collect()
}

fn read(world: &World, root: &str, number: usize, call: &toml::Value) -> Call {
    let list = |name: &str| -> Vec<String> {
        let entries = call.get(name).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        entries.iter().map(|entry| entry.as_str().unwrap().to_owned()).collect()
    };
    let is_here = |path: &String| !path.starts_with('/') || path.starts_with(root);
    let (tool, input) = match call.get("command") {
        Some(command) => ("Bash".to_owned(), json!({ "command": command.as_str().unwrap() })),
        None => {
            let input = call.get("input").map_or(json!({}), |input| serde_json::to_value(input).unwrap());
            (call["tool"].as_str().unwrap().to_owned(), input)
        }
    };
    let touches = list("writes").iter().chain(&list("patterns")).any(is_here);
    Call {
        shown: format!("{tool} {input}"),
        payload: json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": world.root(),
            "tool_name": tool, "tool_input": input, "tool_use_id": format!("t{number}") }),
        is_denied: touches || !list("objects").is_empty() || !list("foreign").is_empty(),
        is_unknown: !list("unknown").is_empty(),
    }
}

/// Asks the hook about all calls, from one session, and returns whether each was denied.
fn ask(world: &World, calls: &[Call], session: impl Fn(&str) -> Command) -> Vec<bool> {
    let (asked, script) = (world.base().join("calls"), world.base().join("client.sh"));
    let lines: Vec<String> = calls.iter().map(|call| format!("{}\n", call.payload)).collect();
    fs::write(&asked, lines.concat()).unwrap();
    let text = format!(
        "while IFS= read -r call; do printf '%s' \"$call\" | \"{MALA}\" hook claude || exit 9; done < '{}'\n",
        asked.display()
    );
    fs::write(&script, text).unwrap();
    let answer: Answer = session(script.to_str().unwrap()).env_remove("MALA_AGENT").output().unwrap().into();
    assert_eq!(answer.code, 0, "{answer:?}");
    let is_denial = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    };
    answer.out.lines().map(is_denial).collect()
}

/// True if the files were noted before this call, to be compared with afterwards.
fn is_looked_at_again(world: &World, call: &Call) -> bool {
    let id = call.payload["tool_use_id"].as_str().unwrap();
    let name: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
    let Ok(agents) = fs::read_dir(world.state_dir().join("audits")) else { return false };
    agents.into_iter().any(|agent| agent.unwrap().path().join(&name).exists())
}

/// Whether the kernel stands behind the hook.
#[derive(Clone, Copy, PartialEq)]
enum Tier {
    Hook,
    Kernel,
}

fn assert_judged(world: &World, tier: Tier, session: impl Fn(&str) -> Command) {
    let (mut harmful, harmless) = (calls(world, HARMFUL), calls(world, HARMLESS));
    // What touches other folders only is harmful there, and not mala's business.
    harmful.retain(|call| call.is_denied || call.is_unknown);
    assert!(harmful.len() >= 60 && harmless.len() >= 25);
    let denied = ask(world, &harmful, &session);
    assert_eq!(denied.len(), harmful.len());
    for (call, denied) in harmful.iter().zip(denied) {
        assert!(denied || !call.is_denied, "{} was let through", call.shown);
        let is_left_open = !denied && tier == Tier::Hook;
        assert!(!is_left_open || is_looked_at_again(world, call), "{} is forgotten", call.shown);
    }
    let denied = ask(world, &harmless, &session);
    assert_eq!(denied.len(), harmless.len());
    for (call, denied) in harmless.iter().zip(denied) {
        assert!(!denied, "{} was denied", call.shown);
    }
}

#[test]
fn every_harmful_call_is_denied_or_looked_at_again_and_every_harmless_one_passes() {
    let world = world();
    let session = |script: &str| {
        let mut command = world.command("bash");
        command.arg(script);
        command
    };
    assert_judged(&world, Tier::Hook, session);
}

#[test]
fn with_the_kernel_behind_it_the_hook_judges_the_same() {
    let world = world();
    assert_judged(&world, Tier::Kernel, |script| {
        mala(&world, ["exec", "--agent", "me", "--", "bash", script])
    });
}
