//! Real husky, lefthook and pre-commit beside mala: whoever installs hooks last, a commit calls theirs and mala's, each once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use mala_tests::hook_managers::HookManagers;
use mala_tests::{World, write_script};

use crate::cli::{Answer, MALA, mala};

/// A project in which each manager's pre-commit hook writes `theirs` down, and mala's its own name.
struct Project {
    world: World,
    managers: &'static HookManagers,
}

impl Project {
    fn or_skip() -> Option<Self> {
        let managers = HookManagers::or_skip(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let project = Self { world: World::new(), managers };
        let world = &project.world;
        let calls = world.base().join("calls");
        let theirs = format!("echo theirs >> '{}'", calls.display());
        world.write(".gitignore", "node_modules\n");
        world.write("package.json", r#"{ "name": "p", "private": true, "scripts": { "prepare": "husky" } }"#);
        world.write("lefthook.yml", &format!("pre-commit:\n  jobs:\n    - run: {theirs}\n"));
        world.write(
            ".pre-commit-config.yaml",
            &format!(
                "repos:\n- repo: local\n  hooks:\n  - id: theirs\n    name: theirs\n    language: system\n    \
                 entry: sh -c \"{theirs}\"\n    always_run: true\n    pass_filenames: false\n"
            ),
        );
        for (name, value) in [("user.name", "Pat"), ("user.email", "pat@example.invalid")] {
            world.git(&["config", name, value]);
        }
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "start"]);
        symlink(&managers.node_modules, world.root().join("node_modules")).unwrap();
        // It notes that it was called by a hook of git's, and does what mala does.
        let called = "case \"$1 $2\" in 'gate pre-commit') echo mala >> \"$CALLS\" ;; esac\n";
        write_script(&world.base().join("bin/mala"), &format!("#!/bin/sh\n{called}exec {MALA} \"$@\"\n"));
        Some(project)
    }

    fn run(&self, program: impl AsRef<Path>, args: &[&str]) -> Answer {
        let answer = self.try_to_run(self.world.command(program.as_ref().to_str().unwrap()), args);
        assert_eq!(answer.code, 0, "{args:?}: {answer:?}");
        answer
    }

    fn try_to_run(&self, mut command: Command, args: &[&str]) -> Answer {
        let bin = self.world.base().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("CALLS", self.world.base().join("calls"));
        // As at a desk: these programs do less where they take themselves to be on CI.
        command.env_remove("CI").env_remove("MALA_AGENT").args(args).output().unwrap().into()
    }

    fn mala(&self, line: &str) -> Answer {
        let answer =
            self.try_to_run(mala(&self.world, [] as [&str; 0]), &line.split(' ').collect::<Vec<_>>());
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        answer
    }

    fn husky(&self) {
        fs::create_dir_all(self.world.root().join(".husky")).unwrap();
        let calls = self.world.base().join("calls");
        self.world.write(".husky/pre-commit", &format!("echo theirs >> '{}'\n", calls.display()));
        self.run("npm", &["run", "--silent", "prepare"]);
    }

    fn lefthook(&self) {
        self.run(self.managers.node_modules.join(".bin/lefthook"), &["install"]);
    }

    fn pre_commit(&self) {
        self.run(&self.managers.pre_commit, &["install"]);
    }

    /// What a commit calls, in order.
    fn calls_of_a_commit(&self) -> Vec<String> {
        let calls = self.world.base().join("calls");
        let _ = fs::remove_file(&calls);
        // Lefthook does nothing where nothing is staged.
        let work = fs::read_to_string(self.world.root().join("work.txt")).unwrap_or_default();
        self.world.write("work.txt", &format!("{work}more\n"));
        self.world.git(&["add", "work.txt"]);
        self.run("git", &["commit", "-q", "-m", "x"]);
        fs::read_to_string(calls).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// What the doctor says about git's hooks.
    fn doctor(&self) -> serde_json::Value {
        let report = self.try_to_run(mala(&self.world, [] as [&str; 0]), &["doctor", "--json"]).json();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "git hooks").unwrap().clone()
    }

    /// Git's hooks and where git looks for them.
    fn photo(&self) -> String {
        let files = "for f in $(find .git/hooks .git/hooks.* .husky -type f -o -type l | sort); do \
                     echo $f $(stat -c %a $f); cat $f; done 2>/dev/null; git config --get core.hooksPath";
        let out = self.world.command("sh").args(["-c", files]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

/// The manager is installed before mala, and again after it, and again.
fn goes_together(name: &str, install: fn(&Project)) {
    let Some(project) = Project::or_skip() else { return };
    install(&project);
    let alone = project.photo();
    assert_eq!(project.calls_of_a_commit(), ["theirs"], "{name} works here");
    project.mala("init --yes --preset none --client claude");
    assert_eq!(project.calls_of_a_commit(), ["theirs", "mala"], "{name} before mala");
    let check = project.doctor();
    assert!(check["status"] == "ok" && check["detail"].as_str().unwrap().contains(name), "{check}");
    for again in 1..=2 {
        install(&project);
        assert_eq!(project.doctor()["status"], "warn", "{name} has put its own there");
        match again {
            1 => drop(project.mala("init --yes --client claude")),
            _ => {
                let said = project.mala("exec --agent me -- true").err;
                assert!(said.contains("had been replaced") && said.contains(name), "{said}");
            }
        }
        assert_eq!(project.calls_of_a_commit(), ["theirs", "mala"], "{name} after mala, {again}");
        assert_eq!(project.doctor()["status"], "ok");
    }
    install(&project);
    project.mala("init --undo --yes");
    assert_eq!(project.photo(), alone, "as if mala had never been there");
    assert_eq!(project.calls_of_a_commit(), ["theirs"]);
}

#[test]
fn husky_and_mala_call_each_other_whoever_was_installed_last() {
    goes_together("husky", Project::husky);
}

#[test]
fn lefthook_and_mala_call_each_other_whoever_was_installed_last() {
    goes_together("lefthook", Project::lefthook);
}

#[test]
fn pre_commit_and_mala_call_each_other_whoever_was_installed_last() {
    goes_together("pre-commit", Project::pre_commit);
}

#[test]
fn a_manager_that_comes_after_mala_is_chained_and_left_in_its_place_by_undo() {
    for install in [Project::husky as fn(&Project), Project::lefthook, Project::pre_commit] {
        let Some(project) = Project::or_skip() else { return };
        project.mala("init --yes --preset none --client claude");
        install(&project);
        project.mala("init --yes --client claude");
        assert_eq!(project.calls_of_a_commit(), ["theirs", "mala"]);
        project.mala("init --undo --yes");
        assert_eq!(project.calls_of_a_commit(), ["theirs"]);
        assert!(!project.photo().contains("# mala:"), "{}", project.photo());
    }
}
