//! The journal of runs: whatever is killed, somebody can go on from there.

use std::time::Duration;

use mala_core::{Attempt, AttemptState, Run, Spend};
use mala_core::{Interruption, Life, Oid, RunId};
use mala_store::{
    End, Finish, Finished, IssueError, JournalError, NewAttempt, Next, Party, Progress, Request, Store,
    StoreError, Tracker,
};
use mala_tests::fakes::TestLiveness;
use mala_tests::table::request;
use mala_tests::{ONLY_THE_DEAD, Table, Terse, agent};
use serde_json::json;

use super::{add, eve, id, ready, status};

pub(super) const ENGINE: u32 = 500;
const HEAD: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

pub(super) fn begin(table: &mut Table) -> Run {
    table.store.begin_run(&TestLiveness::owner(ENGINE), &json!({ "max_agents": 3 })).unwrap()
}

pub(super) fn new(run: &RunId, issue: &str, name: &str) -> NewAttempt {
    NewAttempt {
        run: run.clone(),
        issue: id(issue),
        tracker: Tracker::BuiltIn,
        agent: agent(name),
        profile: "claude".into(),
        head: Oid::parse(HEAD),
    }
}

/// Claims what nothing stands in the way of.
pub(super) fn claim(store: &mut Store, new: &NewAttempt) -> Attempt {
    store.claim(new).unwrap()
}

/// An agent of the run that holds a file.
fn hold(store: &mut Store, run: &RunId, name: &str, file: &str) {
    let party = Party { run: Some(run.clone()), ..Table::party(name) };
    store.grant(&Request { party, ..request(name, &[file]) });
}

/// A run with one issue that ann works on, holding `a`.
fn working() -> (Table, Run, Attempt) {
    let mut table = Table::new();
    add(&mut table.store, "i", 2, &[]);
    let run = begin(&mut table);
    let attempt = claim(&mut table.store, &new(&run.id, "i", "ann"));
    hold(&mut table.store, &run.id, "ann", "a");
    (table, run, attempt)
}

fn finish(end: End, note: Option<&str>) -> Finish {
    Finish { end, note: note.map(str::to_owned), progress: Progress::default() }
}

fn handed_over(next: Next) -> End {
    End::HandedOver { reason: "tests fail".into(), next }
}

pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> JournalError {
    match result {
        Err(StoreError::Journal(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

fn locks(finished: &Finished) -> usize {
    match finished {
        Finished::Now { locks } => locks.len(),
        Finished::Before { state } => panic!("it was {state} before"),
    }
}

#[test]
fn a_checkout_has_one_run_at_a_time_and_the_second_hears_who_is_running() {
    let mut table = Table::new();
    let run = begin(&mut table);
    let refused = refusal(table.store.begin_run(&TestLiveness::owner(501), &json!({})));
    assert!(
        refused.to_string().starts_with("`mala run` is running already: pid 500 on test since "),
        "{refused}"
    );
    assert_eq!(table.store.current_run().unwrap(), Some(run.clone()));
    assert_eq!(run.options["max_agents"], 3);
    Store::open_in(&table.world.state_dir(), b"/elsewhere")
        .unwrap()
        .begin_run(&TestLiveness::owner(501), &json!({}))
        .unwrap();
    table.store.end_run(&run.id, &json!({})).unwrap();
    table.store.end_run(&run.id, &json!({})).unwrap();
    assert_eq!(table.store.current_run().unwrap(), None);
    assert_ne!(begin(&mut table).id, run.id);
    assert_eq!(table.store.log(), ["run.started", "run.ended", "run.started"]);
}

#[test]
fn a_dead_run_is_in_nobodys_way() {
    let mut table = Table::new();
    begin(&mut table);
    table.liveness.set(ENGINE, Life::Dead);
    assert_eq!(table.store.current_run().unwrap(), None);
    let next = table.store.begin_run(&TestLiveness::owner(501), &json!({})).unwrap();
    assert_eq!(table.store.current_run().unwrap(), Some(next));
    table.store.sweep(ONLY_THE_DEAD).unwrap();
    assert!(table.store.current_run().unwrap().is_some());
}

#[test]
fn a_claim_takes_the_issue_and_opens_an_attempt() {
    let (mut table, run, attempt) = working();
    assert_eq!((attempt.number, attempt.state), (1, AttemptState::Claimed));
    assert_eq!((attempt.run.clone(), attempt.head.clone()), (run.id.clone(), Oid::parse(HEAD)));
    assert_eq!(table.store.attempt(attempt.id).unwrap(), attempt);
    assert_eq!(table.store.attempts_of_run(&run.id).unwrap(), std::slice::from_ref(&attempt));
    let issue = table.store.issue(&id("i")).unwrap().unwrap();
    assert_eq!((issue.status.as_str(), issue.assignee.as_deref()), ("in_progress", Some("ann")));
    let second = refusal(table.store.claim(&new(&run.id, "i", "bob")));
    assert_eq!(second.to_string(), "`ann` is working on `i`");
    assert!(matches!(refusal(table.store.reopen_issue(&eve(), &id("i"))), JournalError::Attempted { .. }));
}

#[test]
fn only_the_run_under_way_claims_and_only_what_is_ready() {
    let mut table = Table::new();
    add(&mut table.store, "i", 2, &[]);
    add(&mut table.store, "later", 2, &["i"]);
    let stranger = RunId::new("other").unwrap();
    assert!(matches!(
        refusal(table.store.claim(&new(&stranger, "i", "ann"))),
        JournalError::UnknownRun { .. }
    ));
    let run = begin(&mut table);
    let blocked = table.store.claim(&new(&run.id, "later", "ann"));
    assert!(matches!(blocked, Err(StoreError::Issue(IssueError::Blocked { .. }))), "{blocked:?}");
    table.store.end_run(&run.id, &json!({})).unwrap();
    assert!(matches!(refusal(table.store.claim(&new(&run.id, "i", "ann"))), JournalError::UnknownRun { .. }));
    assert_eq!(ready(&mut table.store), ["i"]);
}

#[test]
fn an_attempt_takes_one_step_after_the_other_from_where_it_is() {
    use AttemptState::{Claimed, Done, Gating, Retrying, Running};
    let (mut table, _, attempt) = working();
    let mut step = |from, to, progress: &Progress| table.store.advance(attempt.id, from, to, progress);
    let none = Progress::default();
    let session = Progress { session: Some("s1".into()), ..none.clone() };
    assert_eq!(step(Claimed, Running, &session).unwrap().state, Running);
    let late = refusal(step(Claimed, Running, &none));
    assert_eq!(late.to_string(), format!("the attempt {} is running, not claimed", attempt.id));
    let skipped = refusal(step(Running, Retrying, &none));
    assert_eq!(skipped.to_string(), "an attempt that is running does not become retrying next");
    assert!(matches!(refusal(step(Running, Done, &none)), JournalError::NoSuchStep { .. }));
    step(Running, Gating, &none).unwrap();
    let verdict = Progress {
        verdict: Some(json!({ "verdict": "fail" })),
        spend: Some(Spend { cost_micros: 12_000, tokens: 900, unpriced: vec!["m".to_owned()] }),
        ..none.clone()
    };
    step(Gating, Retrying, &verdict).unwrap();
    let now = step(Retrying, Running, &none).unwrap();
    assert_eq!((now.session.as_deref(), now.spend.tokens), (Some("s1"), 900));
    assert_eq!(now.spend.unpriced, ["m"]);
    assert_eq!(now.verdict, Some(json!({ "verdict": "fail" })));
    assert_eq!(table.store.log().iter().filter(|kind| *kind == "attempt.advanced").count(), 4);
}

#[test]
fn an_attempt_that_asks_or_is_offered_is_stored_as_such() {
    use AttemptState::{Claimed, Gating, NeedsInput, Offered, Retrying, Running};
    let (mut table, _, attempt) = working();
    let walk = [Claimed, Running, Gating, NeedsInput, Running, Gating, Offered, Retrying];
    for step in walk.windows(2) {
        table.store.advance(attempt.id, step[0], step[1], &Progress::default()).unwrap();
        assert_eq!(table.store.attempt(attempt.id).unwrap().state, step[1]);
    }
    let skipped = refusal(table.store.advance(attempt.id, Retrying, Offered, &Progress::default()));
    assert!(matches!(skipped, JournalError::NoSuchStep { .. }), "{skipped}");
}

#[test]
fn a_question_is_known_only_while_the_attempt_needs_input() {
    use AttemptState::{Claimed, Gating, NeedsInput, Running};
    let (mut table, _, attempt) = working();
    let mut step =
        |from, to, progress: &Progress| table.store.advance(attempt.id, from, to, progress).unwrap();
    let (none, asks) =
        (Progress::default(), Progress { question: Some("red?".into()), ..Progress::default() });
    step(Claimed, Running, &none);
    step(Running, Gating, &none);
    assert_eq!(step(Gating, NeedsInput, &asks).question.as_deref(), Some("red?"));
    assert_eq!(step(NeedsInput, Running, &none).question, None);
    step(Running, Gating, &none);
    step(Gating, NeedsInput, &asks);
    table.store.keep(attempt.id, &Progress { session: Some("s1".into()), ..none }).unwrap();
    assert_eq!(table.store.attempt(attempt.id).unwrap().question.as_deref(), Some("red?"));
    table.store.finish(attempt.id, &finish(handed_over(Next::AskAPerson), None)).unwrap();
    assert_eq!(table.store.attempt(attempt.id).unwrap().question, None);
}

#[test]
fn the_end_of_an_attempt_decides_whether_it_was_cut_off() {
    let stopped = Progress { interruption: Some(Interruption::Stopped), ..Progress::default() };
    let cut_off = Finish { progress: stopped.clone(), ..finish(handed_over(Next::TryAgain), None) };
    let done = finish(End::Done { commit: None }, None);
    for (end, expected) in [(cut_off, Some(Interruption::Stopped)), (done, None)] {
        let (mut table, _, attempt) = working();
        table.store.keep(attempt.id, &stopped).unwrap();
        assert_eq!(table.store.attempt(attempt.id).unwrap().interruption, Some(Interruption::Stopped));
        table.store.finish(attempt.id, &end).unwrap();
        assert_eq!(table.store.attempt(attempt.id).unwrap().interruption, expected);
    }
}

#[test]
fn an_attempt_knows_the_process_that_runs_its_agent_until_it_is_over() {
    let (mut table, _, attempt) = working();
    let [first, second] = [601, 602].map(TestLiveness::owner);
    let supervisor = |table: &mut Table| table.store.attempt(attempt.id).unwrap().supervisor;
    table.store.supervise(attempt.id, &first).unwrap();
    table.store.supervise(attempt.id, &second).unwrap();
    table.store.end_supervision(attempt.id, &first).unwrap();
    assert_eq!(supervisor(&mut table), Some(second.clone()), "the second has taken its place");
    table.liveness.set(second.pid, Life::Dead);
    table.store.sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(supervisor(&mut table), Some(second.clone()), "it is still known who to look for");
    table.store.end_supervision(attempt.id, &second).unwrap();
    assert_eq!(supervisor(&mut table), None);
    table.store.supervise(attempt.id, &first).unwrap();
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), None)).unwrap();
    assert_eq!(supervisor(&mut table), None);
    let late = refusal(table.store.supervise(attempt.id, &second));
    assert_eq!(late.to_string(), format!("the attempt {} is over: it is handed_over", attempt.id));
}

#[test]
fn a_finished_issue_is_closed_and_its_agent_gone_all_at_once() {
    let (mut table, run, attempt) = working();
    let done = Finish {
        progress: Progress {
            spend: Some(Spend { cost_micros: 5, tokens: 7, ..Spend::default() }),
            ..Progress::default()
        },
        ..finish(End::Done { commit: Some("abc123".into()) }, Some("done in abc123"))
    };
    assert_eq!(locks(&table.store.finish(attempt.id, &done).unwrap()), 1);
    assert_eq!(status(&mut table.store, "i"), "closed");
    assert!(table.store.held().is_empty());
    assert!(table.store.status().unwrap().agents.is_empty());
    let ended = table.store.attempt(attempt.id).unwrap();
    assert_eq!((ended.state, ended.spend.tokens), (AttemptState::Done, 7));
    assert_eq!(ended.ended_at, Some(table.store.now()));
    let event = table.store.events(&Default::default()).unwrap().pop().unwrap();
    assert_eq!((event.kind.as_str(), event.issue.as_deref()), ("attempt.finished", Some("i")));
    assert_eq!((event.run, &event.detail["commit"]), (Some(run.id.to_string()), &"abc123".into()));
}

#[test]
fn the_note_is_there_before_any_lock_is_free() {
    let (mut table, _, attempt) = working();
    table.kill("ann");
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("stopped at step 3"))).unwrap();
    let log = table.store.log();
    let place = |kind: &str| log.iter().position(|logged| logged == kind).unwrap();
    assert!(place("issue.noted") < place("lock.orphaned"), "{log:?}");
    let note = table.store.notes(&id("i")).unwrap().remove(0);
    assert_eq!((note.text.as_str(), note.attempt), ("stopped at step 3", Some(1)));
}

#[test]
fn finishing_twice_is_finishing_once() {
    let (mut table, _, attempt) = working();
    let over = finish(handed_over(Next::TryAgain), Some("why"));
    table.store.finish(attempt.id, &over).unwrap();
    hold(&mut table.store, &RunId::new("next").unwrap(), "ann", "b");
    let before = (table.store.log(), table.store.held());
    for end in [over, finish(End::Done { commit: None }, Some("other"))] {
        let again = table.store.finish(attempt.id, &end).unwrap();
        assert_eq!(again, Finished::Before { state: AttemptState::HandedOver });
    }
    assert_eq!((table.store.log(), table.store.held()), before);
    assert_eq!((status(&mut table.store, "i").as_str(), table.world.count("note")), ("open", 1));
}

#[test]
fn an_issue_that_was_handed_over_is_ready_again_and_says_so() {
    let (mut table, run, first) = working();
    table.store.finish(first.id, &finish(handed_over(Next::TryAgain), Some("why"))).unwrap();
    let issue = table.store.issue(&id("i")).unwrap().unwrap();
    assert_eq!(
        (issue.status.as_str(), issue.assignee, issue.labels[0].clone()),
        ("open", None, "needs-followup".to_owned())
    );
    let second = claim(&mut table.store, &new(&run.id, "i", "bob"));
    assert_eq!(second.number, 2);
    table.store.finish(second.id, &finish(handed_over(Next::AskAPerson), Some("again"))).unwrap();
    assert_eq!((status(&mut table.store, "i").as_str(), ready(&mut table.store).len()), ("blocked", 0));
    table.store.reopen_issue(&eve(), &id("i")).unwrap();
    let third = claim(&mut table.store, &new(&run.id, "i", "bob"));
    table.store.finish(third.id, &finish(End::Done { commit: None }, None)).unwrap();
    assert!(table.store.issue(&id("i")).unwrap().unwrap().labels.is_empty());
    assert_eq!(table.store.attempts(&id("i")).unwrap().len(), 3);
}

#[test]
fn an_issue_that_was_given_back_is_as_it_was() {
    let (mut table, _, attempt) = working();
    table.store.finish(attempt.id, &finish(End::GivenBack, None)).unwrap();
    let issue = table.store.issue(&id("i")).unwrap().unwrap();
    assert_eq!((issue.status.as_str(), issue.labels.len(), issue.notes.len()), ("open", 0, 0));
    assert_eq!(table.store.attempt(attempt.id).unwrap().state, AttemptState::Ready);
}

#[test]
fn what_a_person_has_decided_meanwhile_stays_so() {
    let (mut table, _, attempt) = working();
    table.store.close_issue(&eve(), &id("i"), Some("not needed")).unwrap();
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("why"))).unwrap();
    assert_eq!(status(&mut table.store, "i"), "closed");
    assert!(table.store.held().is_empty());
}

#[test]
fn issues_of_another_tracker_have_attempts_and_notes_but_no_status_here() {
    let mut table = Table::new();
    let run = begin(&mut table);
    let foreign = NewAttempt { tracker: Tracker::Other, ..new(&run.id, "bd-1", "ann") };
    let attempt = claim(&mut table.store, &foreign);
    let second = refusal(table.store.claim(&NewAttempt { agent: agent("bob"), ..foreign }));
    assert!(matches!(second, JournalError::Attempted { .. }));
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("why"))).unwrap();
    assert_eq!(table.store.notes(&id("bd-1")).unwrap()[0].text, "why");
    assert_eq!(table.store.issue(&id("bd-1")).unwrap(), None);
}

#[test]
fn what_a_dead_run_has_left_is_found_until_it_is_finished() {
    let (mut table, _, attempt) = working();
    assert!(table.store.stranded().unwrap().is_empty());
    table.liveness.set(ENGINE, Life::Dead);
    assert_eq!(table.store.stranded().unwrap(), std::slice::from_ref(&attempt));
    let run = table.store.begin_run(&TestLiveness::owner(501), &json!({})).unwrap();
    assert_eq!(table.store.stranded().unwrap(), std::slice::from_ref(&attempt));
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("killed"))).unwrap();
    assert!(table.store.stranded().unwrap().is_empty());
    let next = claim(&mut table.store, &new(&run.id, "i", "ann"));
    assert!(table.store.stranded().unwrap().is_empty());
    table.store.end_run(&run.id, &json!({})).unwrap();
    assert_eq!(table.store.stranded().unwrap(), [next]);
}

#[test]
fn it_is_known_since_when_the_oldest_work_that_is_not_over_goes_on() {
    let mut table = Table::new();
    assert_eq!(table.store.working_since().unwrap(), None);
    add(&mut table.store, "i", 2, &[]);
    let run = begin(&mut table);
    let attempt = claim(&mut table.store, &new(&run.id, "i", "ann"));
    table.pass(Duration::from_secs(60));
    table.join("bob");
    let joined = table.store.now();
    assert_eq!(table.store.working_since().unwrap(), Some(attempt.started_at));
    table.liveness.set(ENGINE, Life::Dead);
    assert_eq!(table.store.working_since().unwrap(), Some(attempt.started_at), "somebody will end it");
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("killed"))).unwrap();
    assert_eq!(table.store.working_since().unwrap(), Some(joined), "bob lives");
    table.kill("bob");
    assert_eq!(table.store.working_since().unwrap(), None);
}

#[test]
fn a_name_that_is_another_runs_by_now_keeps_its_locks() {
    let (mut table, _, attempt) = working();
    table.liveness.set(ENGINE, Life::Dead);
    table.kill("ann");
    let next = table.store.begin_run(&TestLiveness::owner(501), &json!({})).unwrap();
    let reborn = Party { owner: TestLiveness::owner(999), run: Some(next.id), ..Table::party("ann") };
    table.store.grant(&Request { party: reborn, ..request("ann", &["b"]) });
    table.store.finish(attempt.id, &finish(handed_over(Next::TryAgain), Some("killed"))).unwrap();
    assert_eq!(table.store.held(), ["ann: b"]);
}

#[test]
fn an_end_that_cannot_be_written_down_has_not_happened() {
    let (mut table, _, attempt) = working();
    let before = (table.store.log(), table.store.held());
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event WHEN new.kind = 'attempt.finished'
         BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    let end = finish(End::Done { commit: None }, Some("done"));
    assert!(matches!(table.store.finish(attempt.id, &end), Err(StoreError::Sql { .. })));
    assert_eq!((table.store.log(), table.store.held()), before);
    assert_eq!((status(&mut table.store, "i").as_str(), table.world.count("note")), ("in_progress", 0));
    assert_eq!(table.store.attempt(attempt.id).unwrap(), attempt);
    table.world.sql().execute_batch("DROP TRIGGER broken").unwrap();
    assert_eq!(locks(&table.store.finish(attempt.id, &end).unwrap()), 1);
}
