//! Asks: how agents settle who holds what, without a timer that decides for them.

mod answers;
mod model;
mod notices;
mod races;
mod taking;

use std::time::Duration;

use mala_core::ask::MAX_WHY;
use mala_core::{AskState, Urgency};
use mala_store::{AskError, AskFilter, AskRequest, StoreError};
use mala_tests::table::{DUE_IN, Table, ask_request};
use mala_tests::{ONLY_THE_DEAD, Terse, agent, want};

pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> AskError {
    match result {
        Err(StoreError::Ask(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_ask_knows_the_lock_its_holder_the_asker_and_when_it_is_due() {
    let mut table = Table::new();
    let lock = table.take("ann", &["src/a"]).remove(0);
    let now = table.store.now();
    let ask = table.ask("bob", "src/a");
    assert_eq!((&ask.lock, ask.fence), (&lock.id, lock.fence));
    assert_eq!((ask.asker.as_str(), ask.holder.as_str()), ("bob", "ann"));
    assert_eq!((ask.state, ask.due_at, ask.why.as_str()), (AskState::Open, now.plus(DUE_IN), "to finish"));
    assert_eq!(table.store.asks(&AskFilter::default()).unwrap(), std::slice::from_ref(&ask));
    assert_eq!(table.store.log().last().unwrap(), "ask.made");
    for (asker, holder, count) in [("bob", "ann", 1), ("ann", "bob", 0)] {
        let by_asker = AskFilter { asker: Some(agent(asker)), ..AskFilter::default() };
        let by_holder = AskFilter { holder: Some(agent(holder)), ..AskFilter::default() };
        assert_eq!(table.store.asks(&by_asker).unwrap().len(), count);
        assert_eq!(table.store.asks(&by_holder).unwrap().len(), count);
    }
    assert_eq!(table.store.held(), ["ann: src/a"], "asking changes nothing");
}

#[test]
fn asking_twice_is_one_ask() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let first = table.ask("bob", "a");
    table.pass(Duration::from_secs(60));
    assert_eq!(table.ask("bob", "a"), first);
    let other = table.ask("cleo", "a");
    assert_ne!(other.id, first.id);
    assert_eq!(table.store.asks(&AskFilter::default()).unwrap().len(), 2);
}

#[test]
fn an_ask_can_become_urgent_but_never_less_so() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let first = table.ask("bob", "a");
    let soon = Duration::from_secs(30);
    let urgent = AskRequest { urgency: Urgency::Urgent, due_in: soon, ..ask_request("bob", "a") };
    let raised = table.store.ask(&urgent).unwrap().remove(0);
    assert_eq!((&raised.id, raised.urgency), (&first.id, Urgency::Urgent));
    assert_eq!(raised.due_at, table.store.now().plus(soon));
    assert_eq!(table.ask("bob", "a"), raised);
    assert_eq!(table.store.log().iter().filter(|kind| *kind == "ask.raised").count(), 1);
}

#[test]
fn asking_for_what_is_free_or_ones_own_or_a_name_is_answered_in_words() {
    let mut table = Table::new();
    table.take("ann", &["a", "name:test"]);
    let mut refuse = |name: &str, text: &str| refusal(table.store.ask(&ask_request(name, text)));
    let free = refuse("bob", "free");
    assert!(matches!(free, AskError::Free { .. }));
    assert_eq!(free.to_string(), "nobody holds `free`: it can be locked right away");
    let own = refuse("ann", "a");
    assert!(matches!(own, AskError::Yours { .. }));
    assert_eq!(own.to_string(), "`ann` holds `a` itself");
    assert!(matches!(refuse("bob", "name:test"), AskError::Named { .. }));
    let why = "x".repeat(MAX_WHY + 1);
    let long = refusal(table.store.ask(&AskRequest { why, ..ask_request("bob", "a") }));
    assert!(matches!(long, AskError::WhyTooLong { len } if len == MAX_WHY + 1));
    assert_eq!(table.world.count("ask"), 0);
}

#[test]
fn asking_for_what_the_dead_held_finds_it_free() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    table.kill("ann");
    assert!(matches!(refusal(table.store.ask(&ask_request("bob", "a"))), AskError::Free { .. }));
}

#[test]
fn everybody_in_the_way_is_asked() {
    let mut table = Table::new();
    table.take("ann", &["shared:a"]);
    table.take("bob", &["shared:a"]);
    let asks = table.store.ask(&ask_request("cleo", "a")).unwrap();
    let mut holders: Vec<_> = asks.iter().map(|ask| ask.holder.as_str()).collect();
    holders.sort_unstable();
    assert_eq!(holders, ["ann", "bob"]);
    assert!(matches!(
        refusal(table.store.ask(&AskRequest { want: want("shared:a"), ..ask_request("cleo", "a") })),
        AskError::Free { .. }
    ));
}

#[test]
fn asking_again_knows_the_lock_as_it_is_now() {
    let mut table = Table::new();
    table.take("ann", &["shared:a"]);
    let before = table.ask("bob", "a");
    let fence = table.take("ann", &["a"])[0].fence;
    let after = table.ask("bob", "a");
    assert_eq!((after.id, after.fence), (before.id, fence));
}

#[test]
fn asks_end_with_their_lock_and_their_asker() {
    let mut table = Table::new();
    table.take("ann", &["a", "b", "c"]);
    let [released, left, swept] = ["a", "b", "c"].map(|text| table.ask("bob", text));
    table.store.give_back("ann", &["a"]);
    assert_eq!(table.state(&released), AskState::Moot);
    table.store.leave(&agent("bob")).unwrap();
    assert_eq!([table.state(&left), table.state(&swept)], [AskState::Cancelled; 2]);
    let by_dead = table.ask("cleo", "c");
    table.kill("ann");
    assert_eq!(table.state(&by_dead), AskState::Open, "nobody has noticed yet");
    table.store.sweep(ONLY_THE_DEAD).unwrap();
    assert_eq!(table.state(&by_dead), AskState::Moot);
}

#[test]
fn an_asker_that_gets_the_lock_by_itself_has_its_answer() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let (ask, other) = (table.ask("bob", "a"), table.ask("cleo", "a"));
    table.kill("ann");
    table.take("bob", &["a"]);
    assert_eq!((table.state(&ask), table.state(&other)), (AskState::Released, AskState::Moot));
    let again = table.ask("cleo", "a");
    table.join("dan");
    table.store.hand_all("bob", "dan");
    assert_eq!(table.state(&again), AskState::Moot);
}

#[test]
fn a_bad_row_stops_whoever_reads_it() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    let damage = "PRAGMA ignore_check_constraints = ON; UPDATE ask SET mode = 7";
    table.world.sql().execute_batch(damage).unwrap();
    let results = [
        table.store.asks(&AskFilter::default()).map(drop),
        table.store.answer_release(&agent("ann"), &ask.id).map(drop),
        table.store.release(&agent("ann"), &mala_store::Which::All).map(drop),
    ];
    for result in results {
        assert!(matches!(result, Err(StoreError::BadRow { .. })), "{result:?}");
    }
    assert_eq!(table.store.held(), ["ann: a"]);
}

#[test]
fn an_ask_without_its_event_is_no_ask() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    table.join("bob");
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    assert!(matches!(table.store.ask(&ask_request("bob", "a")), Err(StoreError::Sql { .. })));
    assert_eq!((table.world.count("ask"), table.world.count("notice")), (0, 0));
}
