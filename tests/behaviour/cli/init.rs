//! `mala init`: asking before, and what is left if it goes wrong.

use std::fs;
use std::path::Path;

use super::*;

/// Everything below a folder.
fn all_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        found.extend(all_files(&entry.path()));
    }
    found.sort();
    found
}

/// Where no file can grow, as on a full disk.
fn without_room(world: &World) -> Answer {
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {MALA} init --yes --client claude");
    world.command("bash").args(["-c", &script]).output().unwrap().into()
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing_half_done() {
    let world = World::new();
    let hook = world.root().join(".git/hooks/pre-commit");
    world.write(".git/hooks/pre-commit", "#!/bin/sh\n");
    let before = all_files(world.root());
    let answer = without_room(&world);
    assert!(answer.code == 3 && answer.err.contains(hook.to_str().unwrap()), "{answer:?}");
    assert_eq!(all_files(world.root()), before);
    done(&world, "init --yes --client claude");
    for file in ["mala.toml", ".claude/settings.json"] {
        let path = world.root().join(file);
        fs::remove_file(&path).unwrap();
        let _made_for_it = fs::remove_dir(path.parent().unwrap());
        let before = all_files(world.root());
        let answer = without_room(&world);
        assert!(answer.code == 3 && answer.err.contains(path.to_str().unwrap()), "{answer:?}");
        assert_eq!(all_files(world.root()), before);
        done(&world, "init --yes --client claude");
    }
}

/// What appears on a terminal on which the input ends at once.
fn asked(world: &World, line: &str) -> Answer {
    let mut script = world.command("script");
    script.args(["-q", "-e", "-c", &format!("{MALA} {line}"), "/dev/null"]);
    script.env("TERM", "xterm").stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn whoever_says_nothing_has_not_said_yes() {
    let world = World::new();
    let before = all_files(world.root());
    let init = asked(&world, "init --client claude");
    assert!(init.out.contains("This puts mala into git's hooks") && init.code == 1, "{init:?}");
    assert_eq!(all_files(world.root()), before);
    done(&world, "init --yes --client claude");
    let before = all_files(world.root());
    let undo = asked(&world, "init --undo");
    assert!(undo.out.contains("This takes mala out of git's hooks") && undo.code == 1, "{undo:?}");
    assert_eq!(all_files(world.root()), before);
}
