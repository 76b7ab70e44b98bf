//! What others have staged stays as they have staged it, and no commit takes it along, whatever git is told.

use mala_tests::World;

use super::{exec, world};
use crate::cli::{MALA, done};

/// `other` holds `held.txt` and has staged a change of it; `free.txt` is changed and nobody's.
fn staged() -> World {
    let world = world();
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.write("held.txt", "theirs, staged\n");
    world.git(&["add", "held.txt"]);
    world.write("held.txt", "theirs, and more\n");
    world.write("free.txt", "changed\n");
    world
}

/// What the index says about every file.
fn index(world: &World) -> String {
    world.git(&["ls-files", "-v", "--stage", "held.txt"])
}

#[test]
fn entries_of_held_files_change_only_by_their_holder() {
    let world = staged();
    let (before, head) = (index(&world), world.git(&["rev-parse", "HEAD"]));
    for attempt in [
        "git reset -q",
        "git reset -q -- held.txt",
        "git reset -q HEAD held.txt",
        "git restore --staged .",
        "git restore --staged held.txt",
        "git rm -q --cached -f held.txt",
        "git add held.txt",
        "git add .",
        "git add -u",
        "git add -A",
        "git stash -q",
        "git stash push -q -- held.txt",
        "git update-index --force-remove held.txt",
        "git update-index --assume-unchanged held.txt",
        "git read-tree HEAD",
        "git checkout -q HEAD -- held.txt",
        "git diff --cached -- held.txt > ../p; git apply -R --cached ../p",
        "git mv held.txt elsewhere.txt",
        "GIT_INDEX_FILE=.git/index git rm -q --cached -f held.txt",
        "cp .git/index .git/mine; GIT_INDEX_FILE=$PWD/.git/mine git rm -q --cached -f held.txt; mv -f .git/mine .git/index",
        "cp .git/index .git/mine; GIT_INDEX_FILE=$PWD/.git/mine git rm -q --cached -f held.txt; cat .git/mine > .git/index",
        "rm -f .git/index",
        "ln .git/index .git/mine && : > .git/mine",
        "mv .git/index .git/mine",
        "truncate -s 0 .git/index",
        // Git by another name.
        "cp $(command -v git) ../vcs && ../vcs reset -q",
        "cp $(command -v git) ../vcs && ../vcs restore --staged .",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_eq!(index(&world), before, "{attempt}: {answer:?}");
        assert_ne!(answer.code, 0, "{attempt}: {answer:?}");
        assert!(answer.err.contains("mala: "), "{attempt}: {answer:?}");
    }
    assert_eq!(world.git(&["rev-parse", "HEAD"]), head);
    let own = exec(
        &world,
        "me",
        "git add free.txt && git restore --staged free.txt && git add free.txt && git rm -q --cached free.txt && git reset -q -- free.txt && git add free.txt",
    );
    assert_eq!(own.code, 0, "{own:?}");
    assert_eq!(index(&world), before);
    let theirs = exec(&world, "other", "git add held.txt && git reset -q -- held.txt");
    assert_eq!(theirs.code, 0, "{theirs:?}");
    assert_ne!(index(&world), before);
}

#[test]
fn no_commit_takes_what_others_hold_whatever_becomes_of_hooks() {
    let world = staged();
    let (before, head) = (index(&world), world.git(&["rev-parse", "HEAD"]));
    for attempt in [
        "git commit -q -m x",
        "git commit -q -a -m x",
        "git commit -q -i -m x free.txt",
        "git commit -q -m x .",
        "git commit -q -m x held.txt",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0= git commit -q -m x",
        "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -c user.name=a -c user.email=a@b commit -q -m x",
        "cp .git/index ../mine; GIT_INDEX_FILE=$PWD/../mine git commit -q -m x",
        "cp .git/index ../mine; GIT_INDEX_FILE=$PWD/../mine git rm -q --cached held.txt -f; GIT_INDEX_FILE=$PWD/../mine git commit -q -m x",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_eq!(world.git(&["rev-parse", "HEAD"]), head, "{attempt}: {answer:?}");
        assert_eq!(index(&world), before, "{attempt}: {answer:?}");
        assert!(answer.code != 0 && answer.err.contains("mala: "), "{attempt}: {answer:?}");
    }
    let reflog = world.git(&["reflog", "-1", "--format=%H"]);
    assert_eq!(reflog, head, "nothing was begun that was not finished");
    // Git by another name is stopped later.
    for attempt in [
        "cp $(command -v git) ../vcs && ../vcs commit -q -m x",
        "../vcs update-ref refs/heads/main $(../vcs commit-tree -p HEAD -m x $(../vcs write-tree))",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_eq!(world.git(&["rev-parse", "HEAD"]), head, "{attempt}: {answer:?}");
        assert!(answer.code != 0 && answer.err.contains("mala: "), "{attempt}: {answer:?}");
    }
    let own = exec(&world, "me", "git commit -q -m mine free.txt && git show --format= --name-only");
    assert_eq!((own.code, own.out.as_str()), (0, "free.txt\n"), "{own:?}");
    assert_eq!(index(&world), before);
    let theirs = exec(&world, "other", "git commit -q -m theirs && git show --format= --name-only");
    assert_eq!((theirs.code, theirs.out.as_str()), (0, "held.txt\n"), "{theirs:?}");
}

#[test]
fn who_holds_everything_may_change_every_entry() {
    let world = staged();
    done(&world, "lock release --all --agent other");
    let script = format!("{MALA} lock acquire . && git reset -q && git add -A && git commit -q -m all");
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn a_refusal_names_the_files_their_holder_and_what_to_do_instead() {
    let world = staged();
    let answer = exec(&world, "me", "git restore --staged .; git commit -q -a -m x");
    assert!(
        answer
            .err
            .contains("this git would change what is staged of `held.txt`, held by `other` (issue bd-7)"),
        "{answer:?}"
    );
    assert!(answer.err.contains("it would commit `held.txt`, held by `other` (issue bd-7)"), "{answer:?}");
    assert!(answer.err.contains("mala commit -m 'what changes'"), "{answer:?}");
}
