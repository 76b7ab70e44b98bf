//! Under `mala exec`, whatever tool a client uses: what is free works, and what others hold stays as it is.

use mala_tests::clients::{CODE_MODE, Client};
use mala_tests::model::{Model, Script, javascript, patch, say};
use mala_tests::{World, eventually};

use super::{
    Claude, Gemini, NAMES_THE_HOLDER, installed, javascript_patch, read, replace, results, shell, with_mcp,
    with_part, world,
};
use crate::cli::{MALA, held, pair};

const PYTHON: &str = "python3 -c 'open(\"held.txt\", \"w\").write(\"mine\")'";

/// The held file is as it was, and all that is new are these files.
fn assert_only(world: &World, changes: &str) {
    assert_eq!(read(world, "held.txt"), "theirs\n");
    assert_eq!(world.git(&["status", "--short"]), changes);
    assert_eq!(held(world), [pair("held.txt", "other")], "and the agent's own locks are free again");
}

#[test]
fn claude_writes_what_is_free_and_nothing_that_others_hold() {
    let Some(installed) = installed() else { return };
    let world = world();
    let claude = Claude(&world);
    let model = Model::start();
    let talk = model.talk(with_part(
        Script::from([
            claude.write("new.txt", "new\n"),
            claude.read("free.txt"),
            claude.edit("free.txt", "anybody's", "ann's"),
            claude.read("held.txt"),
            claude.write("held.txt", "ann's\n"),
            claude.edit("held.txt", "theirs", "ann's"),
            claude.bash("sed -i s/theirs/mine/ held.txt"),
            claude.bash(PYTHON),
            claude.save("held.txt", "ann's"),
            claude.delegate("PART: write to the file."),
            say("done"),
        ]),
        &claude,
    ));
    let ended = with_mcp(Client::claude(installed, &world, &talk).under(MALA, "ann")).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let is_error = |tool: &str| -> Vec<bool> {
        results(&talk, tool).iter().map(|result| result.is_error == Some(true)).collect()
    };
    assert_eq!(is_error("Write"), [false, true, true], "a free file, a held one, the same by a sub-agent");
    assert_eq!(is_error("Edit"), [false, true]);
    assert_eq!(is_error("mcp__files__save"), [true]);
    assert!(results(&talk, "Write")[1].text.contains("EACCES"), "{talk:?}");
    for refused in results(&talk, "Bash") {
        assert_eq!(refused.is_error, Some(true));
        assert!(refused.text.contains(NAMES_THE_HOLDER), "the model sees who holds it: {refused:?}");
    }
    assert_eq!((read(&world, "new.txt").as_str(), read(&world, "free.txt").as_str()), ("new\n", "ann's\n"));
    assert_only(&world, "M free.txt\n?? new.txt");
}

#[test]
fn codex_writes_what_is_free_and_nothing_that_others_hold() {
    let Some(installed) = installed() else { return };
    let world = world();
    let model = Model::start();
    let grab = replace("held.txt", "theirs", "bob's");
    let talk = model.talk([
        patch("*** Add File: new.txt\n+new"),
        patch(&replace("free.txt", "anybody's", "bob's")),
        patch(&grab),
        shell("sed -i s/theirs/mine/ held.txt"),
        shell(PYTHON),
        shell(&format!("apply_patch <<'EOF'\n*** Begin Patch\n{grab}\n*** End Patch\nEOF")),
        say("done"),
    ]);
    let ended = Client::codex(installed, &world, &talk).under(MALA, "bob").run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let patched: Vec<bool> =
        results(&talk, "apply_patch").iter().map(|result| result.text.contains("Success")).collect();
    assert_eq!(patched, [true, true, false], "a new file, a free one, a held one: {talk:?}");
    let shell = results(&talk, "exec_command");
    assert!(shell[..2].iter().all(|result| result.text.contains(NAMES_THE_HOLDER)), "{shell:?}");
    assert!(shell[2].text.contains("Failed to write file"), "a patch within the shell: {shell:?}");
    assert_eq!((read(&world, "new.txt").as_str(), read(&world, "free.txt").as_str()), ("new\n", "bob's\n"));
    assert_only(&world, "M free.txt\n?? new.txt");
}

#[test]
fn codex_that_calls_its_tools_from_javascript_is_held_to_the_same() {
    let Some(installed) = installed() else { return };
    let world = world();
    let model = Model::start();
    let talk = model.talk([
        javascript_patch("*** Add File: new.txt\n+new"),
        javascript_patch(&replace("held.txt", "theirs", "bob's")),
        javascript("text(await tools.exec_command({cmd: 'sed -i s/theirs/mine/ held.txt'}))"),
        say("done"),
    ]);
    let ended = Client::codex(installed, &world, &talk).model(CODE_MODE).under(MALA, "bob").run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = results(&talk, "exec");
    assert!(told[0].text.contains("Script completed"), "{told:?}");
    assert!(told[1].text.contains("Script failed"), "{told:?}");
    assert!(told[2].text.contains(NAMES_THE_HOLDER), "{told:?}");
    assert_only(&world, "?? new.txt");
}

#[test]
fn gemini_writes_what_is_free_and_nothing_that_others_hold() {
    let Some(installed) = installed() else { return };
    let world = world();
    let gemini = Gemini(&world);
    let model = Model::start();
    let talk = model.talk([
        gemini.write("new.txt", "new\n"),
        gemini.replace("free.txt", "anybody's", "carol's"),
        gemini.write("held.txt", "carol's\n"),
        gemini.replace("held.txt", "theirs", "carol's"),
        gemini.shell("sed -i s/theirs/mine/ held.txt"),
        gemini.shell(PYTHON),
        say("done"),
    ]);
    let ended = Client::gemini(installed, &world, &talk).under(MALA, "carol").run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let is_error = |tool: &str| -> Vec<Option<bool>> {
        results(&talk, tool).iter().map(|result| result.is_error).collect()
    };
    assert_eq!(is_error("write_file"), [Some(false), Some(true)], "{talk:?}");
    assert_eq!(is_error("replace"), [Some(false), Some(true)], "{talk:?}");
    for refused in results(&talk, "run_shell_command") {
        assert!(refused.text.contains(NAMES_THE_HOLDER), "the model sees who holds it: {refused:?}");
    }
    assert_eq!((read(&world, "new.txt").as_str(), read(&world, "free.txt").as_str()), ("new\n", "carol's\n"));
    assert_only(&world, "M free.txt\n?? new.txt");
}

#[test]
fn two_clients_in_one_checkout_keep_off_each_others_files() {
    let Some(installed) = installed() else { return };
    let world = world();
    let claude = Claude(&world);
    let model = Model::start();
    // Each grabs the other's file once that is written, and goes on only when the other has tried the same.
    let after = |path: &'static str, reply: mala_tests::model::Reply| {
        let path = world.root().join(path);
        move |_: &mala_tests::model::Request| {
            eventually("the other client has come so far", || path.exists());
            reply.clone()
        }
    };
    let ann = model.talk(
        Script::from([claude.write("of-ann.txt", "ann's\n")])
            .then_by(after("of-bob.txt", claude.read("of-bob.txt")))
            .then(claude.write("of-bob.txt", "ann's\n"))
            .then(claude.bash("sed -i s/bob/ann/ of-bob.txt; touch ann-has-tried"))
            .then_by(after("bob-has-tried", claude.edit("of-ann.txt", "ann's", "ann's still")))
            .then(say("done")),
    );
    let bob = model.talk(
        Script::from([patch("*** Add File: of-bob.txt\n+bob's")])
            .then_by(after("of-ann.txt", patch(&replace("of-ann.txt", "ann's", "bob's"))))
            .then(shell("sed -i s/ann/bob/ of-ann.txt; touch bob-has-tried"))
            .then_by(after("ann-has-tried", patch(&replace("of-bob.txt", "bob's", "bob's still"))))
            .then(say("done")),
    );
    let started = Client::claude(installed, &world, &ann).under(MALA, "ann").start();
    let ended = [Client::codex(installed, &world, &bob).under(MALA, "bob").run(), started.finish()];

    assert!(ended.iter().all(|ended| ended.code == Some(0)), "{ended:?}");
    assert_eq!(read(&world, "of-ann.txt"), "ann's still\n");
    assert_eq!(read(&world, "of-bob.txt"), "bob's still\n");
    assert_eq!(results(&ann, "Write")[1].is_error, Some(true), "{ann:?}");
    assert!(results(&ann, "Bash")[0].text.contains("`of-bob.txt` is held by `bob`"), "{ann:?}");
    assert!(results(&bob, "apply_patch")[1].text.contains("Failed to write file"), "{bob:?}");
    assert!(results(&bob, "exec_command")[0].text.contains("`of-ann.txt` is held by `ann`"), "{bob:?}");
}
