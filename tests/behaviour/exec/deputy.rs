//! The supervisor has rights that the tree does not have, and does not use them for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use mala_tests::World;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done};

/// A program that writes to the held file when it is run outside of the tree, as far as it can.
fn intruder(world: &World) -> PathBuf {
    let program = world.base().join("intruder");
    let held = world.root().join("held.txt");
    fs::write(&program, format!("#!/bin/sh\necho intruder > {}\ncat\n", held.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A repository with a changed file; to look at that, git runs the intruder.
fn booby_trap(world: &World, repo: PathBuf) -> PathBuf {
    let at = repo.to_str().unwrap();
    world.git(&["init", "-q", at]);
    fs::write(repo.join("file.txt"), "first\n").unwrap();
    world.git(&["-C", at, "add", "."]);
    world.git(&["-C", at, "commit", "-q", "-m", "first"]);
    world.git(&["-C", at, "config", "filter.x.clean", intruder(world).to_str().unwrap()]);
    fs::write(repo.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(repo.join("mala.toml"), "[validate]\nclean = true\n").unwrap();
    fs::write(repo.join("file.txt"), "other\n").unwrap();
    repo
}

#[test]
fn a_command_of_the_tree_acts_on_its_own_checkout_alone() {
    let world = world();
    let other = booby_trap(&world, world.base().join("other"));
    let other = other.display();
    let refused = |answer: &Answer| {
        answer.code == 1
            && answer.err.contains(&format!("`{other}` is not in the checkout of this agent"))
            && answer.err.contains(&format!("go to `{}`", world.root().display()))
    };
    for command in
        ["gate check", "gate pre-commit", "clean", "status", "lock list", "issue list", "logs list"]
    {
        let answer = exec(&world, "me", &format!("{MALA} -C {other} {command}"));
        assert!(refused(&answer), "{command}: {answer:?}");
        let answer = exec(&world, "me", &format!("cd {other} && {MALA} {command}"));
        assert!(refused(&answer), "{command}, there: {answer:?}");
    }
    let call = format!(
        r#"{{"hook_event_name": "Stop", "session_id": "s", "cwd": "{other}", "tool_name": "", "tool_input": {{}}}}"#
    );
    let answer = exec(&world, "me", &format!("echo '{call}' | {MALA} hook claude"));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(read(&world, "held.txt"), "theirs\n");
    assert!(!world.base().join("other/.git/mala").exists(), "the supervisor has opened a store there");
    let inside =
        exec(&world, "me", &format!("mkdir -p a/b && cd a/b && {MALA} lock list && {MALA} -C .. status"));
    assert_eq!(inside.code, 0, "{inside:?}");
}

#[test]
fn what_a_repository_in_the_checkout_configures_is_run_by_nobody() {
    let world = world();
    let module = booby_trap(&world, world.root().join("module"));
    world.git(&["config", "advice.addEmbeddedRepo", "false"]);
    world.git(&["add", "module"]);
    let at = module.to_str().unwrap();
    for step in ["staged", "committed", "watched"] {
        let answer = exec(&world, "me", &format!("{MALA} test -- true; {MALA} gate check; {MALA} status"));
        assert!(!answer.err.contains("counts for nothing"), "{answer:?}");
        done(&world, "test --agent me -- true");
        assert_eq!(read(&world, "held.txt"), "theirs\n", "{step}: {answer:?}");
        match step {
            "staged" => world.git(&["commit", "-q", "-m", "module", "--", "module"]),
            _ => world.git(&["-C", at, "config", "core.fsmonitor", intruder(&world).to_str().unwrap()]),
        };
    }
    let record = done(&world, "logs list evidence --json").json();
    let files = &record["evidence"][0]["files"];
    assert_eq!(files["module"], "unknown", "that it is changed is seen all the same: {record}");
}

#[test]
fn a_snapshot_does_not_lead_the_supervisor_elsewhere() {
    let world = world();
    let other = booby_trap(&world, world.base().join("other"));
    let tree = world.root().join(".git/mala-work/snapshots/x/tree");
    let git = tree.with_file_name("git");
    for folder in [&tree, &git] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(tree.join(".git"), format!("gitdir: {}\n", git.display())).unwrap();
    fs::write(git.join("HEAD"), format!("{}\n", world.git(&["rev-parse", "HEAD"]))).unwrap();
    fs::write(git.join("commondir"), format!("{}\n", other.join(".git").display())).unwrap();
    let at = tree.display();
    let answer = exec(&world, "me", &format!("cd {at} && {MALA} test --snapshot {at} -- touch ran"));
    assert!(
        answer.code == 1 && answer.err.contains("is not a snapshot of this agent's checkout"),
        "{answer:?}"
    );
    assert!(!tree.join("ran").exists() && !other.join(".git/mala").exists());
}

#[test]
fn a_snapshot_that_changes_while_it_is_used_leads_nobody_elsewhere() {
    let world = world();
    let other = booby_trap(&world, world.base().join("other"));
    let script = format!(
        "echo {}/.git > ../git/commondir; echo '* filter=x' > .gitattributes; echo x > free.txt",
        other.display()
    );
    let answer = exec(&world, "me", &format!("{MALA} test --isolated --json -- sh -c \"{script}\""));
    assert_eq!((answer.code, read(&world, "held.txt").as_str()), (0, "theirs\n"), "{answer:?}");
    assert_eq!(answer.json()["after"].as_object().unwrap().len(), 2, "what it changed is seen: {answer:?}");
    let left = fs::read_dir(world.root().join(".git/mala/snapshots")).unwrap().count();
    assert_eq!(left, 0, "and nothing of it is left");
}

/// Runs mala, but not for long.
fn soon(world: &World, args: &[&str]) -> Answer {
    let mut command = world.command("timeout");
    command.args(["--kill-after=1", "10", MALA]).args(args).env_remove("MALA_AGENT");
    command.stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let world = world();
    let pipe = |path: &str| mkfifo(&world.root().join(path), Mode::S_IRWXU).unwrap();
    pipe("mala.toml");
    for args in [&["exec", "--agent", "me", "--", "true"][..], &["clean"], &["status"]] {
        let answer = soon(&world, args);
        assert!(answer.code == 2 && answer.err.contains("mala.toml"), "{args:?}: {answer:?}");
    }
    fs::remove_file(world.root().join("mala.toml")).unwrap();
    fs::create_dir(world.root().join("sub")).unwrap();
    pipe("sub/.gitignore");
    let answer = soon(&world, &["exec", "--agent", "me", "--", "sh", "-c", "echo x > sub/x"]);
    assert_eq!((answer.code, read(&world, "sub/x").as_str()), (0, "x\n"), "{answer:?}");
    fs::remove_file(world.root().join("sub/.gitignore")).unwrap();
    pipe("words");
    for command in ["gate commit-msg words", "issue import words", "issue import /dev/zero"] {
        let script = format!("exec {MALA} {command}");
        let answer = soon(&world, &["exec", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", &script]);
        assert!(answer.code == 2 && answer.err.contains("not a regular file"), "{command}: {answer:?}");
    }
}
