//! `mala run` with the real Gemini CLI, which has to be brought to take hooks and tools from a run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;

use mala_tests::World;
use mala_tests::clients::Installed;
use mala_tests::model::{Model, Request, Script, Talk, say};
use nix::unistd::Uid;
use walkdir::WalkDir;

use super::{Gemini, installed, results};
use crate::cli::{Answer, MALA, done, mala};
use crate::run::Run;

/// What the user has set up, and what no run may touch.
const USERS: &str = r#"{
  // comments are fine
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"enableAutoUpdate": false}
}
"#;

/// A user without rights, if this one is not.
const NOBODY: u32 = 65534;

/// How Gemini CLI is started.
fn node(installed: &Installed) -> String {
    format!("\"node\", \"{}\"", installed.gemini().display())
}

/// Gives the checkout one issue, for Gemini CLI, and puts it below a directory that the group may write to, as with `umask 002`.
fn set_up(world: &World, command: &str, talk: &Talk) {
    let settings = format!(
        "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\nstop_attempts = 0\n[validate]\ncommands = [\"sh \
         check.sh\"]\n[run]\nprofile = \"gemini\"\nattempts = 1\n[agents.gemini]\ncommand = [{command}]\nmodel = \
         \"gemini-2.5-pro\"\nenv = {{ GOOGLE_GEMINI_BASE_URL = \"{}\", GEMINI_API_KEY = \"{}\", GEMINI_CLI_NO_RELAUNCH = \"true\" }}\n",
        talk.url(),
        talk.key()
    );
    world.write("mala.toml", &settings);
    world.write("check.sh", "! grep -q broken *.txt\n");
    for (name, value) in [("user.name", "Agent"), ("user.email", "agent@example.invalid")] {
        world.git(&["config", name, value]);
    }
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(world, "issue add --id bd-1 Work");
    fs::create_dir(world.home().join(".gemini")).unwrap();
    fs::write(world.home().join(".gemini/settings.json"), USERS).unwrap();
    fs::set_permissions(world.base(), Permissions::from_mode(0o775)).unwrap();
}

/// Runs the issue as this user, to whom everything is given meanwhile.
fn run_as(world: &World, uid: Option<u32>) -> Run {
    let mut command = mala(world, ["run", "--json"]);
    command.env_remove("GEMINI_CLI_HOME").env("MALA_RUN_STAGGER", "1ms");
    let give = |uid: u32| {
        for entry in WalkDir::new(world.base()) {
            lchown(entry.unwrap().path(), Some(uid), Some(uid)).unwrap();
        }
    };
    if let Some(uid) = uid {
        give(uid);
        command.uid(uid).gid(uid).env("TMPDIR", world.home());
    }
    let run = command.output().map(Answer::from).unwrap().into();
    if uid.is_some() {
        give(0);
    }
    run
}

/// An agent that hears of a hook, offers what fails, and mends it when it is called again.
fn script(world: &World) -> Script {
    let gemini = Gemini(world);
    let offer =
        |text: &str| gemini.shell(&format!("echo {text} > one.txt && {MALA} commit -m 'bd-1: {text}'"));
    Script::from([
        gemini.shell("git commit -m mine"),
        offer("broken"),
        say("done"),
        offer("mended"),
        say("done"),
    ])
}

fn assert_hooked(world: &World, run: &Run, talk: &Talk) {
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(talk.complaints(), Vec::<String>::new(), "{run:?}");
    let requests = talk.requests();
    let has_tools = |request: &Request| request.tools().iter().any(|tool| tool.contains("lock_acquire"));
    assert!(requests.iter().all(has_tools), "mala's tools are there: {:?}", requests[0].tools());
    let told = results(talk, "run_shell_command");
    assert!(told[0].text.contains("is refused in a run"), "{told:?}");
    let log = done(world, "logs list --kind write.refused --json --limit 1000").json();
    let by_hook = log["events"].as_array().unwrap().iter().filter(|event| event["detail"]["by"] == "hook");
    assert_eq!(by_hook.count(), 1, "the hook has refused the commit: {log}");
    assert!(
        run.all("unhooked").is_empty() && run.summary()["attempts"][0]["is_unhooked"] == false,
        "{run:?}"
    );
    let starts = run.issues("started").len();
    assert_eq!((starts, run.issues("rejected").len()), (2, 1), "one conversation in two processes: {run:?}");
    assert!(requests.last().unwrap().replies() >= 4, "the second process has gone on with it");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "bd-1: mended");
    let users = fs::read_to_string(world.home().join(".gemini/settings.json")).unwrap();
    assert_eq!(users, USERS, "the user's settings are as they were");
    let homes = fs::read_dir(world.scope().work_dir().join("homes")).unwrap();
    assert_eq!(homes.count(), 0, "nothing of the homes is left");
}

#[test]
fn gemini_is_hooked_and_has_malas_tools_below_a_directory_that_its_group_may_write_to() {
    let Some(installed) = installed() else { return };
    let model = Model::start();
    let users: &[Option<u32>] = if Uid::effective().is_root() { &[None, Some(NOBODY)] } else { &[None] };
    for uid in users {
        let world = World::new();
        let talk = model.talk(script(&world));
        set_up(&world, &node(installed), &talk);
        let run = run_as(&world, *uid);
        assert_hooked(&world, &run, &talk);
    }
}

#[test]
fn a_client_that_calls_no_hooks_is_told_once_for_its_profile_and_counted_for_each_attempt() {
    let Some(installed) = installed() else { return };
    let (world, model) = (World::new(), Model::start());
    let talk = model
        .talk([Gemini(&world).shell("true"), say("I looked.\nMALA-OUTCOME: no-change: it works already")]);
    // What it is given to find its hooks by does not arrive.
    set_up(&world, &format!("\"env\", \"-u\", \"GEMINI_CLI_HOME\", {}", node(installed)), &talk);
    done(&world, "issue add --id bd-2 Work");
    let run = run_as(&world, None);
    assert_eq!(run.all("unhooked").len(), 1, "{run:?}");
    assert_eq!(run.only("unhooked")["profile"], "gemini");
    let attempts = run.summary()["attempts"].as_array().unwrap();
    assert_eq!(attempts.iter().map(|it| &it["is_unhooked"]).collect::<Vec<_>>(), [true, true], "{run:?}");
}
