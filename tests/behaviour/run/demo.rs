//! `mala demo`: the same engine, on a stage of its own.

use std::time::Instant;

use mala_tests::World;

use crate::cli::{Answer, mala};

#[test]
fn the_demo_shows_what_it_promises_and_leaves_nothing_running() {
    let world = World::new();
    let folder = world.base().join("my demo");
    let started = Instant::now();
    let demo: Answer = mala(&world, ["demo", "--folder"]).arg(&folder).output().unwrap().into();
    assert_eq!(demo.code, 0, "{demo:?}");
    assert!(started.elapsed().as_secs() < 60, "it took {:?}", started.elapsed());
    for part in [
        "demo-4  gate: not accepted, told (round 1 of 3)",
        "demo-5  handed over: the agent ended with code 1; work saved to refs/mala/demo-5/1",
        "src/greet.sh",
        "Attempt 1 by `scripted-demo-5-1`",
    ] {
        assert!(demo.out.contains(part), "`{part}` is missing: {}", demo.out);
    }
    assert!(!demo.err.contains("warning"), "{}", demo.err);
    for issue in 1..=5 {
        assert!(demo.out.contains(&format!("demo-{issue}  done: ")), "{}", demo.out);
    }
    let within =
        |args: &[&str]| -> Answer { mala(&world, ["-C"]).arg(&folder).args(args).output().unwrap().into() };
    assert_eq!(within(&["lock", "list", "--json"]).json()["locks"], serde_json::json!([]));
    assert_eq!(
        within(&["issue", "list", "--json"]).json()["issues"],
        serde_json::json!([]),
        "all are closed"
    );
    let verdicts = |kind: &str| {
        let logged = within(&["logs", "list", "--kind", kind, "--json"]).json();
        logged["events"].as_array().unwrap().len()
    };
    assert_eq!(verdicts("gate.passed"), 5, "every verdict of a run is in the log");
    assert!(verdicts("gate.failed") >= 1, "rejections, too");
    let git = |args: &[&str]| world.git(&[&["-C", folder.to_str().unwrap()][..], args].concat());
    assert_eq!(
        (git(&["status", "--porcelain"]).as_str(), git(&["log", "--oneline"]).lines().count()),
        ("", 6),
        "what failed never was on the branch"
    );
    let typed = format!("cd '{}' && mala status", folder.display());
    assert!(demo.out.contains(&typed), "{}", demo.out);
    let path = format!("{}:{}", folder.join(".git/demo").display(), std::env::var("PATH").unwrap());
    let doctor = mala(&world, ["doctor", "--json"]).current_dir(&folder).env("PATH", path).output().unwrap();
    let checks = Answer::from(doctor).json()["checks"].clone();
    let hooks = checks.as_array().unwrap().iter().find(|check| check["name"] == "git hooks").unwrap();
    assert_eq!(hooks["status"], "ok", "{hooks}");
    let text = std::fs::read_to_string(folder.join("src/greet.sh")).unwrap();
    assert!(text.contains("hello") && !text.contains("HELLO"), "the neighbour's file is as it was: {text}");
}

#[test]
fn a_folder_that_is_there_is_left_alone() {
    let world = World::new();
    let answer: Answer = mala(&world, ["demo", "--folder"]).arg(world.home()).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("--folder"), "{answer:?}");
}
