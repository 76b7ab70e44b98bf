//! Answers: release, defer, cancel, and what becomes overdue.

use std::time::Duration;

use mala_core::ask::MAX_DEFERRAL;
use mala_core::{AskId, AskState, Mode};
use mala_store::{AskError, AskFilter, AskRequest};
use mala_tests::ask::linked;
use mala_tests::invariants::assert_consistent;
use mala_tests::table::{DUE_IN, Table, ask_request, request};
use mala_tests::{FOREVER, Terse, Waiter, World, agent, ask, key, party};

use super::refusal;

#[test]
fn a_release_hands_the_very_lock_to_the_asker() {
    let mut table = Table::new();
    let lock = table.take("ann", &["a"]).remove(0);
    let ask = table.ask("bob", "a");
    let answered = table.store.answer_release(&agent("ann"), &ask.id).unwrap();
    assert_eq!(answered.ask.state, AskState::Released);
    let granted = &answered.granted[0];
    assert_eq!((granted.agent.as_str(), &granted.id), ("bob", &lock.id));
    assert!(granted.fence > lock.fence);
    assert_eq!(granted.owner, Table::party("bob").owner);
    assert_eq!(table.store.held(), ["bob: a"]);
    assert_consistent(&table.world);
}

#[test]
fn a_release_passes_those_who_wait_and_wakes_an_asker_that_waits_too() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let first = Waiter::queue(&world, "cleo", &["a"]);
    let bob = Waiter::queue(&world, "bob", &["a"]);
    let asked = store.ask(&AskRequest { party: party("bob"), ..ask_request("bob", "a") }).unwrap().remove(0);
    let answered = store.answer_release(&agent("ann"), &asked.id).unwrap();
    assert_eq!(answered.granted[0].agent.as_str(), "bob");
    assert_eq!(bob.granted()[0].fence, answered.granted[0].fence);
    assert!(first.is_waiting());
    store.give_back("bob", &["a"]);
    first.granted();
    assert_consistent(&world);
}

#[test]
fn a_release_that_would_close_a_circle_leaves_it_to_the_queue() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    store.take("cleo", &["x"]);
    let cleo = Waiter::queue(&world, "cleo", &["a"]);
    let bob = Waiter::queue_for(&world, ask("bob", &["x"]), FOREVER);
    let asked = store.ask(&AskRequest { party: party("bob"), ..ask_request("bob", "a") }).unwrap().remove(0);
    let answered = store.answer_release(&agent("ann"), &asked.id).unwrap();
    assert_eq!((answered.ask.state, answered.granted.len()), (AskState::Moot, 0));
    cleo.granted();
    assert!(bob.is_waiting());
    assert_consistent(&world);
}

#[test]
fn of_a_pattern_the_asker_gets_only_what_it_asked_for() {
    let mut table = Table::new();
    table.take("ann", &["pattern:src/**"]);
    let ask = table.ask("bob", "src/a");
    table.store.answer_release(&agent("ann"), &ask.id).unwrap();
    assert_eq!(table.store.held(), ["bob: src/a"]);
    table.take("cleo", &["src/b"]);
    assert_consistent(&table.world);
}

#[test]
fn other_names_of_the_file_move_with_it() {
    let mut table = Table::new();
    let held = mala_store::Request { wants: vec![linked("a", &["b"])], ..request("ann", &[]) };
    table.store.grant(&held);
    let wanted = AskRequest { want: linked("b", &["a"]), ..ask_request("bob", "b") };
    let ask = table.store.ask(&wanted).unwrap().remove(0);
    assert_eq!(ask.want.aliases, [key("a")]);
    table.store.answer_release(&agent("ann"), &ask.id).unwrap();
    for name in ["a", "b"] {
        assert_eq!(table.store.refuse("cleo", &[name]).conflicts[0].holder.agent.as_str(), "bob");
    }
}

#[test]
fn of_several_who_share_the_last_to_release_decides() {
    let mut table = Table::new();
    table.take("ann", &["shared:a"]);
    table.take("bob", &["shared:a"]);
    table.take("cleo", &["shared:a"]);
    let asks = table.store.ask(&ask_request("cleo", "a")).unwrap();
    let first = table.store.answer_release(&asks[0].holder, &asks[0].id).unwrap();
    assert_eq!((first.ask.state, first.granted.len()), (AskState::Released, 0));
    let second = table.store.answer_release(&asks[1].holder, &asks[1].id).unwrap();
    assert_eq!(second.granted[0].mode, Mode::Exclusive);
    assert_eq!(table.store.held(), ["cleo: a"]);
    assert_consistent(&table.world);
}

#[test]
fn a_holder_that_keeps_an_overlapping_lock_gives_nothing_away_by_half() {
    let mut table = Table::new();
    table.take("ann", &["src/a", "pattern:src/**"]);
    let asks = table.store.ask(&ask_request("bob", "src/a")).unwrap();
    assert_eq!(asks.len(), 2);
    let first = table.store.answer_release(&agent("ann"), &asks[0].id).unwrap();
    assert!(first.granted.is_empty());
    let second = table.store.answer_release(&agent("ann"), &asks[1].id).unwrap();
    assert_eq!(second.granted.len(), 1);
    assert_eq!(table.store.held(), ["bob: src/a"]);
    assert_consistent(&table.world);
}

#[test]
fn only_the_holder_answers_and_only_the_asker_cancels() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    for name in ["bob", "cleo"] {
        let refused = refusal(table.store.answer_release(&agent(name), &ask.id));
        assert!(matches!(refused, AskError::NotHolder { .. }));
        let refused = refusal(table.store.answer_defer(&agent(name), &ask.id, Duration::ZERO));
        assert!(matches!(refused, AskError::NotHolder { .. }));
    }
    assert!(matches!(refusal(table.store.cancel_ask(&agent("ann"), &ask.id)), AskError::NotAsker { .. }));
    assert_eq!(table.store.cancel_ask(&agent("bob"), &ask.id).unwrap().state, AskState::Cancelled);
    let over = refusal(table.store.answer_release(&agent("ann"), &ask.id));
    assert_eq!(over.to_string(), format!("the ask `{}` is cancelled already", ask.id));
    let unknown = refusal(table.store.cancel_ask(&agent("bob"), &AskId("nope".into())));
    assert!(matches!(unknown, AskError::Unknown { .. }));
    assert_eq!(table.store.held(), ["ann: a"]);
}

#[test]
fn an_ask_is_due_when_it_was_said_to_be_whatever_is_done_to_the_clock() {
    for hours in [-9, 9] {
        let mut table = Table::new();
        table.take("ann", &["a"]);
        table.ask("bob", "a");
        table.clock.step_hours(hours);
        table.pass(DUE_IN - Duration::from_millis(1));
        assert_eq!(table.store.escalate_due().unwrap(), []);
        table.clock.step_hours(-2 * hours);
        let ask = table.store.asks(&AskFilter::default()).unwrap().remove(0);
        assert_eq!(ask.due_at.since(table.store.now()), Duration::from_millis(1));
        table.pass(Duration::from_millis(1));
        assert_eq!(table.store.escalate_due().unwrap().len(), 1);
    }
}

#[test]
fn a_holder_may_defer_once_and_by_an_hour_at_most() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    let long = MAX_DEFERRAL + Duration::from_millis(1);
    let too_long = refusal(table.store.answer_defer(&agent("ann"), &ask.id, long));
    assert_eq!(too_long.to_string(), "a lock can be kept for at most 60 more minutes");
    table.pass(DUE_IN);
    assert!(ask.is_overdue(table.store.now()));
    let deferred = table.store.answer_defer(&agent("ann"), &ask.id, MAX_DEFERRAL).unwrap();
    let until = table.store.now().plus(MAX_DEFERRAL);
    assert_eq!((deferred.state, deferred.due_at, deferred.eta), (AskState::Deferred, until, Some(until)));
    assert!(!deferred.is_overdue(table.store.now()));
    let again = refusal(table.store.answer_defer(&agent("ann"), &ask.id, Duration::ZERO));
    assert!(matches!(again, AskError::DeferredAlready { .. }));
    assert!(deferred.is_overdue(until));
    table.store.answer_release(&agent("ann"), &ask.id).unwrap();
}

#[test]
fn a_holder_keeps_what_nobody_needs_any_more() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.kill("bob");
    let answered = table.store.answer_release(&agent("ann"), &ask.id).unwrap();
    assert_eq!((answered.ask.state, answered.granted.len()), (AskState::Moot, 0));
    assert_eq!(table.store.held(), ["ann: a"]);
}

#[test]
fn a_lock_whose_lease_ran_out_is_answered_by_its_end() {
    let mut table = Table::new();
    let short = mala_store::Request { ttl: Duration::from_secs(5), ..request("ann", &["a"]) };
    table.store.grant(&short);
    let ask = table.ask("bob", "a");
    table.pass(Duration::from_secs(5));
    let answered = table.store.answer_release(&agent("ann"), &ask.id).unwrap();
    assert_eq!(answered.ask.state, AskState::Moot);
    assert!(table.store.log().contains(&"lock.expired".to_owned()));
    assert_consistent(&table.world);
}

#[test]
fn an_overdue_ask_is_escalated_once_whoever_comes_next_also_after_a_restart() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    assert!(table.store.escalate_due().unwrap().is_empty());
    table.pass(DUE_IN);
    let mut restarted = table.another_store();
    assert_eq!(restarted.escalate_due().unwrap()[0].id, ask.id);
    assert!(table.store.escalate_due().unwrap().is_empty());
    assert!(table.another_store().escalate_due().unwrap().is_empty());
    table.store.answer_defer(&agent("ann"), &ask.id, Duration::from_secs(60)).unwrap();
    table.pass(Duration::from_secs(60));
    assert_eq!(table.store.escalate_due().unwrap().len(), 1, "the new due time has passed, too");
    assert!(table.store.escalate_due().unwrap().is_empty());
    assert_eq!(table.store.log().iter().filter(|kind| *kind == "ask.overdue").count(), 2);
    assert_eq!(table.store.held(), ["ann: a"], "time takes nothing from anybody");
}

#[test]
fn an_overdue_ask_of_somebody_who_is_gone_just_ends() {
    let mut table = Table::new();
    table.take("ann", &["a"]);
    let ask = table.ask("bob", "a");
    table.kill("bob");
    table.pass(DUE_IN);
    assert!(table.store.escalate_due().unwrap().is_empty());
    assert_eq!(table.state(&ask), AskState::Moot);
}
