//! Saved, offered and rejected work: looked at, put back, written elsewhere.

use std::fs;

use mala_tests::World;
use serde_json::json;

use super::{MALA, done, held, pair, run};

/// Attempt 1 at bd-1 has saved something, attempt 2 has offered `a.txt`, `new/run.sh` and the end of `gone.txt`, and has saved
/// a later `a.txt`.
fn with_work() -> World {
    let world = World::new();
    world.write("a.txt", "a\n");
    world.write("gone.txt", "gone\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    let save = |name: &str| {
        world.git(&["add", "-A"]);
        world.git(&["commit", "-q", "-m", "work"]);
        world.git(&["update-ref", name, "HEAD"]);
        world.git(&["reset", "-q", "--hard", "HEAD^"]);
    };
    world.write("a.txt", "first\n");
    save("refs/mala/bd-1/1");
    world.write("a.txt", "offered\n");
    world.write("new/run.sh", "offered\n");
    fs::remove_file(world.root().join("gone.txt")).unwrap();
    save("refs/mala/candidates/bd-1/2");
    world.write("a.txt", "later\n");
    save("refs/mala/bd-1/2");
    world
}

fn read(world: &World, file: &str) -> String {
    fs::read_to_string(world.root().join(file)).unwrap_or_default()
}

#[test]
fn work_is_shown_as_a_patch_and_the_newest_attempt_counts() {
    let world = with_work();
    world.git(&["config", "diff.noprefix", "true"]);
    world.git(&["config", "color.ui", "always"]);
    let patch = done(&world, "diff bd-1").out;
    assert!(patch.contains("+later\n") && patch.contains("diff --git a/new/run.sh b/new/run.sh"), "{patch}");
    assert!(!patch.contains("offered\n+") && !patch.contains('\x1b') && patch.contains("-gone\n"), "{patch}");
    assert!(done(&world, "diff bd-1/1").out.contains("+first\n"));
    assert!(done(&world, "diff bd-1 --stat").out.contains("new/run.sh | 1 +"));
    let answer = done(&world, "diff bd-1 --json").json();
    assert_eq!(
        (&answer["issue"], &answer["attempt"], &answer["patch"]),
        (&json!("bd-1"), &json!(2), &json!(patch))
    );
    let refs = answer["refs"].as_array().unwrap();
    assert_eq!(
        (&refs[0]["ref"], &refs[0]["files"], &refs[1]["ref"], &refs[1]["files"]),
        (
            &json!("refs/mala/bd-1/2"),
            &json!(["a.txt"]),
            &json!("refs/mala/candidates/bd-1/2"),
            &json!(["gone.txt", "new/run.sh"])
        )
    );
    for line in ["diff bd-9", "diff bd-1/3", "restore bd-9"] {
        let answer = run(&world, line);
        assert!(answer.code == 2 && answer.err.contains("hint:"), "`mala {line}`: {answer:?}");
    }
}

#[test]
fn work_comes_back_into_the_checkout_from_any_folder() {
    let world = with_work();
    world.write("deep/file", "x\n");
    let said = done(&world, "-C deep restore bd-1").out;
    assert_eq!(said, "restored the work of attempt 2 at bd-1:\n  a.txt\n  new/run.sh\n  deleted gone.txt\n");
    assert_eq!(
        (read(&world, "a.txt").as_str(), read(&world, "new/run.sh").as_str()),
        ("later\n", "offered\n")
    );
    assert!(!world.root().join("gone.txt").exists());
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "", "nothing is staged");
}

#[test]
fn work_whose_files_are_not_as_they_were_is_left_alone_and_written_elsewhere() {
    let world = with_work();
    let refused = |why: &str| {
        let answer = run(&world, "restore bd-1");
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.err.contains(why) && answer.err.contains("mala restore bd-1 --to DIR"), "{answer:?}");
        assert!(!world.root().join("new").exists(), "all or nothing");
    };
    world.write("a.txt", "a person's\n");
    refused("`a.txt` has uncommitted changes");
    world.git(&["commit", "-q", "-a", "-m", "meanwhile"]);
    refused("`a.txt` was changed on the branch since");
    let said = done(&world, "restore bd-1 --to ../elsewhere").out;
    assert!(said.contains("  a.txt\n") && said.ends_with("  deletes gone.txt\n"), "{said}");
    let elsewhere = world.root().with_file_name("elsewhere");
    assert_eq!(fs::read_to_string(elsewhere.join("a.txt")).unwrap(), "later\n");
    assert_eq!(read(&world, "a.txt"), "a person's\n");
    let again = run(&world, "restore bd-1 --to ../elsewhere");
    assert!(again.code == 1 && again.err.contains("is not empty"), "{again:?}");
}

#[test]
fn files_that_an_agent_holds_are_not_restored_under_its_hands() {
    let world = with_work();
    done(&world, "lock acquire new/run.sh --agent bob");
    let answer = run(&world, "restore bd-1");
    assert!(answer.code == 1 && answer.err.contains("`new/run.sh` is held by `bob`"), "{answer:?}");
    assert_eq!(read(&world, "a.txt"), "a\n");
    done(&world, "lock release --all --agent bob");
    done(&world, "restore bd-1");
}

#[test]
fn an_agent_restores_work_with_locks_of_its_own() {
    let world = with_work();
    let script = format!("exec --agent A -- sh -c {MALA}$IFS'restore'$IFS'bd-1'&&{MALA}$IFS'lock'$IFS'list'");
    let answer = run(&world, &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    for file in ["a.txt", "new/run.sh", "gone.txt"] {
        assert!(answer.out.contains(file), "{answer:?}");
    }
    assert_eq!(read(&world, "a.txt"), "later\n");
    world.git(&["checkout", "-q", "."]);
    fs::remove_dir_all(world.root().join("new")).unwrap();
    done(&world, "lock acquire gone.txt --agent bob");
    let refused = run(&world, &format!("exec --agent A -- {MALA} restore bd-1"));
    assert!(refused.code == 1 && refused.err.contains("`gone.txt` is held by `bob`"), "{refused:?}");
    assert_eq!((read(&world, "a.txt").as_str(), held(&world)), ("a\n", vec![pair("gone.txt", "bob")]));
}

#[test]
fn work_that_is_on_the_branch_needs_no_restoring() {
    let world = with_work();
    world.write("a.txt", "first\n");
    world.git(&["commit", "-q", "-a", "-m", "landed"]);
    assert_eq!(done(&world, "restore bd-1/1").out, "the branch has all that attempt 1 at bd-1 has left\n");
}
