//! What would take the place of a directory that somebody's lock needs is as locked as what lies below it.

use std::fs;

use super::{exec, read, world};
use crate::cli::{done, mala};
use mala_tests::World;

/// `other` holds `target`, below which nothing is there yet, and git ignores `ignored/`.
fn holding(target: &str) -> World {
    let world = world();
    world.write(".gitignore", "ignored/\n");
    world.write("ignored/kept", "");
    world.git(&["add", ".gitignore"]);
    world.git(&["commit", "-q", "-m", "ignore"]);
    done(&world, &format!("lock acquire {target} --agent other --issue bd-7"));
    world
}

#[test]
fn nothing_but_a_directory_gets_the_name_of_one_that_others_have_locked_files_in() {
    for (target, name) in
        [("gen/**", "gen"), ("gen/a.txt", "gen"), ("gen/deep/a.txt", "gen/deep"), ("gen/*/a.txt", "gen")]
    {
        let world = holding(target);
        for attempt in [
            "ln -s $IGNORED NAME",
            "echo x > NAME",
            "mkfifo NAME",
            "ln free.txt NAME",
            "mv free.txt NAME",
            "echo x > made.txt; mv made.txt NAME",
            "ln -s $IGNORED link; mv link NAME",
            "ln -s $IGNORED link; python3 -c 'import os; os.link(\"link\", \"NAME\", follow_symlinks=False)'",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"NAME\")'",
            "mkdir -p NAME; rmdir NAME; ln -s $IGNORED NAME",
            "mkdir -p NAME; mv NAME elsewhere; ln -sT $IGNORED NAME",
            "mkdir -p ahead/$(dirname NAME); ln -s $IGNORED ahead/NAME; mv -T ahead/gen gen",
        ] {
            let parent =
                name.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("mkdir -p {parent};"));
            let script = format!("IGNORED=$PWD/ignored; {parent} {}", attempt.replace("NAME", name));
            let answer = exec(&world, "me", &script);
            let place = world.root().join(name);
            let is_directory = place.symlink_metadata().is_ok_and(|found| found.is_dir());
            assert!(is_directory || place.symlink_metadata().is_err(), "{target}: {attempt}: {answer:?}");
            assert!(
                answer.code != 0 && answer.err.contains("held by `other`"),
                "{target}: {attempt}: {answer:?}"
            );
            for left in ["gen", "ahead", "elsewhere"] {
                let _ = fs::remove_dir_all(world.root().join(left));
            }
            for left in ["link", "made.txt", "gen"] {
                let _ = fs::remove_file(world.root().join(left));
            }
        }
        assert_eq!(read(&world, "free.txt"), "anybody's\n");
    }
}

#[test]
fn a_link_does_not_lead_away_what_a_pattern_matches_at_any_depth() {
    let world = holding("**/*.rs");
    let answer = exec(&world, "me", "ln -s $PWD/ignored src");
    assert!(answer.code != 0 && answer.err.contains("held by `other`"), "{answer:?}");
    assert_eq!(exec(&world, "me", "echo x > notes.md && mkdir src && echo x > src/notes.md").code, 0);
}

#[test]
fn a_directory_may_be_made_for_what_others_have_locked_in_it() {
    let world = holding("gen/**");
    assert_eq!(exec(&world, "me", "mkdir gen").code, 0);
    assert_ne!(exec(&world, "me", "mv gen elsewhere").code, 0);
    world.write("gen/b.txt", "theirs\n");
    assert_ne!(exec(&world, "me", "rm -rf gen").code, 0);
    assert_ne!(exec(&world, "me", "mv gen elsewhere").code, 0);
    let theirs = exec(&world, "other", "echo x > gen/a.txt");
    assert_eq!((theirs.code, read(&world, "gen/a.txt").as_str()), (0, "x\n"), "{theirs:?}");
    assert_eq!(read(&world, "gen/b.txt"), "theirs\n");
}

#[test]
fn a_file_is_not_locked_where_others_have_locked_what_needs_a_directory() {
    let world = holding("gen/**");
    let refused = mala(&world, ["lock", "acquire", "gen", "--agent", "me"]).output().unwrap();
    assert!(!refused.status.success());
    done(&world, "lock release --all --agent other");
    done(&world, "lock acquire gen --agent me");
    let refused = mala(&world, ["lock", "acquire", "gen/deep/a.txt", "--agent", "other"]).output().unwrap();
    assert!(!refused.status.success());
}
