//! A claim: the issue and the attempt at it, together or not at all.

use std::sync::Barrier;
use std::thread;

use mala_core::Attempt;
use mala_store::{IssueError, JournalError, NewAttempt, Store, StoreError};
use mala_tests::{Table, Terse};

use super::journal::{begin, claim, new, refusal};
use super::{add, status};

/// A run and two issues, of which one waits for the other.
fn table() -> (Table, impl Fn(&str, &str) -> NewAttempt) {
    let mut table = Table::new();
    add(&mut table.store, "i", 2, &[]);
    add(&mut table.store, "j", 2, &["i"]);
    let run = begin(&mut table);
    (table, move |issue, name| new(&run.id, issue, name))
}

/// Everything that a claim could leave.
fn traces(table: &mut Table) -> (Vec<String>, Vec<String>, usize, usize, String) {
    let agents = table.store.status().unwrap().agents.len();
    let (log, held, attempts) = (table.store.log(), table.store.held(), table.world.count("attempt"));
    (log, held, agents, usize::try_from(attempts).unwrap(), status(&mut table.store, "i"))
}

#[test]
fn a_claim_takes_the_issue_and_no_file() {
    let (mut table, new) = table();
    let attempt = claim(&mut table.store, &new("i", "ann"));
    assert_eq!((attempt.number, status(&mut table.store, "i").as_str()), (1, "in_progress"));
    assert_eq!(table.store.held(), Vec::<String>::new());
}

#[test]
fn a_claim_of_an_issue_that_is_not_free_leaves_no_trace() {
    let (mut table, new) = table();
    claim(&mut table.store, &new("i", "bob"));
    let before = traces(&mut table);
    let taken = refusal(table.store.claim(&new("i", "ann")));
    assert!(matches!(taken, JournalError::Attempted { .. }), "{taken}");
    let blocked = table.store.claim(&new("j", "ann"));
    assert!(matches!(blocked, Err(StoreError::Issue(IssueError::Blocked { .. }))), "{blocked:?}");
    assert_eq!(traces(&mut table), before);
}

#[test]
fn a_claim_that_cannot_be_written_down_has_not_happened() {
    let (mut table, new) = table();
    let before = traces(&mut table);
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event WHEN new.kind = 'issue.claimed'
         BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    assert!(matches!(table.store.claim(&new("i", "ann")), Err(StoreError::Sql { .. })));
    assert_eq!(traces(&mut table), before);
    table.world.sql().execute_batch("DROP TRIGGER broken").unwrap();
    claim(&mut table.store, &new("i", "ann"));
}

/// Lets all claim at the same time. Returns the attempts of those who got what they wanted.
fn race(table: &Table, wishes: &[NewAttempt]) -> Vec<Attempt> {
    let start = Barrier::new(wishes.len());
    thread::scope(|scope| {
        let claims: Vec<_> = wishes
            .iter()
            .map(|wish| {
                let (mut store, start): (Store, _) = (table.another_store(), &start);
                scope.spawn(move || {
                    start.wait();
                    match store.claim(wish) {
                        Ok(attempt) => Some(attempt),
                        Err(StoreError::Journal(_)) => None,
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        claims.into_iter().filter_map(|claim| claim.join().unwrap()).collect()
    })
}

#[test]
fn of_all_agents_of_a_run_one_gets_an_issue() {
    let mut table = Table::new();
    let run = begin(&mut table);
    for round in 0..20 {
        let name = format!("i{round}");
        add(&mut table.store, &name, 2, &[]);
        let wishes = ["ann", "bob", "cleo"].map(|who| new(&run.id, &name, who));
        assert_eq!(race(&table, &wishes).len(), 1);
    }
    assert_eq!(table.world.count("attempt"), 20);
}
