//! Commits that an agent has made past its issue: they are named, and there is a way out.

use super::{QUIET, agent, checks, failed, world};

/// Runs what the gate says is to be typed.
const DO_AS_TOLD: &str = r#"line=$(mala gate check --json | sed -n 's/.*commit it again: \(mala commit [^"]*\)".*/\1/p')
echo "$line"; sh -c "$line" >/dev/null 2>&1"#;

#[test]
fn a_commit_that_does_not_name_its_issue_is_named_with_a_line_that_mends_it() {
    let world = world();
    let stray = format!("echo fine > file.txt; check-all {QUIET}; git add file.txt; git commit -qm 'my fix'");
    let answer = agent(&world, "ann", "bd-7", &format!("{stray}; mala commit -m 'bd-7: my fix'"));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.err.contains("nothing to commit") && answer.err.contains("mala gate check"), "{answer:?}");

    let world = super::world();
    let answer = agent(&world, "ann", "bd-7", &format!("{stray}; mala gate check --json"));
    assert_eq!(failed(&answer), ["issue-id"], "{answer:?}");
    let id = world.git(&["log", "-1", "--format=%h"]);
    assert!(answer.out.contains(&format!("the message of {}", &id[..7])), "it is named: {answer:?}");

    let world = super::world();
    let script = format!("{stray}; {DO_AS_TOLD}; mala gate check --json");
    let answer = agent(&world, "ann", "bd-7", &script);
    assert!(answer.out.starts_with("mala commit --undo && mala commit -m 'bd-7: my fix'\n"), "{answer:?}");
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
    assert!(checks(&answer).contains(&("issue-id".to_owned(), "pass".to_owned())));
    assert_eq!(world.git(&["log", "--format=%s"]), "bd-7: my fix\nstart");
}

#[test]
fn what_is_to_be_typed_has_nothing_that_a_client_refuses() {
    let world = world();
    let stray = format!("echo fine > file.txt; check-all {QUIET}; git commit -qam 'use `$(x)`, not y'");
    let answer = agent(&world, "ann", "bd-7", &format!("{stray}; {DO_AS_TOLD}; mala gate check --json"));
    assert!(
        answer.out.starts_with("mala commit --undo && mala commit -m 'bd-7: what changes'\n"),
        "{answer:?}"
    );
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
}
