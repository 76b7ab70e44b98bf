//! Only evidence of this agent, that passed, on exactly what was committed, counts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use mala_core::Timestamp;
use mala_gate::evidence::{EvidenceLog, Launch, Place};
use mala_gate::rules::Foreign;
use mala_gate::verdict::Status;

use super::{Desk, claimed, command, find, honest};

#[test]
fn what_was_never_run_is_missing() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.commit();
    assert_eq!(d.fails("command"), "`A` has not run `pytest` under mala: run `mala test -- pytest`");
}

#[test]
fn every_required_command_needs_its_own_evidence() {
    let (mut d, _) = honest();
    d.rules.required = vec![command("pytest"), command("ruff check")];
    let detail = d.fails("command");
    assert!(detail.contains("`ruff check`"), "{detail}");
}

#[test]
fn of_several_commands_the_newest_record_of_each_decides() {
    let mut d = Desk::new();
    d.rules.required = vec![command("pytest"), command("ruff check")];
    d.edit("A", "a.txt", "flaky\n");
    d.run("A", "ruff check", 0);
    d.run("A", "pytest", 0);
    d.run("A", "pytest", 1);
    d.commit();
    assert!(d.fails("command").starts_with("`pytest` failed on what was committed"));
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn strictly_what_changed_during_the_run_must_not_be_ones_own_either() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run_during("A", "pytest", 0, || d.edit("A", "src/lib.rs", "for a moment\n"));
    d.w.git(&["checkout", "-q", "--", "src/lib.rs"]);
    d.commit();
    d.passes();
    d.rules.foreign = Foreign::Refused;
    assert!(d.fails("command").starts_with("`src/lib.rs` was changed while `pytest` ran"));
}

#[test]
fn somebody_elses_run_does_not_count() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("B", "pytest", 0);
    d.commit();
    let detail = d.fails("command");
    assert_eq!(detail, "only `B` has run `pytest`, `A` has not: run `mala test -- pytest`");
}

#[test]
fn a_failing_run_does_not_count() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "bad\n");
    let id = d.run("A", "pytest", 1).id;
    d.commit();
    let detail = d.fails("command");
    assert_eq!(
        detail,
        "`pytest` failed on what was committed (exit code 1): fix it, then run `mala test -- pytest`"
    );
    assert_eq!(find(&d.check(), "command").evidence, [id]);
}

#[test]
fn a_pass_does_not_outlive_a_later_failure_on_the_same_content() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "flaky\n");
    d.run("A", "pytest", 0);
    d.run("A", "pytest", 1);
    d.commit();
    assert!(d.fails("command").contains("failed on what was committed"));
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn the_record_of_what_was_committed_is_found_behind_others() {
    let mut d = Desk::new();
    let edit_all = |d: &Desk, text: &str| {
        for path in ["a.txt", "new \\ \"quoted\".txt", "other \"quoted\".txt", "ünïcode.txt"] {
            d.edit("A", path, text);
        }
    };
    d.locks.give("A", "b.txt");
    d.w.remove("b.txt");
    edit_all(&d, "good\n");
    let right = d.run("A", "pytest", 0).id;
    for change in ["worse\n", "and worse\n"] {
        d.edit("A", "ünïcode.txt", change);
        d.run("A", "pytest", 1);
    }
    edit_all(&d, "good\n");
    d.commit();
    d.passes();
    assert_eq!(find(&d.check(), "command").evidence, [right]);
}

#[test]
fn a_failure_on_what_was_committed_is_found_behind_others() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "flaky\n");
    d.run("A", "pytest", 0);
    d.run("A", "pytest", 1);
    for change in ["worse\n", "and worse\n"] {
        d.edit("A", "a.txt", change);
        d.run("A", "pytest", 0);
    }
    d.edit("A", "a.txt", "flaky\n");
    d.commit();
    assert!(d.fails("command").contains("failed on what was committed"));
}

#[test]
fn a_run_on_the_commit_itself_is_found_behind_others() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.edit("A", "b.txt", "good\n");
    d.commit();
    let right = d.run("A", "pytest", 0);
    assert!(right.files.is_empty(), "nothing differs from the commit");
    for change in ["worse\n", "and worse\n"] {
        d.edit("A", "b.txt", change);
        d.run("A", "pytest", 1);
    }
    d.passes();
    assert_eq!(find(&d.check(), "command").evidence, [right.id]);
}

#[test]
fn an_edit_after_the_test_is_noticed() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.edit("A", "a.txt", "bad\n");
    d.commit();
    assert_eq!(
        d.fails("command"),
        "`a.txt` was committed with other content than `pytest` ran on: run `mala test -- pytest`, then commit"
    );
}

#[test]
fn a_file_that_was_not_there_yet_when_the_test_ran_is_noticed() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.edit("A", "new.txt", "untested\n");
    d.commit();
    assert!(d.fails("command").starts_with("`new.txt` was committed with other content"));
}

#[test]
fn a_deletion_after_the_test_is_noticed() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.locks.give("A", "b.txt");
    d.w.remove("b.txt");
    d.commit();
    assert!(d.fails("command").starts_with("`b.txt` was committed with other content"));
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn an_old_run_on_the_same_content_counts_again_after_detours() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.edit("A", "a.txt", "bad\n");
    d.run("A", "pytest", 1);
    d.edit("A", "a.txt", "good\n");
    d.commit();
    d.passes();
}

#[test]
fn a_test_after_the_commit_counts_too() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.commit();
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn a_run_from_before_the_claim_is_stale() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.subject.claim = Some(claimed(Timestamp::now().plus(std::time::Duration::from_millis(1))));
    std::thread::sleep(std::time::Duration::from_millis(5));
    d.edit("A", "a.txt", "good\n");
    d.commit();
    assert_eq!(
        d.fails("command"),
        "the last `pytest` was before the issue was claimed: run `mala test -- pytest`"
    );
}

#[test]
fn a_committed_file_that_changed_during_the_run_proves_nothing() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run_during("A", "pytest", 0, || d.w.write("a.txt", "other\n"));
    d.edit("A", "a.txt", "good\n");
    d.commit();
    assert!(d.fails("command").starts_with("`a.txt` was changed while `pytest` ran"));
}

#[test]
fn a_test_that_passed_thanks_to_an_uncommitted_file_proves_nothing() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "needs helper\n");
    d.edit("A", "helper.txt", "help\n");
    d.run("A", "pytest", 0);
    d.git_commit(&["commit", "-qm", "bd-proj-1: without the helper", "a.txt"]);
    let detail = d.fails("command");
    assert!(
        detail.starts_with("when `pytest` ran, `helper.txt` was changed too, and it is not in the commit"),
        "{detail}"
    );
    // Committed a little later it is all there, but not in this commit.
    d.w.git(&["add", "helper.txt"]);
    d.w.git(&["commit", "-qm", "bd-proj-1: the helper"]);
    assert_eq!(d.fails("command"), detail);
    d.subject.commit = Some(d.w.head());
    d.passes();
}

#[test]
fn a_test_after_a_later_commit_of_ones_own_says_nothing_about_the_earlier_one() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "needs helper\n");
    d.edit("A", "helper.txt", "help\n");
    d.git_commit(&["commit", "-qm", "bd-proj-1: without the helper", "a.txt"]);
    d.w.git(&["add", "helper.txt"]);
    d.w.git(&["commit", "-qm", "bd-proj-2: the helper"]);
    d.run("A", "pytest", 0);
    let detail = d.fails("command");
    assert!(
        detail.starts_with("when `pytest` ran, `helper.txt` was changed too, and it is not in the commit"),
        "{detail}"
    );
    // Of others it may be: a test sees whatever they commit.
    d.edit("A", "a.txt", "good\n");
    d.commit();
    d.edit("B", "b.txt", "by B\n");
    d.commit_as("B", "bd-other-1: b");
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn what_the_agent_itself_committed_after_the_test_is_untested() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.edit("A", "b.txt", "bad\n");
    d.w.git(&["commit", "-qm", "bd-proj-2: b", "b.txt"]);
    d.commit();
    assert!(d.fails("command").starts_with("`b.txt` was committed with other content than `pytest` ran on"));
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn strictly_what_others_committed_later_was_not_there_either() {
    let mut d = Desk::new();
    d.rules.foreign = Foreign::Refused;
    d.edit("A", "a.txt", "good\n");
    d.edit("B", "b.txt", "by B\n");
    d.run("A", "pytest", 0);
    d.commit();
    d.commit_as("B", "bd-other-1: b");
    assert!(!d.check().is_pass());
}

#[test]
fn a_commit_names_as_evidence_what_the_gate_accepts() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "needs helper\n");
    d.edit("A", "helper.txt", "help\n");
    d.edit("B", "b.txt", "by B\n");
    d.run("A", "pytest", 0);
    assert_eq!(d.commit_of(&["a.txt"]), [], "the helper is left out");
    let whole = d.run("A", "pytest", 0).id;
    assert_eq!(d.commit_of(&["helper.txt"]), [whole], "others' changes are only named");
    d.passes();
    d.rules.foreign = Foreign::Refused;
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    assert_eq!(d.commit_of(&["a.txt"]), [], "strictly they do not count");
    assert!(!d.check().is_pass());
}

#[test]
fn others_edits_are_named_or_refused() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.edit("B", "b.txt", "half done\n");
    d.run_during("A", "pytest", 0, || d.edit("B", "src/lib.rs", "meanwhile\n"));
    d.commit();
    d.passes();
    let verdict = d.check();
    let check = find(&verdict, "foreign-edits");
    assert_eq!(check.status, Status::Pass);
    assert!(check.detail.contains("`b.txt of B`, `src/lib.rs of B`"), "{}", check.detail);
    d.rules.foreign = Foreign::Refused;
    let verdict = d.check();
    assert!(!verdict.is_pass());
    let detail = &find(&verdict, "command").detail;
    assert!(
        detail.contains("somebody else's `b.txt`") && detail.contains("mala test --isolated"),
        "{detail}"
    );
    assert_eq!(find(&verdict, "foreign-edits").status, Status::Fail);
}

#[test]
fn strictly_what_others_committed_in_between_is_untested_too() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.edit("B", "b.txt", "by B\n");
    d.commit_as("B", "bd-other-1: b");
    d.commit();
    d.passes();
    d.rules.foreign = Foreign::Refused;
    assert!(!d.check().is_pass());
    d.run("A", "pytest", 0);
    d.passes();
}

#[test]
fn a_command_that_only_looks_like_the_required_one_does_not_count() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    for line in ["pytest --version", "pytest --collect-only", "echo pytest", "pytest-fake"] {
        d.run("A", line, 0);
    }
    d.commit();
    assert!(d.fails("command").contains("`--collect-only`, which tests nothing"));
}

#[test]
fn a_run_in_another_folder_does_not_count() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    let launch = Launch { argv: vec!["pytest".into()], cwd: d.w.home(), mutex: None, place: Place::Shared };
    d.record("A", launch, 0, || {});
    d.commit();
    assert!(d.fails("command").contains("was run outside this checkout"));
}

#[test]
fn a_checkout_may_have_any_name() {
    let mut d = Desk::new();
    let root = d.w.base().join(OsStr::from_bytes(b"odd \xff \"name\""));
    fs::rename(&d.w.root, &root).unwrap();
    d.w.root = root;
    d.edit("A", "a.txt", "good\n");
    let record = d.run("A", "pytest", 0);
    assert_eq!(record.cwd, format!("\"{}/odd \\377 \\\"name\\\"\"", d.w.base().display()));
    d.commit();
    d.passes();
}

#[test]
fn a_part_of_the_command_is_not_the_command() {
    for narrowed in
        ["pytest tests/one.py", "pytest -k nothing", "pytest --ignore tests", "uv run pytest tests"]
    {
        let mut d = Desk::new();
        d.edit("A", "a.txt", "good\n");
        d.run("A", narrowed, 0);
        d.commit();
        assert!(d.fails("command").starts_with("only a part of `pytest` was run"), "{narrowed}");
        d.run("A", "/usr/bin/pytest -q --color=no", 0);
        d.passes();
    }
}

#[test]
fn none_of_the_narrowed_runs_that_once_counted_counts() {
    for (required, narrowed) in [
        ("cargo test", "cargo test no_such_test"),
        ("cargo test", "cargo test --doc"),
        ("cargo test", "cargo test -p other"),
        ("cargo test", "cargo test --package other"),
        ("cargo test", "cargo -C sub test"),
        ("cargo test", "cargo test --manifest-path sub/Cargo.toml"),
        ("cargo test", "cargo test -- --skip x"),
        ("cargo test", "cargo test --lib"),
        ("cargo test", "cargo t one"),
        ("cargo test", "cargo test --no-run"),
        ("sh check.sh", "sh -n check.sh"),
        ("sh check.sh", "sh sub/check.sh"),
        ("sh check.sh", "sh check.sh one"),
        ("npm test", "npm test -- one.test.js"),
        ("go test ./...", "go test ./one"),
        ("go test ./...", "go test -run NoSuchTest ./..."),
    ] {
        let mut d = Desk::new();
        d.rules.required = vec![required.parse().unwrap()];
        d.edit("A", "a.txt", "good\n");
        d.run("A", narrowed, 0);
        d.commit();
        d.fails("command");
        d.run("A", required, 0);
        d.passes();
    }
}

#[test]
fn a_command_run_in_another_directory_is_another_command() {
    let mut d = Desk::new();
    d.rules.directory = "sub".into();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.commit();
    assert!(d.fails("command").contains("where it is required"));
}

#[test]
fn a_mode_that_changed_after_the_test_was_not_tested() {
    use std::os::unix::fs::PermissionsExt;
    let set = |d: &Desk, mode: u32| {
        fs::set_permissions(d.w.root.join("a.txt"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    set(&d, 0o755);
    d.commit();
    assert!(d.fails("command").starts_with("`a.txt` was committed with other content"));
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    set(&d, 0o755);
    d.run("A", "pytest", 0);
    d.commit();
    d.passes();
}

#[test]
fn ways_to_write_the_same_command_count_as_it() {
    for same in ["uv run pytest", "python -m pytest", "python3 -m pytest -q", "uv run python -m pytest"] {
        let mut d = Desk::new();
        d.edit("A", "a.txt", "good\n");
        d.run("A", same, 0);
        d.commit();
        d.passes();
    }
}

#[test]
fn a_command_that_the_settings_call_equivalent_counts_as_the_required_one() {
    let group = |commands: [&str; 2]| commands.map(|command| command.parse().unwrap()).to_vec();
    let mut d = Desk::new();
    d.rules.equivalents = vec![group(["make other", "cargo test"]), group(["make test", "uv run pytest"])];
    d.edit("A", "a.txt", "good\n");
    d.run("A", "make other", 0);
    d.commit();
    d.fails("command");
    for narrowed in ["make test unit", "make --dry-run test"] {
        d.run("A", narrowed, 0);
        d.fails("command");
    }
    d.run("A", "make test", 1);
    assert!(d.fails("command").starts_with("`make test` failed on what was committed"));
    d.run("A", "make test", 0);
    d.passes();
}

#[test]
fn evidence_from_a_changed_log_does_not_count() {
    let (d, _) = honest();
    let log = EvidenceLog::of(&d.w.scope());
    let text = fs::read_to_string(log.path()).unwrap();
    fs::write(log.path(), text.replace("\"exit_code\":0", "\"exit_code\":9")).unwrap();
    assert!(d.fails("evidence-log").starts_with("the evidence was tampered with: line 1 of"));
}

#[test]
fn a_forged_or_a_missing_record_breaks_the_log() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "bad\n");
    d.run("A", "pytest", 1);
    let log = EvidenceLog::of(&d.w.scope());
    let failing = fs::read_to_string(log.path()).unwrap();
    let forged = failing.replace("\"exit_code\":1", "\"exit_code\":0");
    fs::write(log.path(), format!("{failing}{forged}")).unwrap();
    d.commit();
    d.fails("evidence-log");
    fs::write(log.path(), "").unwrap();
    d.fails("evidence-log");
}
