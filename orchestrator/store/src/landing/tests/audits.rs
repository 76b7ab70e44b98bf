//! What has landed since the last audit, and how the last entries ended.

use std::time::Duration;

use mala_core::EntryState;
use serde_json::json;

use super::{MAIN, Table, advance, events, green, landing, offer, oid};
use crate::events::EventKind;
use crate::{NewLanding, Store, Unaudited};

/// Lands one entry that moves the branch from one commit to the next.
fn land(store: &mut Store, (from, to): (char, char)) {
    let entry = green(store, &offer(to));
    let entries = vec![(entry.id, oid(to))];
    store.begin_landing(&NewLanding { from: oid(from), to: oid(to), entries, ..landing(&[]) }).unwrap();
    store.finish_landing(MAIN).unwrap();
}

#[test]
fn landings_are_counted_until_an_audit_has_passed() {
    let mut table = Table::new();
    assert_eq!(table.store.unaudited(MAIN).unwrap(), None);
    land(&mut table.store, ('0', 'a'));
    land(&mut table.store, ('a', 'b'));
    let two = table.store.unaudited(MAIN).unwrap().unwrap();
    assert_eq!(two, Unaudited { since: oid('0'), last: oid('b'), landings: 2 });
    land(&mut table.store, ('b', 'c'));
    table.store.pass_audit(MAIN, &two).unwrap();
    let rest = table.store.unaudited(MAIN).unwrap();
    assert_eq!(rest, Some(Unaudited { since: oid('b'), last: oid('c'), landings: 1 }), "what came meanwhile");
    table.store.pass_audit(MAIN, &rest.unwrap()).unwrap();
    assert_eq!(table.store.unaudited(MAIN).unwrap(), None);
    assert_eq!(events(&mut table.store, EventKind::QueueAudited).len(), 2);
}

#[test]
fn an_audit_that_has_failed_stops_the_queue_and_is_not_forgotten() {
    let mut table = Table::new();
    land(&mut table.store, ('0', 'a'));
    let about = table.store.unaudited(MAIN).unwrap().unwrap();
    table.store.fail_audit(MAIN, &about, "it fails").unwrap();
    assert_eq!(table.store.queue_pause(MAIN).unwrap().unwrap().0, "it fails");
    assert_eq!(table.store.unaudited(MAIN).unwrap(), Some(about));
    let event = events(&mut table.store, EventKind::QueueAudited).pop().unwrap();
    assert_eq!((&event.detail["passed"], &event.detail["commit"]), (&json!(false), &json!(oid('a'))));
    table.store.forget_unaudited(MAIN).unwrap();
    assert_eq!(table.store.unaudited(MAIN).unwrap(), None);
}

#[test]
fn an_entry_knows_how_often_other_hands_were_faster() {
    let mut table = Table::new();
    let mut entry = green(&mut table.store, &offer('a'));
    for times in 1..3 {
        table.store.begin_landing(&landing(&[&entry])).unwrap();
        table.store.overtake_landing(MAIN).unwrap();
        entry = advance(&mut table.store, &entry, &[EntryState::Green]);
        assert_eq!(entry.overtaken, times);
    }
    table.store.begin_landing(&landing(&[&entry])).unwrap();
    assert_eq!(table.store.undo_landing(MAIN).unwrap()[0].overtaken, 2, "a person was in the way");
}

#[test]
fn the_last_verdicts_are_those_of_one_branch_the_newest_first() {
    let mut table = Table::new();
    for (head, last) in [('a', EntryState::Landed), ('b', EntryState::Red), ('c', EntryState::Dropped)] {
        match last {
            EntryState::Landed => land(&mut table.store, ('0', head)),
            EntryState::Red => {
                let entry = table.store.enqueue(&offer(head)).unwrap();
                advance(&mut table.store, &entry, &[EntryState::Validating, EntryState::Red]);
            }
            _ => {
                let entry = table.store.enqueue(&offer(head)).unwrap();
                table.store.drop_entry(entry.id, "no").unwrap();
            }
        }
        table.world.pass(Duration::from_secs(1));
    }
    let verdicts = |table: &mut Table, most| table.store.last_verdicts(MAIN, most).unwrap();
    assert_eq!(verdicts(&mut table, 20), [EntryState::Red, EntryState::Landed]);
    assert_eq!(verdicts(&mut table, 1), [EntryState::Red]);
    assert!(table.store.last_verdicts("refs/heads/other", 20).unwrap().is_empty());
}
