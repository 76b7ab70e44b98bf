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
            "default client",
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

    fs::remove_file(world.base().join("bin/mala")).unwrap();
    let missing = check(&world, "git hooks");
    assert!(missing["fix"].as_str().unwrap().contains("put `mala` on the PATH"), "{missing}");
}

#[test]
fn the_doctor_proves_that_earlier_hooks_are_still_called_and_runs_none_of_them() {
    let world = World::new();
    fs::create_dir(world.base().join("bin")).unwrap();
    std::os::unix::fs::symlink(super::MALA, world.base().join("bin/mala")).unwrap();
    let ran = world.base().join("ran");
    let hooks = world.root().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for name in ["pre-commit", "commit-msg", "post-commit"] {
        mala_tests::write_script(
            &hooks.join(name),
            &format!("#!/bin/sh\necho {name} >> '{}'\n", ran.display()),
        );
    }
    done(&world, "init --yes");
    let fires = check(&world, "git hooks");
    let detail = fires["detail"].as_str().unwrap();
    assert!(fires["status"] == "ok" && detail.contains("they first call pre-commit, commit-msg"), "{fires}");
    assert!(!ran.exists(), "{}", fs::read_to_string(ran).unwrap());

    // As if something had changed mala's own.
    let text = fs::read_to_string(hooks.join("pre-commit")).unwrap();
    mala_tests::write_script(&hooks.join("pre-commit"), &text.replace("hooks.before-mala", "elsewhere"));
    let outdated = check(&world, "git hooks");
    assert!(
        outdated["status"] == "warn" && outdated["fix"].as_str().unwrap().contains("mala init"),
        "{outdated}"
    );
    done(&world, "init --yes");

    mala_tests::write_script(
        &world.root().join(".git/hooks.before-mala/pre-commit"),
        "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"",
    );
    let broken = check(&world, "git hooks");
    let detail = broken["detail"].as_str().unwrap();
    assert!(
        broken["status"] == "warn" && detail.contains("of husky") && detail.contains("does not find"),
        "{broken}"
    );
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
fn init_changes_the_preset_of_a_repository_that_was_set_up_before_and_nothing_else() {
    let world = World::new();
    done(&world, "init --yes --preset rust --client claude");
    let same = done(&world, "init --yes --preset rust --client claude");
    assert!(same.out.contains("unchanged  mala.toml"), "{}", same.out);
    let settings = || fs::read_to_string(world.root().join("mala.toml")).unwrap();
    world.write("mala.toml", &settings().replace("# max_agents = 4", "max_agents = 7"));
    let before = settings();
    let other = done(&world, "init --yes --preset go --client claude");
    assert!(other.out.contains("changed  mala.toml") && other.out.contains("go test"), "{}", other.out);
    assert!(other.out.contains("preset  go, because of your choice in place of rust"), "{}", other.out);
    let after = settings();
    let is_of_preset = |line: &&str| {
        ["preset = ", "# Takes turns", "# Required"].iter().any(|start| line.starts_with(start))
    };
    let rest = |text: &str| text.lines().filter(|line| !is_of_preset(line)).collect::<Vec<_>>().join("\n");
    assert_eq!(rest(&after), rest(&before), "what was changed by hand stays");
    assert!(
        after.contains("preset = \"go\"") && after.contains("# Required of a commit: go test, go vet."),
        "{after}"
    );
    done(&world, "init --yes --client claude");
    assert_eq!(settings(), after, "nothing was asked for");
    world.write("mala.toml", "[project]\npreset = \"go\"\n[validate]\ncommands = [\"sh check.sh\"]\n");
    let own = done(&world, "init --yes --preset rust --client claude").out;
    assert!(own.contains("required  sh check.sh (") && !own.contains("cargo test"), "{own}");

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

/// Git and what a hook needs, and these programs besides, which do nothing.
fn path_with(world: &World, programs: &[&str]) -> String {
    let bin = world.base().join("only");
    fs::create_dir_all(&bin).unwrap();
    for program in programs {
        mala_tests::write_script(&bin.join(program), "#!/bin/sh\n");
    }
    let path = std::env::var_os("PATH").unwrap();
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
        let _there = std::os::unix::fs::symlink(found.unwrap(), bin.join(program));
    }
    bin.display().to_string()
}

#[test]
fn init_says_what_it_found_and_requires_only_what_can_run() {
    let world = World::new();
    world.write("pyproject.toml", "[build-system]\nrequires = [\"flit_core\"]\n[tool.ruff]\n[tool.pytest]\n");
    world.write("web/package.json", r#"{ "scripts": { "test": "vitest" } }"#);
    let init = |programs: &[&str]| -> Answer {
        let _ = fs::remove_file(world.root().join("mala.toml"));
        let mut init = mala(&world, ["init", "--yes", "--client", "claude"]);
        init.env("PATH", path_with(&world, programs)).output().unwrap().into()
    };
    let bare = init(&[]);
    assert_eq!(bare.code, 0, "{bare:?}");
    for part in [
        "preset  none",
        "left out  pytest: `pytest` is not in PATH",
        "left out  ruff check",
        "left out  cd web && npm test",
    ] {
        assert!(bare.out.contains(part), "`{part}` is missing: {}", bare.out);
    }
    assert!(bare.err.contains("no command is required"), "{}", bare.err);
    let both = init(&["pytest", "npm"]);
    for part in [
        "preset  python, because of pyproject.toml",
        "required  pytest (",
        "only/pytest; pyproject.toml)",
        "required  cd web && npm test",
    ] {
        assert!(both.out.contains(part), "`{part}` is missing: {}", both.out);
    }
    let settings = fs::read_to_string(world.root().join("mala.toml")).unwrap();
    assert!(settings.contains("commands = [\"pytest\", \"cd web && npm test\"]"), "{settings}");
    done(&world, "init --undo --yes");
    assert!(!world.root().join("mala.toml").exists(), "it was as it was written");
}

#[test]
fn the_doctor_names_every_missing_program_and_a_missing_client() {
    let world = World::new();
    world.write("mala.toml", "[validate]\ncommands = [\"pytest\", \"ruff check\"]\n");
    let path = path_with(&world, &[]);
    let report: Answer = mala(&world, ["doctor", "--json"]).env("PATH", &path).output().unwrap().into();
    let checks = report.json()["checks"].as_array().unwrap().clone();
    let check = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap().clone();
    let detail = check("validation")["detail"].as_str().unwrap().to_owned();
    for part in ["`pytest` needs `pytest`", "`ruff check` needs `ruff`", &path] {
        assert!(detail.contains(part), "`{part}` is missing: {detail}");
    }
    assert_eq!((check("validation")["status"].as_str(), report.code), (Some("fail"), 1));
    let client = check("default client");
    assert!(client["status"] == "warn" && client["detail"].as_str().unwrap().contains("claude"), "{client}");
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
