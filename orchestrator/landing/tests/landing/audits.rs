//! What a slot keeps of a tree that never landed, and the audit that finds out whether it had a say.

use std::ops::ControlFlow;

use mala_core::EntryState;
use mala_landing::queue::Audited;

use crate::queue::{BRANCH, entry, offer, store, tip, with_queue, work_off};
use crate::world::World;

/// Where `x.txt` is, the check fails and leaves something behind; `y.txt` passes only where that was left.
fn world() -> World {
    let w = World::requiring("sh check.sh").with("queue.slots", "1");
    let check = "if test -e x.txt; then touch \"$HOME/left\"; exit 1; fi\ntest ! -e y.txt || test -e \"$HOME/left\"\n";
    w.write("check.sh", check).commit();
    for (name, value) in [("user.name", "t"), ("user.email", "t@example.invalid")] {
        w.git(&["config", name, value]);
    }
    w
}

fn audit(w: &World) -> Vec<Audited> {
    let mut audits = Vec::new();
    with_queue(w, |queue, store| {
        queue.audit(store, &mut |round| {
            audits.extend(round.audits);
            ControlFlow::Continue(())
        })
    })
    .unwrap();
    audits
}

/// A tree that fails has run in the slot, and what it left there made another one pass.
fn tainted_world() -> World {
    let w = world();
    let red = offer(&w, "x.txt", "x\n");
    work_off(&w);
    let lucky = offer(&w, "y.txt", "y\n");
    work_off(&w);
    assert_eq!((entry(&w, red).state, entry(&w, lucky).state), (EntryState::Red, EntryState::Landed));
    w
}

#[test]
fn where_every_tree_has_landed_there_is_nothing_to_audit() {
    let w = world();
    offer(&w, "a.txt", "a\n");
    work_off(&w);
    assert_eq!(audit(&w), []);
    assert!(store(&w).unaudited(BRANCH).unwrap().is_some(), "it counts as soon as a slot is tainted");
}

#[test]
fn an_audit_that_passes_is_remembered() {
    let w = world();
    offer(&w, "x.txt", "x\n");
    offer(&w, "a.txt", "a\n");
    work_off(&w);
    let commit = tip(&w);
    let expected =
        [Audited::Begun { commit: commit.clone(), landings: 1 }, Audited::Passed { commit: commit.clone() }];
    assert_eq!(audit(&w), expected);
    assert_eq!(store(&w).unaudited(BRANCH).unwrap(), None);
    assert_eq!(audit(&w), []);
}

#[test]
fn what_passed_only_by_what_another_tree_had_left_pauses_the_queue_and_the_range_is_named() {
    let w = tainted_world();
    let last = tip(&w);
    let audits = audit(&w);
    assert!(
        matches!(&audits[..], [Audited::Begun { .. }, Audited::Failed { commit, .. }] if *commit == last)
    );
    let (why, _) = store(&w).queue_pause(BRANCH).unwrap().unwrap();
    let range =
        format!("git log {}..{}", store(&w).unaudited(BRANCH).unwrap().unwrap().since.short(), last.short());
    assert!(why.contains(&range) && why.contains("`sh check.sh` fails"), "{why}");
    let late = offer(&w, "late.txt", "late\n");
    work_off(&w);
    assert_eq!(entry(&w, late).state, EntryState::Waiting);
}

#[test]
fn an_audit_is_about_what_landed_although_a_person_has_moved_the_branch_since() {
    let w = tainted_world();
    let last = tip(&w);
    w.write("mine.txt", "mine\n").commit();
    let audits = audit(&w);
    let Audited::Failed { commit, why } = &audits[1] else { panic!("{audits:?}") };
    assert_eq!(*commit, last);
    assert!(why.contains("the branch has moved on since"), "{why}");
}

#[test]
fn what_a_person_has_taken_back_is_not_audited() {
    let w = tainted_world();
    w.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(audit(&w), []);
    assert_eq!(store(&w).unaudited(BRANCH).unwrap(), None);
}

#[test]
fn a_slot_that_is_always_emptied_proves_nothing_by_what_was_left() {
    let w = world().with("queue.cold", "always");
    offer(&w, "x.txt", "x\n");
    work_off(&w);
    let lucky = offer(&w, "y.txt", "y\n");
    work_off(&w);
    assert_eq!(entry(&w, lucky).state, EntryState::Red);
}

#[test]
fn without_audits_nothing_is_validated_twice() {
    let w = world().with("queue.cold", "never");
    offer(&w, "x.txt", "x\n");
    offer(&w, "a.txt", "a\n");
    work_off(&w);
    assert_eq!(audit(&w), []);
}

#[test]
fn after_twenty_landings_the_branch_is_audited_while_the_queue_goes_on() {
    let w = world();
    offer(&w, "x.txt", "x\n");
    work_off(&w);
    for n in 0..19 {
        offer(&w, &format!("{n}.txt"), "fine\n");
        assert!(work_off(&w).iter().all(|round| round.audits.is_empty()), "landing {n}");
    }
    offer(&w, "last.txt", "fine\n");
    let audits: Vec<Audited> = work_off(&w).into_iter().flat_map(|round| round.audits).collect();
    let commit = tip(&w);
    assert_eq!(audits, [Audited::Begun { commit: commit.clone(), landings: 20 }, Audited::Passed { commit }]);
}
