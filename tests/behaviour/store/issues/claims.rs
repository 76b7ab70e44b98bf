//! A claim: the issue and the files that it names, together or not at all.

use std::sync::Barrier;
use std::thread;

use mala_core::Attempt;
use mala_store::{ClaimOutcome, IssueError, JournalError, NewAttempt, Store, StoreError};
use mala_tests::{Table, Terse, wants};

use super::journal::{begin, claim, new, refusal};
use super::{add, status};

/// A run and two issues that name files.
fn table() -> (Table, impl Fn(&str, &str, &[&str]) -> NewAttempt) {
    let mut table = Table::new();
    add(&mut table.store, "i", 2, &[]);
    add(&mut table.store, "j", 2, &["i"]);
    let run = begin(&mut table);
    (table, move |issue, name, files| NewAttempt { files: wants(files), ..new(&run.id, issue, name) })
}

/// Everything that a claim could leave.
fn traces(table: &mut Table) -> (Vec<String>, Vec<String>, usize, usize, String) {
    let agents = table.store.status().unwrap().agents.len();
    let (log, held, attempts) = (table.store.log(), table.store.held(), table.world.count("attempt"));
    (log, held, agents, usize::try_from(attempts).unwrap(), status(&mut table.store, "i"))
}

fn files_held(outcome: ClaimOutcome) -> Vec<String> {
    match outcome {
        ClaimOutcome::FilesHeld(conflicts) => {
            conflicts.iter().map(|it| format!("{}: {}", it.holder.agent, it.contended())).collect()
        }
        claimed @ ClaimOutcome::Claimed { .. } => panic!("{claimed:?}"),
    }
}

#[test]
fn a_claim_takes_the_files_with_the_issue() {
    let (mut table, new) = table();
    let ClaimOutcome::Claimed { attempt, locks } = table.store.claim(&new("i", "ann", &["a", "b"])).unwrap()
    else {
        panic!("nothing is in the way");
    };
    assert_eq!(table.store.held(), ["ann: a", "ann: b"]);
    let mut stored = table.store.locks().unwrap();
    assert_eq!(stored, locks);
    let lock = stored.remove(0);
    assert_eq!((lock.issue, lock.run, lock.supervised), (Some(attempt.issue), Some(attempt.run), true));
    assert_eq!(lock.reason.as_deref(), Some("named in i"));
}

#[test]
fn a_claim_that_has_to_wait_for_files_leaves_no_trace() {
    let (mut table, new) = table();
    table.take("bob", &["b"]);
    table.take("zoe", &["c"]);
    table.kill("zoe");
    let before = traces(&mut table);
    for _ in 0..3 {
        let outcome = table.store.claim(&new("i", "ann", &["a", "b", "c"])).unwrap();
        assert_eq!(files_held(outcome), ["bob: b"]);
        assert_eq!(traces(&mut table), before);
    }
    table.store.give_back("bob", &["b"]);
    claim(&mut table.store, &new("i", "ann", &["a", "b", "c"]));
    assert_eq!(table.store.held(), ["ann: a", "ann: b", "ann: c"]);
}

#[test]
fn a_claim_of_an_issue_that_is_not_free_leaves_no_trace() {
    let (mut table, new) = table();
    claim(&mut table.store, &new("i", "bob", &["b"]));
    let before = traces(&mut table);
    let taken = refusal(table.store.claim(&new("i", "ann", &["a"])));
    assert!(matches!(taken, JournalError::Attempted { .. }), "{taken}");
    let blocked = table.store.claim(&new("j", "ann", &["a"]));
    assert!(matches!(blocked, Err(StoreError::Issue(IssueError::Blocked { .. }))), "{blocked:?}");
    assert_eq!(traces(&mut table), before);
}

#[test]
fn a_claim_that_cannot_be_written_down_has_not_happened() {
    for kind in ["agent.joined", "lock.acquired", "issue.claimed"] {
        let (mut table, new) = table();
        let before = traces(&mut table);
        let trigger = format!(
            "CREATE TRIGGER broken BEFORE INSERT ON event WHEN new.kind = '{kind}'
             BEGIN SELECT RAISE(ABORT, 'not today'); END"
        );
        table.world.sql().execute_batch(&trigger).unwrap();
        let wish = new("i", "ann", &["a", "b"]);
        assert!(matches!(table.store.claim(&wish), Err(StoreError::Sql { .. })), "{kind}");
        assert_eq!(traces(&mut table), before, "{kind}");
        table.world.sql().execute_batch("DROP TRIGGER broken").unwrap();
        claim(&mut table.store, &wish);
    }
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
                        Ok(ClaimOutcome::Claimed { attempt, .. }) => Some(*attempt),
                        Ok(ClaimOutcome::FilesHeld(_)) | Err(StoreError::Journal(_)) => None,
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

#[test]
fn of_agents_that_race_for_files_and_issues_each_has_all_or_nothing() {
    let mut table = Table::new();
    let run = begin(&mut table);
    for round in 0..20 {
        let [same, other, file] = ["same", "other", "f"].map(|what| format!("{what}{round}"));
        add(&mut table.store, &same, 2, &[]);
        add(&mut table.store, &other, 2, &[]);
        let wish = |issue: &str, name: &str, own: &str| {
            let files = wants(&[&file, &format!("{own}{round}")]);
            NewAttempt { files, ..new(&run.id, issue, &format!("{name}{round}")) }
        };
        let wishes = [wish(&same, "ann", "a"), wish(&same, "bob", "b"), wish(&other, "cleo", "c")];
        let won = race(&table, &wishes);
        assert_eq!(won.len(), 1, "all need {file}");
        let (winner, first) = (&won[0].agent, &won[0].agent.as_str()[..1]);
        let ends = format!("{round}");
        let mut held = table.store.held();
        held.retain(|line| line.ends_with(&ends) && line.starts_with(winner.as_str()));
        assert_eq!(held, [format!("{winner}: {first}{round}"), format!("{winner}: {file}")]);
    }
    assert_eq!(
        (table.world.count("attempt"), table.store.held().len()),
        (20, 40),
        "nobody else holds anything"
    );
    assert_eq!(table.store.status().unwrap().agents.len(), 20);
}
