//! Messages: each recipient gets one copy, reads it once, and finds it again.

use std::time::Duration;

use mala_core::message::{Ack, Audience, Body, Importance, MessageId, Who};
use mala_core::{PersonId, ThreadId};
use mala_store::{BroadcastLimit, Draft, Extent, MessageError, PageOf, Sent, Store, StoreError};
use mala_tests::{Table, Terse, agent};

const LIMIT: BroadcastLimit = BroadcastLimit { most: 2, per: Duration::from_secs(600) };
const FIRST: PageOf = PageOf { before: None, limit: 50, unread_only: false };

fn an(name: &str) -> Who {
    Who::Agent(agent(name))
}

fn person(name: &str) -> Who {
    Who::Person(PersonId::new(name).unwrap())
}

fn draft(from: Who, to: &[Who], text: &str) -> Draft {
    Draft {
        from,
        to: Audience::These(to.to_vec()),
        thread: ThreadId::new("proj-1").unwrap(),
        importance: Importance::Normal,
        body: Body::new(text).unwrap(),
        ack_in: None,
    }
}

fn broadcast(from: Who, text: &str) -> Draft {
    Draft { to: Audience::Everybody, ..draft(from, &[], text) }
}

fn send(table: &mut Table, draft: &Draft) -> Sent {
    table.store.send(draft, LIMIT).unwrap()
}

/// Ann, bob and cleo, who know each other.
fn three() -> Table {
    let mut table = Table::new();
    for name in ["ann", "bob", "cleo"] {
        table.join(name);
    }
    table
}

fn bodies(store: &mut Store, who: &Who, page: PageOf) -> Vec<String> {
    let letters = store.inbox(who, page).unwrap().items;
    letters.iter().map(|letter| letter.message.body.as_str().to_owned()).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> MessageError {
    match result {
        Err(StoreError::Message(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn everybody_named_gets_one_copy_and_the_sender_none() {
    let mut table = three();
    let to = [an("bob"), person("eve"), an("bob"), an("ann")];
    let sent = send(&mut table, &draft(an("ann"), &to, "hello"));
    assert_eq!(sent.to, [an("bob"), person("eve")]);
    for who in [an("bob"), person("eve")] {
        let letters = table.store.inbox(&who, FIRST).unwrap().items;
        assert_eq!((letters.len(), &letters[0].message.from, &letters[0].to), (1, &an("ann"), &who));
        assert_eq!(letters[0].message.importance, Importance::Normal);
    }
    assert!(table.store.inbox(&an("ann"), FIRST).unwrap().items.is_empty());
    assert!(table.store.inbox(&person("bob"), FIRST).unwrap().items.is_empty(), "a person is no agent");
    assert_eq!(table.store.log().last().unwrap(), "message.sent");
}

#[test]
fn a_message_is_unread_until_it_is_marked_so() {
    let mut table = three();
    let ids = ["one", "two"].map(|text| send(&mut table, &draft(an("ann"), &[person("eve")], text)).id);
    let unread = PageOf { unread_only: true, ..FIRST };
    assert_eq!(table.store.unread(&person("eve")).unwrap(), 2);
    table.store.mark_read(&person("eve"), &[ids[0], MessageId(999)]).unwrap();
    assert_eq!(table.store.unread(&person("eve")).unwrap(), 1);
    assert_eq!(bodies(&mut table.store, &person("eve"), unread), ["two"]);
    assert_eq!(bodies(&mut table.store, &person("eve"), FIRST), ["two", "one"]);
}

#[test]
fn an_agent_hears_a_message_once_and_has_read_it_then() {
    let mut table = three();
    send(&mut table, &draft(person("eve"), &[an("bob")], "first"));
    let second = send(&mut table, &draft(an("ann"), &[an("bob")], "second")).id;
    table.store.mark_read(&an("bob"), &[second]).unwrap();
    assert_eq!(table.hears("bob"), ["eve: first"]);
    assert!(table.hears("bob").is_empty());
    assert_eq!(table.store.unread(&an("bob")).unwrap(), 0);
    assert!(table.hears("ann").is_empty());
}

#[test]
fn a_message_waits_for_a_name_whoever_comes_back_under_it() {
    let mut table = three();
    send(&mut table, &draft(person("eve"), &[an("bob")], "for bob"));
    table.store.leave(&agent("bob")).unwrap();
    table.join("bob");
    assert_eq!(table.hears("bob"), ["eve: for bob"]);
}

#[test]
fn whoever_is_not_known_gets_nothing_and_nobody_else_does() {
    let mut table = three();
    let unknown = table.store.send(&draft(an("ann"), &[an("bob"), an("zoe")], "hello"), LIMIT);
    assert!(matches!(unknown, Err(StoreError::UnknownAgent { .. })), "{unknown:?}");
    let alone = refusal(table.store.send(&draft(an("ann"), &[an("ann")], "hello"), LIMIT));
    assert!(matches!(alone, MessageError::NoRecipient));
    assert_eq!((table.world.count("message"), table.world.count("letter")), (0, 0));
}

#[test]
fn a_broadcast_reaches_agents_that_run_and_people_who_take_part() {
    let mut table = three();
    send(&mut table, &draft(person("eve"), &[person("fay")], "hello"));
    table.kill("cleo");
    let sent = send(&mut table, &broadcast(an("ann"), "all hands"));
    assert_eq!(sent.to, [an("bob"), person("eve"), person("fay")]);
    assert!(table.store.inbox(&person("eve"), FIRST).unwrap().items[0].message.is_broadcast);
}

#[test]
fn nobody_writes_to_everybody_too_often() {
    let mut table = three();
    send(&mut table, &broadcast(an("ann"), "one"));
    // Only time that has passed counts, not what is done to the clock.
    table.clock.step_hours(5);
    table.pass(Duration::from_secs(300));
    send(&mut table, &broadcast(an("ann"), "two"));
    let refused = refusal(table.store.send(&broadcast(an("ann"), "three"), LIMIT));
    let again = table.store.now().plus(LIMIT.per - Duration::from_secs(300));
    assert!(
        matches!(&refused, MessageError::TooManyBroadcasts { again_at, .. } if *again_at == again),
        "{refused}"
    );
    send(&mut table, &broadcast(an("bob"), "mine"));
    send(&mut table, &draft(an("ann"), &[an("bob")], "to one"));
    table.clock.step_hours(-10);
    table.pass(Duration::from_secs(300));
    send(&mut table, &broadcast(an("ann"), "three"));
    assert!(table.store.send(&broadcast(an("ann"), "four"), LIMIT).is_err());
    assert!(table.store.send(&broadcast(an("cleo"), "x"), BroadcastLimit { most: 0, ..LIMIT }).is_err());
}

#[test]
fn an_acknowledgement_is_due_overdue_and_given_once() {
    let mut table = three();
    let wanted =
        Draft { ack_in: Some(Duration::from_secs(60)), ..draft(an("ann"), &[an("bob"), person("eve")], "?") };
    let id = send(&mut table, &wanted).id;
    let other = send(&mut table, &draft(an("ann"), &[an("bob")], "no answer needed")).id;
    let due = table.store.now().plus(Duration::from_secs(60));
    assert_eq!(table.store.inbox(&an("bob"), FIRST).unwrap().items[1].ack, Ack::Due(due));
    table.pass(Duration::from_millis(59_999));
    assert!(table.store.overdue_acks().unwrap().is_empty());
    table.pass(Duration::from_millis(1));
    assert_eq!(table.store.overdue_acks().unwrap().len(), 2);
    let acked = table.store.ack(&an("bob"), id).unwrap();
    assert_eq!(acked.ack, Ack::Done(table.store.now()));
    assert!(acked.read_at.is_some());
    table.pass(Duration::from_secs(1));
    assert_eq!(table.store.ack(&an("bob"), id).unwrap(), acked);
    let overdue = table.store.overdue_acks().unwrap();
    assert_eq!((overdue.len(), &overdue[0].to), (1, &person("eve")));
    assert!(matches!(refusal(table.store.ack(&an("cleo"), id)), MessageError::NotFound { .. }));
    table.store.ack(&an("bob"), other).unwrap();
    assert_eq!(table.store.log().iter().filter(|kind| *kind == "message.acked").count(), 2);
}

#[test]
fn a_thread_has_all_its_messages_whoever_they_are_for() {
    let mut table = three();
    send(&mut table, &draft(an("ann"), &[an("bob")], "one"));
    let elsewhere = ThreadId::new("another").unwrap();
    send(&mut table, &Draft { thread: elsewhere, ..draft(an("ann"), &[an("bob")], "not here") });
    send(&mut table, &draft(an("bob"), &[person("eve")], "two"));
    let thread = ThreadId::new("proj-1").unwrap();
    let page = table.store.thread(&thread, PageOf { limit: 1, ..FIRST }).unwrap();
    assert_eq!(page.items[0].body.as_str(), "two");
    let page = table.store.thread(&thread, PageOf { before: page.next, ..FIRST }).unwrap();
    assert_eq!((page.items[0].body.as_str(), page.items.len(), page.next), ("one", 1, None));
}

#[test]
fn ten_thousand_messages_are_read_page_by_page_each_once() {
    let mut table = three();
    send(&mut table, &draft(an("ann"), &[an("bob")], "x"));
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO message SELECT i, scope, at, thread, from_kind, from_name, importance, body || i, broadcast
             FROM message, n;
         INSERT INTO letter (scope, to_kind, to_name, message)
             SELECT 1, i % 2, 'bob', seq FROM message, (SELECT 0 AS i UNION SELECT 1) WHERE seq > 1";
    table.world.sql().execute_batch(fill).unwrap();
    let (mut page, mut seen, mut pages) = (FIRST, Vec::new(), 0);
    loop {
        let read = table.store.inbox(&an("bob"), page).unwrap();
        assert!(read.items.len() <= 50);
        pages += 1;
        seen.extend(read.items.iter().map(|letter| letter.message.id.0));
        match read.next {
            Some(next) => page.before = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, (1..=10_000).rev().collect::<Vec<_>>());
    assert_eq!(pages, 200);
}

#[test]
fn old_messages_are_put_away_and_no_number_is_given_out_twice() {
    let mut table = three();
    send(&mut table, &draft(an("ann"), &[an("bob")], "old"));
    let newest = send(&mut table, &draft(an("ann"), &[an("bob")], "old, too"));
    table.pass(Duration::from_secs(60));
    let keep_events_since = table.store.now();
    table.store.sweep(Extent { keep_events_since, foreign_locks: false }).unwrap();
    assert_eq!((table.world.count("letter"), table.world.count("message")), (0, 1));
    assert_eq!(table.hears("bob"), Vec::<String>::new(), "nor is it told any more");
    let next = send(&mut table, &draft(an("ann"), &[an("bob")], "new"));
    assert!(next.id > newest.id);
    assert_eq!(table.hears("bob"), ["ann: new"]);
}

#[test]
fn a_message_that_makes_no_sense_stops_whoever_reads_it() {
    for damage in ["body = ''", "importance = 9", "from_kind = 7", "thread = ' '"] {
        let mut table = three();
        send(&mut table, &draft(an("ann"), &[an("bob")], "x"));
        let damage = format!("PRAGMA ignore_check_constraints = ON; UPDATE message SET {damage}");
        table.world.sql().execute_batch(&damage).unwrap();
        let results = [
            table.store.inbox(&an("bob"), FIRST).map(drop),
            table.store.take_notices(&agent("bob")).map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(StoreError::BadRow { .. })), "{damage}: {result:?}");
        }
    }
}

#[test]
fn a_message_without_its_event_is_not_sent() {
    let mut table = three();
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    assert!(table.store.send(&draft(an("ann"), &[an("bob")], "x"), LIMIT).is_err());
    assert_eq!((table.world.count("message"), table.world.count("notice")), (0, 0));
}
