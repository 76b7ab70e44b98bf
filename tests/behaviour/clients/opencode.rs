//! The real opencode with mala's plugin: told before it writes, and held under `mala exec`.

use std::fs;

use mala_agents::launch::injection;
use mala_agents::{Client as Kind, install};
use mala_tests::World;
use mala_tests::clients::Client;
use mala_tests::model::{Model, Reply, Talk, call, say};
use serde_json::json;

use super::{NAMES_THE_HOLDER, installed, read, results, world};
use crate::cli::{MALA, held, pair};

/// Its tools, on files of the checkout.
pub(super) struct Opencode<'a>(pub(super) &'a World);

impl Opencode<'_> {
    pub(super) fn write(&self, path: &str, content: &str) -> Reply {
        call("write", json!({"filePath": self.0.root().join(path), "content": content}))
    }

    fn read(&self, path: &str) -> Reply {
        call("read", json!({"filePath": self.0.root().join(path)}))
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Reply {
        let path = self.0.root().join(path);
        call("edit", json!({"filePath": path, "oldString": old, "newString": new}))
    }

    pub(super) fn bash(&self, command: &str) -> Reply {
        call("bash", json!({"command": command, "description": "as the script says"}))
    }
}

fn script(world: &World) -> [Reply; 8] {
    let opencode = Opencode(world);
    [
        opencode.write("new.txt", "new\n"),
        opencode.read("held.txt"),
        opencode.write("held.txt", "mine\n"),
        opencode.edit("held.txt", "theirs", "mine"),
        opencode.bash("sed -i s/theirs/mine/ held.txt"),
        opencode.bash(&format!("{MALA} lock list --json")),
        // No hook can know what this writes.
        opencode.bash("python3 -c 'open(\"he\" + \"ld.txt\", \"w\").write(\"mine\")'"),
        say("done"),
    ]
}

/// The model was told of every write by name, before anything happened.
fn assert_told(talk: &Talk) {
    let (writes, edits, bash) = (results(talk, "write"), results(talk, "edit"), results(talk, "bash"));
    for told in [&writes[1], &edits[0], &bash[0]] {
        for words in [NAMES_THE_HOLDER, "Nothing was written", "mala lock acquire held.txt --wait"] {
            assert!(told.text.contains(words), "no word of {words:?}: {told:?}");
        }
    }
    assert!(bash[1].text.contains("new.txt"), "what was written is the session's: {bash:?}");
}

#[test]
fn opencode_is_told_who_holds_a_file_before_it_writes() {
    let Some(installed) = installed() else { return };
    let Some(program) = installed.opencode_or_skip() else { return };
    let world = world();
    let change = install::plan(Kind::Opencode, None, MALA).unwrap();
    world.write(change.path, &change.text);
    let model = Model::start();
    let talk = model.talk(script(&world));
    let ended = Client::opencode(program, &world, &talk).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_told(&talk);
    let bash = results(&talk, "bash");
    assert!(bash[2].text.contains("files of other agents changed: `held.txt`"), "found afterwards: {bash:?}");
    assert_eq!(read(&world, "new.txt"), "new\n", "{talk:?}");
    assert_eq!(held(&world), [pair("held.txt", "other")], "{talk:?}");
}

#[test]
fn under_mala_exec_opencode_writes_nothing_that_others_hold() {
    let Some(installed) = installed() else { return };
    let Some(program) = installed.opencode_or_skip() else { return };
    let world = world();
    let added = injection(Kind::Opencode, MALA, world.root(), world.base());
    for (path, text) in &added.files {
        fs::write(path, text).unwrap();
    }
    let model = Model::start();
    let talk = model.talk(script(&world));
    let client = Client::opencode(program, &world, &talk).under(MALA, "dora");
    let ended = added.env.iter().fold(client, |client, (name, value)| client.env(name, value)).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_told(&talk);
    let bash = results(&talk, "bash");
    assert!(bash[2].text.contains("Permission denied"), "the kernel has the last word: {bash:?}");
    assert_eq!((read(&world, "held.txt").as_str(), read(&world, "new.txt").as_str()), ("theirs\n", "new\n"));
    assert_eq!(held(&world), [pair("held.txt", "other")], "{talk:?}");
}
