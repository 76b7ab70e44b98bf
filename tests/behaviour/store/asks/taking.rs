//! Taking: never from somebody who works, never another lock than the one asked for.

use std::time::Duration;

use mala_core::{Ask, AskState, LockId, Mode};
use mala_store::{
    AskError, AskRequest, Authority, Changes, EventFilter, EventKind, Guard, Party, StoreError,
};
use mala_tests::invariants::assert_consistent;
use mala_tests::table::{DUE_IN, IDLE, Table, ask_request, guard, stale};
use mala_tests::{Terse, agent};

use super::refusal;

/// Ann holds `a`, bob has asked for it, and time enough has passed.
fn overdue() -> (Table, Ask) {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.pass(DUE_IN);
    (table, ask)
}

fn forced(guard: Guard) -> Guard {
    Guard { authority: Authority::Force, ..guard }
}

#[test]
fn an_overdue_lock_of_an_idle_holder_without_changes_goes_to_the_asker() {
    let (mut table, ask) = overdue();
    let taken = table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)).unwrap();
    assert_eq!((taken.ask.state, taken.ask.ended_by), (AskState::Taken, Some(agent("bob"))));
    assert_eq!(taken.granted[0].id, ask.lock);
    assert!(taken.granted[0].fence > ask.fence);
    assert_eq!(table.store.held(), ["bob: a"]);
    let filter = EventFilter { kind: Some("ask.taken".into()), ..EventFilter::default() };
    let event = table.store.events(&filter).unwrap().remove(0);
    assert_eq!((event.agent.as_deref(), event.lock), (Some("bob"), Some(ask.lock.0)));
    assert_eq!((&event.detail["holder"], &event.detail["forced"]), (&"ann".into(), &false.into()));
    assert_eq!(event.detail["fence_before"], ask.fence.0);
    assert_eq!(event.detail["fence"], taken.granted[0].fence.0);
    assert_consistent(&table.world);
}

#[test]
fn nothing_is_taken_before_it_is_due() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.pass(DUE_IN - Duration::from_millis(1));
    let early = refusal(table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)));
    assert!(matches!(early, AskError::NotDue { due_at, .. } if due_at == ask.due_at));
    table.pass(Duration::from_millis(1));
    table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)).unwrap();
}

#[test]
fn nothing_is_taken_from_a_holder_that_works_however_urgent() {
    type Sign = fn(&mut Table);
    let signs: [(&str, Sign); 4] = [
        ("it asked for its lock again", |table| drop(table.take("ann", &["a"]))),
        ("it took another lock", |table| drop(table.take("ann", &["b"]))),
        ("it gave a lock back", |table| assert_eq!(table.store.give_back("ann", &["c"]), 1)),
        ("it ran tests", |table| {
            let (party, kind) = (Table::party("ann"), EventKind::TestStarted);
            table.store.record_fact(&party, kind, None, &serde_json::json!({})).unwrap();
        }),
    ];
    for (note, sign) in signs {
        let mut table = Table::new();
        table.take("ann", &["a", "c"]);
        let urgent = AskRequest { urgency: mala_core::Urgency::Urgent, ..ask_request("bob", "a") };
        let ask = table.store.ask(&urgent).unwrap().remove(0);
        table.pass(DUE_IN);
        sign(&mut table);
        table.pass(IDLE - Duration::from_millis(1));
        let busy = refusal(table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)));
        assert!(matches!(busy, AskError::HolderActive { .. }), "{note}: {busy:?}");
        table.pass(Duration::from_millis(1));
        let taken = table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask));
        assert!(taken.is_ok(), "{note}: {taken:?}");
    }
}

#[test]
fn uncommitted_changes_keep_a_lock_where_it_is() {
    let (mut table, ask) = overdue();
    let dirty = Guard { changes: Changes::Uncommitted, ..guard(&ask) };
    let refused = refusal(table.store.take_asked(&agent("bob"), &ask.id, &dirty));
    assert!(matches!(refused, AskError::Uncommitted { .. }));
    assert_eq!(table.store.held(), ["ann: a"]);
}

#[test]
fn what_the_dead_held_can_be_taken_at_once() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.kill("ann");
    let taken = table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)).unwrap();
    assert_eq!(taken.granted.len(), 1);
    assert_eq!(table.hears("ann"), ["bob asks for a: taken"]);
    assert_consistent(&table.world);
}

#[test]
fn another_lock_than_the_one_asked_for_is_never_taken() {
    let (mut table, ask) = overdue();
    let other = Guard { lock: LockId("other".into()), ..guard(&ask) };
    for seen in [stale(guard(&ask)), other] {
        for seen in [seen.clone(), forced(seen)] {
            let refused = refusal(table.store.take_asked(&agent("bob"), &ask.id, &seen));
            assert!(matches!(refused, AskError::Changed { .. }), "{refused:?}");
        }
    }

    table.store.give_back("ann", &["a"]);
    table.take("ann", &["a"]);
    table.pass(DUE_IN);
    let gone = refusal(table.store.take_asked(&agent("bob"), &ask.id, &forced(guard(&ask))));
    assert!(matches!(gone, AskError::Over { state: AskState::Moot, .. }));

    table.take("cleo", &["shared:s"]);
    let ask = table.ask("bob", "s");
    assert_eq!(table.take("cleo", &["s"])[0].mode, Mode::Exclusive);
    table.pass(DUE_IN);
    let upgraded = refusal(table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)));
    assert!(matches!(upgraded, AskError::Changed { .. }));
    assert_eq!(table.store.held(), ["ann: a", "cleo: s"]);
}

#[test]
fn only_the_asker_takes_unless_a_person_decides() {
    let (mut table, ask) = overdue();
    table.join("cleo");
    let stranger = refusal(table.store.take_asked(&agent("cleo"), &ask.id, &guard(&ask)));
    assert!(matches!(stranger, AskError::NotAsker { .. }));
    let supervised = Party { supervised: true, ..Table::party("dan") };
    table.store.register(&supervised).unwrap();
    let agent_with_force = refusal(table.store.take_asked(&agent("dan"), &ask.id, &forced(guard(&ask))));
    assert!(matches!(agent_with_force, AskError::NotAPerson { .. }));
    let dirty = Guard { changes: Changes::Uncommitted, ..guard(&ask) };
    let taken = table.store.take_asked(&agent("a person"), &ask.id, &forced(dirty)).unwrap();
    assert_eq!(taken.granted[0].agent.as_str(), "bob");
    assert_eq!(taken.ask.ended_by, Some(agent("a person")));
    assert_eq!(table.hears("bob"), ["my ask for a: taken"]);
}

#[test]
fn nothing_is_taken_for_somebody_who_is_gone() {
    let (mut table, ask) = overdue();
    table.kill("bob");
    let gone = table.store.take_asked(&agent("bob"), &ask.id, &forced(guard(&ask)));
    assert!(matches!(gone, Err(StoreError::AgentGone { .. })), "{gone:?}");
    assert_eq!(table.store.held(), ["ann: a"]);
}

#[test]
fn a_taken_pattern_ends_and_the_asker_has_its_file() {
    let mut table = Table::new();
    table.take("ann", &["pattern:src/**"]);
    let ask = table.ask("bob", "src/a");
    table.pass(DUE_IN);
    table.store.take_asked(&agent("bob"), &ask.id, &guard(&ask)).unwrap();
    assert_eq!(table.store.held(), ["bob: src/a"]);
    assert!(table.store.log().contains(&"lock.taken".to_owned()));
    assert_consistent(&table.world);
}
