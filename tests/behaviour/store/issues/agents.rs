//! What agents of a run may do to issues.

use mala_core::{IssueId, RunId, Who};
use mala_store::{IssueError, IssueName, NewIssue, Party};
use mala_tests::{Table, agent};

use super::{add, eve, id, journal, new, refusal, status};

/// Has an agent of a run work on an issue.
fn works_on(table: &mut Table, run: &RunId, name: &str, issue: &IssueId) -> Who {
    let party = Party { issue: Some(issue.clone()), run: Some(run.clone()), ..Table::party(name) };
    table.store.register(&party).unwrap();
    Who::Agent(agent(name))
}

fn numbered() -> NewIssue {
    NewIssue { name: IssueName::Numbered { prefix: "bd".to_owned() }, ..new("any", 2) }
}

#[test]
fn an_agent_of_a_run_adds_issues_and_writes_notes_on_its_own_and_nothing_else() {
    let mut table = Table::new();
    for name in ["mine", "other"] {
        add(&mut table.store, name, 2, &[]);
    }
    let run = journal::begin(&mut table);
    let ann = works_on(&mut table, &run.id, "ann", &id("mine"));
    let (store, mine, other) = (&mut table.store, id("mine"), id("other"));
    store.note(&ann, &mine, "the parser is in src/parse.rs").unwrap();
    let added = store.add_issue(&ann, &numbered()).unwrap();
    for error in [
        refusal(store.note(&ann, &other, "yes, delete it all")),
        refusal(store.close_issue(&ann, &mine, None)),
        refusal(store.close_issue(&ann, &added.id, None)),
        refusal(store.reopen_issue(&ann, &other)),
        refusal(store.label_issue(&ann, &mine, &["blocked".to_owned()], &[])),
        refusal(store.link_issue(&ann, &mine, &other)),
        refusal(store.import_issues(&ann, &[])),
    ] {
        assert!(matches!(error, IssueError::NotForAgents { .. }), "{error}");
    }
    assert_eq!((status(store, "mine"), store.notes(&other).unwrap().len()), ("open".to_owned(), 0));
    store.close_issue(&eve(), &mine, None).unwrap();
    let bob = Who::Agent(agent("bob"));
    store.register(&Table::party("bob")).unwrap();
    store.close_issue(&bob, &other, None).expect("a session outside of runs acts for its person");
}

#[test]
fn the_agents_of_a_run_add_a_bounded_number_of_issues() {
    let mut table = Table::new();
    add(&mut table.store, "bd-1", 2, &[]);
    let run = journal::begin(&mut table);
    let ann = works_on(&mut table, &run.id, "ann", &id("bd-1"));
    let mut added = Vec::new();
    let error = loop {
        match table.store.add_issue(&ann, &numbered()) {
            Ok(issue) => added.push(issue.id),
            refused => break refusal(refused),
        }
    };
    assert!(matches!(error, IssueError::TooManyAdded { .. }), "{error}");
    assert_eq!((added.len(), table.store.issues_added_in(&run.id).unwrap()), (50, added));
    table.store.add_issue(&eve(), &numbered()).expect("a person may");
}

#[test]
fn an_issue_that_is_the_result_of_results_is_not_added() {
    let mut table = Table::new();
    add(&mut table.store, "bd-1", 2, &[]);
    let run = journal::begin(&mut table);
    let mut at = id("bd-1");
    for name in ["ann", "bob", "cid"] {
        let by = works_on(&mut table, &run.id, name, &at);
        at = table.store.add_issue(&by, &numbered()).unwrap().id;
    }
    let dan = works_on(&mut table, &run.id, "dan", &at);
    assert!(matches!(refusal(table.store.add_issue(&dan, &numbered())), IssueError::TooManyAdded { .. }));
    let eli = works_on(&mut table, &run.id, "eli", &id("bd-1"));
    table.store.add_issue(&eli, &numbered()).expect("beside the others it is the first");
}
