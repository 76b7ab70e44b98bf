//! The commands once more, on the commit alone.

use std::fs;
use std::io;

use mala_core::CommandPattern;
use mala_gate::rerun::{Rerun, Suite, rerun};
use mala_gate::runner::{Tee, Tie};

use crate::commit::owner;
use crate::rules::{Desk, find};
use crate::world::World;

fn again(w: &World, commands: &[&str]) -> Rerun {
    let commands: Vec<CommandPattern> = commands.iter().map(|text| text.parse().unwrap()).collect();
    let suite = Suite { commands: &commands, carried: &[], owner: &owner(1), tie: Tie::Group };
    let mut tee = Tee { out: &mut io::sink(), err: &mut io::sink() };
    rerun(&w.repo(), &w.head(), &suite, &mut tee).unwrap()
}

#[test]
fn only_what_is_committed_is_tested() {
    let w = World::new();
    w.write("check.sh", "test -e helper\n");
    w.git(&["add", "check.sh"]);
    w.git(&["commit", "-qm", "needs a helper"]);
    w.write("helper", "not committed");
    let result = again(&w, &["sh check.sh"]);
    assert!(!result.has_passed());
    assert_eq!(result.results[0].exit_code, Some(1));
    w.git(&["add", "helper"]);
    w.git(&["commit", "-qm", "the helper"]);
    assert!(again(&w, &["sh check.sh"]).has_passed());
}

#[test]
fn a_tree_that_passed_is_not_tested_again_and_one_that_failed_is() {
    let w = World::new();
    let count = w.base().join("count");
    w.write("check.sh", format!("echo x >> {}; test -e {}/pass\n", count.display(), w.base().display()));
    w.git(&["add", "."]);
    w.git(&["commit", "-qm", "check"]);
    let times = || fs::read_to_string(&count).unwrap().lines().count();
    assert!(!again(&w, &["sh check.sh"]).has_passed());
    w.write("../pass", "");
    assert!(!again(&w, &["sh check.sh"]).remembered);
    assert_eq!(times(), 2);
    w.git(&["commit", "-q", "--allow-empty", "-m", "the same tree"]);
    assert!(again(&w, &["sh check.sh"]).remembered);
    assert_eq!(times(), 2);
    assert!(!again(&w, &["sh check.sh", "true"]).remembered, "other commands");
    w.write("a.txt", "another tree\n");
    w.git(&["commit", "-qam", "another tree"]);
    assert!(!again(&w, &["sh check.sh"]).remembered);
}

#[test]
fn a_changed_log_remembers_nothing() {
    let w = World::new();
    assert!(!again(&w, &["true"]).remembered);
    assert!(again(&w, &["true"]).remembered);
    let log = w.state().join("evidence/reruns.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("\"true\"", "\"test\"")).unwrap();
    let commands: Vec<CommandPattern> = vec!["test".parse().unwrap()];
    let suite = Suite { commands: &commands, carried: &[], owner: &owner(1), tie: Tie::Group };
    let mut tee = Tee { out: &mut io::sink(), err: &mut io::sink() };
    let result = rerun(&w.repo(), &w.head(), &suite, &mut tee);
    assert!(result.is_err() || !result.unwrap().has_passed(), "a forged pass does not count");
}

#[test]
fn a_verdict_rests_on_the_rerun_instead_of_on_evidence() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.commit();
    d.fails("command");
    let verdict = d.check().with_rerun(&again(&d.w, &["true"]));
    assert!(verdict.is_pass(), "{verdict:#?}");
    assert_eq!(find(&verdict, "command").detail, "`true` passed in a clean snapshot of the commit");
    let verdict = d.check().with_rerun(&again(&d.w, &["false"]));
    assert!(!verdict.is_pass());
    assert!(
        find(&verdict, "command")
            .detail
            .starts_with("`false` failed in a clean snapshot of the commit (exit code 1)")
    );
}
