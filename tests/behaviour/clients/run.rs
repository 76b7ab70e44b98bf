//! `mala run` with the real Claude Code and Codex: from issues to commits that the gate has accepted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mala_tests::clients::Installed;
use mala_tests::model::{Model, Reply, Request, Script, TOKENS_IN, TOKENS_OUT, Talk, patch, say};
use mala_tests::{World, eventually};
use serde_json::Value;

use super::{Claude, installed, read, replace, shell};
use crate::cli::{Answer, MALA, done, held, mala};
use crate::run::Run;

/// Settings of the user's own, which no run may touch.
const USERS: &[(&str, &str)] = &[
    (".claude/settings.json", "{\n  \"theme\": \"dark\" , \"hooks\": {}\n}\n"),
    (".claude/CLAUDE.md", "Speak briefly.\n"),
    (".codex/AGENTS.md", "Speak briefly.\n"),
];

/// A checkout in which issues are for claude, or for codex if they have the label `codex`; all have to pass `sh check.sh`.
struct Fleet {
    world: World,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Fleet {
    fn new(installed: &Installed, world: World, talk: &Talk, gate: &str) -> Self {
        let codex = format!(
            "# mine\nmodel_provider = \"test\"\n[model_providers.test]\nname = \"test\"\nbase_url = \"{}/v1\"\nenv_key = \
             \"TEST_MODEL_KEY\"\nwire_api = \"responses\"\n",
            talk.url()
        );
        let users = USERS.iter().copied().chain([(".codex/config.toml", codex.as_str())]);
        let mut before = BTreeMap::new();
        for (path, text) in users {
            let path = world.home().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            before.insert(path, text.as_bytes().to_vec());
        }
        world.write("mala.toml", &settings(installed, talk, gate));
        world.write("check.sh", "! grep -q broken *.txt\n");
        world.write("shared.txt", "base\n");
        for (name, value) in [("user.name", "Agent"), ("user.email", "agent@example.invalid")] {
            world.git(&["config", name, value]);
        }
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "start"]);
        Self { world, before }
    }

    fn issue(&self, id: &str, label: &str) {
        let mut add = mala(&self.world, ["issue", "add", "--id", id, "--label", label, "Do it"]);
        let answer: Answer = add.output().unwrap().into();
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    fn run(&self, talk: &Talk) -> Run {
        let mut command = mala(&self.world, ["run", "--json"]);
        // Nothing of whoever runs the tests decides which model is asked.
        for name in [
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "OPENAI_API_KEY",
            "CODEX_HOME",
        ] {
            command.env_remove(name);
        }
        let run = command.env("MALA_RUN_STAGGER", "1ms").output().map(Answer::from).unwrap().into();
        assert_eq!(talk.complaints(), Vec::<String>::new(), "{run:?}");
        run
    }

    /// What the user had set up is as it was, byte for byte, and nothing of the run is left.
    fn assert_untouched(&self) {
        for (path, bytes) in &self.before {
            let now = fs::read(path).unwrap();
            assert_eq!(String::from_utf8_lossy(&now), String::from_utf8_lossy(bytes), "{}", path.display());
        }
        assert_eq!(self.world.git(&["status", "--porcelain", "--untracked-files=all"]), "");
        assert_eq!(held(&self.world), []);
    }
}

fn settings(installed: &Installed, talk: &Talk, gate: &str) -> String {
    let (claude, codex) = (installed.claude().display(), installed.codex().display());
    let (url, key) = (talk.url(), talk.key());
    format!(
        "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n{gate}\n[validate]\ncommands = [\"sh check.sh\"]\n\
         [test]\ncommands = [\"sh check.sh\"]\n[run]\nprofile = \"claude\"\nattempts = 1\nno_change = \"close\"\n\
         [agents.claude]\ncommand = [\"{claude}\"]\nmodel = \"claude-sonnet-4-5\"\n\
         env = {{ ANTHROPIC_BASE_URL = \"{url}\", ANTHROPIC_API_KEY = \"{key}\", DISABLE_AUTOUPDATER = \"1\", DISABLE_TELEMETRY = \
         \"1\", DISABLE_ERROR_REPORTING = \"1\", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }}\n\
         [agents.codex]\ncommand = [\"{codex}\"]\nmodel = \"gpt-5.5\"\nlabels = [\"codex\"]\nenv = {{ TEST_MODEL_KEY = \"{key}\" }}\n"
    )
}

/// How the prompt of an issue begins.
fn prompt(id: &str) -> String {
    format!("You work on the issue {id} in the git checkout")
}

/// A reply that is due once something has happened.
fn once(
    what: &'static str,
    condition: impl Fn() -> bool + Send + Sync + 'static,
    reply: Reply,
) -> impl Fn(&Request) -> Reply {
    move |_| {
        eventually(what, &condition);
        reply.clone()
    }
}

/// True if this agent holds `shared.txt`.
fn holds_shared(root: &Path, agent: &str) -> bool {
    let mut list = Command::new(MALA);
    let out = list.args(["lock", "list", "--json"]).current_dir(root).output().unwrap();
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    list["locks"]
        .as_array()
        .unwrap()
        .iter()
        .any(|lock| lock["path"] == "shared.txt" && lock["agent"] == agent)
}

const TEST: &str = "test -- sh check.sh";

/// Three agents: one has the shared file first; one is refused it, waits for it, and commits what fails; one commits
/// with git what fails. The last two are told by the gate.
fn three(world: &World) -> Script {
    let claude = Claude(world);
    let (root, refused) = (world.root().to_owned(), world.base().join("refused"));
    let shared = root.join("shared.txt");
    let is_written = move || fs::read_to_string(&shared).is_ok_and(|text| text == "one\n");
    let told = refused.clone();
    let two = || patch(&replace("shared.txt", "one", "one\n+two"));
    Script::default()
        .when(&prompt("bd-1"))
        .then(claude.read("shared.txt"))
        .then(claude.write("shared.txt", "one\n"))
        .then_by(once(
            "the other agent was refused",
            move || told.exists(),
            // Another's commit that fails may be on the branch by now.
            claude.bash(&format!("{MALA} {TEST}; {MALA} commit -m 'bd-1: one'")),
        ))
        .then(say("bd-1 is done"))
        .when(&prompt("bd-2"))
        .then_by(once("the shared file is written", is_written, two()))
        .then(shell(&format!("touch {}; {MALA} lock acquire shared.txt --wait 5m", refused.display())))
        .then_by(once("the lock was handed over", move || holds_shared(&root, "codex-bd-2-1"), two()))
        .then(shell(&format!("echo broken > two.txt; {MALA} commit -m 'bd-2: two'")))
        .then(say("all tests pass"))
        .then(shell(&format!("echo two > two.txt; {MALA} {TEST}; {MALA} commit -m 'bd-2: mended'")))
        .then(say("bd-2 is done"))
        .when(&prompt("bd-3"))
        .then(claude.write("three.txt", "broken\n"))
        // The branch moves only by landing, so git is refused and the client is told what to type.
        .then(claude.bash("git add three.txt && git commit -m 'bd-3: three'"))
        .then(claude.bash(&format!("{MALA} commit -m 'bd-3: three'")))
        .then(say("all tests pass"))
        .then(claude.bash(&format!("echo three > three.txt; {MALA} {TEST}; {MALA} commit -m 'bd-3: mended'")))
        .then(say("bd-3 is done"))
}

#[test]
fn three_real_agents_in_one_checkout_commit_what_is_proven() {
    let Some(installed) = installed() else { return };
    let (world, model) = (World::new(), Model::start());
    let talk = model.talk(three(&world));
    // The gate speaks after the process has ended, so that the session has to be resumed.
    let fleet = Fleet::new(installed, world, &talk, "stop_attempts = 0");
    fleet.issue("bd-1", "x");
    fleet.issue("bd-2", "codex");
    fleet.issue("bd-3", "x");
    let run = fleet.run(&talk);

    assert_eq!(run.code, 0, "{run:?}");
    let mut finished = run.issues("done");
    finished.sort_unstable();
    assert_eq!(finished, ["bd-1", "bd-2", "bd-3"], "{run:?}");
    let mut subjects: Vec<String> =
        fleet.world.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["bd-1: one", "bd-2: mended", "bd-3: mended", "start"]);
    assert_eq!(
        (read(&fleet.world, "shared.txt").as_str(), read(&fleet.world, "three.txt").as_str()),
        ("one\ntwo\n", "three\n")
    );
    let patched = super::results(&talk, "apply_patch");
    assert!(patched[0].text.contains("`shared.txt` is held by `claude-bd-1-1` (issue bd-1)"), "{patched:?}");
    assert_sent_back(&run, &talk);
    assert_reported(&run);
    fleet.assert_untouched();
}

/// The two whose work fails went on in the same conversation, with the exact reason.
fn assert_sent_back(run: &Run, talk: &Talk) {
    for issue in ["bd-2", "bd-3"] {
        let rejected: Vec<_> =
            run.all("rejected").into_iter().filter(|event| event["issue"] == issue).collect();
        assert_eq!(rejected.len(), 1, "{run:?}");
        let reason = rejected[0]["failed"][0]["detail"].as_str().unwrap().to_owned();
        assert!(reason.starts_with("`sh check.sh` failed on what you offered, run by mala"), "{reason}");
        let starts: Vec<_> = run.all("started").into_iter().filter(|event| event["issue"] == issue).collect();
        assert!(
            starts.len() == 2 && starts[0]["session"].is_null() && starts[1]["session"].is_string(),
            "{starts:?}"
        );
        let last = talk.requests().into_iter().rfind(|request| request.prompt().contains(&prompt(issue)));
        let told = last.expect("it has asked its model").told();
        assert!(told.iter().any(|text| text.contains(&reason) && text.contains("round 1 of 3")), "{told:?}");
    }
}

/// What the clients printed was understood: what each does, what it used, what it cost.
fn assert_reported(run: &Run) {
    for (issue, replies, words) in
        [("bd-1", 4, "bd-1 is done"), ("bd-2", 7, "bd-2 is done"), ("bd-3", 6, "bd-3 is done")]
    {
        let doing: Vec<_> = run.all("doing").into_iter().filter(|event| event["issue"] == issue).collect();
        assert!(doing.len() > 1, "{issue}: {doing:?}");
        let attempts = run.summary()["attempts"].as_array().unwrap();
        let attempt = attempts.iter().find(|attempt| attempt["issue"] == issue).unwrap();
        assert_eq!(attempt["tokens"], replies * (TOKENS_IN + TOKENS_OUT), "{words}: {attempt}");
        // The model's list price, for each of its replies once. Codex does not tell what it costs.
        let (input, output) = if issue == "bd-2" { (5.0, 30.0) } else { (3.0, 15.0) };
        let price = f64::from(replies as u32) * (120.0 * input + 30.0 * output) / 1e6;
        let cost = attempt["cost"].as_f64().unwrap_or_default();
        assert!((cost - price).abs() < 1e-9, "{cost} instead of {price}: {attempt}");
    }
}

#[test]
fn a_real_client_is_sent_back_by_its_own_hook_and_its_last_words_count() {
    let Some(installed) = installed() else { return };
    let (world, model) = (World::new(), Model::start());
    let claude = Claude(&world);
    let nothing = |id: &str| say(format!("I looked.\nMALA-OUTCOME: no-change: {id} works already"));
    let talk = model.talk(
        Script::default()
            .when(&prompt("bd-1"))
            .then(claude.write("one.txt", "one\n"))
            .then(say("all done"))
            .then(claude.bash(&format!("{MALA} {TEST} && {MALA} commit -m 'bd-1: one'")))
            .then(say("now it is done"))
            .when(&prompt("bd-2"))
            .then(nothing("bd-2"))
            .when(&prompt("bd-3"))
            .then(nothing("bd-3")),
    );
    let fleet = Fleet::new(installed, world, &talk, "");
    fleet.issue("bd-1", "x");
    fleet.issue("bd-2", "codex");
    fleet.issue("bd-3", "x");
    let run = fleet.run(&talk);

    assert_eq!((run.code, run.issues("rejected")), (0, Vec::new()), "nothing had to be resumed: {run:?}");
    assert_eq!(run.issues("started").len(), 3, "{run:?}");
    assert!(talk.told().contains("this is not accepted yet"), "{}", talk.told());
    for (issue, outcome) in
        [("bd-2", "no-change: bd-2 works already"), ("bd-3", "no-change: bd-3 works already")]
    {
        let done: Vec<_> = run.all("done").into_iter().filter(|event| event["issue"] == issue).collect();
        assert_eq!(done[0]["outcome"], outcome, "{run:?}");
    }
    assert_eq!(done(&fleet.world, "issue show bd-1 --json").json()["issue"]["status"], "closed");
    fleet.assert_untouched();
}
