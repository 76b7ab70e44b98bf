//! Who has an issue.

use std::thread;

use mala_issues::{ClaimAnswer, IssueError, IssueSource};

use super::{NewIssue, Seed, actor, is_ready, show};

pub(super) fn a_claimed_issue_is_nobody_elses(source: &dyn IssueSource, seed: &dyn Seed) {
    let (one, two) = (actor("agent one"), actor("--two"));
    let id = seed.add(&NewIssue::task("claimed"));
    assert_eq!(source.claim(&id, &one).expect("a free issue can be claimed"), ClaimAnswer::Claimed);
    assert!(!is_ready(source, &id), "a claimed issue is not given out again");
    assert_eq!(show(source, &id).assignee.as_deref(), Some(one.as_str()));
    assert_eq!(source.claim(&id, &one).expect("who has it may ask again"), ClaimAnswer::Claimed);
    let taken = ClaimAnswer::AlreadyTaken { by: one.as_str().to_owned() };
    assert_eq!(source.claim(&id, &two).expect("a taken issue has an answer"), taken);
    assert_eq!(seed.rival().claim(&id, &two).expect("a taken issue has an answer"), taken);
    assert_eq!(
        show(source, &id).assignee.as_deref(),
        Some(one.as_str()),
        "a claim that fails changes nothing"
    );
}

pub(super) fn of_many_claims_at_once_one_wins(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("contended"));
    let claim = |number: usize| {
        let (rival, name) = (seed.rival(), format!("agent-{number}"));
        let answer = rival.claim(&id, &actor(&name)).expect("every claim has an answer");
        (name, answer)
    };
    let answers: Vec<(String, ClaimAnswer)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|number| scope.spawn(move || claim(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no claim panics")).collect()
    });
    let winners: Vec<&String> =
        answers.iter().filter(|(_, answer)| *answer == ClaimAnswer::Claimed).map(|(name, _)| name).collect();
    let [winner] = winners.as_slice() else { panic!("one claim wins, not {winners:?}") };
    assert_eq!(show(source, &id).assignee.as_ref(), Some(*winner));
    for (name, answer) in &answers {
        if name != *winner {
            assert_eq!(*answer, ClaimAnswer::AlreadyTaken { by: (*winner).clone() });
        }
    }
}

pub(super) fn a_closed_issue_cannot_be_claimed(source: &dyn IssueSource, seed: &dyn Seed) {
    let id = seed.add(&NewIssue::task("closed"));
    source.close(&id, "not needed").expect("an open issue can be closed");
    match source.claim(&id, &actor("late")) {
        Err(IssueError::Closed { id: named }) => assert_eq!(named, id),
        other => panic!("the issue is closed, but the answer was {other:?}"),
    }
    assert!(show(source, &id).is_closed(), "a claim reopens nothing");
}

pub(super) fn an_issue_given_back_is_ready_again(source: &dyn IssueSource, seed: &dyn Seed) {
    let holder = actor("holder");
    let id = seed.add(&NewIssue::task("given back"));
    source.claim(&id, &holder).expect("a free issue can be claimed");
    for _ in 0..2 {
        source.release(&id, &holder).expect("giving back can be repeated");
        assert_eq!(show(source, &id).assignee, None);
        assert!(is_ready(source, &id), "what was given back is ready");
    }
    assert_eq!(source.claim(&id, &actor("next")).expect("it is free"), ClaimAnswer::Claimed);
}

pub(super) fn only_the_holder_gives_an_issue_back(source: &dyn IssueSource, seed: &dyn Seed) {
    let (holder, other) = (actor("holder"), actor("other"));
    let id = seed.add(&NewIssue::task("kept"));
    source.claim(&id, &holder).expect("a free issue can be claimed");
    source.release(&id, &other).expect("there is nothing to give back");
    assert_eq!(show(source, &id).assignee.as_deref(), Some(holder.as_str()), "the holder keeps it");
    source.close(&id, "done").expect("a claimed issue can be closed");
    source.release(&id, &holder).expect("there is nothing to give back");
    assert!(show(source, &id).is_closed(), "giving back reopens nothing");
}
