//! Hints can be typed as they stand, where they are read.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::*;

/// A checkout in which `other` holds `src/a.rs`.
fn world() -> World {
    let world = World::new();
    for path in ["src/a.rs", "docs/b.md"] {
        world.write(path, "");
    }
    done(&world, "lock acquire src/a.rs --agent other");
    world
}

fn acquire(world: &World, folder: &Path, path: &OsStr) -> Answer {
    let args = ["lock", "acquire", "--agent", "me"].map(OsStr::new).into_iter().chain([path]);
    let answer: Answer = mala(world, args).current_dir(folder).output().unwrap().into();
    assert_eq!(answer.code, 1, "{answer:?}");
    answer
}

/// Types the hint of a refusal as it stands; it must ask for what was refused.
fn follow(world: &World, folder: &Path, refused: &Answer) {
    let hint = refused.err.lines().find_map(|line| line.split_once("ask for it: ")).unwrap().1;
    let command = hint.split_once(" --why").unwrap().0.replacen("mala", MALA, 1);
    let script = format!("{command} --why x --agent me --json");
    let mut shell = world.command("bash");
    let answer: Answer = shell.args(["-c", &script]).current_dir(folder).output().unwrap().into();
    assert_eq!(answer.code, 0, "{script}: {answer:?}");
    assert_eq!(answer.json()["asks"][0]["state"], "open", "{script}: {answer:?}");
    assert!(!refused.err.contains('\t'), "{refused:?}");
}

#[test]
fn a_hint_names_the_file_as_it_is_typed_in_the_readers_folder() {
    let world = world();
    let root = world.root();
    for (folder, path, hint) in [
        (root.join("src"), "a.rs", "mala lock ask a.rs --why"),
        (root.join("docs"), "../src/a.rs", "mala lock ask ../src/a.rs --why"),
        (root.to_path_buf(), "src/a.rs", "mala lock ask src/a.rs --why"),
        (root.join("docs"), "../src", "mala lock ask ../src/a.rs --why"),
    ] {
        let answer = acquire(&world, &folder, OsStr::new(path));
        assert!(answer.err.contains(hint), "{path}: {answer:?}");
        follow(&world, &folder, &answer);
    }
    // Whoever is elsewhere says which checkout is meant.
    let elsewhere = world.base();
    let args = ["-C", "checkout/src", "lock", "acquire", "a.rs", "--agent", "me"];
    assert_eq!(root, elsewhere.join("checkout"));
    let answer: Answer = mala(&world, args).current_dir(elsewhere).output().unwrap().into();
    let hint = format!("mala -C {} lock ask src/a.rs --why", root.display());
    assert!(answer.err.contains(&hint), "{answer:?}");
    follow(&world, elsewhere, &answer);
}

#[test]
fn a_hint_about_a_name_of_any_bytes_can_be_typed() {
    let world = world();
    for name in [&b"bad\xFF.rs"[..], b"line\nbreak", b"a\ttab", b"it's $(x)", b"-rf"] {
        let name = OsStr::from_bytes(name);
        fs::write(world.root().join(name), "").unwrap();
        let path = world.root().join(name);
        let args =
            ["lock", "acquire", "--agent", "other"].map(OsStr::new).into_iter().chain([path.as_os_str()]);
        assert!(mala(&world, args).status().unwrap().success());
        let answer = acquire(&world, world.root(), path.as_os_str());
        follow(&world, world.root(), &answer);
    }
    let asks = done(&world, "lock asks --json").json();
    assert_eq!(asks["asks"].as_array().unwrap().len(), 5, "{asks}");
}

#[test]
fn programs_and_clients_are_told_what_to_type_where_they_are() {
    let world = world();
    let script = "cd src; echo x > a.rs; cd ../docs; echo y >> ../src/a.rs";
    let answer: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "bash", "-c", script]).output().unwrap().into();
    assert!(answer.err.contains("mala lock ask a.rs --why"), "{answer:?}");
    assert!(answer.err.contains("mala lock ask ../src/a.rs --why"), "{answer:?}");
}

#[test]
fn a_commit_of_what_is_not_ones_own_says_what_to_type_where_one_is() {
    let world = world();
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world.write("src/a.rs", "changed");
    let answer: Answer = mala(&world, ["commit", "--agent", "me", "-m", "x", "a.rs"])
        .current_dir(world.root().join("src"))
        .output()
        .unwrap()
        .into();
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.err.contains("mala lock ask a.rs --why REASON"), "{answer:?}");
}

#[test]
fn hidden_commands_stay_hidden() {
    let world = world();
    for line in ["lock", "lock --json", "-C . lock"] {
        let answer = run(&world, line);
        assert!(answer.code != 0, "{line}: {answer:?}");
        let said = format!("{}{}", answer.out, answer.err);
        assert!(!said.contains("hand-on") && !said.contains("tenure"), "{line}: {said}");
    }
    let help = run(&world, "lock overlaps --help").out;
    assert!(help.contains("`\\` takes"), "{help}");
}

#[test]
fn an_issue_id_that_looks_like_an_option_is_refused() {
    let world = world();
    let answer = run(&world, "issue add Work --id=-dash");
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("begins with `-`"), "{answer:?}");
    world.write("issues.jsonl", "{\"id\":\"-dash\",\"title\":\"Work\"}\n");
    let answer = run(&world, "issue import issues.jsonl");
    assert!(answer.code != 0 && answer.err.contains("begins with `-`"), "{answer:?}");
}
