//! The built-in tracker: what is to be done, in which order, and by whom.

mod agents;
mod claims;
mod importing;
mod journal;
mod waits;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use mala_core::issue::CLOSED;
use mala_core::{IssueId, PersonId, Priority, Who};
use mala_store::{EventFilter, IssueError, IssueFilter, IssueName, NewIssue, Store, StoreError};
use mala_tests::{Table, Terse, agent};

pub(super) fn id(text: &str) -> IssueId {
    IssueId::new(text).unwrap()
}

pub(super) fn eve() -> Who {
    Who::Person(PersonId::new("eve").unwrap())
}

/// An issue with this id and priority.
fn new(name: &str, priority: u8) -> NewIssue {
    NewIssue {
        name: IssueName::Given(id(name)),
        title: format!("do {name}"),
        description: String::new(),
        design: String::new(),
        acceptance: String::new(),
        priority: Priority::try_from(priority).unwrap(),
        kind: "task".into(),
        labels: Vec::new(),
        needs: Vec::new(),
        files: Vec::new(),
        parent: None,
    }
}

pub(super) fn add(store: &mut Store, name: &str, priority: u8, needs: &[&str]) {
    let needs = needs.iter().map(|need| id(need)).collect();
    store.add_issue(&eve(), &NewIssue { needs, ..new(name, priority) }).unwrap();
}

pub(super) fn ready(store: &mut Store) -> Vec<String> {
    store.ready(None, 100).unwrap().into_iter().map(|issue| issue.id.to_string()).collect()
}

pub(super) fn status(store: &mut Store, name: &str) -> String {
    store.issue(&id(name)).unwrap().unwrap().status
}

fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> IssueError {
    match result {
        Err(StoreError::Issue(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_issue_is_kept_as_it_was_given() {
    let mut table = Table::new();
    add(&mut table.store, "epic-1", 1, &[]);
    add(&mut table.store, "first", 1, &[]);
    let given = NewIssue {
        description: "long\ntext".into(),
        design: "so".into(),
        acceptance: "then".into(),
        labels: vec!["ui".into(), "api".into()],
        needs: vec![id("first")],
        files: vec!["src/**".into(), "a.rs".into()],
        parent: Some(id("epic-1")),
        ..new("x", 3)
    };
    let issue = table.store.add_issue(&eve(), &given).unwrap();
    assert_eq!(table.store.issue(&id("x")).unwrap(), Some(issue.clone()));
    assert_eq!((issue.title.as_str(), issue.description.as_str()), ("do x", "long\ntext"));
    assert_eq!((issue.design.as_str(), issue.acceptance.as_str()), ("so", "then"));
    assert_eq!((issue.status.as_str(), issue.priority.number(), issue.kind.as_str()), ("open", 3, "task"));
    assert_eq!((issue.labels, issue.files), (vec!["api".to_owned(), "ui".to_owned()], given.files));
    assert_eq!((issue.dependencies, issue.parent), (vec![id("first")], Some(id("epic-1"))));
    assert_eq!((issue.created_at, issue.notes.len()), (Some(table.store.now()), 0));
    let filter = EventFilter { kind: Some("issue.added".into()), ..EventFilter::default() };
    let event = table.store.events(&filter).unwrap().pop().unwrap();
    assert_eq!((event.issue.as_deref(), event.agent), (Some("x"), None));
    assert_eq!(event.detail["person"], "eve");
}

#[test]
fn ids_are_numbered_after_the_highest_of_their_prefix() {
    let mut table = Table::new();
    let numbered =
        |prefix: &str| NewIssue { name: IssueName::Numbered { prefix: prefix.into() }, ..new("x", 2) };
    let mut add_next =
        |prefix: &str| table.store.add_issue(&eve(), &numbered(prefix)).unwrap().id.to_string();
    assert_eq!([add_next("proj"), add_next("proj"), add_next("my-app")], ["proj-1", "proj-2", "my-app-1"]);
    add(&mut table.store, "proj-41", 2, &[]);
    add(&mut table.store, "proj-x7", 2, &[]);
    assert_eq!(table.store.add_issue(&eve(), &numbered("proj")).unwrap().id.as_str(), "proj-42");
    let bad = refusal(table.store.add_issue(&eve(), &numbered("new\nline")));
    assert!(matches!(bad, IssueError::Name(_)));
}

#[test]
fn what_makes_no_sense_is_not_added() {
    let mut table = Table::new();
    add(&mut table.store, "a", 2, &[]);
    let mut refuse = |new: &NewIssue| refusal(table.store.add_issue(&eve(), new));
    assert!(matches!(refuse(&new("a", 2)), IssueError::Exists { .. }));
    assert!(matches!(refuse(&NewIssue { title: " ".into(), ..new("b", 2) }), IssueError::NoTitle));
    let unknown = NewIssue { needs: vec![id("nope")], ..new("b", 2) };
    assert_eq!(refuse(&unknown).to_string(), "no issue `nope` is known");
    assert!(matches!(
        refuse(&NewIssue { parent: Some(id("nope")), ..new("b", 2) }),
        IssueError::Unknown { .. }
    ));
    assert!(matches!(
        refuse(&NewIssue { kind: String::new(), ..new("b", 2) }),
        IssueError::Word { what: "kind", .. }
    ));
    assert!(matches!(
        refuse(&NewIssue { labels: vec!["a\nb".into()], ..new("b", 2) }),
        IssueError::Word { what: "label", .. }
    ));
    let bad = NewIssue { files: vec!["src/[a".into()], ..new("b", 2) };
    assert_eq!(refuse(&bad).to_string(), "`src/[a` is neither a path nor a pattern");
    assert_eq!((table.world.count("issue"), table.world.count("dependency")), (1, 0));
}

#[test]
fn ready_are_those_that_need_nothing_by_priority_then_age() {
    let mut table = Table::new();
    let epic = NewIssue { kind: "epic".into(), ..new("epic", 0) };
    table.store.add_issue(&eve(), &epic).unwrap();
    add(&mut table.store, "z-old", 2, &[]);
    table.pass(Duration::from_secs(1));
    add(&mut table.store, "a-young", 2, &[]);
    add(&mut table.store, "urgent", 0, &[]);
    add(&mut table.store, "blocked", 0, &["urgent", "z-old"]);
    assert_eq!(ready(&mut table.store), ["urgent", "z-old", "a-young"]);
    table.store.close_issue(&eve(), &id("urgent"), None).unwrap();
    assert_eq!(ready(&mut table.store), ["z-old", "a-young"]);
    table.store.close_issue(&eve(), &id("z-old"), None).unwrap();
    assert_eq!(ready(&mut table.store), ["blocked", "a-young"]);
    table.store.reopen_issue(&eve(), &id("urgent")).unwrap();
    assert_eq!(ready(&mut table.store), ["urgent", "a-young"]);
    table.store.claim_issue(&eve(), &id("urgent")).unwrap();
    assert_eq!(ready(&mut table.store), ["a-young"]);
}

#[test]
fn pages_of_what_is_ready_have_each_issue_once() {
    let mut table = Table::new();
    for number in 0..25 {
        add(&mut table.store, &format!("i{number:02}"), number % 3, &[]);
    }
    let (mut seen, mut after): (Vec<IssueId>, _) = (Vec::new(), None);
    loop {
        let page = table.store.ready(after.as_ref(), 10).unwrap();
        after = page.last().map(|issue| issue.id.clone());
        seen.extend(page.into_iter().map(|issue| issue.id));
        if after.is_none() {
            break;
        }
    }
    let all: Vec<IssueId> = table.store.ready(None, 100).unwrap().into_iter().map(|issue| issue.id).collect();
    assert_eq!((&seen, seen.len()), (&all, 25));
}

#[test]
fn issues_are_listed_by_what_they_are() {
    let mut table = Table::new();
    add(&mut table.store, "parent", 1, &[]);
    let bug = NewIssue {
        kind: "bug".into(),
        labels: vec!["ui".into()],
        parent: Some(id("parent")),
        ..new("bug", 0)
    };
    table.store.add_issue(&eve(), &bug).unwrap();
    add(&mut table.store, "closed", 0, &[]);
    table.store.close_issue(&eve(), &id("closed"), Some("done")).unwrap();
    table.store.claim_issue(&Who::Agent(agent("ann")), &id("bug")).unwrap();
    let mut list = |filter: IssueFilter| -> Vec<String> {
        table.store.issues(&filter).unwrap().into_iter().map(|issue| issue.id.to_string()).collect()
    };
    let any = IssueFilter::default;
    assert_eq!(list(any()), ["bug", "parent"]);
    assert_eq!(list(IssueFilter { all: true, ..any() }), ["bug", "closed", "parent"]);
    assert_eq!(list(IssueFilter { status: Some(CLOSED.into()), ..any() }), ["closed"]);
    assert_eq!(list(IssueFilter { label: Some("ui".into()), ..any() }), ["bug"]);
    assert_eq!(list(IssueFilter { kind: Some("task".into()), ..any() }), ["parent"]);
    assert_eq!(list(IssueFilter { parent: Some(id("parent")), ..any() }), ["bug"]);
    assert_eq!(list(IssueFilter { assignee: Some("ann".into()), ..any() }), ["bug"]);
    assert_eq!(list(IssueFilter { after: Some(id("bug")), all: true, limit: Some(1), ..any() }), ["closed"]);
}

#[test]
fn notes_are_appended_in_order_by_whoever_wrote_them() {
    let mut table = Table::new();
    add(&mut table.store, "a", 2, &[]);
    let by = Who::Agent(agent("ann"));
    for text in ["one", "two"] {
        table.store.note(&by, &id("a"), text).unwrap();
    }
    table.store.note(&eve(), &id("a"), "one").unwrap();
    let notes = table.store.notes(&id("a")).unwrap();
    let told: Vec<_> = notes.iter().map(|note| (note.seq, note.text.as_str(), &note.author)).collect();
    assert_eq!(told, [(1, "one", &by), (2, "two", &by), (3, "one", &eve())]);
    let shown = table.store.issue(&id("a")).unwrap().unwrap().notes;
    assert_eq!((shown.len(), shown[0].author.as_deref(), shown[1].text.as_str()), (3, Some("ann"), "two"));
    assert!(matches!(refusal(table.store.note(&by, &id("a"), " \n")), IssueError::EmptyNote));
    assert!(matches!(refusal(table.store.note(&by, &id("nope"), "x")), IssueError::Unknown { .. }));
}

#[test]
fn closing_reopening_and_labelling_twice_is_doing_it_once() {
    let mut table = Table::new();
    add(&mut table.store, "a", 2, &[]);
    let ui = ["ui".to_owned()];
    for is_changed in [true, false] {
        let closed = table.store.close_issue(&eve(), &id("a"), Some("done")).unwrap();
        assert_eq!((closed.is_changed, closed.issue.is_closed()), (is_changed, true));
    }
    for is_changed in [true, false] {
        let opened = table.store.reopen_issue(&eve(), &id("a")).unwrap();
        assert_eq!((opened.is_changed, opened.issue.is_closed()), (is_changed, false));
    }
    for is_changed in [true, false] {
        assert_eq!(table.store.label_issue(&eve(), &id("a"), &ui, &[]).unwrap().is_changed, is_changed);
    }
    let bare = table.store.label_issue(&eve(), &id("a"), &[], &ui).unwrap();
    assert!(bare.is_changed && bare.issue.labels.is_empty());
    let expected = ["issue.added", "issue.closed", "issue.reopened", "issue.labelled", "issue.labelled"];
    assert_eq!(table.store.log(), expected);
}

#[test]
fn an_issue_never_comes_to_need_itself() {
    let mut table = Table::new();
    add(&mut table.store, "a", 2, &[]);
    add(&mut table.store, "b", 2, &["a"]);
    add(&mut table.store, "c", 2, &["b"]);
    for other in ["a", "c"] {
        let circle = refusal(table.store.link_issue(&eve(), &id("a"), &id(other)));
        assert!(matches!(circle, IssueError::Circle { .. }), "{other}: {circle:?}");
    }
    add(&mut table.store, "d", 2, &[]);
    table.store.link_issue(&eve(), &id("a"), &id("d")).unwrap();
    assert_eq!(ready(&mut table.store), ["d"]);
}

#[test]
fn of_all_who_claim_an_issue_one_gets_it() {
    let mut table = Table::new();
    for round in 0..20 {
        let name = format!("i{round}");
        add(&mut table.store, &name, 2, &[]);
        let start = Barrier::new(4);
        let won: usize = thread::scope(|scope| {
            let claims: Vec<_> = ["ann", "bob", "cleo", "dan"]
                .map(|who| {
                    let (mut store, start, name) = (table.another_store(), &start, &name);
                    scope.spawn(move || {
                        start.wait();
                        store.claim_issue(&Who::Agent(agent(who)), &id(name)).is_ok()
                    })
                })
                .into();
            claims.into_iter().map(|claim| usize::from(claim.join().unwrap())).sum()
        });
        assert_eq!(won, 1);
    }
    let issue = table.store.issue(&id("i0")).unwrap().unwrap();
    assert_eq!(issue.status.as_str(), "in_progress");
    let winner = Who::Agent(agent(issue.assignee.as_deref().unwrap()));
    assert_eq!(table.store.claim_issue(&winner, &id("i0")).unwrap(), issue, "it has it already");
    let late = refusal(table.store.claim_issue(&eve(), &id("i0")));
    assert_eq!(late.to_string(), format!("`i0` is in_progress, by `{winner}`"));
}

#[test]
fn only_whoever_has_an_issue_gives_it_back() {
    let mut table = Table::new();
    add(&mut table.store, "a", 2, &[]);
    let [ann, bob] = ["ann", "bob"].map(|name| Who::Agent(agent(name)));
    table.store.claim_issue(&ann, &id("a")).unwrap();
    assert!(!table.store.release_issue(&bob, &id("a")).unwrap());
    assert_eq!(status(&mut table.store, "a"), "in_progress");
    assert!(table.store.release_issue(&ann, &id("a")).unwrap());
    assert!(!table.store.release_issue(&ann, &id("a")).unwrap());
    let issue = table.store.issue(&id("a")).unwrap().unwrap();
    assert_eq!((issue.status.as_str(), issue.assignee), ("open", None));
}

#[test]
fn every_word_for_closed_lets_others_begin() {
    for word in ["closed", "done", "resolved", "tombstone", "deferred"] {
        let mut table = Table::new();
        add(&mut table.store, "a", 2, &[]);
        add(&mut table.store, "b", 2, &["a"]);
        table.world.sql().execute("UPDATE issue SET status = ?1 WHERE id = 'a'", [word]).unwrap();
        let is_closed = table.store.issue(&id("a")).unwrap().unwrap().is_closed();
        assert_eq!(ready(&mut table.store).contains(&"b".to_owned()), is_closed, "{word}");
        assert_eq!(
            table.store.issues(&IssueFilter::default()).unwrap().len(),
            if is_closed { 1 } else { 2 },
            "{word}"
        );
        assert_eq!(table.store.claim_issue(&eve(), &id("b")).is_ok(), is_closed, "{word}");
    }
}

#[test]
fn epics_and_blocked_issues_cannot_be_claimed() {
    let mut table = Table::new();
    let epic = NewIssue { kind: "epic".into(), ..new("epic", 0) };
    table.store.add_issue(&eve(), &epic).unwrap();
    add(&mut table.store, "a", 2, &[]);
    add(&mut table.store, "b", 2, &["a"]);
    assert!(matches!(refusal(table.store.claim_issue(&eve(), &id("epic"))), IssueError::Epic { .. }));
    let blocked = refusal(table.store.claim_issue(&eve(), &id("b")));
    assert_eq!(blocked.to_string(), "`b` needs issues that are not closed: `a`");
}

#[test]
fn all_checkouts_of_a_repository_share_its_issues() {
    let mut table = Table::new();
    let mut elsewhere = Store::open_in(&table.world.state_dir(), b"/elsewhere").unwrap();
    add(&mut table.store, "a", 2, &[]);
    elsewhere.claim_issue(&eve(), &id("a")).unwrap();
    assert!(ready(&mut table.store).is_empty());
}

#[test]
fn rows_that_make_no_sense_stop_whoever_reads_them() {
    for damage in ["status = ''", "priority = 9", "files = 'src'", "kind = ' '", "parent = ''"] {
        let mut table = Table::new();
        add(&mut table.store, "a", 2, &[]);
        let damage = format!("PRAGMA ignore_check_constraints = ON; UPDATE issue SET {damage}");
        table.world.sql().execute_batch(&damage).unwrap();
        let results = [
            table.store.issue(&id("a")).map(drop),
            table.store.issues(&IssueFilter { all: true, ..IssueFilter::default() }).map(drop),
            table.store.close_issue(&eve(), &id("a"), None).map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(StoreError::BadRow { .. })), "{damage}: {result:?}");
        }
    }
}

#[test]
fn an_issue_without_its_event_is_not_there() {
    let mut table = Table::new();
    let trigger = "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.world.sql().execute_batch(trigger).unwrap();
    assert!(table.store.add_issue(&eve(), &new("a", 2)).is_err());
    assert_eq!(table.world.count("issue"), 0);
}

#[test]
fn a_page_of_ten_thousand_issues_begins_with_what_is_ready() {
    let mut table = Table::new();
    add(&mut table.store, "gate", 4, &[]);
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO issue (id, title, description, design, acceptance, status, priority, kind, files, created_at, updated_at)
             SELECT 'i' || i, 't', 'd', '', '', iif(i % 2, 'open', 'closed'), i % 4, 'task', '[]', i, i FROM n;
         INSERT INTO dependency SELECT id, 'gate' FROM issue WHERE id <> 'gate' AND created_at <= 9000";
    table.world.sql().execute_batch(fill).unwrap();
    let page = table.store.ready(None, 50).unwrap();
    assert_eq!((page.len(), page[0].id.as_str()), (50, "i9001"));
}
