//! Whatever a client does it with: what is free is written, and what others hold stays as it is.

use std::fs;

use mala_agents::Client as Agent;
use mala_agents::launch::home::{DIRECTORY, SETTINGS};
use mala_agents::launch::injection;
use mala_tests::clients::{Client, Kind};
use mala_tests::model::Model;
use mala_tests::{World, eventually};

use super::super::{NAMES_THE_HOLDER, installed, read, world};
use super::{Hands, Story};
use crate::cli::{MALA, held, pair};

/// A client under `mala exec`, with the hooks and tools of a run.
fn hooked<'a>(client: Client<'a>, kind: Kind, world: &World) -> Client<'a> {
    let agent = Agent::ALL.into_iter().find(|agent| agent.name() == kind.name()).unwrap();
    let added = injection(agent, MALA, world.root(), world.base());
    for (path, text) in &added.files {
        fs::write(path, text).unwrap();
    }
    if let Some(home) = &added.home {
        let folder = home.path.join(DIRECTORY);
        fs::create_dir_all(&folder).unwrap();
        let users = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}}"#;
        fs::write(folder.join(SETTINGS), home.settings(Some(users)).unwrap()).unwrap();
    }
    let client = added.env.iter().fold(client, |client, (name, value)| client.env(name, value));
    added.args.into_iter().fold(client, Client::arg)
}

/// Tries to write the held file, again and again, and says so in the file that it is given; ends when that is called for.
const TRIES: &str = r#"
import os, sys, time
while not os.path.exists(sys.argv[1] + ".enough"):
    try:
        open("he" + "ld.txt", "w").write("mine")
    except OSError:
        open(sys.argv[1], "w").close()
    time.sleep(0.05)
"#;

pub(in crate::clients) fn keeps_off(kind: Kind) {
    let Some(installed) = installed() else { return };
    let (world, model) = (world(), Model::start());
    let hands = Hands::new(kind, &world);
    let (script, tried) = (world.base().join("tries.py"), world.base().join("tried"));
    // It tries until it is ended, and no hook can know what.
    fs::write(&script, TRIES).unwrap();
    let in_background = format!("python3 {} {}", script.display(), tried.display());
    let has_tried = tried.clone();
    let shell = hands.shell("sed -i s/theirs/mine/ held.txt");
    // Claude itself does not end before what it has started in the background has ended; the others leave it to mala.
    let end = (kind == Kind::Claude).then(|| hands.shell(&format!("touch {}.enough", tried.display())));
    let story = Story::new(&hands)
        .edit("edit", "free.txt", "anybody's", "mine")
        .edit("refused edit", "held.txt", "theirs", "mine")
        .then("background", hands.background(&in_background))
        .then_by("sed", move |_| {
            eventually("the background command has tried to write", || has_tried.exists());
            shell.clone()
        })
        .delegate("PART: write to the file.");
    let story = match end {
        // It tells its model of the end, too.
        Some(end) => story.then("end", end).say("done"),
        None => story,
    };
    let told = story.say("done").part("PART: write", "held.txt", "theirs", "a part's").begin(&model);
    let Some(client) = Client::of(kind, installed, &world, &told.talk) else { return };
    let ended = hooked(client.under(MALA, "me"), kind, &world).run();

    assert_eq!(ended.code, Some(0), "{ended:?}");
    for refused in [told.of("refused edit"), told.of("sed"), told.of_parts()] {
        assert!(refused.contains(NAMES_THE_HOLDER), "{refused}");
    }
    assert_eq!(
        (read(&world, "free.txt").as_str(), read(&world, "held.txt").as_str()),
        ("mine\n", "theirs\n")
    );
    assert_eq!(held(&world), [pair("held.txt", "other")], "and the agent's own locks are free again");
    let left = mala_tests::processes_with(&script.display().to_string());
    assert_eq!(left, Vec::<String>::new(), "what it left in the background has ended with it");
}
