//! A project in which one client is the agent of `mala run`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use mala_tests::World;
use mala_tests::clients::{Kind, profile};
use mala_tests::model::Talk;
use nix::unistd::Pid;
use serde_json::Value;

use super::super::{installed, private_world};
use crate::cli::{Answer, done, mala};
use crate::run::Run;

/// The issue that the agent works on.
pub(super) const ISSUE: &str = "bd-1";

/// A checkout with one issue, one client, and `sh check.sh` as the required command, which fails on what is broken.
pub(super) struct Project {
    pub(super) world: World,
}

/// A checkout for a project. Another agent holds `held.txt`.
pub(super) fn checkout() -> World {
    let world = private_world();
    world.write("check.sh", "! grep -q broken *.txt\n");
    for (name, value) in [("user.name", "Agent"), ("user.email", "agent@example.invalid")] {
        world.git(&["config", name, value]);
    }
    world
}

impl Project {
    /// `settings` are more lines of the table `[run]`. Nothing, and a loud word about it, where the client cannot be had.
    pub(super) fn new(kind: Kind, world: World, talk: &Talk, settings: &str) -> Option<Self> {
        let profile = profile(kind, installed()?, &world.home(), talk)?;
        let settings = format!(
            "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n[validate]\ncommands = [\"sh check.sh\"]\n\
             [test]\ncommands = [\"sh check.sh\"]\n[run]\nprofile = \"{}\"\nattempts = 2\nretry_pause = \"1ms\"\nstagger = \"1ms\"\n{settings}\n{profile}",
            kind.name()
        );
        world.write("mala.toml", &settings);
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "settings"]);
        let project = Self { world };
        project.issue(ISSUE);
        Some(project)
    }

    pub(super) fn issue(&self, id: &str) {
        done(&self.world, &format!("issue add --id {id} Work"));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = mala(&self.world, ["run", "--json"]);
        command.args(args);
        // Nothing of whoever runs the tests decides which model is asked.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let is_the_users =
                ["ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "OPENCODE"];
            if is_the_users.iter().any(|begin| name.starts_with(begin)) {
                command.env_remove(&*name);
            }
        }
        command
    }

    pub(super) fn run(&self, talk: &Talk) -> Run {
        let run: Run = self.command(&[]).output().map(Answer::from).unwrap().into();
        assert_eq!(talk.complaints(), Vec::<String>::new(), "{run:?}\n{talk:#?}");
        run
    }

    /// A run of which every event is seen as it comes, with the run's process.
    pub(super) fn follow(&self, args: &[&str], mut see: impl FnMut(&Value, Pid)) -> Run {
        let mut run = self.start(args);
        let pid = Pid::from_raw(i32::try_from(run.id()).unwrap());
        let mut events = Vec::new();
        for line in BufReader::new(run.stdout.take().unwrap()).lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            see(&event, pid);
            events.push(event);
        }
        let ended = run.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        Run { code: ended.status.code().unwrap_or(-1), events, err }
    }

    pub(super) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Subjects of the branch, newest first, without those that were there before.
    pub(super) fn landed(&self) -> Vec<String> {
        let log = self.world.git(&["log", "--format=%s"]);
        log.lines().filter(|line| !["settings", "start"].contains(line)).map(str::to_owned).collect()
    }

    /// The issue is done: this is what it has brought, and nothing else is different.
    pub(super) fn assert_landed(&self, run: &Run, subject: &str) {
        assert_eq!((run.code, run.issues("done")), (0, vec![ISSUE]), "{run:?}");
        assert_eq!(self.landed(), [subject], "{run:?}");
        assert_eq!(self.world.git(&["status", "--porcelain", "--untracked-files=all"]), "", "{run:?}");
    }
}
