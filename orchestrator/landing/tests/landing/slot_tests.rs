//! What agents try in slots: on which commit, what is recorded of it, and what it lacks.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use mala_core::{Key, LockName, Mode, Pattern, RunId, Target, Want};
use mala_gate::runner::Tee;
use mala_gate::{Evidence, EvidenceLog, StoreOwnership};
use mala_git::Oid;
use mala_landing::{NotInTest, Requirements, SlotTest, Validation, ValidationError, Work};
use mala_logs::telemetry::spans::Span;
use mala_store::{EventFilter, Outcome, Party, Request, process};

use crate::queue::{enqueue_of, store};
use crate::world::World;

fn party(agent: &str, issue: &str) -> Party {
    Party {
        agent: agent.parse().unwrap(),
        owner: process::current(),
        supervised: false,
        issue: Some(issue.parse().unwrap()),
        run: Some(RunId::new("r1").unwrap()),
    }
}

#[expect(clippy::disallowed_methods, reason = "nobody has the files open here")]
fn hold(w: &World, party: &Party, targets: Vec<Target>) {
    let want = |target| Want { target, aliases: Vec::new(), mode: Mode::Exclusive };
    let wants = targets.into_iter().map(want).collect();
    let request = Request { party: party.clone(), wants, ttl: Duration::from_secs(600), reason: None };
    let outcome = store(w).reserve(&request).unwrap();
    assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
}

fn file(path: &str) -> Target {
    Target::File(Key::from_stored(path.as_bytes().to_vec()))
}

/// An agent that has changed a file of its own.
fn edit(w: &World, party: &Party, path: &str, text: &str) {
    hold(w, party, vec![file(path)]);
    w.write(path, text);
}

fn work(w: &World, party: &Party) -> Work {
    let who = mala_core::Actor { agent: party.agent.clone(), issue: None, run: None };
    Work::of(&w.repo(), &who, &StoreOwnership::new(store(w))).unwrap().unwrap()
}

/// What is run with a test in a slot.
fn with_test<T>(
    w: &World,
    party: &Party,
    work: &Work,
    act: impl FnOnce(&SlotTest<'_>, &mut Tee<'_>) -> T,
) -> T {
    let (repo, slots, requirements) = (w.repo(), w.slots(), Requirements::of(&w.settings()));
    let span = Span::none();
    let test = SlotTest {
        repo: &repo,
        slots: &slots,
        requirements: &requirements,
        work,
        party,
        span: &span,
        asker: None,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    act(&test, &mut Tee { out: &mut out, err: &mut err })
}

fn run(w: &World, party: &Party, line: &str) -> Evidence {
    let argv: Vec<OsString> = line.split(' ').map(Into::into).collect();
    with_test(w, party, &work(w, party), |test, tee| test.command(&argv, &w.root, tee)).unwrap()
}

fn required(w: &World, party: &Party) -> Validation {
    with_test(w, party, &work(w, party), |test, tee| test.required(tee)).unwrap()
}

fn events(w: &World) -> Vec<String> {
    let events = store(w).events(&EventFilter::default()).unwrap();
    let tests = events.into_iter().filter(|event| event.kind.starts_with("test."));
    tests
        .map(|event| format!("{} {}", event.kind, event.detail["evidence"].as_str().unwrap_or("?")))
        .collect()
}

#[test]
fn a_test_of_all_that_is_required_spares_the_validation_of_the_very_tree_that_is_offered() {
    let ann = party("ann", "bd-1");
    let start = || {
        let w = World::requiring("sh check.sh");
        w.write("check.sh", "test -e a.txt\n").write("sub/x", "x\n").commit();
        edit(&w, &ann, "a.txt", "mine\n");
        w
    };
    let w = start();
    assert!(required(&w, &ann).has_passed());
    assert!(w.validate(&w.commit()).remembered, "all commands");
    let w = start();
    assert!(run(&w, &ann, "sh check.sh").has_passed());
    assert!(w.validate(&w.commit()).remembered, "the only command");
    w.write("a.txt", "something else\n");
    assert!(!w.validate(&w.commit()).remembered, "another tree");
    for other in ["sh check.sh -x", "sh -n check.sh", "true"] {
        let w = start();
        assert!(run(&w, &ann, other).has_passed());
        assert!(!w.validate(&w.commit()).remembered, "{other}");
    }
    let w = start();
    let argv: [OsString; 2] = ["sh".into(), "../check.sh".into()];
    let (sub, work) = (w.root.join("sub"), work(&w, &ann));
    let _ = with_test(&w, &ann, &work, |test, tee| test.command(&argv, &sub, tee)).unwrap();
    assert!(!w.validate(&w.commit()).remembered, "in another directory");
}

#[test]
fn a_test_of_half_of_what_is_required_or_of_nothing_spares_no_validation() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("sh check.sh,true");
    w.write("check.sh", "exit 0\n").commit();
    assert!(run(&w, &ann, "sh check.sh").has_passed());
    assert!(!w.validate(&w.commit()).remembered, "one of two");
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "echo 'Ran 0 tests in 0.000s'\n").commit();
    assert!(run(&w, &ann, "sh check.sh").has_passed());
    let validation = w.validate(&w.commit());
    assert!(!validation.has_passed(), "it executed no test: {validation:?}");
}

#[test]
fn every_test_in_a_slot_is_recorded_with_its_tree_and_told_to_the_journal() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("sh check.sh,false");
    w.write("check.sh", "echo said --token=hunter2\n").write("b.txt", "1\n").commit();
    edit(&w, &ann, "a.txt", "mine\n");
    w.write("b.txt", "of somebody else\n");
    let one = run(&w, &ann, "sh check.sh --token=hunter2");
    required(&w, &ann);
    let mut records = Vec::new();
    let log = EvidenceLog::of(w.repo().scope());
    log.search(mala_gate::evidence::Of::Agent(&ann.agent), |record| {
        records.insert(0, record);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let commands: Vec<String> = records.iter().map(Evidence::command).collect();
    assert_eq!(commands, ["sh check.sh --token=***", "sh check.sh", "false"]);
    w.git(&["checkout", "-q", "--", "b.txt"]);
    let tree = w.repo().commit(&w.commit()).unwrap().tree;
    for record in &records {
        assert_eq!((record.tree.as_ref(), record.isolated), (Some(&tree), true));
        assert_eq!(record.files.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
        assert!(record.foreign.is_empty());
    }
    assert_eq!(fs::read_to_string(one.output_log.unwrap()).unwrap(), "said --token=hunter2\n");
    let told: Vec<String> = records
        .iter()
        .flat_map(|record| ["test.started", "test.ended"].map(|kind| format!("{kind} {}", record.id)))
        .collect();
    assert_eq!(events(&w), told);
}

#[test]
fn a_test_that_never_ends_is_ended_and_recorded_with_what_it_printed() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("true").with("queue.timeout", "1s");
    w.write("endless.sh", "echo begun; sleep 600\n").commit();
    let record = run(&w, &ann, "sh endless.sh");
    assert_eq!((record.exit_code, record.signal), (None, Some(9)));
    assert_eq!(fs::read_to_string(record.output_log.unwrap()).unwrap(), "begun\n");
}

#[test]
fn a_test_that_cannot_be_started_leaves_an_end_in_the_journal_and_no_output() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("true");
    w.write("a", "1").commit();
    let argv = [OsString::from("no-such-program")];
    let error =
        with_test(&w, &ann, &work(&w, &ann), |test, tee| test.command(&argv, &w.root, tee)).unwrap_err();
    assert!(matches!(error, ValidationError::Run(_)), "{error:?}");
    assert_eq!(events(&w).len(), 2);
    let outputs = w.root.join(".git/mala/evidence/output");
    assert_eq!(fs::read_dir(outputs).unwrap().count(), 0);
}

fn on_green(w: &World, party: &Party) -> Work {
    work(w, party).on_last_green(&w.repo(), &Requirements::of(&w.settings())).unwrap()
}

fn shows(w: &World, commit: &Oid, path: &str) -> String {
    w.git(&["show", &format!("{commit}:{path}")])
}

#[test]
fn a_test_runs_on_the_last_commit_that_is_proven() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "test ! -e bad\n").write("a.txt", "1\n2\n3\n4\n5\n");
    let first = w.commit();
    edit(&w, &ann, "new.txt", "mine\n");
    let base = |w: &World| (on_green(w, &ann).base, on_green(w, &ann).remark);
    assert_eq!(base(&w), (first.clone(), None), "nothing is known of any commit");
    assert!(w.has_passed(&first));
    assert_eq!(base(&w), (first.clone(), None));
    // By a person, in the middle of a run.
    w.write("bad", "x");
    w.git(&["add", "bad"]);
    w.git(&["commit", "-q", "-m", "by a person"]);
    let red = Oid::parse(&w.git(&["rev-parse", "HEAD"])).unwrap();
    let (on, remark) = base(&w);
    assert_eq!(on, first);
    assert!(remark.unwrap().contains("is not proven yet"));
    assert!(!w.has_passed(&red));
    let tested = on_green(&w, &ann);
    assert!(tested.remark.as_ref().unwrap().contains("is red: this runs on"), "{tested:?}");
    assert_eq!(shows(&w, &tested.commit, "new.txt"), "mine");
    assert_eq!(w.git(&["ls-tree", "--name-only", tested.commit.as_str(), "bad"]), "");
    let validation = with_test(&w, &ann, &tested, |test, tee| test.required(tee)).unwrap();
    assert!(validation.has_passed());
}

#[test]
fn changes_that_fit_only_on_the_last_commit_are_tested_there() {
    let ann = party("ann", "bd-1");
    let w = World::requiring("sh check.sh");
    let first = w.write("check.sh", "test ! -e bad\n").write("a.txt", "1\n").commit();
    assert!(w.has_passed(&first));
    let red = w.write("bad", "x").write("a.txt", "2\n").commit();
    edit(&w, &ann, "a.txt", "3\n");
    let tested = on_green(&w, &ann);
    assert_eq!(tested.base, red);
    assert!(tested.remark.as_ref().unwrap().contains("your changes to `a.txt` do not fit on"), "{tested:?}");
    assert_eq!(shows(&w, &tested.commit, "a.txt"), "3");
}

fn missing(w: &World, party: &Party) -> NotInTest {
    NotInTest::of(&w.repo(), &mut store(w), party, &work(w, party)).unwrap()
}

#[test]
fn what_others_hold_or_have_offered_is_named_and_what_was_tested_is_not() {
    let (ann, bob) = (party("ann", "bd-1"), party("bob", "bd-3"));
    let w = World::requiring("true");
    let base = w.write("src/api.rs", "1\n").write("b.txt", "1\n").commit();
    assert_eq!(missing(&w, &ann).words(), None);
    edit(&w, &ann, "a.txt", "mine\n");
    hold(&w, &bob, vec![file("src/api.rs"), Target::Name(LockName::test())]);
    let carl = Party { issue: None, ..party("carl", "bd-4") };
    hold(&w, &carl, vec![Target::Pattern(Pattern::parse(b"docs/**").unwrap())]);
    assert_eq!(
        missing(&w, &ann).words().unwrap(),
        "src/api.rs (bob, bd-3, working), docs/** (carl, working)"
    );
    enqueue_of(&w, &base, "b.txt", "2\n", &party("dora", "bd-5"));
    enqueue_of(&w, &base, "a.txt", "mine\n", &party("dora", "bd-5"));
    let named = missing(&w, &ann);
    assert_eq!(
        named.words().unwrap(),
        "b.txt (dora, bd-5, waiting), src/api.rs (bob, bd-3, working), docs/** (carl, working)",
        "what is offered is in the test if it is the same"
    );
    assert_eq!(named.issues().iter().map(ToString::to_string).collect::<Vec<_>>(), ["bd-3", "bd-5"]);
    let bobs = missing(&w, &bob).words().unwrap();
    assert!(bobs.contains("a.txt (dora, bd-5, waiting)") && !bobs.contains("api.rs"), "{bobs}");
    let json = serde_json::to_value(&named).unwrap();
    assert_eq!(
        json["not_in_test"][1],
        serde_json::json!({ "path": "src/api.rs", "agent": "bob", "issue": "bd-3", "state": "working" })
    );
    assert_eq!(json["not_in_test_besides"], 0);
}

#[test]
fn of_many_files_of_others_some_are_named_and_the_rest_is_counted() {
    let (ann, bob) = (party("ann", "bd-1"), party("bob", "bd-3"));
    let w = World::requiring("true");
    w.write("x", "1").commit();
    hold(&w, &bob, (10..40).map(|number| file(&format!("f{number}"))).collect());
    let missing = missing(&w, &ann);
    assert_eq!((missing.files.len(), missing.besides), (10, 20));
    assert!(missing.words().unwrap().ends_with("f19 (bob, bd-3, working) and 20 more"));
}
