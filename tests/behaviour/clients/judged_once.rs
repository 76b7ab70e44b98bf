//! In a project with mala's hooks, a client that a run starts calls those and the run's.

use std::fs;

use mala_agents::{Client, install};
use mala_tests::model::{Model, say};
use mala_tests::write_script;
use serde_json::json;

use super::installed;
use super::profiles::Checkout;
use crate::cli::{MALA, done};

#[test]
fn each_call_of_every_client_is_judged_once_also_where_the_project_has_hooks_of_its_own() {
    let Some(installed) = installed() else { return };
    let model = Model::start();
    for client in Client::ALL {
        let Some(checkout) = Checkout::of(client, installed) else { continue };
        let world = &checkout.world;
        // The project's hooks tell that they were called.
        let (program, calls) = (world.base().join("mala"), world.base().join("calls"));
        write_script(
            &program,
            &format!("#!/bin/sh\necho \"$@\" >> '{}'\nexec '{MALA}' \"$@\"\n", calls.display()),
        );
        let change = install::plan(client, None, program.to_str().unwrap()).unwrap();
        world.write(change.path, &change.text);
        // Gemini CLI reads nothing of a project that nobody trusts.
        let trusted = json!({ world.root().to_str().unwrap(): "TRUST_FOLDER" }).to_string();
        fs::create_dir_all(world.home().join(".gemini")).unwrap();
        fs::write(world.home().join(".gemini/trustedFolders.json"), trusted).unwrap();
        let talk = model.talk([
            checkout.shell("git commit -m mine"),
            checkout.shell("true"),
            say("I looked.\nMALA-OUTCOME: no-change: it works already"),
        ]);
        let run = checkout.run(installed, &talk, "");

        assert_eq!(talk.complaints(), Vec::<String>::new(), "{client}: {run:?}");
        let calls = fs::read_to_string(&calls).unwrap_or_default();
        assert!(
            calls.lines().any(|call| call == format!("hook {client}")),
            "{client}: the project's were called: {calls} {run:?}"
        );
        let log = done(world, "logs list --kind write.refused --json --limit 1000").json();
        let judged = log["events"].as_array().unwrap().iter().filter(|event| event["detail"]["by"] == "hook");
        assert_eq!(judged.count(), 1, "{client}: {log}");
        assert!(run.all("unhooked").is_empty(), "{client}: {run:?}");
    }
}
