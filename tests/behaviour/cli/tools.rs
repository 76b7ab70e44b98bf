//! Doctor, completions, manual pages, help.

use std::fs;

use mala_tests::World;
use serde_json::Value;

use super::{Answer, done, mala, run};

#[test]
fn the_doctor_says_what_works_and_what_protects_the_user() {
    let world = World::new();
    let report = done(&world, "doctor --json").json();
    let names: Vec<_> =
        report["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "git",
            "checkout",
            "settings",
            "store",
            "evidence",
            "validation",
            "slots",
            "git hooks",
            "clients",
            "trackers",
            "enforcement"
        ]
    );
    assert_eq!(report["ok"], true);
    let text = done(&world, "doctor").out;
    assert!(text.contains("git version") && text.contains("cannot change what others hold"), "{text}");
}

#[test]
fn the_doctor_says_how_to_mend_an_index_that_git_cannot_read() {
    let world = World::new();
    world.write("file", "text\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    assert_eq!(check(&world, "checkout")["status"], "ok");
    for bytes in [&b""[..], &[7; 100]] {
        fs::write(world.root().join(".git/index"), bytes).unwrap();
        let broken = check(&world, "checkout");
        assert_eq!(broken["status"], "fail", "{broken}");
        assert!(broken["detail"].as_str().unwrap().contains("git cannot read its index"), "{broken}");
        let fix = broken["fix"].as_str().unwrap();
        let typed = fix.split(": ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
        assert!(world.command("sh").args(["-c", typed]).status().unwrap().success(), "{fix}");
        assert_eq!(
            (&check(&world, "checkout")["status"], world.git(&["status", "--short"]).as_str()),
            (&"ok".into(), "")
        );
    }
}

#[test]
fn the_doctor_works_where_nothing_else_does() {
    let world = World::new();
    let bare: Answer =
        mala(&world, ["doctor"]).current_dir(world.base()).env("PATH", "").output().unwrap().into();
    assert_eq!(bare.code, 1);
    assert!(bare.out.contains("cannot run `git`") && bare.out.contains("install git"), "{bare:?}");
    assert!(bare.out.contains("not inside a git repository"), "{bare:?}");
}

/// What the doctor says about one thing.
fn check(world: &World, name: &str) -> Value {
    let path = format!("{}:{}", world.base().join("bin").display(), std::env::var("PATH").unwrap());
    let report: Answer = mala(world, ["doctor", "--json"]).env("PATH", path).output().unwrap().into();
    let checks = report.json()["checks"].as_array().unwrap().clone();
    checks.into_iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn the_doctor_does_not_say_that_hooks_let_through_what_they_refuse() {
    let world = World::new();
    fs::create_dir(world.base().join("bin")).unwrap();
    std::os::unix::fs::symlink(super::MALA, world.base().join("bin/mala")).unwrap();
    done(&world, "init --yes");
    let fires = check(&world, "git hooks");
    assert_eq!(fires["status"], "ok", "{fires}");

    let settings = fs::read_to_string(world.root().join("mala.toml")).unwrap();
    world.write("mala.toml", "[lock]\nttl = \"soon\"\n");
    let broken = check(&world, "git hooks");
    let detail = broken["detail"].as_str().unwrap();
    assert!(
        detail.contains("refuse") && detail.contains("lock.ttl") && !detail.contains("let through"),
        "{detail}"
    );
    assert!(broken["fix"].as_str().unwrap().contains("`lock.ttl` takes"), "{broken}");

    world.write("mala.toml", &settings);
    fs::remove_dir_all(world.state_dir()).unwrap();
    fs::create_dir(world.state_dir()).unwrap();
    fs::write(world.state_dir().join("state.db"), "this is no database".repeat(100)).unwrap();
    let broken = check(&world, "git hooks");
    let detail = broken["detail"].as_str().unwrap();
    assert!(detail.contains("is damaged") && !detail.contains("let through"), "{detail}");
    assert!(broken["fix"].as_str().unwrap().contains("mv "), "{broken}");
    fs::remove_file(world.state_dir().join("state.db")).unwrap();

    let hook = world.root().join(".git/hooks/commit-msg");
    mala_tests::write_script(&hook.with_extension("before-mala"), "#!/bin/sh\necho too short >&2; exit 1\n");
    let other = check(&world, "git hooks");
    assert!(other["status"] == "warn" && other["detail"].as_str().unwrap().contains("too short"), "{other}");
    mala_tests::write_script(&hook.with_extension("before-mala"), "#!/bin/sh\nexit 0\n");

    fs::remove_file(world.base().join("bin/mala")).unwrap();
    let missing = check(&world, "git hooks");
    assert!(missing["fix"].as_str().unwrap().contains("put `mala` on the PATH"), "{missing}");
}

#[test]
fn groups_of_commands_show_an_example() {
    let world = World::new();
    for group in ["lock", "msg", "gate", "issue", "logs"] {
        let help = done(&world, &format!("{group} --help")).out;
        assert!(help.contains("Example") && help.contains(&format!("  mala {group} ")), "{help}");
    }
}

#[test]
fn init_says_that_it_left_other_settings_as_they_are() {
    let world = World::new();
    done(&world, "init --yes --preset rust --client claude");
    let same = done(&world, "init --yes --preset rust --client claude");
    assert!(!same.err.contains("preset"), "{}", same.err);
    let other = done(&world, "init --yes --preset node --client claude");
    assert!(
        other.err.contains("has the preset `rust`") && other.err.contains("preset = \"node\""),
        "{}",
        other.err
    );

    world.write("mala.toml", "[lock\n");
    let before = fs::read_dir(world.root()).unwrap().count();
    let broken = run(&world, "init --yes --client gemini");
    assert!(
        broken.code == 2 && broken.err.contains("invalid TOML") && broken.err.contains("mala.toml:1:6"),
        "{broken:?}"
    );
    assert_eq!(fs::read_dir(world.root()).unwrap().count(), before, "nothing was changed");
    done(&world, "init --undo --yes");
}

#[test]
fn one_is_not_many() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let one = check(&world, "store");
    assert!(one["detail"].as_str().unwrap().ends_with("1 lock held"), "{one}");
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(done(&world, &format!("completions {shell}")).out.contains("acquire"), "{shell}");
    }
    assert!(done(&world, "man").out.contains(".TH mala 1"));
    done(&world, "man --out pages");
    let pages = fs::read_dir(world.root().join("pages")).unwrap().count();
    assert!(pages > 15 && world.root().join("pages/mala-lock-acquire.1").exists(), "{pages} pages");
}

#[test]
fn help_shows_an_example_and_no_command_is_wrong_usage() {
    let world = World::new();
    assert!(done(&world, "lock acquire --help").out.contains("mala lock acquire src/main.rs --agent alice"));
    assert_eq!(run(&world, "").code, 2);
    assert!(done(&world, "--version").out.starts_with("mala "));
}

/// A command is described to clap when it was typed; help is about the others.
#[test]
fn help_is_about_commands_that_were_not_typed() {
    let world = World::new();
    let commands = [
        ("--help", "lock         Take, give back and look at locks on files"),
        ("help", "hook         Answer a hook of an agent client"),
        ("help lock", "acquire   Lock files, all or none"),
        ("lock --help", "acquire   Lock files, all or none"),
        ("help lock acquire", "mala lock acquire src/main.rs --agent alice"),
    ];
    for (typed, shown) in commands {
        let help = done(&world, typed).out;
        assert!(help.contains(shown), "`mala {typed}`: {help}");
    }
    assert!(run(&world, "lock aquire").err.contains("'acquire'"));
    assert!(run(&world, "lock acquire --isue").err.contains("'--issue'"));
}
