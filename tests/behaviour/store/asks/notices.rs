//! Notices: what an agent hears, once.

use std::time::Duration;

use mala_store::{EventKind, Notice};
use mala_tests::table::{DUE_IN, Table, guard};
use mala_tests::{Terse, agent, want};
use serde_json::json;

use crate::programs::puppet;

#[test]
fn a_holder_hears_of_an_ask_once_and_of_each_change_once() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    assert_eq!(table.hears("ann"), ["bob asks for a: open"]);
    assert!(table.hears("ann").is_empty());
    table.ask("bob", "a");
    assert!(table.hears("ann").is_empty(), "it was the same ask");
    table.pass(DUE_IN);
    table.store.escalate_due().unwrap();
    assert_eq!(table.hears("ann"), ["bob asks for a: open"]);
    assert_eq!(table.hears("bob"), ["my ask for a: open"]);
    table.store.cancel_ask(&agent("bob"), &ask.id).unwrap();
    assert_eq!(table.hears("ann"), ["bob asks for a: cancelled"]);
    assert!(table.hears("bob").is_empty());
}

#[test]
fn what_was_over_before_it_was_heard_need_not_be_heard() {
    let mut table = Table::new();
    table.take("ann", &["a", "b", "c", "d"]);
    let [cancelled, _given_back, released, deferred] =
        ["a", "b", "c", "d"].map(|text| table.ask("bob", text));
    table.store.cancel_ask(&agent("bob"), &cancelled.id).unwrap();
    table.store.give_back("ann", &["b"]);
    table.store.answer_release(&agent("ann"), &released.id).unwrap();
    table.store.answer_defer(&agent("ann"), &deferred.id, Duration::from_secs(60)).unwrap();
    assert!(table.hears("ann").is_empty());
    let expected = ["my ask for b: moot", "my ask for c: released", "my ask for d: deferred"];
    assert_eq!(table.hears("bob"), expected);
}

#[test]
fn whoever_loses_a_lock_hears_who_took_it_when_and_why() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.pass(DUE_IN);
    table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)).unwrap();
    let notices = table.store.take_notices(&agent("ann")).unwrap();
    let [Notice::LockOfYours(heard)] = notices.as_slice() else { panic!("{notices:?}") };
    assert_eq!((heard.why.as_str(), heard.ended_by.clone()), ("to finish", Some(agent("bob"))));
    assert_eq!(heard.answered_at, Some(table.store.now()));
}

#[test]
fn refused_writes_are_told_together_each_file_once() {
    let mut table = Table::new();
    let ann = Table::party("ann");
    for file in 0..25 {
        for _ in 0..3 {
            let target = want(&format!("f{file:02}")).target;
            table.store.record_fact(&ann, EventKind::WriteRefused, Some(&target), &json!({})).unwrap();
        }
    }
    table.store.record_fact(&ann, EventKind::WriteForeign, Some(&want("x").target), &json!({})).unwrap();
    let notices = table.store.take_notices(&agent("ann")).unwrap();
    let [Notice::WritesRefused { files, more }] = notices.as_slice() else { panic!("{notices:?}") };
    assert_eq!((files.len(), *more), (20, 5));
    assert_eq!((files[0].target.to_string().as_str(), files[0].times), ("f24", 3));
    assert!(table.hears("ann").is_empty());
}

#[test]
fn another_session_of_the_same_name_is_not_told_what_its_predecessor_missed() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    table.ask("bob", "a");
    table.kill("ann");
    let reborn =
        mala_store::Party { owner: mala_tests::fakes::TestLiveness::owner(999), ..Table::party("ann") };
    table.store.register(&reborn).unwrap();
    assert!(table.hears("ann").is_empty());
}

#[test]
fn nothing_to_hear_needs_no_turn() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let mut blocker = puppet(&table.world, "zoe", &[]);
    blocker.tell("turn");
    blocker.expect("holding");
    let mut store = table.another_store().with_patience(Duration::from_millis(1));
    assert!(store.take_notices(&agent("ann")).unwrap().is_empty());
    assert!(store.escalate_due().unwrap().is_empty());
}
