//! Git is judged before it starts: by what it writes, with its environment and with what its settings make of its words.

use std::fs;

use mala_tests::{World, write_script};

use super::{exec, world};
use crate::cli::{Answer, MALA, done};

/// As Gemini's shell tool hardens every command.
const HARDENED: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=2 \
    GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0= GIT_CONFIG_KEY_1=core.pager GIT_CONFIG_VALUE_1=cat \
    GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b;";

fn repository() -> World {
    let world = world();
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.git(&["config", "alias.rn", "branch -m"]);
    world.git(&["config", "alias.again", "rn other"]);
    world.git(&["config", "alias.lg", "log --oneline"]);
    world.git(&["branch", "other"]);
    world
}

/// All that git could change half-way.
fn standing(world: &World) -> [String; 4] {
    let config = fs::read_to_string(world.root().join(".git/config")).unwrap();
    let [head, refs, staged] =
        [vec!["symbolic-ref", "HEAD"], vec!["for-each-ref"], vec!["ls-files", "--stage"]]
            .map(|args| world.git(&args));
    [config, head, refs, staged]
}

#[test]
fn a_command_of_which_a_part_is_protected_does_nothing_at_all() {
    let world = repository();
    let before = standing(&world);
    for attempt in [
        "git branch -m renamed",
        "git branch -m other another",
        "git branch -M other main",
        "git branch -c other copied",
        "git branch --track tracking main",
        "git branch -u other",
        "git rn renamed",
        "git again renamed",
        "git -c alias.x='branch -m' x renamed",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='branch -m' git x renamed",
        "GIT_CONFIG_PARAMETERS=\"'alias.x=branch -m'\" git x renamed",
        "git remote add origin ..",
        "git submodule --quiet add ./ module",
        "git config user.name x",
        "git init -q",
        "git maintenance register",
        "git no-such-command",
    ] {
        let answer = exec(&world, "me", attempt);
        assert!(
            answer.code != 0 && answer.err.contains("is refused in a shared checkout"),
            "{attempt}: {answer:?}"
        );
        assert_eq!(standing(&world), before, "{attempt}");
    }
    let moved = exec(&world, "me", "git branch -m other another");
    assert!(moved.err.contains("git branch NEW OLD"), "{moved:?}");
    let free = exec(
        &world,
        "me",
        "git branch new other && git branch -q -D new 2>/dev/null && git lg -1 && git tag v1 && git tag -d v1",
    );
    assert_eq!(free.code, 0, "{free:?}");
    // Whatever it holds.
    done(&world, "lock release --all --agent other");
    let whole = exec(&world, "me", &format!("{MALA} lock acquire . >/dev/null && git branch -m renamed"));
    assert!(whole.err.contains("is refused in a shared checkout"), "{whole:?}");
}

#[test]
fn git_that_only_looks_may_be_hardened() {
    let world = repository();
    let looks = [
        "git status --porcelain",
        "git rev-parse HEAD",
        "git ls-files",
        "git remote -v",
        "git log -1",
        "git diff",
        "git branch --show-current",
    ];
    for look in looks {
        let on_line = look.replacen("git", "git -c core.hooksPath=/dev/null -c hook.x.enabled=false", 1);
        for script in [on_line, format!("{HARDENED} {look}")] {
            let answer = exec(&world, "me", &script);
            assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{script}: {answer:?}");
        }
    }
    let stages = exec(&world, "me", &format!("{HARDENED} echo x > free.txt; git add free.txt"));
    assert_eq!((stages.code, stages.err.as_str()), (0, ""), "{stages:?}");
}

#[test]
fn no_commit_is_made_where_hooks_are_switched_off() {
    let world = repository();
    let head = world.git(&["rev-parse", "HEAD"]);
    let home = world.base().join("evil");
    fs::create_dir(&home).unwrap();
    fs::write(home.join(".gitconfig"), "[core]\n\thooksPath = /dev/null\n[user]\nname = a\nemail = a@b\n")
        .unwrap();
    let home = home.display();
    for attempt in [
        format!("{HARDENED} git commit -q --allow-empty -m x"),
        "git -c core.hooksPath= commit -q --allow-empty -m x".to_owned(),
        "git -c hook.x.enabled=false commit -q --allow-empty -m x".to_owned(),
        "GIT_CONFIG_PARAMETERS=\"'core.hookspath'='/dev/null'\" git commit -q --allow-empty -m x".to_owned(),
        format!("unset GIT_CONFIG_GLOBAL; HOME={home} git commit -q --allow-empty -m x"),
        format!("GIT_CONFIG_GLOBAL={home}/.gitconfig git commit -q --allow-empty -m x"),
        format!(
            "unset GIT_CONFIG_GLOBAL; cp {home}/.gitconfig $HOME/.gitconfig; git commit -q --allow-empty -m x; s=$?; rm $HOME/.gitconfig; exit $s"
        ),
    ] {
        let answer = exec(&world, "me", &attempt);
        assert!(answer.code != 0 && answer.err.contains("mala commit -m"), "{attempt}: {answer:?}");
        assert_eq!(world.git(&["rev-parse", "HEAD"]), head, "{attempt}");
    }
    let plain = exec(&world, "me", "git commit -q --allow-empty -m x");
    assert_eq!(plain.code, 0, "{plain:?}");
}

#[test]
fn commands_that_are_programs_of_their_own_go_on() {
    let world = repository();
    let tools = world.base().join("tools");
    write_script(&tools.join("git-mine"), "#!/bin/sh\necho mine \"$@\"\n");
    let answer = exec(&world, "me", &format!("PATH={}:$PATH; git mine a", tools.display()));
    assert_eq!((answer.code, answer.out.as_str()), (0, "mine a\n"), "{answer:?}");
}

#[test]
fn other_checkouts_of_the_repository_are_only_there_to_be_read() {
    let world = repository();
    let linked = world.base().join("linked");
    world.git(&["worktree", "add", "-q", "-b", "beside", linked.to_str().unwrap()]);
    let inner = world.root().join("inner");
    world.git(&["worktree", "add", "-q", "-b", "inner", inner.to_str().unwrap()]);
    let (main, linked) = (world.root().display().to_string(), linked.display().to_string());
    let run = |from: &str, script: &str| -> Answer {
        let words = ["-C", from, "exec", "--agent", "me", "--", "sh", "-c", script];
        crate::cli::mala(&world, words).output().unwrap().into()
    };
    let files = |root: &str| {
        fs::read_to_string(format!("{root}/free.txt")).unwrap()
            + &world.git(&["-C", root, "status", "--porcelain", "-uno"])
    };
    for (from, to) in [
        (&linked, &main),
        (&main, &linked),
        (&format!("{main}/inner"), &main),
        (&main, &format!("{main}/inner")),
    ] {
        let before = files(to);
        for attempt in [
            format!("echo x > {to}/free.txt"),
            format!("sed -i s/any/x/ {to}/free.txt"),
            format!("echo x > {to}/new.txt"),
            format!("mkdir {to}/new"),
            format!("rm {to}/free.txt"),
            format!("mv {to}/free.txt ../away.txt"),
            format!("ln -s {to} ../way; echo x > ../way/free.txt; s=$?; rm -f ../way; exit $s"),
            format!("git -C {to} rm -q --cached free.txt"),
            format!("git -C {to} checkout -q --detach"),
            format!("cd {to} && git reset -q --hard HEAD~0"),
            format!("cd {to} && git commit -q --allow-empty -m x"),
        ] {
            let answer = run(from, &attempt);
            assert!(answer.code != 0 && answer.err.contains("mala: "), "{from}: {attempt}: {answer:?}");
            assert_eq!(files(to), before, "{from}: {attempt}");
        }
        let reads = run(
            from,
            &format!(
                "cat {to}/free.txt && git -C {to} status --porcelain && git -C {to} log -1 --format=%s && echo x > free.txt && git checkout -q -- free.txt"
            ),
        );
        assert_eq!(reads.code, 0, "{from}: {reads:?}");
    }
    done(&world, &format!("-C {linked} lock acquire free.txt --agent me"));
    let held = run(&main, &format!("echo mine > {linked}/free.txt"));
    assert_eq!(
        (held.code, fs::read_to_string(format!("{linked}/free.txt")).unwrap().as_str()),
        (0, "mine\n"),
        "{held:?}"
    );
}

#[test]
fn a_worktree_that_an_agent_makes_is_its_own_and_nobody_elses() {
    let world = repository();
    let mine = world.base().join("mine").display().to_string();
    let script = format!(
        "git worktree add -q -b mine {mine} && cd {mine} && echo x > free.txt && git add free.txt && git commit -q -m x && git log -1 --format=%s"
    );
    let made = exec(&world, "me", &script);
    assert_eq!((made.code, made.out.as_str()), (0, "x\n"), "{made:?}");
    let theirs = exec(&world, "you", &format!("echo y > {mine}/free.txt"));
    assert!(theirs.code != 0 && theirs.err.contains("another checkout"), "{theirs:?}");
}
