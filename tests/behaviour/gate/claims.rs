//! What was committed before an agent took its issue on is not its work.

use serde_json::Value;

use super::{QUIET, agent, checks, failed, with_path, world};
use crate::cli::{Answer, done, mala};

fn status_of(answer: &Answer, name: &str) -> String {
    checks(answer).into_iter().find(|(check, _)| check == name).map_or_else(String::new, |(_, status)| status)
}

/// A commit that names the issue and carries a date in the future, made before anybody took the issue on.
fn old_commit(world: &mala_tests::World) {
    world.write("file.txt", "done by somebody, earlier\n");
    world.git(&["add", "file.txt"]);
    let mut commit = world.command("git");
    commit.args([
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.invalid",
        "commit",
        "-qm",
        "bd-7: earlier",
    ]);
    let date = "2099-01-01T00:00:00Z";
    assert!(commit.env("GIT_COMMITTER_DATE", date).env("GIT_AUTHOR_DATE", date).status().unwrap().success());
}

#[test]
fn a_commit_from_before_the_claim_is_not_an_agents_result_whatever_its_date_says() {
    let world = world();
    old_commit(&world);
    // It holds the file and has tested just that content: everything but the time of the commit is in order.
    let own = "echo x >> file.txt; git checkout -q -- file.txt";
    let script = format!("{own}; check-all {QUIET}; mala gate check --commit HEAD --json");
    let answer = agent(&world, "ann", "bd-7", &script);
    assert_eq!(failed(&answer), ["newer-than-claim"], "{answer:?}");
    assert!(answer.out.contains("was there before the issue was claimed"), "{}", answer.out);
    // Nor is it found as if it were.
    let answer = agent(&world, "ann", "bd-7", &format!("{own}; check-all {QUIET}; mala gate check --json"));
    assert_eq!(failed(&answer), ["outcome"], "{answer:?}");
    assert!(answer.out.contains("nothing was committed"), "{}", answer.out);
}

#[test]
fn work_on_top_of_an_old_commit_for_the_same_issue_is_accepted() {
    let world = world();
    old_commit(&world);
    let script = format!(
        "echo more >> file.txt; check-all {QUIET}; mala commit -m 'bd-7: the rest' {QUIET}; mala gate check --json"
    );
    let answer = agent(&world, "ann", "bd-7", &script);
    assert_eq!((answer.code, status_of(&answer, "newer-than-claim").as_str()), (0, "pass"), "{answer:?}");
}

#[test]
fn a_session_takes_an_issue_on_when_it_first_names_it_and_only_once() {
    let world = world();
    let claims = || {
        let events = done(&world, "logs list --kind issue.claimed --json").json()["events"].clone();
        events.as_array().unwrap().clone()
    };
    let head = world.git(&["rev-parse", "HEAD"]);
    done(&world, "lock acquire file.txt --agent ann");
    assert_eq!(claims(), Vec::<Value>::new(), "it has not said for what");
    done(&world, "lock acquire file.txt --agent ann --issue bd-7");
    assert_eq!((&claims()[0]["issue"], &claims()[0]["detail"]["head"]), (&"bd-7".into(), &head.into()));
    world.write("file.txt", "new\n");
    let run = |words: &[&str]| with_path(&world, &mut mala(&world, words));
    assert_eq!(run(&["test", "--agent", "ann", "--issue", "bd-7", "--", "check-all"]).code, 0);
    assert_eq!(run(&["commit", "--agent", "ann", "-m", "bd-7: new"]).code, 0);
    done(&world, "lock acquire other.txt --agent ann --issue bd-7");
    assert_eq!(claims().len(), 1, "the claim stands");
    let answer = run(&["gate", "check", "--agent", "ann", "--issue", "bd-7", "--json"]);
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
    // Another issue is another claim: the commit was there before it.
    done(&world, "lock acquire other.txt --agent ann --issue bd-8");
    let answer = run(&["gate", "check", "--agent", "ann", "--issue", "bd-8", "--commit", "HEAD", "--json"]);
    assert!(failed(&answer).contains(&"newer-than-claim".to_owned()), "{answer:?}");
}
