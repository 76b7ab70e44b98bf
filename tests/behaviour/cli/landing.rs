//! The landing queue as it moves branches. What is offered lands when the required commands pass, and only then.

use serde_json::json;

use super::{done, run};
use crate::run::Batch;

/// `feature` has a commit of a person with this text in `new.txt`; `main` is checked out.
fn offered(text: &str) -> Batch {
    let batch = Batch::new("exit 1");
    let world = &batch.world;
    world.git(&["switch", "-q", "-c", "feature"]);
    world.write("new.txt", &format!("{text}\n"));
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "new"]);
    world.git(&["switch", "-q", "main"]);
    batch
}

#[test]
fn a_person_waits_until_work_has_landed() {
    let batch = offered("fine");
    let world = &batch.world;
    let answer = done(world, "land feature --wait 2m --json").json();
    let head = world.git(&["rev-parse", "main"]);
    assert_eq!((&answer["entry"]["state"], &answer["landed"]), (&json!("landed"), &json!(head)), "{answer}");
    assert_eq!((batch.read("new.txt").as_str(), batch.dirt().as_str()), ("fine\n", ""));
    let shown = done(world, "queue show 1").out;
    assert!(shown.contains(&format!("landed as {head}")), "{shown}");
    let again = run(world, "land feature");
    assert!(
        again.code == 2 && again.err.contains("nothing to land: feature is on main already"),
        "{again:?}"
    );
}

#[test]
fn what_fails_is_rejected_and_the_branch_stays() {
    let batch = offered("broken");
    let world = &batch.world;
    let before = world.git(&["rev-parse", "main"]);
    let answer = run(world, "land feature --wait 2m");
    assert!(answer.code == 1 && answer.out.contains("entry 1 is red: `sh check.sh` failed"), "{answer:?}");
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    done(world, "queue retry 1");
    let worked = run(world, "queue run");
    assert_eq!(worked.code, 1, "{worked:?}");
    for part in ["entry 1  rejected: ", "mala queue retry 1", "0 landed, 1 rejected, 0 left"] {
        assert!(worked.out.contains(part), "`{part}` is missing in: {}", worked.out);
    }
}

#[test]
fn work_that_does_not_merge_goes_back_to_the_person() {
    let batch = offered("fine");
    let world = &batch.world;
    world.write("new.txt", "other\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "other"]);
    let answer = run(world, "land feature --wait 2m");
    assert!(
        answer.code == 1 && answer.out.contains("is conflict: the branch has changed `new.txt`"),
        "{answer:?}"
    );
    assert!(answer.out.contains("git rebase main"), "{answer:?}");
    assert_eq!(batch.read("new.txt"), "other\n");
}

#[test]
fn an_uncommitted_file_in_the_way_holds_work_and_says_so() {
    let batch = offered("fine");
    let world = &batch.world;
    done(world, "land feature");
    world.write("new.txt", "a person's\n");
    let held = run(world, "queue run");
    assert!(
        held.code == 1 && held.out.contains("entry 1  not landed yet: ") && held.out.contains("new.txt"),
        "{held:?}"
    );
    assert_eq!(batch.read("new.txt"), "a person's\n");
    assert!(done(world, "queue").out.contains("in the way: see what is to be done: mala queue show 1"));
    std::fs::remove_file(world.root().join("new.txt")).unwrap();
    let worked = done(world, "queue run").out;
    assert!(
        worked.contains("entry 1  landed: ") && worked.ends_with("1 landed, 0 rejected, 0 left\n"),
        "{worked}"
    );
}

#[test]
fn what_an_earlier_run_has_left_in_the_queue_lands_and_closes_its_issue() {
    let batch = Batch::new("echo work > $id.txt; commit work");
    let world = &batch.world;
    batch.issue("bd-1", &[]);
    done(world, "queue pause");
    assert_eq!(batch.run(&[]).code, 1);
    done(world, "queue resume");
    let worked = done(world, "queue run --json").json();
    assert_eq!((&worked["landed"][0]["issue"], &worked["left"]), (&json!("bd-1"), &json!([])), "{worked}");
    assert_eq!((batch.status_of("bd-1").as_str(), batch.read("bd-1.txt").as_str()), ("closed", "work\n"));
    assert_eq!(done(world, "restore bd-1").out, "the branch has all that attempt 1 at bd-1 has left\n");
}

#[test]
fn a_red_branch_is_known_to_be_red_and_blames_nobody() {
    let batch = offered("fine");
    let world = &batch.world;
    world.write("base.txt", "broken\n");
    world.git(&["commit", "-q", "-a", "-m", "red"]);
    let answer = run(world, "land feature --wait 2m");
    assert!(
        answer.code == 1 && answer.out.contains("entry 1 is waiting: the branch itself is red"),
        "{answer:?}"
    );
    let queue = done(world, "queue --json").json();
    assert_eq!(
        (&queue["base_green"], &queue["entries"][0]["rejections"]),
        (&json!(false), &json!(0)),
        "{queue}"
    );
    assert!(done(world, "queue").out.contains(", which fails: only work that makes it pass lands"));
}
