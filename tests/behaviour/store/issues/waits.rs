//! Waiting for issues: where they stand, and who would wait for whom.

use mala_core::Life;
use mala_store::{End, Finish, IssueEnd, Next, Progress, Store, StoreError, process};
use mala_tests::{Table, Terse, Waiter, World, agent};
use serde_json::json;

use super::journal::{ENGINE, begin, claim, new};
use super::{add, eve, id};

fn end(store: &mut Store, issue: &str) -> Option<IssueEnd> {
    store.issue_end(&id(issue), mala_core::Fence(0)).unwrap()
}

fn finish(end: End) -> Finish {
    Finish { end, note: None, progress: Progress::default() }
}

fn handed_over(next: Next) -> Finish {
    finish(End::HandedOver { reason: "tests fail".into(), next })
}

#[test]
fn an_issue_is_waited_for_until_it_is_closed_handed_over_or_its_run_is_dead() {
    let mut table = Table::new();
    for name in ["open", "closed", "again", "blocked", "killed"] {
        add(&mut table.store, name, 2, &[]);
    }
    let run = begin(&mut table);
    assert_eq!(end(&mut table.store, "open"), None, "nobody has begun it");
    let mut attempt = |name: &str| claim(&mut table.store, &new(&run.id, name, &format!("agent-{name}")));
    let (again, blocked, _killed) = (attempt("again"), attempt("blocked"), attempt("killed"));
    assert_eq!(end(&mut table.store, "again"), None, "it is worked on");
    table.store.finish(again.id, &handed_over(Next::TryAgain)).unwrap();
    table.store.finish(blocked.id, &handed_over(Next::AskAPerson)).unwrap();
    table.store.close_issue(&eve(), &id("closed"), None).unwrap();
    let not = |why: &str| Some(IssueEnd::NotLanded(why.to_owned()));
    assert_eq!(end(&mut table.store, "closed"), Some(IssueEnd::Landed(None)));
    assert_eq!(end(&mut table.store, "again"), not("attempt 1 was handed over"));
    assert_eq!(end(&mut table.store, "blocked"), not("it is blocked, for a person to look at"));
    let later = table.store.newest_event().unwrap();
    let since = table.store.issue_end(&id("again"), later).unwrap();
    assert_eq!(since, None, "the run may try it once more");
    table.liveness.set(ENGINE, Life::Dead);
    assert_eq!(end(&mut table.store, "killed"), not("its run was killed or stopped"));
    assert!(table.store.issue_end(&id("again"), later).unwrap().is_some(), "nobody tries it any more");
}

#[test]
fn agents_do_not_wait_for_each_others_issues() {
    let mut table = Table::new();
    let run = begin(&mut table);
    for (name, who) in [("i", "ann"), ("j", "bob"), ("k", "cleo")] {
        add(&mut table.store, name, 2, &[]);
        claim(&mut table.store, &new(&run.id, name, who));
    }
    table.store.wait_for_issue(&agent("ann"), &id("j")).unwrap();
    table.store.wait_for_issue(&agent("ann"), &id("j")).unwrap();
    table.store.wait_for_issue(&agent("bob"), &id("k")).unwrap();
    assert_eq!(table.store.issue_waits(&agent("ann")).unwrap().len(), 1);
    let refused = table.store.wait_for_issue(&agent("cleo"), &id("i"));
    assert!(
        matches!(&refused, Err(StoreError::Deadlock { circle }) if *circle == ["cleo", "ann", "bob"].map(agent)),
        "{refused:?}"
    );
    table.store.stop_waiting_for_issue(&agent("bob"), &id("k")).unwrap();
    table.store.wait_for_issue(&agent("cleo"), &id("i")).unwrap();
}

#[test]
fn a_parked_wait_for_an_issue_takes_part_in_circles_with_files() {
    let world = World::new();
    let mut store = world.store();
    let run = store.begin_run(&process::current(), &json!({})).unwrap();
    add(&mut store, "i", 2, &[]);
    claim(&mut store, &new(&run.id, "i", "ann"));
    store.take("bob", &["f"]);
    store.wait_for_issue(&agent("bob"), &id("i")).unwrap();
    let ann = Waiter::queue(&world, "ann", &["f"]);
    let refused = store.park_for_issues(&agent("bob"));
    assert!(
        matches!(&refused, Err(StoreError::Deadlock { circle }) if *circle == ["bob", "ann"].map(agent)),
        "{refused:?}"
    );
    store.leave(&agent("bob")).unwrap();
    ann.granted();
    assert_eq!(world.count("issue_wait"), 0, "who leaves waits no more");
}
