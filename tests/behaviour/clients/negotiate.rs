//! Two real clients want one file: they settle it between themselves, and both finish.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use mala_agents::Client as Kind;
use mala_agents::launch::injection;
use mala_tests::clients::Client;
use mala_tests::model::{Model, Reply, Request, Script, patch, say};
use mala_tests::{World, eventually};
use serde_json::Value;

use super::{Claude, installed, read, replace, results, shell};
use crate::cli::{Answer, MALA, done, held, mala};

/// A checkout with a file that both want.
fn world() -> World {
    let world = World::new();
    world.write("shared.txt", "one line\n");
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world
}

fn hooked<'a>(client: Client<'a>, kind: Kind, world: &World) -> Client<'a> {
    injection(kind, MALA, world.root(), world.base()).args.into_iter().fold(client, Client::arg)
}

/// The command after these words in what the model was told, such as `mala lock answer x1y2 release`.
fn command_in(request: &Request, words: &str) -> String {
    let told = request.told().join("\n");
    let (_, rest) = told.rsplit_once(words).unwrap_or_else(|| panic!("no word of {words:?}: {told}"));
    let id = rest.split_whitespace().next().unwrap_or_default();
    format!("{words}{id}").replace("mala ", &format!("{MALA} "))
}

/// A reply that is due when the store says so.
fn once(
    world: &World,
    what: &'static str,
    is_so: impl Fn(&Value) -> bool + Send + Sync + 'static,
    reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let root = world.root().to_path_buf();
    move |request| {
        eventually(what, || {
            let mut status = std::process::Command::new(MALA);
            let status = status.args(["status", "--json"]).current_dir(&root).output().unwrap();
            is_so(&serde_json::from_slice(&status.stdout).unwrap())
        });
        reply(request)
    }
}

#[test]
fn claude_and_codex_negotiate_over_one_file_and_both_finish() {
    let Some(installed) = installed() else { return };
    let world = world();
    let (claude, model) = (Claude(&world), Model::start());
    let ann = model.talk(
        Script::from([
            claude.read("shared.txt"),
            claude.edit("shared.txt", "one line", "ann's line"),
        ])
        .then_by(once(&world, "bob asks", |status| status["asks"][0]["state"] == "open", {
            let reply = claude.bash("true");
            move |_| reply.clone()
        }))
        .then_by(|request| {
            let answer = command_in(request, "mala lock answer ");
            super::call("Bash", serde_json::json!({"command": format!("{answer} defer --eta 5m"), "description": "later"}))
        })
        .then_by(once(&world, "bob waits", |status| status["waiters"][0]["agent"] == "bob", {
            let reply = claude.bash(&format!("{MALA} commit -m 'bd-1: a line of ann'"));
            move |_| reply.clone()
        }))
        .then(say("done")),
    );
    let bob = model.talk(
        Script::default()
            .then_by(once(
                &world,
                "ann holds it",
                |status| status["locks"][0]["agent"] == "ann",
                |_| patch(&replace("shared.txt", "one line", "bob's line")),
            ))
            .then(shell(&format!("{MALA} lock ask shared.txt --why 'bd-2 needs a line in it'")))
            .then_by(once(
                &world,
                "ann has put it off",
                |status| status["asks"][0]["state"] == "deferred",
                |_| shell("true"),
            ))
            .then(shell(&format!("{MALA} lock ask shared.txt --why 'bd-2 needs a line in it' --wait 5m")))
            .then(patch(&replace("shared.txt", "ann's line", "ann's line\n+bob's line")))
            .then(shell(&format!("{MALA} commit -m 'bd-2: a line of bob'")))
            .then(say("done")),
    );
    let first =
        hooked(Client::claude(installed, &world, &ann).under(MALA, "ann"), Kind::Claude, &world).start();
    let second = hooked(Client::codex(installed, &world, &bob).under(MALA, "bob"), Kind::Codex, &world).run();
    let first = first.finish();

    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(ann.told().contains("`bob` asks for `shared.txt`, which you hold"), "{}", ann.told());
    let refused = &results(&bob, "apply_patch")[0];
    assert!(refused.text.contains("mala lock ask shared.txt --why"), "{refused:?}");
    assert!(bob.told().contains("`ann` still needs `shared.txt`"), "{}", bob.told());
    assert_eq!(read(&world, "shared.txt"), "ann's line\nbob's line\n", "{bob:?}");
    assert_eq!(
        world.git(&["log", "--format=%s"]).lines().collect::<Vec<_>>(),
        ["bd-2: a line of bob", "bd-1: a line of ann", "start"]
    );
    assert_eq!(held(&world), Vec::new());
    let asks = done(&world, "lock asks --all --json").json();
    assert_eq!(asks["asks"][0]["state"], "released", "{asks}");
}

/// A run in which codex holds a file that claude needs: claude is put off, exits, and goes on with the very same call.
#[test]
fn in_a_run_claude_is_parked_until_codex_has_committed_and_both_finish() {
    let Some(installed) = installed() else { return };
    let world = world();
    let (claude, model) = (Claude(&world), Model::start());
    let keeper = model.talk(
        Script::from([patch(&replace("shared.txt", "one line", "codex's line"))])
            .then_by(once(
                &world,
                "claude waits",
                |status| status["waiters"][0]["position"] == 1,
                |_| shell(&format!("{MALA} commit -m 'keep: a line of codex'")),
            ))
            .then(say("done")),
    );
    let asker = model.talk(
        Script::default()
            .then_by(once(&world, "codex holds it", |status| status["locks"][0]["path"] == "shared.txt", {
                let reply = claude.bash("echo 'claude'\"'\"'s line' >> shared.txt");
                move |_| reply.clone()
            }))
            .then(claude.bash(&format!("{MALA} commit -m 'need: a line of claude'")))
            .then(say("done")),
    );
    set_up(&world, installed, &asker, &keeper);
    for (id, label) in [("keep", "codex"), ("need", "claude")] {
        done(&world, &format!("issue add --id {id} --label {label} {id}"));
    }
    let programs = world.base().join("programs");
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let run: Answer = mala(&world, ["run", "--json"])
        .env("PATH", path.unwrap())
        .env("MALA_RUN_STAGGER", "1ms")
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into();

    assert_eq!(run.code, 0, "{run:?}\n{:?}\n{:?}", asker.results(), keeper.results());
    assert_eq!(read(&world, "shared.txt"), "codex's line\nclaude's line\n");
    let events: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let issues = |kind: &str| -> Vec<&str> {
        let of_kind = events.iter().filter(|event| event["event"] == kind);
        of_kind.map(|event| event["issue"].as_str().unwrap()).collect()
    };
    assert_eq!((issues("parked"), issues("done")), (vec!["need"], vec!["keep", "need"]), "{run:?}");
    assert_eq!(asker.complaints(), Vec::<String>::new());
    assert_eq!(results(&asker, "Bash").len(), 2, "no turn was burned: {asker:?}");
}

/// Settings, programs and homes for a run with both clients.
fn set_up(
    world: &World,
    installed: &mala_tests::clients::Installed,
    asker: &mala_tests::model::Talk,
    keeper: &mala_tests::model::Talk,
) {
    let programs = world.base().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(installed.claude(), programs.join("claude")).unwrap();
    symlink(installed.codex(), programs.join("codex")).unwrap();
    let codex_home = world.home().join(".codex");
    fs::create_dir(&codex_home).unwrap();
    let provider = format!(
        "model_provider = \"test\"\n[model_providers.test]\nname = \"test\"\nbase_url = \"{}/v1\"\n\
         env_key = \"TEST_MODEL_KEY\"\nwire_api = \"responses\"\n",
        keeper.url()
    );
    fs::write(codex_home.join("config.toml"), provider).unwrap();
    let settings = format!(
        "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n\
         [agents.claude]\nkind = \"claude\"\nmodel = \"claude-sonnet-4-5\"\nlabels = [\"claude\"]\n\
         env = {{ ANTHROPIC_BASE_URL = \"{}\", ANTHROPIC_API_KEY = \"{}\", DISABLE_AUTOUPDATER = \"1\", \
         DISABLE_TELEMETRY = \"1\", DISABLE_ERROR_REPORTING = \"1\", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }}\n\
         [agents.codex]\nkind = \"codex\"\nmodel = \"gpt-5.5\"\nlabels = [\"codex\"]\n\
         env = {{ TEST_MODEL_KEY = \"{}\", CODEX_HOME = \"{}\" }}\n",
        asker.url(),
        asker.key(),
        keeper.key(),
        codex_home.display()
    );
    world.write("mala.toml", &settings);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "settings"]);
}
