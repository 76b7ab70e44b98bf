//! The real clients with mala's hooks: told before they write, and held all the same when the hooks are gone.

use std::fs;

use mala_agents::launch::injection;
use mala_agents::{Client as Kind, install};
use mala_tests::World;
use mala_tests::clients::{CODE_MODE, Client};
use mala_tests::model::{Model, Script, Talk, ToolResult, javascript, patch, say};

use super::{
    Claude, Gemini, NAMES_THE_HOLDER, installed, javascript_patch, read, replace, results, shell, with_part,
    world,
};
use crate::cli::{MALA, held, pair};

/// A client with hooks that are mala's, given as arguments: a run's.
fn hooked<'a>(client: Client<'a>, kind: Kind, world: &World) -> Client<'a> {
    let added = injection(kind, MALA, world.root(), world.base());
    assert!(added.env.is_empty() && added.files.is_empty(), "arguments are all that {kind} needs");
    added.args.into_iter().fold(client, Client::arg)
}

/// Puts mala's hooks into the project's own settings, where a session that a person starts finds them.
fn install_in(world: &World, kind: Kind) {
    let change = install::plan(kind, None, MALA).unwrap();
    world.write(change.path, &change.text);
}

/// The model was told by the hook, before anything happened, who is in the way and what to do.
fn assert_told(result: &ToolResult) {
    for words in [NAMES_THE_HOLDER, "Nothing was written", "mala lock acquire held.txt --wait"] {
        assert!(result.text.contains(words), "no word of {words:?}: {result:?}");
    }
}

/// The kernel refused it, whatever the hook thought of it.
fn assert_refused(result: &ToolResult) {
    assert!(result.text.contains("denied"), "{result:?}");
}

/// The held file is as it was, `new.txt` is written, and nothing of the session stays locked.
fn assert_kept(world: &World, talk: &Talk) {
    assert_eq!(read(world, "held.txt"), "theirs\n", "{talk:?}");
    assert_eq!(read(world, "new.txt"), "new\n", "{talk:?}");
    assert_eq!(held(world), [pair("held.txt", "other")], "{talk:?}");
}

#[test]
fn claude_is_told_who_holds_a_file_before_it_writes() {
    let Some(installed) = installed() else { return };
    let world = world();
    let claude = Claude(&world);
    let model = Model::start();
    let talk = model.talk(with_part(
        Script::from([
            claude.write("new.txt", "new\n"),
            claude.read("held.txt"),
            claude.write("held.txt", "mine\n"),
            claude.edit("held.txt", "theirs", "mine"),
            claude.bash("sed -i s/theirs/mine/ held.txt"),
            claude.bash(&format!("{MALA} lock list --json")),
            claude.delegate("PART: write to the file."),
            say("done"),
        ]),
        &claude,
    ));
    install_in(&world, Kind::Claude);
    let ended = Client::claude(installed, &world, &talk).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let writes = results(&talk, "Write");
    assert_eq!(
        writes.iter().map(|result| result.is_error).collect::<Vec<_>>(),
        [Some(false), Some(true), Some(true)]
    );
    writes[1..].iter().chain(&results(&talk, "Edit")).for_each(assert_told);
    let bash = results(&talk, "Bash");
    assert_told(&bash[0]);
    assert!(bash[1].text.contains("new.txt"), "what was written is the session's: {bash:?}");
    assert!(talk.told().contains("in a git checkout that other agents share"), "{}", talk.told());
    assert_kept(&world, &talk);
}

#[test]
fn under_mala_exec_claude_is_told_and_switching_its_hooks_off_does_not_help() {
    let Some(installed) = installed() else { return };
    let world = world();
    let claude = Claude(&world);
    let model = Model::start();
    // Written in a way that no hook can see through, with time for the client to notice.
    let off = "python3 - <<'EOF'\nimport os\nfor folder, name in [(os.path.expanduser('~'), 'settings'), ('.', 'settings.local')]:\n    os.makedirs(folder + '/.claude', exist_ok=True)\n    try:\n        open(folder + '/.claude/' + name + '.json', 'w').write('{\"disableAllHooks\": true}')\n        print(name, 'is written')\n    except OSError as error:\n        print(name, 'is kept:', error.strerror)\nEOF\nsleep 3";
    let talk = model.talk([
        claude.write("new.txt", "new\n"),
        claude.read("held.txt"),
        claude.write("held.txt", "mine\n"),
        claude.bash("sed -i s/theirs/mine/ held.txt"),
        claude.bash(off),
        claude.write("held.txt", "mine\n"),
        claude.bash("sed -i s/theirs/mine/ held.txt"),
        claude.bash("python3 -c 'open(\"held\" + \".txt\", \"w\").write(\"mine\")'"),
        say("done"),
    ]);
    let client = Client::claude(installed, &world, &talk).under(MALA, "ann");
    let ended = hooked(client, Kind::Claude, &world).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (writes, bash) = (results(&talk, "Write"), results(&talk, "Bash"));
    assert_told(&writes[1]);
    assert_told(&bash[0]);
    assert!(bash[1].text.contains("settings is written"), "those of the user: {bash:?}");
    assert!(bash[1].text.contains("settings.local is kept: Permission denied"), "the project's: {bash:?}");
    assert_told(&writes[2]);
    assert_told(&bash[2]);
    assert_refused(&bash[3]);
    assert_kept(&world, &talk);
}

#[test]
fn hooks_of_the_project_that_are_switched_off_leave_the_kernel_in_place() {
    let Some(installed) = installed() else { return };
    let world = world();
    install_in(&world, Kind::Claude);
    world.write(".claude/settings.local.json", r#"{"disableAllHooks": true}"#);
    let claude = Claude(&world);
    let model = Model::start();
    let talk = model.talk([
        claude.write("new.txt", "new\n"),
        claude.read("held.txt"),
        claude.write("held.txt", "mine\n"),
        claude.bash("sed -i s/theirs/mine/ held.txt"),
        say("done"),
    ]);
    let ended = Client::claude(installed, &world, &talk).under(MALA, "ann").run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(results(&talk, "Write")[1].text.contains("EACCES"), "no hook spoke: {talk:?}");
    assert_refused(&results(&talk, "Bash")[0]);
    assert_kept(&world, &talk);
}

#[test]
fn codex_is_told_who_holds_a_file_before_it_writes() {
    let Some(installed) = installed() else { return };
    let model = Model::start();
    let grab = replace("held.txt", "theirs", "mine");
    for agent in [None, Some("bob")] {
        let world = world();
        let talk = model.talk([
            patch("*** Add File: new.txt\n+new"),
            // All or none: the free file of the same patch stays as it is, too.
            patch(&format!("{}\n{grab}", replace("free.txt", "anybody's", "mine"))),
            shell("sed -i s/theirs/mine/ held.txt"),
            shell(&format!("apply_patch <<'EOF'\n*** Begin Patch\n{grab}\n*** End Patch\nEOF")),
            say("done"),
        ]);
        let client = Client::codex(installed, &world, &talk);
        let client = if let Some(agent) = agent { client.under(MALA, agent) } else { client };
        let ended = hooked(client, Kind::Codex, &world).run();

        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_told(&results(&talk, "apply_patch")[1]);
        assert_told(&results(&talk, "exec_command")[0]);
        assert_eq!(read(&world, "free.txt"), "anybody's\n");
        assert_kept(&world, &talk);
    }
}

#[test]
fn codex_that_calls_its_tools_from_javascript_is_told_too() {
    let Some(installed) = installed() else { return };
    let world = world();
    let model = Model::start();
    let talk = model.talk([
        javascript_patch("*** Add File: new.txt\n+new"),
        javascript_patch(&replace("held.txt", "theirs", "mine")),
        javascript("text(await tools.exec_command({cmd: 'sed -i s/theirs/mine/ held.txt'}))"),
        say("done"),
    ]);
    let client = Client::codex(installed, &world, &talk).model(CODE_MODE);
    let ended = hooked(client, Kind::Codex, &world).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    results(&talk, "exec")[1..].iter().for_each(assert_told);
    assert_kept(&world, &talk);
}

#[test]
fn gemini_is_told_who_holds_a_file_before_it_writes() {
    let Some(installed) = installed() else { return };
    let world = world();
    let gemini = Gemini(&world);
    let model = Model::start();
    let talk = model.talk([
        gemini.write("new.txt", "new\n"),
        gemini.write("held.txt", "mine\n"),
        gemini.replace("held.txt", "theirs", "mine"),
        gemini.shell("sed -i s/theirs/mine/ held.txt"),
        say("done"),
    ]);
    install_in(&world, Kind::Gemini);
    let client = Client::gemini(installed, &world, &talk);
    // It says nothing of hooks that it does not run because nobody trusts the folder.
    let trusted = serde_json::json!({ world.root().to_str().unwrap(): "TRUST_FOLDER" });
    fs::create_dir_all(client.home().join(".gemini")).unwrap();
    fs::write(client.home().join(".gemini/trustedFolders.json"), trusted.to_string()).unwrap();
    let ended = client.run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_told(&results(&talk, "write_file")[1]);
    assert_told(&results(&talk, "replace")[0]);
    assert_told(&results(&talk, "run_shell_command")[0]);
    assert_kept(&world, &talk);
}

#[test]
fn a_stop_that_the_gate_does_not_accept_sends_claude_back_with_the_reasons() {
    let Some(installed) = installed() else { return };
    let world = world();
    fs::write(world.home().join(".gitconfig"), "[user]\nname = Test\nemail = test@example.invalid\n")
        .unwrap();
    let claude = Claude(&world);
    let model = Model::start();
    let talk = model.talk([
        claude.write("new.txt", "new\n"),
        say("all done"),
        claude.bash(&format!("{MALA} commit -m 'bd-9: a new file'")),
        say("now it is done"),
    ]);
    let client = Client::claude(installed, &world, &talk).under(MALA, "ann").on_issue("bd-9");
    let ended = hooked(client, Kind::Claude, &world).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(talk.told().contains("this is not accepted yet"), "the model is told: {}", talk.told());
    assert!(talk.told().contains("nothing was committed"), "and why: {}", talk.told());
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "bd-9: a new file", "{talk:?}");
}
