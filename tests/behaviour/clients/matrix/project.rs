//! A project in which one client is the agent of `mala run`.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use mala_tests::World;
use mala_tests::clients::{Kind, profile};
use mala_tests::model::Talk;
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use walkdir::WalkDir;

use super::super::{installed, world};
use crate::cli::{Answer, done, mala};
use crate::run::Run;

/// The issue that the agent works on.
pub(super) const ISSUE: &str = "bd-1";

/// A checkout with one issue, one client, and `sh check.sh` as the required command, which fails on what is broken.
pub(super) struct Project {
    pub(super) world: World,
    /// Whose it is, and who works in it, if not whoever runs the tests.
    user: Option<u32>,
}

/// A user without rights.
const NOBODY: u32 = 65534;

/// A checkout for a project. Another agent holds `held.txt`.
pub(super) fn checkout() -> World {
    let world = world();
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
        let project = Self { world, user: None };
        project.issue(ISSUE);
        Some(project)
    }

    /// Gives it all to a user without rights, if this one is not, below a directory that the group may write to, as with `umask 002`.
    pub(super) fn give_to_an_ordinary_user(&mut self) {
        fs::set_permissions(self.world.base(), Permissions::from_mode(0o775)).unwrap();
        if Uid::effective().is_root() {
            self.user = Some(NOBODY);
            self.give(NOBODY);
        }
    }

    fn give(&self, user: u32) {
        for entry in WalkDir::new(self.world.base()) {
            lchown(entry.unwrap().path(), Some(user), Some(user)).unwrap();
        }
    }

    /// Takes it back, to look at.
    pub(super) fn take_back(&mut self) {
        if self.user.take().is_some() {
            self.give(0);
        }
    }

    fn as_its_user(&self, mut command: Command) -> Command {
        if let Some(user) = self.user {
            command.uid(user).gid(user).env("TMPDIR", self.world.home());
        }
        command
    }

    /// Does what a person types.
    pub(super) fn done(&self, line: &str) {
        let mut command = self.as_its_user(mala(&self.world, line.split(' ')));
        let answer: Answer = command.output().unwrap().into();
        assert_eq!(answer.code, 0, "`mala {line}`: {answer:?}");
    }

    pub(super) fn issue(&self, id: &str) {
        done(&self.world, &format!("issue add --id {id} Work"));
    }

    fn command(&self, args: &[&str]) -> Command {
        // A conversation that goes in circles ends some time.
        let mut command = mala(&self.world, ["run", "--json", "--timeout", "4m"]);
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
        self.as_its_user(command)
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
