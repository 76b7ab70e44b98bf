//! `mala run`: from issues to proven commits or handoffs, with scripted agents as real processes.
//!
//! An agent is a shell script outside the checkout. It gets the prompt on stdin and acts by the issue's id, so one
//! script tells the whole story of a test.

mod added;
mod branch;
mod clock;
mod commands;
mod contention;
mod demo;
mod endings;
mod following;
mod git_locks;
mod holding;
mod kills;
mod landing;
mod limits;
mod notifying;
mod obstacles;
mod parking;
mod proof;
mod questions;
mod recovery;
mod restoring;
mod resuming;
mod scheduling;
mod shares;
mod soak;
mod stopping;
mod telling;
mod unversioned;
mod yielding;

use std::fs;
use std::process::{Child, Command, Stdio};

use mala_tests::World;
use serde_json::Value;

use crate::cli::{Answer, MALA, done, mala};

/// What every agent begins with: its prompt, its issue and its attempt, and short words for what agents do.
const PRELUDE: &str = r#"
prompt=$(cat)
id=$(printf '%s\n' "$prompt" | sed -n '1s/^You work on the issue \([^ ]*\) .*/\1/p')
me=$(printf '%s\n' "$prompt" | sed -n '1,3s/.*You are the agent `\([^`]*\)`.*/\1/p')
attempt=${me##*-}
tested() { "$MALA" test -- sh check.sh; }
commit() { "$MALA" commit -m "$id: $1"; }
is_retry() { printf '%s\n' "$prompt" | grep -q 'is not accepted yet'; }
"#;

/// A client that speaks as claude does: `say` a text, `cost` so much, with a session of its own.
const CLAUDE: &str = r#"
    say() { printf '{"type":"assistant","session_id":"s-1","message":{"id":"m%s","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":1,"output_tokens":1}}}\n' "$1" "$2"; }
    cost() { printf '{"type":"result","subtype":"success","is_error":%s,"num_turns":1,"result":"%s","session_id":"s-1","total_cost_usd":%s,"usage":{}}\n' "$2" "$3" "$1"; }
"#;

/// A checkout with a profile `script`, whose agent runs `script`, and a required command `sh check.sh`.
pub(crate) struct Batch {
    pub(crate) world: World,
}

impl Batch {
    pub(crate) fn new(script: &str) -> Self {
        Self::with(script, "")
    }

    /// With more settings.
    pub(crate) fn with(script: &str, settings: &str) -> Self {
        let world = World::new();
        let agent = world.base().join("agent.sh");
        let settings = format!(
            "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n\
             [validate]\ncommands = [\"sh check.sh\"]\n[test]\ncommands = [\"sh check.sh\"]\n\
             [agents.script]\nkind = \"command\"\ncommand = [\"sh\", \"{}\"]\n{settings}\n",
            agent.display()
        );
        world.write("mala.toml", &settings);
        world.write("check.sh", "! grep -q broken *.txt\n");
        world.write("base.txt", "base\n");
        for (name, value) in [("user.name", "Agent"), ("user.email", "agent@example.invalid")] {
            world.git(&["config", name, value]);
        }
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "start"]);
        let batch = Self { world };
        batch.agent(script);
        batch
    }

    /// What every agent does from now on.
    pub(crate) fn agent(&self, script: &str) {
        let script = format!("MALA={MALA}\n{PRELUDE}\n{script}\n");
        fs::write(self.outside("agent.sh"), script).unwrap();
    }

    /// With an agent that speaks as claude does, and more settings of its profile.
    pub(crate) fn claude(script: &str, profile: &str, settings: &str) -> Self {
        let batch = Self::with(&format!("{CLAUDE}\n{script}"), settings);
        let changed =
            batch.read("mala.toml").replace("kind = \"command\"", &format!("kind = \"claude\"\n{profile}"));
        batch.world.write("mala.toml", &changed);
        batch.world.git(&["commit", "-q", "-a", "-m", "settings"]);
        batch
    }

    pub(crate) fn issue(&self, id: &str, options: &[&str]) {
        let mut command = mala(&self.world, ["issue", "add", "--id", id, &format!("Do {id}")]);
        let answer: Answer = command.args(options).output().unwrap().into();
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    /// `mala run` with the script as everybody's agent.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = mala(&self.world, ["run", "--json"]);
        command.args(args).env("MALA_RUN_PROFILE", "script");
        command.env("MALA_RUN_STAGGER", "1ms").env("MALA_RUN_RETRY_PAUSE", "1ms");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.command(args).output().map(Answer::from).unwrap().into()
    }

    /// What a person reads of a run.
    pub(crate) fn text(&self, args: &[&str]) -> Answer {
        let json = self.command(args);
        let mut command = mala(&self.world, ["run"]);
        command.args(args).envs(json.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap().into()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        done(&self.world, &format!("issue show {id} --json")).json()["issue"].clone()
    }

    pub(crate) fn status_of(&self, id: &str) -> String {
        self.show(id)["status"].as_str().unwrap().to_owned()
    }

    /// All notes of an issue, as one text.
    pub(crate) fn notes(&self, id: &str) -> String {
        let notes = self.show(id)["notes"].as_array().unwrap().clone();
        notes.iter().map(|note| note["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.world.root().join(path)).unwrap_or_default()
    }

    /// Uncommitted changes.
    pub(crate) fn dirt(&self) -> String {
        self.world.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// A place outside the checkout, for agents to leave signs at.
    pub(crate) fn outside(&self, name: &str) -> std::path::PathBuf {
        self.world.base().join(name)
    }

    /// Nothing of a run goes on: no lock, no process.
    pub(crate) fn assert_nothing_goes_on(&self) {
        assert_eq!(crate::cli::held(&self.world), Vec::new(), "locks are left");
        let base = self.world.base().display().to_string();
        mala_tests::eventually("no process of the run is left", || {
            mala_tests::processes_with(&base).is_empty()
        });
    }

    /// Nothing of a run is left: no lock, no process, no temporary file.
    pub(crate) fn assert_nothing_left(&self) {
        self.assert_nothing_goes_on();
        let (state, work) = (self.world.state_dir(), self.world.scope().work_dir());
        for folder in ["salvage", "staged", "snapshots", "desk", "wake", "baselines", "unversioned"]
            .map(|name| state.join(name))
        {
            let left = fs::read_dir(&folder).map_or(0, Iterator::count);
            assert_eq!(left, 0, "files are left in `{}`", folder.display());
        }
        for folder in ["commits", "snapshots"].map(|name| work.join(name)) {
            let left = fs::read_dir(&folder).map_or(0, Iterator::count);
            assert_eq!(left, 0, "files are left in `{}`", folder.display());
        }
        assert_eq!(git_locks::locks(&self.world), Vec::<String>::new(), "git's locks are left");
        assert_eq!(self.world.git(&["for-each-ref", "refs/mala-runs"]), "");
        self.assert_every_tip_is_green();
    }

    /// The oracle: a fresh clone walks every commit that mala has moved the branch to, and runs the required command there.
    pub(crate) fn assert_every_tip_is_green(&self) {
        let clone = self.outside("oracle");
        let _ = fs::remove_dir_all(&clone);
        self.world.git(&["clone", "-q", "--shared", ".", clone.to_str().unwrap()]);
        let moves = self.world.git(&["log", "-g", "--format=%H %gs", "HEAD"]);
        let tips = moves.lines().filter(|line| line.contains(" mala: landed "));
        for tip in tips.map(|line| line.split(' ').next().unwrap()) {
            let run = |program: &str, args: &[&str]| {
                self.world.command(program).current_dir(&clone).args(args).status().unwrap().success()
            };
            assert!(run("git", &["checkout", "-q", tip]), "{tip} is there");
            assert!(run("sh", &["check.sh"]), "{tip} is red");
        }
    }
}

/// What a run told.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) events: Vec<Value>,
    pub(crate) err: String,
}

impl From<Answer> for Run {
    fn from(answer: Answer) -> Self {
        let events = answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { code: answer.code, events, err: answer.err }
    }
}

impl Run {
    pub(crate) fn of(child: Child) -> Self {
        child.wait_with_output().map(Answer::from).unwrap().into()
    }

    /// The events of one kind.
    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["event"] == kind).collect()
    }

    /// The issues of the events of one kind, in order.
    pub(crate) fn issues(&self, kind: &str) -> Vec<&str> {
        self.all(kind).iter().map(|event| event["issue"].as_str().unwrap()).collect()
    }

    pub(crate) fn only(&self, kind: &str) -> &Value {
        let all = self.all(kind);
        assert_eq!(all.len(), 1, "`{kind}` once: {self:?}");
        all[0]
    }

    pub(crate) fn summary(&self) -> &Value {
        &self.only("run_ended")["summary"]
    }
}
