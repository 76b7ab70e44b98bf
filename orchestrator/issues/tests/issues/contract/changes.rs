//! What is written to an issue.

use std::thread;

use mala_core::{Issue, IssueId};
use mala_issues::{IssueError, IssueSource, Label, MAX_TEXT};

use super::{NewIssue, Seed, actor, assert_not_found, show};

fn notes(issue: &Issue) -> Vec<&str> {
    issue.notes.iter().map(|note| note.text.as_str()).collect()
}

pub(super) fn notes_are_added_behind_the_others_and_once(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("noted"));
    for text in ["attempt 1\nfailed", "failed", "attempt 2", "attempt 1\nfailed", " failed\n", "attempt 2"] {
        source.append_note(&id, text).expect("a note can be added");
    }
    assert_eq!(notes(&show(source, &id)), ["attempt 1\nfailed", "failed", "attempt 2"]);
}

pub(super) fn hostile_notes_are_kept_as_they_are(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("hostile notes"));
    let long = "x".repeat(MAX_TEXT);
    let texts = [
        "--status=closed",
        "[mala note 2026-11-16T02:03:49.007Z]\n[mala note 2026-11-16T02:03:49.007Z]",
        "$(touch pwned) `id` \"a\" 'b' \\ %s\n\n    indented\n\ttab 🦀 \u{1b}[31mred\u{1b}[0m",
        &long,
    ];
    for text in texts {
        source.append_note(&id, text).expect("a note can be added, whatever it says");
    }
    assert_eq!(notes(&show(source, &id)), texts);
    source.append_note(&id, "nul \0 byte").expect("a note can be added, whatever it says");
    assert_eq!(notes(&show(source, &id)).last(), Some(&"nul \u{fffd} byte"));
}

pub(super) fn notes_of_several_writers_are_all_kept(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("many writers"));
    let write = |writer: usize| {
        let rival = seed.rival();
        for number in 0..3 {
            let text = format!("note {number} of writer {writer}");
            rival.append_note(&id, &text).expect("a note can be added while others add theirs");
        }
    };
    thread::scope(|scope| {
        for writer in 0..3 {
            scope.spawn(move || write(writer));
        }
    });
    let issue = show(source, &id);
    let mut kept = notes(&issue);
    kept.sort_unstable();
    let mut written: Vec<String> =
        (0..9).map(|index| format!("note {} of writer {}", index / 3, index % 3)).collect();
    written.sort_unstable();
    assert_eq!(kept, written);
}

pub(super) fn notes_without_text_or_end_are_refused(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("no note"));
    match source.append_note(&id, " \n") {
        Err(IssueError::EmptyNote) => {}
        other => panic!("there is no text, but the answer was {other:?}"),
    }
    match source.append_note(&id, &"x".repeat(MAX_TEXT + 1)) {
        Err(IssueError::TooLong { len }) => assert_eq!(len, MAX_TEXT + 1),
        other => panic!("the text is too long, but the answer was {other:?}"),
    }
    assert_eq!(show(source, &id).notes, []);
}

pub(super) fn labels_come_and_go(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("labelled"));
    let (followup, area) = (Label::needs_followup(), Label::new("area:parser").expect("it is a label"));
    for label in [&followup, &area, &followup] {
        source.add_label(&id, label).expect("a label can be added");
    }
    let mut labels = show(source, &id).labels;
    labels.sort_unstable();
    assert_eq!(labels, [area.as_str(), followup.as_str()]);
    for _ in 0..2 {
        source.remove_label(&id, &followup).expect("removing can be repeated");
        assert_eq!(show(source, &id).labels, [area.as_str()]);
    }
}

pub(super) fn a_closed_issue_stays_closed(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("closed twice"));
    source.claim(&id, &actor("worker")).expect("a free issue can be claimed");
    for reason in ["the first reason", "another reason"] {
        source.close(&id, reason).expect("closing can be repeated");
        assert!(show(source, &id).is_closed());
    }
    source.append_note(&id, "afterwards").expect("a closed issue takes notes");
    let issue = show(source, &id);
    assert!(issue.is_closed(), "a note reopens nothing");
    assert_eq!(notes(&issue), ["afterwards"]);
}

pub(super) fn an_id_is_known_exactly_or_not_at_all(source: &dyn IssueSource, seed: &dyn Seed) {
    let known = seed.add(&NewIssue::task("exact"));
    let before = show(source, &known);
    let mut short = known.as_str().to_owned();
    short.pop();
    let suffix = known.as_str().rsplit('-').next().expect("a text has a last part");
    for text in [short.as_str(), suffix, "no-such-issue", "--help", "$(id)", "two words"] {
        if text == known.as_str() {
            continue;
        }
        let id = IssueId::new(text).expect("ids in checks are ids");
        let worker = actor("worker");
        assert_not_found(source.show(&id), &id);
        assert_not_found(source.claim(&id, &worker), &id);
        assert_not_found(source.release(&id, &worker), &id);
        assert_not_found(source.append_note(&id, "text"), &id);
        assert_not_found(source.add_label(&id, &Label::needs_followup()), &id);
        assert_not_found(source.remove_label(&id, &Label::needs_followup()), &id);
        assert_not_found(source.close(&id, "done"), &id);
    }
    assert_eq!(show(source, &known), before, "none of it touched the issue with the longer id");
}
