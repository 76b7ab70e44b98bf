//! The gate where mala has seen nothing: on a fresh clone, and about work that ends without code.

use std::fs;

use super::{QUIET, agent, checks, failed, with_path, world};
use crate::cli::{Answer, mala};

#[test]
fn on_a_fresh_clone_a_rerun_judges_a_pushed_commit() {
    let world = world();
    let script = format!("echo fine > file.txt; check-all {QUIET}; mala commit -m 'bd-7: fine' {QUIET}");
    assert_eq!(agent(&world, "ann", "bd-7", &script).code, 0);
    world.write("other.txt", "broken\n");
    world.git(&["commit", "-qam", "bd-8: not so fine"]);
    let clone = world.base().join("clone");
    world.git(&["clone", "-q", ".", clone.to_str().unwrap()]);
    let gate = |commit: &str, issue: &str, more: &[&str]| -> Answer {
        let words = ["gate", "check", "--commit", commit, "--issue", issue, "--json"];
        with_path(&world, mala(&world, words).args(more).current_dir(&clone))
    };
    let trusting = gate("HEAD~1", "bd-7", &[]);
    assert_eq!(failed(&trusting), ["command"], "nothing is known here: {trusting:?}");
    let good = gate("HEAD~1", "bd-7", &["--rerun"]);
    assert_eq!((good.code, failed(&good)), (0, Vec::new()), "{good:?}");
    let again = gate("HEAD~1", "bd-7", &["--rerun"]);
    assert!(again.out.contains("passed on this very tree, run by mala (on "), "{}", again.out);
    let bad = gate("HEAD", "bd-8", &["--rerun"]);
    assert_eq!((bad.code, failed(&bad)), (1, vec!["command".to_owned()]), "{bad:?}");
    fs::write(clone.join("mala.toml"), "").unwrap();
    let nothing = gate("HEAD", "bd-8", &["--rerun"]);
    assert_eq!(nothing.code, 2, "what proves nothing is not accepted: {nothing:?}");
    fs::remove_file(clone.join("mala.toml")).unwrap();
    world.git(&["-C", clone.to_str().unwrap(), "checkout", "-q", "--", "."]);
    let wrong = gate("HEAD", "bd-9", &["--rerun"]);
    assert!(failed(&wrong).contains(&"issue-id".to_owned()), "{wrong:?}");
}

#[test]
fn work_without_code_ends_with_an_exact_last_line_and_a_rule_of_its_own() {
    let world = world();
    let judge = |before: &str, message: &str| {
        fs::write(world.base().join("message"), message).unwrap();
        let script = format!("{before}; mala gate check --json --final-message ../message");
        agent(&world, "ann", "bd-7", &script)
    };
    let declared = "I looked.\n\nMALA-OUTCOME: no-change: it works as it is\n";
    let answer = judge("true", declared);
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
    assert!(checks(&answer).contains(&("outcome".to_owned(), "pass".to_owned())));
    for (before, message, check) in [
        ("true", "I would say MALA-OUTCOME: no-change: but I am not sure", "outcome"),
        ("true", "MALA-OUTCOME: no-change: it works\nbut wait", "outcome"),
        ("true", "MALA-OUTCOME: already-complete: somebody did it", "outcome"),
        ("true", "MALA-OUTCOME: docs-only: words", "outcome"),
        ("echo left >> file.txt", declared, "clean-status"),
    ] {
        let answer = judge(before, message);
        assert_eq!((answer.code, failed(&answer)), (1, vec![check.to_owned()]), "{message}: {answer:?}");
        world.git(&["checkout", "-q", "--", "."]);
    }
    world.git(&["commit", "-q", "--allow-empty", "-m", "bd-7: done before"]);
    let head = world.git(&["rev-parse", "--short", "HEAD"]);
    let answer = judge("true", &format!("MALA-OUTCOME: already-complete: done in {head}"));
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
    let docs = format!("echo words > notes.md; mala commit -m 'bd-7: words' {QUIET}");
    let answer = judge(&docs, "MALA-OUTCOME: docs-only: words");
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
}

#[test]
fn however_a_commit_is_made_a_file_that_others_hold_is_not_accepted_in_it() {
    // Where hooks are passed by, or live elsewhere, or git is used without its porcelain: the gate reads the result.
    for how in [
        "git commit -q --no-verify -am 'bd-3: x'",
        "git -c core.hooksPath=/nowhere commit -qam 'bd-3: x'",
        "git add -A && git commit -q --no-verify -m 'bd-3: x'",
        "git add -A && git update-ref HEAD $(git commit-tree $(git write-tree) -p HEAD -m 'bd-3: x')",
        "git switch -q -c side && git commit -q --no-verify -am 'bd-3: x' && git switch -q main && git cherry-pick side",
    ] {
        let world = world();
        assert_eq!(with_path(&world, &mut mala(&world, ["init", "--yes"])).code, 0);
        for words in [["file.txt", "ann"], ["other.txt", "bob"]] {
            let acquire = ["lock", "acquire", words[0], "--agent", words[1], "--issue", "bd-3"];
            assert_eq!(with_path(&world, &mut mala(&world, acquire)).code, 0);
        }
        world.write("file.txt", "mine\n");
        world.write("other.txt", "his\n");
        let mut shell = world.command("sh");
        let made = with_path(&world, shell.args(["-c", how]).env("MALA_AGENT", "ann"));
        assert_eq!(made.code, 0, "{how}: {made:?}");
        let gate = ["gate", "check", "--agent", "ann", "--issue", "bd-3", "--json"];
        let answer = with_path(&world, &mut mala(&world, gate));
        assert!(failed(&answer).contains(&"files-owned".to_owned()), "{how}: {answer:?}");
        assert!(answer.out.contains("other.txt (held by bob)"), "{how}: {answer:?}");
    }
}
