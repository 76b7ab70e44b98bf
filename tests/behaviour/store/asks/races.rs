//! Taking, releasing, reserving again and dying, all at once.

use std::sync::Barrier;
use std::thread;

use mala_core::{Ask, AskState, Life};
use mala_store::{Outcome, Party, Request, Store, StoreError};
use mala_tests::fakes::TestLiveness;
use mala_tests::invariants::{assert_consistent, assert_nobody_excludes_another};
use mala_tests::table::{self, DUE_IN, Table, ask_request, guard, request};
use mala_tests::{Terse, agent, party, wants};

const ROUNDS: u32 = 1_000;

/// The holder of a round is a process of its own, so that its death is its own, too.
fn holder(round: u32) -> Party {
    Party { owner: TestLiveness::owner(1_000 + round), ..party(&format!("holder-{round}")) }
}

fn file(round: u32) -> String {
    format!("f{round}")
}

/// Holds the round's file and asks for it.
fn prepare(store: &mut Store, round: u32) -> Ask {
    let wanted = Request { party: holder(round), wants: wants(&[&file(round)]), ..request("x", &[]) };
    store.grant(&wanted);
    store.ask(&ask_request("bob", &file(round))).unwrap().remove(0)
}

fn take(store: &mut Store, ask: &Ask) -> bool {
    match store.take_asked(&agent("bob"), &ask.id, &guard(ask)) {
        Ok(answered) => {
            assert_eq!(answered.granted.len(), 1);
            true
        }
        Err(StoreError::Ask(_)) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn reserve(store: &mut Store, party: Party, file: &str) -> bool {
    let wanted = Request { party, wants: wants(&[file]), ..table::request("x", &[]) };
    matches!(store.reserve(&wanted).unwrap(), Outcome::Granted(_))
}

#[test]
fn whoever_takes_releases_reserves_and_dies_at_once_there_is_one_owner() {
    let mut table = Table::new();
    table.join("bob");
    let asks: Vec<Ask> = (0..ROUNDS).map(|round| prepare(&mut table.store, round)).collect();
    table.pass(DUE_IN);
    let (start, end) = (Barrier::new(5), Barrier::new(5));
    let [mut taker, mut owner, mut other] = [0; 3].map(|_| table.another_store());
    let (liveness, sql) = (table.liveness.clone(), table.world.sql());
    let taken = thread::scope(|scope| {
        let run = |mut work: Box<dyn FnMut(u32) -> bool + Send>| {
            let (start, end) = (&start, &end);
            scope.spawn(move || {
                let round = |round| {
                    start.wait();
                    let won = work(round);
                    end.wait();
                    won
                };
                (0..ROUNDS).map(round).filter(|won| *won).count()
            })
        };
        let asks = &asks;
        let takes = run(Box::new(move |round| take(&mut taker, &asks[round as usize])));
        run(Box::new(move |round| {
            let released = owner.release(&holder(round).agent, &mala_store::Which::All);
            assert!(released.is_ok(), "{released:?}");
            reserve(&mut owner, holder(round), &file(round))
        }));
        run(Box::new(move |round| reserve(&mut other, Table::party("cleo"), &file(round))));
        run(Box::new(move |round| {
            liveness.set(1_000 + round, Life::Dead);
            true
        }));
        for round in 0..ROUNDS {
            start.wait();
            end.wait();
            let count = "SELECT count(*) FROM lock WHERE path = ?1";
            let owners: i64 = sql.query_row(count, [file(round).as_bytes()], |row| row.get(0)).unwrap();
            assert!(owners <= 1, "round {round}: {owners} owners");
        }
        takes.join().unwrap()
    });
    assert_nobody_excludes_another(&mut table.store);
    assert_consistent(&table.world);
    let files: Vec<_> = (0..ROUNDS).map(|round| mala_tests::key(file(round))).collect();
    assert_eq!(table.store.held_last(&agent("bob"), &files, None).unwrap().len(), taken);
    let ended = mala_store::AskFilter { ended: true, ..Default::default() };
    let states = table.store.asks(&ended).unwrap();
    assert_eq!(states.iter().filter(|ask| ask.state == AskState::Taken).count(), taken);
    assert!(taken > 0 && taken < ROUNDS as usize, "the race is decided both ways: {taken}");
}
