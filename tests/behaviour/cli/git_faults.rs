//! A git that fails, lies, says nothing or hangs: nobody is blamed, nothing is lost, and with a git that works all goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mala_tests::{World, eventually, write_script};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Answer, done, mala};

/// A `git` that stands in front of the real one and misbehaves when it is told to.
struct FakeGit(PathBuf);

impl FakeGit {
    fn new(world: &World) -> Self {
        let place = world.base().join("fake/git");
        let real = which("git");
        let script = format!(
            "#!/bin/sh
read -r command fault 2>/dev/null < \"$0.fault\" || exec {real} \"$@\"
case \" $* \" in *\" $command \"*) ;; *) exec {real} \"$@\" ;; esac
case $fault in
    fails) echo 'fatal: made up' >&2; exit 128 ;;
    silent) exit 0 ;;
    lies) echo 'nothing that git says'; exit 0 ;;
    hangs) echo $$ > \"$0.hanging\"; exec sleep 600 ;;
esac
",
            real = real.display()
        );
        write_script(&place, &script);
        Self(place)
    }

    fn misbehave(&self, command: &str, fault: &str) {
        fs::write(self.0.with_extension("fault"), format!("{command} {fault}\n")).unwrap();
    }

    fn behave(&self) {
        fs::remove_file(self.0.with_extension("fault")).unwrap();
    }

    fn command(&self, world: &World, line: &str) -> Command {
        let mut command = mala(world, line.split_whitespace());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = self.0.parent().unwrap().to_owned();
        let all = std::iter::once(first).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).unwrap());
        command
    }

    fn run(&self, world: &World, line: &str) -> Answer {
        self.command(world, line).output().unwrap().into()
    }
}

fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|place| place.is_file()).unwrap()
}

/// A checkout of `main` in which `sh check.sh` is required.
fn world() -> World {
    let world = World::new();
    for (name, value) in [("user.name", "Fay"), ("user.email", "fay@example.invalid")] {
        world.git(&["config", name, value]);
    }
    world.write("mala.toml", "[validate]\ncommands = [\"sh check.sh\"]\n");
    world.write("check.sh", "test ! -e broken\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world
}

/// A commit that adds this file, on no branch.
fn commit_beside(world: &World, file: &str) -> String {
    world.git(&["switch", "-q", "--detach"]);
    world.write(file, "work\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", file]);
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&["switch", "-q", "main"]);
    head
}

fn offer(world: &World, file: &str) -> i64 {
    let head = commit_beside(world, file);
    done(world, &format!("land {head} --target main --json")).json()["entry"]["id"].as_i64().unwrap()
}

fn state(world: &World, id: i64) -> String {
    let list = done(world, "queue list --branch main --all --json").json();
    let entry = list["entries"].as_array().unwrap().iter().find(|entry| entry["id"] == id).cloned();
    entry.unwrap_or(Value::Null)["state"].as_str().unwrap_or("gone").to_owned()
}

fn is_whole(root: &Path, world: &World) -> bool {
    world.git(&["status", "--porcelain"]).is_empty() && !root.join(".git/index.lock").exists()
}

/// What the queue asks git for.
const COMMANDS: &[&str] = &[
    "rev-parse",
    "cat-file",
    "diff-tree",
    "read-tree",
    "update-index",
    "write-tree",
    "commit-tree",
    "clean",
    "checkout-index",
    "update-ref",
    "worktree",
];

#[test]
fn a_git_that_fails_lies_or_says_nothing_blames_no_work_and_loses_none() {
    let world = world();
    let git = FakeGit::new(&world);
    for (number, command) in COMMANDS.iter().enumerate() {
        for fault in ["fails", "silent", "lies"] {
            let file = format!("{number}-{fault}");
            let id = offer(&world, &file);
            // The branch goes on meanwhile, so that a new commit has to be made for the entry.
            world.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
            git.misbehave(command, fault);
            let answer = git.run(&world, "queue run --branch main");
            git.behave();
            let after = state(&world, id);
            let story = format!("`git {command}` {fault}: {after}, {answer:?}");
            assert!(is_whole(world.root(), &world), "{story}");
            match after.as_str() {
                "landed" => {}
                // A landing that was cut off is undone or finished by the next start.
                "waiting" | "landing" => assert!(!answer.err.trim().is_empty(), "it is told: {story}"),
                // An object that is not what its name says is somebody's doing, or such a git's.
                "failed" if (*command, fault) == ("cat-file", "lies") => {
                    assert!(answer.out.contains("git fsck"), "{story}");
                    done(&world, &format!("queue retry {id}"));
                }
                _ => panic!("{story}"),
            }
            done(&world, "queue run --branch main");
            assert_eq!(state(&world, id), "landed", "with a git that works: {story}");
            assert_eq!(world.git(&["show", &format!("main:{file}")]), "work");
            assert!(is_whole(world.root(), &world), "{story}");
        }
    }
    world.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn an_offer_that_git_does_not_keep_is_none() {
    let world = world();
    let git = FakeGit::new(&world);
    let head = commit_beside(&world, "a.txt");
    let land = format!("land {head} --target main");
    for fault in ["fails", "silent", "lies"] {
        git.misbehave("update-ref", fault);
        let answer = git.run(&world, &land);
        git.behave();
        assert!(answer.code != 0 && answer.err.contains("update-ref"), "{fault}: {answer:?}");
        assert_eq!(world.count("entry"), 0, "{fault}");
    }
    done(&world, &land);
    assert_eq!(world.count("entry"), 1);
}

#[test]
fn a_git_that_hangs_is_left_by_who_is_interrupted_and_loses_no_work() {
    let world = world();
    let git = FakeGit::new(&world);
    for command in ["read-tree", "update-ref"] {
        let id = offer(&world, command);
        git.misbehave(command, "hangs");
        let hanging = git.0.with_extension("hanging");
        let _ = fs::remove_file(&hanging);
        let mut run = git
            .command(&world, "queue run --branch main")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("git hangs", || fs::read_to_string(&hanging).is_ok_and(|pid| pid.ends_with('\n')));
        let pid = Pid::from_raw(i32::try_from(run.id()).unwrap());
        // Once to ask, once more to insist, as people do.
        eventually("it ends", || {
            let _ = kill(pid, Signal::SIGINT);
            run.try_wait().unwrap().is_some()
        });
        let git_pid: i32 = fs::read_to_string(&hanging).unwrap().trim().parse().unwrap();
        let _ = kill(Pid::from_raw(git_pid), Signal::SIGKILL);
        git.behave();
        done(&world, "queue run --branch main");
        assert_eq!(state(&world, id), "landed", "{command}");
        assert!(is_whole(world.root(), &world), "{command}");
    }
}
