//! `bd`, as far as a program that behaves like it can show.

use mala_issues::{Beads, IssueError, IssueSource, Limits, Tracker};
use tempfile::TempDir;

use crate::contract::{self, NewIssue, Seed};
use crate::stand_in::{PROGRAM, StandIn};

#[test]
fn bd_keeps_the_contract_in_every_shape_it_writes() {
    for shape in ["envelope", "bare", "items"] {
        let tracker = StandIn::new(Tracker::Bd);
        tracker.set("shape", shape);
        contract::check(&tracker.source(Limits::default()), &tracker);
    }
}

#[test]
fn a_queue_of_more_than_a_hundred_is_seen_whole_and_in_order() {
    let tracker = StandIn::new(Tracker::Bd);
    let issues: Vec<serde_json::Value> = (0..250)
        .map(|number| {
            serde_json::json!({"id": format!("bd-{number}"), "title": "t", "status": "open", "priority": number % 5})
        })
        .collect();
    tracker.set("issues.json", &serde_json::to_string(&issues).unwrap());
    let ready = tracker.source(Limits::default()).ready(usize::MAX).unwrap();
    assert_eq!(ready.len(), 250);
    assert!(ready.is_sorted_by_key(|issue| issue.priority));
    let urgent: Vec<&str> = ready.iter().take(3).map(|issue| issue.id.as_str()).collect();
    assert_eq!(urgent, ["bd-0", "bd-5", "bd-10"], "equals stay in the tracker's order");
}

#[test]
fn an_issue_that_makes_no_sense_is_named() {
    let tracker = StandIn::new(Tracker::Bd);
    tracker.set("issues.json", r#"[{"id":"bd-1","title":"t","status":"open","priority":9}]"#);
    let error = tracker.source(Limits::default()).ready(10).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"`bd ready` ended well but its answer makes no sense: issue `bd-1`: priority 9 is not from 0, the most urgent, to 4");
}

#[test]
fn a_folder_without_issues_is_an_error_and_not_an_empty_queue() {
    let root = TempDir::new().unwrap();
    let source = Beads::new(Tracker::Bd, PROGRAM, root.path(), Limits::default());
    match source.ready(10) {
        Err(IssueError::NotSetUp { tracker: Tracker::Bd, root: named, .. }) => assert_eq!(named, root.path()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_issue_a_person_assigned_is_left_to_that_person() {
    let tracker = StandIn::new(Tracker::Bd);
    let id = tracker.add(&NewIssue::task("assigned"));
    let assigned = tracker.get("issues.json").replace("\"status\"", "\"assignee\":\"ann\",\"status\"");
    tracker.set("issues.json", &assigned);
    let source = tracker.source(Limits::default());
    assert_eq!(source.show(&id).unwrap().assignee.as_deref(), Some("ann"));
    assert_eq!(source.ready(10).unwrap(), []);
}
