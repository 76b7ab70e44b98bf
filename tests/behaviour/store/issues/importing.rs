//! Issues from another tracker's export.

use std::time::Duration;

use mala_core::IssueId;
use mala_core::issue::{ForeignIssue, parse_moment};
use mala_issues::read_export;
use mala_store::{Imported, StoreError};
use mala_tests::{Table, Terse};
use serde_json::{Value, json};

use super::{eve, id, ready, status};

fn lines(values: &[Value]) -> Vec<ForeignIssue> {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    read_export(&text).unwrap()
}

/// A line as `br` writes it.
fn full() -> Value {
    json!({
        "id": "bd-a1", "title": "Log in", "description": "Let users log in.", "design": "Sessions.",
        "acceptance_criteria": "It works.", "notes": "Ask Fay first.", "status": "open", "priority": 1,
        "issue_type": "feature", "assignee": "", "created_at": "2026-01-02T03:04:05.678901234Z",
        "updated_at": "2026-01-03T00:00:00Z", "created_by": "fay", "source_repo": ".", "compaction_level": 0,
        "labels": ["auth", "ui"],
        "dependencies": [
            { "issue_id": "bd-a1", "depends_on_id": "bd-b2", "type": "blocks", "created_at": "2026-01-02T03:04:05Z" },
            { "issue_id": "bd-a1", "depends_on_id": "bd-e0", "type": "parent-child" },
            { "issue_id": "bd-a1", "depends_on_id": "bd-r3", "type": "related" },
        ],
        "comments": [{ "id": 1, "issue_id": "bd-a1", "author": "gil", "text": "Soon?", "created_at": "2026-01-02T04:00:00Z" }],
    })
}

fn import(table: &mut Table, values: &[Value]) -> Imported {
    table.store.import_issues(&eve(), &lines(values)).unwrap()
}

#[test]
fn a_line_becomes_an_issue_with_all_that_mala_has_a_use_for() {
    let mut table = Table::new();
    let done =
        json!({ "id": "bd-b2", "title": "Users", "status": "closed", "closed_at": "2026-01-01T00:00:00Z" });
    let imported = import(&mut table, &[full(), done]);
    assert_eq!(imported.added, [id("bd-a1"), id("bd-b2")]);
    assert!(imported.dangling.is_empty());
    let issue = table.store.issue(&id("bd-a1")).unwrap().unwrap();
    assert_eq!((issue.title.as_str(), issue.description.as_str()), ("Log in", "Let users log in."));
    assert_eq!((issue.design.as_str(), issue.acceptance.as_str()), ("Sessions.", "It works."));
    assert_eq!((issue.priority.number(), issue.kind.as_str(), issue.assignee), (1, "feature", None));
    assert_eq!(issue.labels, ["auth", "ui"]);
    assert_eq!(issue.parent, Some(id("bd-e0")));
    assert_eq!(issue.dependencies, [id("bd-b2")]);
    assert_eq!(issue.created_at, parse_moment("2026-01-02T03:04:05.678Z"));
    let notes = table.store.notes(&id("bd-a1")).unwrap();
    let notes: Vec<_> = notes.iter().map(|note| (note.author.name(), note.text.as_str())).collect();
    assert_eq!(notes, [("import", "Ask Fay first."), ("gil", "Soon?")]);
    assert_eq!(ready(&mut table.store), ["bd-a1"]);
    assert!(table.store.issue(&id("bd-b2")).unwrap().unwrap().is_closed());
}

#[test]
fn importing_again_changes_nothing_whatever_has_happened_here() {
    let mut table = Table::new();
    import(&mut table, &[full()]);
    table.store.close_issue(&eve(), &id("bd-a1"), None).unwrap();
    table.store.note(&eve(), &id("bd-a1"), "done here").unwrap();
    let before = (table.store.issue(&id("bd-a1")).unwrap(), table.store.log());
    table.pass(Duration::from_secs(1));
    let again = import(&mut table, &[full()]);
    assert_eq!(again, Imported { unchanged: 1, ..Imported::default() });
    assert_eq!((table.store.issue(&id("bd-a1")).unwrap(), table.store.log()), before);
}

#[test]
fn a_changed_line_brings_its_content_but_not_the_status_it_had_before() {
    let mut table = Table::new();
    import(&mut table, &[full()]);
    table.store.close_issue(&eve(), &id("bd-a1"), None).unwrap();
    let mut line = full();
    line["title"] = "Sign in".into();
    line["labels"] = json!(["auth"]);
    line["comments"].as_array_mut().unwrap().push(json!({ "author": "gil", "text": "Thanks." }));
    let changed = import(&mut table, &[line.clone()]);
    assert_eq!(changed.changed, [id("bd-a1")]);
    let issue = table.store.issue(&id("bd-a1")).unwrap().unwrap();
    assert_eq!((issue.title.as_str(), issue.labels.len(), issue.notes.len()), ("Sign in", 1, 3));
    assert_eq!(issue.status, "closed");
    line["status"] = "deferred".into();
    import(&mut table, &[line]);
    assert_eq!(status(&mut table.store, "bd-a1"), "deferred");
}

#[test]
fn one_bad_line_stops_the_whole_import_and_is_named() {
    let bad = [
        ("{\"id\": \"x\"}", "title"),
        ("not json", "expected"),
        ("{\"id\": \"\", \"title\": \"t\"}", "issue id is empty"),
        ("{\"id\": \"x\", \"title\": \"t\", \"created_at\": \"yesterday\"}", "`yesterday` is not a time"),
        ("{\"id\": \"x\", \"title\": \"t\", \"priority\": 7}", "priority 7 is not from 0"),
    ];
    for (line, words) in bad {
        let error = read_export(&format!("{}\n\n{line}\n", full())).unwrap_err();
        assert_eq!(error.line, 3, "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_need_that_nobody_knows_is_said_aloud_and_blocks() {
    let mut table = Table::new();
    let imported = import(&mut table, &[full()]);
    assert_eq!(imported.dangling, [(id("bd-a1"), id("bd-b2"))]);
    assert!(ready(&mut table.store).is_empty());
    import(&mut table, &[json!({ "id": "bd-b2", "title": "gone", "status": "tombstone" })]);
    assert_eq!(ready(&mut table.store), ["bd-a1"]);
}

#[test]
fn an_import_without_its_event_did_not_happen() {
    let mut table = Table::new();
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    let failed = table.store.import_issues(&eve(), &lines(&[full()]));
    assert!(matches!(failed, Err(StoreError::Sql { .. })));
    assert_eq!(table.world.count("issue"), 0);
}

#[test]
fn thousands_of_lines_are_imported_at_once() {
    let mut table = Table::new();
    let line = |number: usize| json!({ "id": format!("p-{number}"), "title": "t", "priority": number % 5 });
    let all: Vec<Value> = (1..=5_000).map(line).collect();
    assert_eq!(import(&mut table, &all).added.len(), 5_000);
    assert_eq!(import(&mut table, &all).unchanged, 5_000);
    let first: Vec<IssueId> = table.store.ready(None, 2).unwrap().into_iter().map(|issue| issue.id).collect();
    assert_eq!(first, [id("p-10"), id("p-100")], "of the same age and priority, by id");
}
