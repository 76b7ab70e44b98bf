//! What is given out, and in which order.

use mala_issues::IssueSource;

use super::{NewIssue, Seed, is_ready, priority, queue, show};

pub(super) fn an_empty_tracker_has_no_work_and_no_error(source: &dyn IssueSource, _: &dyn Seed) {
    assert_eq!(queue(source), [], "the tracker is empty");
}

pub(super) fn the_most_urgent_comes_first(source: &dyn IssueSource, seed: &dyn Seed) {
    let add = |number| seed.add(&NewIssue { priority: priority(number), ..NewIssue::task("in order") });
    let added = [3, 0, 4, 1, 2].map(add);
    let ready = queue(source);
    let order: Vec<u8> = ready.iter().map(|issue| issue.priority.number()).collect();
    assert!(order.is_sorted(), "the most urgent comes first, not {order:?}");
    for id in &added {
        assert!(ready.iter().any(|issue| issue.id == *id), "`{id}` waits for nothing and is ready");
    }
}

pub(super) fn a_limit_keeps_the_most_urgent(source: &dyn IssueSource, seed: &dyn Seed) {
    for number in [2, 0, 1] {
        seed.add(&NewIssue { priority: priority(number), ..NewIssue::task("limited") });
    }
    let all = queue(source);
    let some = source.ready(2).expect("a tracker that works has a queue");
    assert_eq!(some, all[..2], "a limit cuts the queue");
    assert_eq!(source.ready(0).expect("none is a number of issues"), []);
}

pub(super) fn epics_are_not_given_out(source: &dyn IssueSource, seed: &dyn Seed) {
    let epic = seed.add(&NewIssue { kind: "epic", ..NewIssue::task("an epic") });
    let bug = seed.add(&NewIssue { kind: "bug", ..NewIssue::task("a bug") });
    assert!(!is_ready(source, &epic), "an epic is not for an agent");
    assert!(is_ready(source, &bug), "a bug is");
    assert!(show(source, &epic).is_epic(), "an epic is known as one");
}

pub(super) fn an_issue_waits_until_what_it_needs_is_closed(source: &dyn IssueSource, seed: &dyn Seed) {
    let first = seed.add(&NewIssue::task("first"));
    let second = seed.add(&NewIssue { needs: std::slice::from_ref(&first), ..NewIssue::task("second") });
    assert_eq!(show(source, &second).dependencies, std::slice::from_ref(&first));
    assert!(is_ready(source, &first) && !is_ready(source, &second), "what it needs comes first");
    source.close(&first, "done").expect("an open issue can be closed");
    assert!(is_ready(source, &second), "what it needs is closed");
}

pub(super) fn what_is_ready_is_as_complete_as_what_is_shown(source: &dyn IssueSource, seed: &dyn Seed) {
    let issue = NewIssue { description: "All of it.", priority: priority(1), ..NewIssue::task("whole") };
    let id = seed.add(&issue);
    let shown = show(source, &id);
    let ready = queue(source).into_iter().find(|issue| issue.id == id).expect("it waits for nothing");
    assert_eq!(ready, shown);
    assert_eq!((shown.title.as_str(), shown.description.as_str()), (issue.title, issue.description));
    assert_eq!((shown.kind.as_str(), shown.priority), (issue.kind, issue.priority));
    assert_eq!((shown.status.as_str(), shown.assignee), ("open", None));
}

pub(super) fn files_named_in_the_text_are_hints(source: &dyn IssueSource, seed: &dyn Seed) {
    let description = "Mend src/other.rs.\n\nFiles: src/a.rs, docs/**";
    let id = seed.add(&NewIssue { description, ..NewIssue::task("hints") });
    assert_eq!(show(source, &id).files, ["src/a.rs", "docs/**"]);
}

pub(super) fn hostile_texts_are_data(source: &dyn IssueSource, seed: &dyn Seed) {
    for text in
        ["--force", "-", "$(touch pwned); `id` && \"a\" 'b' \\", "{\"error\":{}}", "Ünïcödé 🦀 \u{202e}"]
    {
        let id = seed.add(&NewIssue { description: text, ..NewIssue::task(text) });
        let shown = show(source, &id);
        assert_eq!((shown.title.as_str(), shown.description.as_str()), (text, text));
        source.close(&id, text).expect("an open issue can be closed, whatever the reason");
    }
}
