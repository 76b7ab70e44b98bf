//! `mala run` with the real opencode.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mala_tests::World;
use mala_tests::clients::{OPENCODE_OFFLINE, opencode_settings};
use mala_tests::model::{Model, Refusal, Reply, Request, Script, TOKENS_IN, TOKENS_OUT, Talk, say};
use mala_tests::registry::Registry;

use super::installed;
use super::opencode::Opencode;
use crate::cli::{Answer, MALA, done, mala};
use crate::run::Run;

/// Gives the checkout one issue, for opencode, whose model is this talk's.
fn set_up(world: &World, program: &Path, talk: &Talk) {
    let variables: Vec<String> =
        OPENCODE_OFFLINE.iter().map(|(name, value)| format!("{name} = \"{value}\"")).collect();
    let settings = format!(
        "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\nstop_attempts = 0\n[validate]\ncommands = [\"sh check.sh\"]\n[run]\nprofile = \
         \"opencode\"\nattempts = 1\n[agents.opencode]\ncommand = [\"{}\"]\nenv = {{ {} }}\n",
        program.display(),
        variables.join(", ")
    );
    world.write("mala.toml", &settings);
    world.write("check.sh", "! grep -q broken *.txt\n");
    let users = world.home().join(".config/opencode");
    fs::create_dir_all(&users).unwrap();
    fs::write(users.join("opencode.json"), opencode_settings(talk).to_string()).unwrap();
    for (name, value) in [("user.name", "Agent"), ("user.email", "agent@example.invalid")] {
        world.git(&["config", name, value]);
    }
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(world, "issue add --id bd-1 Work");
}

fn run(world: &World, registry: &Registry) -> Run {
    fs::write(world.home().join(".npmrc"), registry.npmrc()).unwrap();
    let mut command = mala(world, ["run", "--json"]);
    for name in ["OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "npm_config_registry"] {
        command.env_remove(name);
    }
    command.env("MALA_RUN_STAGGER", "1ms").output().map(Answer::from).unwrap().into()
}

/// What opencode installs wherever it finds settings.
fn registry() -> Registry {
    Registry::start("@opencode-ai/plugin", "1.18.33")
}

/// Offers a file and ends its turn.
fn offering(world: &World) -> Script {
    let opencode = Opencode(world);
    Script::from([
        opencode.write("one.txt", "one\n"),
        opencode.bash(&format!("{MALA} commit -m 'bd-1: one'")),
        say("done"),
    ])
}

#[test]
fn what_opencode_installs_in_the_checkout_is_installed_before_its_agents_and_is_none_of_theirs() {
    let Some(installed) = installed() else { return };
    let Some(program) = installed.opencode_or_skip() else { return };
    let (world, model, registry) = (World::new(), Model::start(), registry());
    let talk = model.talk(offering(&world));
    world.write(".opencode/command/greet.md", "Say hello.\n");
    set_up(&world, program, &talk);
    let run = run(&world, &registry);

    assert_eq!(run.code, 0, "{talk:?} {run:?}");
    assert_eq!((run.issues("done"), talk.complaints()), (vec!["bd-1"], Vec::new()), "{run:?}");
    assert_eq!(run.only("preparing")["profile"], "opencode");
    let before = run.events.iter().position(|event| event["event"] == "preparing");
    assert!(before < run.events.iter().position(|event| event["event"] == "claimed"), "{run:?}");
    assert!(registry.asked() > 0 && world.root().join(".opencode/node_modules").is_dir(), "{run:?}");
    let log = done(&world, "logs list --json --limit 1000").json();
    let paths = log["events"].as_array().unwrap().iter().filter_map(|event| event["path"].as_str());
    let installed: Vec<&str> = paths.filter(|path| path.contains(".opencode")).collect();
    assert!(installed.is_empty(), "no agent was asked for a lock on it: {installed:?}");
    assert_eq!(world.git(&["status", "--porcelain", "--untracked-files=all"]), "");
    assert_eq!(run.summary()["tokens"], 3 * (TOKENS_IN + TOKENS_OUT), "{run:?}");
}

#[test]
fn a_conversation_that_opencode_has_had_to_shorten_is_no_failure() {
    let Some(installed) = installed() else { return };
    let Some(program) = installed.opencode_or_skip() else { return };
    let (world, model, registry) = (World::new(), Model::start(), registry());
    let opencode = Opencode(&world);
    let offer =
        |text: &str| opencode.bash(&format!("echo {text} > one.txt; {MALA} commit -m 'bd-1: {text}'"));
    let (broken, has_failed) = (offer("broken"), AtomicBool::new(false));
    let script = Script::from([opencode.bash("true")]).then_by(move |_: &Request| {
        if has_failed.swap(true, Ordering::SeqCst) {
            return broken.clone();
        }
        Reply::Refuse(Refusal::Length)
    });
    // The client ends with code 1 now, as if it had not got over that.
    let talk = model.talk(script.then(say("done")).then(offer("mended")).then(say("done")));
    set_up(&world, program, &talk);
    let run = run(&world, &registry);

    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{talk:?} {run:?}");
    assert_eq!(
        run.only("rejected")["is_sent_back"],
        true,
        "what it had offered was judged like any other: {run:?}"
    );
}
