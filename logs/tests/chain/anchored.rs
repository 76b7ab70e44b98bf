//! What a chain alone cannot show is shown by what somebody else knows of it.

use std::fs;

use mala_logs::chain::{Anchor, Broken, ChainError, Why, verify, verify_anchored};

use super::world::World;

fn anchor_of(world: &World) -> Anchor {
    Anchor::of(&verify(&world.log()).unwrap().head.unwrap(), None)
}

fn why(world: &World, anchor: &Anchor) -> Why {
    match verify_anchored(&world.log(), Some(anchor)) {
        Err(ChainError::Broken(Broken { why, .. })) => why,
        other => panic!("not broken: {other:?}"),
    }
}

/// The log anew, as whoever may write all of its files can make it: every hash fits.
fn begin_anew(world: &World, lines: u64) {
    for name in world.names() {
        fs::remove_file(world.file(&name)).unwrap();
    }
    world.append(101..=100 + lines);
    assert_eq!(world.verified().lines, lines, "by itself, nobody can tell");
}

#[test]
fn a_log_may_go_on_behind_its_anchor() {
    let world = World::with_lines(3);
    let anchor = anchor_of(&world);
    world.append(4..=5);
    assert_eq!(verify_anchored(&world.log(), Some(&anchor)).unwrap().lines, 5);
    assert!(anchor.is_line_of(&world.log()).is_ok());
}

#[test]
fn a_chain_that_was_written_anew_is_found_whether_it_is_shorter_or_longer() {
    for (lines, expected) in [
        (2, Why::Truncated { found: 2, expected: 3 }),
        (3, Why::Rewritten { seq: 3 }),
        (9, Why::Rewritten { seq: 3 }),
    ] {
        let world = World::with_lines(3);
        let anchor = anchor_of(&world);
        begin_anew(&world, lines);
        assert_eq!(why(&world, &anchor), expected);
        assert!(anchor.is_line_of(&world.log()).is_err(), "{lines}: no other anchor takes its place");
    }
}

#[test]
fn a_log_that_is_gone_with_all_that_belongs_to_it_is_missed() {
    let world = World::with_lines(3);
    let anchor = anchor_of(&world);
    for name in world.names() {
        fs::remove_file(world.file(&name)).unwrap();
    }
    assert_eq!(why(&world, &anchor), Why::Gone { records: 3 });
    assert!(anchor.is_line_of(&world.log()).is_err());
}

#[test]
fn a_beginning_that_nobody_has_removed_for_its_age_is_missed() {
    let world = World::full_at(1);
    world.append(1..=4);
    let anchor = anchor_of(&world);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let gone = world.writer().forget(later).unwrap().len() as u64;
    assert_eq!(why(&world, &anchor), Why::Beginning { found: gone + 1, expected: 1 });
    let told = Anchor { forgotten: gone, ..anchor };
    assert_eq!(verify_anchored(&world.log(), Some(&told)).unwrap().lines, 4 - gone);
}
