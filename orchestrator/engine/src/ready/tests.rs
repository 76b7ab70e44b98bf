use mala_core::{Key, Pattern};
use proptest::prelude::*;

use super::*;

fn id(text: &str) -> IssueId {
    IssueId::new(text).unwrap()
}

fn target(text: &str) -> Target {
    match Pattern::parse(text.as_bytes()).unwrap() {
        pattern if pattern.is_literal() => Target::File(Key::from_stored(text.as_bytes().to_vec())),
        pattern => Target::Pattern(pattern),
    }
}

fn candidate(name: &str, priority: u8, files: &[&str]) -> ReadyIssue {
    let issue = Issue {
        id: id(name),
        title: format!("do {name}"),
        description: String::new(),
        design: String::new(),
        acceptance: String::new(),
        status: "open".to_owned(),
        priority: priority.try_into().unwrap(),
        kind: "task".to_owned(),
        labels: Vec::new(),
        dependencies: Vec::new(),
        parent: None,
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        assignee: None,
        created_at: None,
        notes: Vec::new(),
    };
    ReadyIssue { issue, files: files.iter().map(|file| target(file)).collect(), waits_for: BTreeSet::new() }
}

fn queue(candidates: &[ReadyIssue]) -> ReadyIssues {
    let mut queue = ReadyIssues::default();
    queue.refresh(candidates.to_vec());
    queue
}

fn next(queue: &mut ReadyIssues) -> Option<String> {
    queue.take_next().map(|candidate| candidate.issue.id.to_string())
}

#[test]
fn what_shares_files_with_work_whose_files_are_free_is_as_good_as_any_other() {
    let all = [candidate("one", 1, &["a"]), candidate("two", 2, &["a"]), candidate("three", 3, &["b"])];
    for (is_free, then) in [(false, "three"), (true, "two")] {
        let mut queue = queue(&all);
        assert_eq!(next(&mut queue).as_deref(), Some("one"));
        if is_free {
            queue.free_files(&id("one"));
        }
        assert_eq!(next(&mut queue).as_deref(), Some(then));
    }
}

#[test]
fn what_rests_is_not_given_out_before_it_is_woken() {
    let all = [candidate("a", 1, &[]), candidate("b", 2, &[])];
    let mut queue = queue(&all);
    assert_eq!(next(&mut queue).as_deref(), Some("a"));
    queue.rest(&id("a"));
    queue.release_held_back();
    queue.refresh(all.to_vec());
    assert_eq!((next(&mut queue).as_deref(), next(&mut queue)), (Some("b"), None));
    assert!(queue.has_resting());
    queue.wake(&id("a"));
    assert_eq!((next(&mut queue).as_deref(), queue.has_resting()), (Some("a"), false));
}

#[test]
fn the_most_urgent_comes_first_then_the_oldest() {
    let mut old = candidate("old", 2, &[]);
    old.issue.created_at = Some(Timestamp::from_millis(1));
    let mut young = candidate("a-young", 2, &[]);
    young.issue.created_at = Some(Timestamp::from_millis(2));
    let mut queue = queue(&[young, candidate("late", 4, &[]), old, candidate("urgent", 0, &[])]);
    assert_eq!(
        std::iter::from_fn(|| next(&mut queue)).collect::<Vec<_>>(),
        ["urgent", "old", "a-young", "late"]
    );
}

#[test]
fn a_list_is_worked_off_in_its_own_order() {
    let mut queue = ReadyIssues::new(&[id("c"), id("a"), id("b")]);
    queue.refresh(vec![candidate("a", 0, &[]), candidate("b", 4, &[]), candidate("c", 4, &[])]);
    assert_eq!(std::iter::from_fn(|| next(&mut queue)).collect::<Vec<_>>(), ["c", "a", "b"]);
}

#[test]
fn issues_that_share_a_file_with_one_at_work_come_last_but_they_come() {
    let mut queue = queue(&[
        candidate("one", 0, &["src/**"]),
        candidate("two", 1, &["src/lib.rs"]),
        candidate("three", 2, &["docs/a.md"]),
    ]);
    assert_eq!(next(&mut queue).as_deref(), Some("one"));
    assert_eq!(next(&mut queue).as_deref(), Some("three"), "`two` shares a file with `one`");
    assert_eq!(next(&mut queue).as_deref(), Some("two"), "nothing else is left");
}

#[test]
fn what_was_put_back_waits_until_something_changes() {
    let mut queue = queue(&[candidate("held", 0, &["a"]), candidate("other", 1, &["b"])]);
    assert_eq!(next(&mut queue).as_deref(), Some("held"));
    queue.put_back(&id("held"));
    assert_eq!(next(&mut queue).as_deref(), Some("other"));
    assert_eq!(next(&mut queue), None);
    assert_eq!(queue.held_back().count(), 1);
    queue.settle(&id("other"), true);
    assert_eq!(next(&mut queue).as_deref(), Some("held"));
}

#[test]
fn a_second_attempt_comes_after_all_first_ones() {
    let failing = candidate("failing", 0, &[]);
    let mut queue = queue(&[failing.clone(), candidate("calm", 4, &[])]);
    assert_eq!(next(&mut queue).as_deref(), Some("failing"));
    queue.try_again(failing.clone());
    assert_eq!(next(&mut queue).as_deref(), Some("calm"));
    queue.refresh(vec![failing]);
    assert_eq!(next(&mut queue).as_deref(), Some("failing"), "a refresh forgets nothing");
}

#[test]
fn an_issue_waits_for_those_of_the_run_it_depends_on() {
    let mut second = candidate("second", 0, &[]);
    second.waits_for.insert(id("first"));
    let mut queue = queue(&[second, candidate("first", 4, &[])]);
    assert_eq!(next(&mut queue).as_deref(), Some("first"));
    assert_eq!(next(&mut queue), None);
    queue.settle(&id("first"), false);
    assert_eq!(next(&mut queue), None, "it was given up, not closed");
    assert_eq!(queue.stranded().len(), 1);
    queue.settle(&id("first"), true);
    assert_eq!(next(&mut queue).as_deref(), Some("second"));
}

#[test]
fn what_the_tracker_no_longer_offers_is_forgotten() {
    let mut queue = queue(&[candidate("gone", 0, &[]), candidate("there", 1, &[])]);
    queue.refresh(vec![candidate("there", 1, &[])]);
    assert_eq!(next(&mut queue).as_deref(), Some("there"));
    assert_eq!(next(&mut queue), None);
}

#[test]
fn settled_issues_are_never_given_out_again() {
    let mut queue = queue(&[candidate("a", 0, &[])]);
    assert!(next(&mut queue).is_some());
    queue.settle(&id("a"), false);
    queue.refresh(vec![candidate("a", 0, &[])]);
    assert_eq!(next(&mut queue), None);
}

#[test]
fn collisions_name_the_file_both_want() {
    let all =
        [candidate("a", 0, &["src/**"]), candidate("b", 0, &["src/x.rs"]), candidate("c", 0, &["docs/**"])];
    let all: Vec<&ReadyIssue> = all.iter().collect();
    let shown: Vec<_> = collisions(&all).iter().map(|(a, b, on)| format!("{a} {b} {on}")).collect();
    assert_eq!(shown, ["a b src/**"]);
}

#[derive(Debug, Clone)]
enum Move {
    Next,
    PutBack(usize),
    TryAgain(usize),
    Settle(usize, bool),
    Free,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Next),
        1 => any::<usize>().prop_map(Move::PutBack),
        1 => any::<usize>().prop_map(Move::TryAgain),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(at, closed)| Move::Settle(at, closed)),
        1 => Just(Move::Free),
    ];
    prop::collection::vec(one, 0..60)
}

fn some_candidates() -> impl Strategy<Value = Vec<ReadyIssue>> {
    let files = prop::sample::subsequence(vec!["a", "b", "dir/c", "dir/**", "*"], 0..3);
    let one = (0..5_u8, files, prop::option::of(0..8_usize));
    prop::collection::vec(one, 1..9).prop_map(|all| {
        let make = |(at, (priority, files, after)): (usize, (u8, Vec<&str>, Option<usize>))| {
            let mut made = candidate(&format!("i{at}"), priority, &files);
            // Only earlier issues, so that there is no circle.
            made.waits_for.extend(after.filter(|after| *after < at).map(|after| id(&format!("i{after}"))));
            made
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #[test]
    fn what_collides_with_nothing_goes_first_and_no_slot_stays_empty_for_nothing(
        all in some_candidates(), moves in moves()
    ) {
        let mut queue = queue(&all);
        let mut closed = HashSet::new();
        for step in moves {
            let running: Vec<ReadyIssue> = queue.running().cloned().collect();
            let chosen = |at: usize| (!running.is_empty()).then(|| running[at % running.len()].clone());
            match step {
                Move::Next => {
                    let held: Vec<IssueId> = queue.held_back().map(|it| it.issue.id.clone()).collect();
                    let can_run = |it: &ReadyIssue| {
                        !held.contains(&it.issue.id)
                            && it.waits_for.iter().all(|id| closed.contains(id))
                    };
                    let collides = |it: &ReadyIssue| {
                        running.iter().any(|other| it.shares_with(&other.files).is_some())
                    };
                    let all: Vec<ReadyIssue> = queue.waiting().filter(|it| can_run(it)).cloned().collect();
                    let first = all.iter().find(|it| !collides(it)).or(all.first()).cloned();
                    prop_assert_eq!(queue.take_next(), first, "the first in order, if there is one");
                }
                Move::PutBack(at) => if let Some(it) = chosen(at) { queue.put_back(&it.issue.id) },
                Move::TryAgain(at) => if let Some(it) = chosen(at) { queue.try_again(it) },
                Move::Settle(at, is_closed) => if let Some(it) = chosen(at) {
                    queue.settle(&it.issue.id, is_closed);
                    if is_closed { closed.insert(it.issue.id); }
                },
                Move::Free => queue.release_held_back(),
            }
            let settled = all.iter().filter(|it| queue.is_settled(&it.issue.id)).count();
            let total = queue.running().count() + queue.waiting().count() + settled;
            prop_assert_eq!(total, all.len(), "nothing gets lost, nothing is there twice");
        }
    }
}
