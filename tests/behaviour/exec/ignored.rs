//! Files that git ignores need no lock, and nothing becomes free by being ignored.

use std::fs;

use super::{exec, read, world};
use crate::cli::{MALA, done};

#[test]
fn ignored_files_need_no_lock_and_git_goes_on_working() {
    let world = world();
    world.write(".gitignore", "target/\n");
    let script = format!(
        "mkdir -p target/deep && echo x > target/deep/out && {MALA} lock list --json && echo mine >> free.txt && \
         git add free.txt && git -c user.name=a -c user.email=a@example.invalid commit -q -m mine"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["locks"].as_array().unwrap().len(), 1, "only what `other` holds");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "mine");
}

#[test]
fn in_ignored_folders_agents_do_as_they_like_and_what_leaves_them_needs_a_lock() {
    let world = world();
    world.write(".gitignore", "build/\nnode_modules\ntracked/\n");
    world.write("tracked/file.txt", "known to git\n");
    world.git(&["add", "-f", "tracked/file.txt", ".gitignore"]);
    world.git(&["commit", "-q", "-m", "more"]);
    fs::create_dir(world.root().join("build")).unwrap();
    // One folder was there, the others are made: at the root, further down, again, and below one that is ignored.
    let script = format!(
        "set -e; echo 1 > build/a; mkdir -p node_modules/x sub/node_modules; echo 2 > node_modules/x/b; \
         echo 3 > sub/node_modules/c; rm -r build; mkdir build; echo 4 > build/d; mv build/d node_modules/x/; \
         {MALA} lock list --json; mv node_modules/x/b out.txt; mv free.txt build/; echo 5 > tracked/file.txt; \
         {MALA} lock list --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    let keys = |line: &str| -> Vec<String> {
        let locks: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys =
            locks["locks"].as_array().unwrap().iter().map(|lock| lock["path"].as_str().unwrap().to_owned());
        keys.collect()
    };
    let lists: Vec<&str> = answer.out.lines().collect();
    assert_eq!(keys(lists[0]), ["held.txt"], "only what `other` holds");
    let mut held = keys(lists[1]);
    held.sort();
    assert_eq!(held, ["free.txt", "held.txt", "out.txt", "tracked/file.txt"]);
    assert_eq!(read(&world, "node_modules/x/d"), "4\n");
    assert_eq!(read(&world, "build/free.txt"), "anybody's\n");
}

/// The index and the rules are the agent's to change.
#[test]
fn what_was_tracked_when_the_agent_began_is_never_ignored() {
    let world = world();
    world.write("tracked/file.txt", "theirs\n");
    world.git(&["add", "tracked"]);
    world.git(&["commit", "-qm", "tracked"]);
    let script = format!(
        "git rm -rq --cached tracked && mkdir -p .git/info && echo tracked >> .git/info/exclude && git check-ignore -q tracked/file.txt && \
         mv tracked moved && mv moved tracked && echo x >> tracked/file.txt && {MALA} lock list --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("\"tracked/file.txt\""), "it was written without a lock: {answer:?}");
    done(&world, "lock acquire tracked/file.txt --agent other");
    let script = "git rm -rq --cached tracked; mv tracked .git/moved && echo x > .git/moved/file.txt";
    let answer = exec(&world, "me", script);
    assert_ne!(answer.code, 0, "{answer:?}");
    assert_eq!(read(&world, "tracked/file.txt"), "theirs\nx\n");
}

#[test]
fn an_ignored_folder_does_not_move_while_somebody_holds_something_in_it() {
    let world = world();
    world.write(".gitignore", "node_modules\n");
    for held in ["node_modules/deep/held.js", "node_modules/other/**"] {
        world.write("node_modules/deep/held.js", "theirs\n");
        world.write("node_modules/other/file.js", "theirs\n");
        done(&world, &format!("lock acquire {held} --agent other"));
        for script in [
            "mv node_modules moved",
            "mv node_modules .git/moved",
            "mv node_modules/deep node_modules/other .git/",
        ] {
            let answer = exec(&world, "me", script);
            assert_ne!(answer.code, 0, "{held}: {script}: {answer:?}");
        }
        done(&world, &format!("lock release {held} --agent other"));
    }
}

#[test]
fn what_agents_are_kept_from_stays_so_in_ignored_folders() {
    let world = world();
    world.write(".gitignore", ".claude/\n.gemini/\n");
    fs::create_dir(world.root().join(".claude")).unwrap();
    let script = "echo x > .claude/notes && mkdir .gemini && echo y > .gemini/notes && \
                  ! echo x > .claude/settings.json && ! echo x > .gemini/settings.json && ! mv .claude/notes .claude/settings.json";
    let answer = exec(&world, "me", script);
    assert_eq!(answer.code, 0, "{answer:?}");
    for file in [".claude/settings.json", ".gemini/settings.json"] {
        assert!(answer.err.contains(&format!("`{file}` is protected")), "{}", answer.err);
        assert!(!world.root().join(file).exists());
    }
}

#[test]
fn a_question_that_git_does_not_answer_is_not_the_last_one() {
    let world = world();
    world.write(".gitignore", "*.log\n");
    let module = world.base().join("module");
    world.git(&["init", "-q", module.to_str().unwrap()]);
    world.git(&["-C", module.to_str().unwrap(), "commit", "-q", "--allow-empty", "-m", "first"]);
    world.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        module.to_str().unwrap(),
        "module",
    ]);
    let answer =
        exec(&world, "me", &format!("echo x > module/b.log && echo y > a.log && {MALA} lock list --json"));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!answer.out.contains("a.log"), "{answer:?}");
}

#[test]
fn what_is_held_does_not_become_free_by_being_ignored() {
    let world = world();
    world.write("new/theirs.txt", "theirs\n");
    world.git(&["add", "held.txt"]);
    done(&world, "lock acquire new/theirs.txt --agent other");
    let attempts = [
        "git rm -q --cached held.txt; mkdir -p .git/info; echo held.txt >> .git/info/exclude",
        "echo theirs.txt > new/.gitignore; echo x > free.txt",
        "echo new/ > .gitignore; echo x > free.txt",
    ];
    for attempt in attempts {
        // In the same session, and in a later one.
        for script in [
            &format!("{attempt}; echo x > held.txt; echo x > new/theirs.txt"),
            "echo x > held.txt; echo x > new/theirs.txt",
        ] {
            let answer = exec(&world, "me", script);
            let now = [read(&world, "held.txt"), read(&world, "new/theirs.txt")];
            assert_eq!(now, ["theirs\n", "theirs\n"], "{script}: {answer:?}");
        }
    }
}
