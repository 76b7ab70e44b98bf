//! What the clients make of a hook's answer: the facts that mala's hooks are built on.

use mala_tests::World;
use mala_tests::clients::{Client, Installed, claude_hooks, codex_hooks};
use mala_tests::model::{Model, Script, Talk, patch, say};

use super::{Claude, installed, read, results, shell};

/// Answers by what it finds in the payload.
const HOOK: &str = concat!("sh ", env!("CARGO_MANIFEST_DIR"), "/clients/hook.sh");

const EVENTS: &[&str] = &["UserPromptSubmit", "PreToolUse", "Stop"];

/// The text of every result of a tool.
fn texts(talk: &Talk, tool: &str) -> Vec<String> {
    results(talk, tool).into_iter().map(|result| result.text).collect()
}

/// What both clients have been told and have done in the end.
fn assert_obeyed(world: &World, talk: &Talk) {
    for path in ["denied-by-answer.txt", "denied-by-code.txt", "rewritten.txt"] {
        assert!(!world.root().join(path).exists(), "{path}: {talk:?}");
    }
    assert_eq!(read(world, "result.txt"), "done-another-way\n", "the rewritten command ran instead");
    for context in ["told with the prompt", "told with the call", "because of the gate"] {
        let anywhere = talk.requests().iter().any(|request| request.body().to_string().contains(context));
        assert!(anywhere, "the model hears: {context}");
    }
}

#[test]
fn claude_obeys_its_hooks_and_tells_the_model_why() {
    let Some(installed) = installed() else { return };
    let world = World::new();
    let claude = Claude(&world);
    let model = Model::start();
    let talk = model.talk([
        claude.write("denied-by-answer.txt", "x"),
        claude.write("denied-by-code.txt", "x"),
        claude.write("crashes.txt", "x"),
        claude.write("with-context.txt", "x"),
        claude.bash("echo x > rewritten.txt"),
        say("Finished."),
        say("Finished, as the gate wants it."),
    ]);
    let ended = Client::claude(installed, &world, &talk).settings(claude_hooks(HOOK, EVENTS)).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = texts(&talk, "Write");
    assert!(told[0].contains("because of the answer") && told[1].contains("because of the code"), "{told:?}");
    assert!(!world.root().join("crashes.txt").exists(), "a hook that fails blocks: {}", told[2]);
    assert!(world.root().join("with-context.txt").exists());
    assert_obeyed(&world, &talk);
}

#[test]
fn codex_obeys_its_hooks_and_tells_the_model_why() {
    let Some(installed) = installed() else { return };
    let world = World::new();
    let model = Model::start();
    let add = |name: &str| patch(&format!("*** Add File: {name}.txt\n+x"));
    let talk = model.talk([
        add("denied-by-answer"),
        add("denied-by-code"),
        add("with-context"),
        add("crashes"),
        shell("echo x > denied-by-code.txt"),
        shell("echo x > rewritten.txt"),
        say("Finished."),
        say("Finished, as the gate wants it."),
    ]);
    let ended = codex_hooks(Client::codex(installed, &world, &talk), HOOK, EVENTS).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = texts(&talk, "apply_patch");
    assert!(told[0].contains("because of the answer") && told[1].contains("because of the code"), "{told:?}");
    assert!(texts(&talk, "exec_command")[0].contains("because of the code"), "{talk:?}");
    assert!(world.root().join("with-context.txt").exists());
    assert!(world.root().join("crashes.txt").exists(), "codex goes on when a hook fails: so ours must not");
    assert_obeyed(&world, &talk);
}

/// Switches the hooks off and then tries, for up to so many rounds, to write what they deny. Returns the round in which
/// it succeeded.
fn switch_off(installed: &Installed, settings: serde_json::Value, rounds: usize) -> Option<usize> {
    let world = World::new();
    let claude = Claude(&world);
    let off = "mkdir -p .claude ~/.claude; echo '{\"disableAllHooks\":true}' | tee .claude/settings.local.json > ~/.claude/settings.json";
    let denied = world.root().join("denied-by-code.txt");
    let mut script = Script::from([claude.write("denied-by-answer.txt", "before"), claude.bash(off)]);
    for _ in 0..rounds {
        let (written, again) = (denied.clone(), claude.write("denied-by-code.txt", "after"));
        // The client watches its settings and needs a moment.
        script = script
            .then(claude.bash("sleep 0.2"))
            .then_by(move |_| if written.exists() { say("Finished.") } else { again.clone() });
    }
    let model = Model::start();
    let talk = model.talk(script.then(say("Finished.")).then(say("Finished, as the gate wants it.")));
    let ended = Client::claude(installed, &world, &talk).settings(settings).run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!world.root().join("denied-by-answer.txt").exists(), "{talk:?}");
    denied.exists().then(|| results(&talk, "Write").len() - 1)
}

#[test]
fn claudes_hooks_can_be_switched_off_from_within_unless_its_settings_forbid_it() {
    let Some(installed) = installed() else { return };
    let forbidding = claude_hooks(HOOK, EVENTS);
    let mut silent = forbidding.clone();
    silent.as_object_mut().unwrap().remove("disableAllHooks");
    let rounds = switch_off(installed, silent, 50).expect("without the cure, they can be switched off");
    assert_eq!(switch_off(installed, forbidding, rounds + 5), None);
}
