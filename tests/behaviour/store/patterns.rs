//! Patterns in the store: one rule for overlap, and limits that hold before anything is touched.

use std::ffi::OsStr;

use mala_core::claim::Reading;
use mala_core::{Mode, Pattern, Target};
use mala_store::Outcome;
use mala_tests::{Terse, World, agent, ask, want, wants};

#[test]
fn a_pattern_over_the_limit_is_refused_before_there_is_a_store() {
    let world = World::new();
    let text = "**/".repeat(20) + "x";
    assert!(Pattern::parse(text.as_bytes()).is_err());
    let scope = world.scope();
    assert!(scope.want(scope.root(), OsStr::new(&text), Mode::Exclusive, Reading::Guess).is_err());
    assert!(!world.state_dir().exists());
}

/// Patterns that take as many steps to compare as the limits allow.
fn worst(number: usize) -> String {
    let stars = "*a".repeat(12);
    format!("**/{stars}*/**/{stars}*{number:04}")
}

#[test]
fn a_reserve_among_a_thousand_worst_patterns_works() {
    let world = World::new();
    let mut store = world.store();
    let worst: Vec<String> = (0..1_000).map(|number| format!("shared:pattern:{}", worst(number))).collect();
    store.take("ann", &worst.iter().map(String::as_str).collect::<Vec<_>>());
    let path = format!("{}/{}", "a".repeat(100), "a".repeat(100));
    store.take("bob", &[&path]);
    assert_eq!(store.refuse("bob", &[&format!("{path}0007")]).conflicts.len(), 1);
    assert_eq!(store.refuse("bob", &["pattern:**"]).conflicts.len(), 1_000);
}

/// Pairs of targets, and whether something can be both.
const PAIRS: &[(&str, &str, bool)] = &[
    ("a", "a", true),
    ("a", "b", false),
    ("a", "a/b", false),
    ("a", "A", false),
    ("d/x", "pattern:d/*", true),
    ("d/x", "pattern:d/**", true),
    ("d", "pattern:d/**", false),
    ("d/e/x", "pattern:d/*", false),
    ("d/e/x", "pattern:d/**", true),
    ("d/x", "pattern:./d//*", true),
    ("d0/x", "pattern:d/**", false),
    ("d.x", "pattern:d/**", false),
    ("x", "pattern:**/x", true),
    ("d/e/x", "pattern:**/x", true),
    ("d/e/xx", "pattern:**/x", false),
    ("d/*", "pattern:d/\\*", true),
    ("d/x", "pattern:d/\\*", false),
    ("d/x", "pattern:d/x", true),
    ("d/x/y", "pattern:d/x", false),
    ("pattern:d/x", "pattern:d/x", true),
    ("pattern:d/x", "pattern:d/*", true),
    ("pattern:a*", "pattern:*b", true),
    ("pattern:a*", "pattern:b*", false),
    ("pattern:src/**/a.rs", "pattern:src/**/b.rs", false),
    ("pattern:src/**/a.rs", "pattern:**/deep/*.rs", true),
    ("pattern:[a-c]?", "pattern:[d-f]?", false),
    ("pattern:[a-c]?", "pattern:[!a]?", true),
    ("pattern:**", "name:test", false),
    ("test", "name:test", false),
    ("name:test", "name:test", true),
    ("name:test", "name:tests", false),
];

#[test]
fn reserve_check_and_overlap_agree_on_a_table_of_pairs() {
    let world = World::new();
    let mut store = world.store();
    for (one, other, overlaps) in PAIRS {
        for (held, wanted) in [(one, other), (other, one)] {
            let note = format!("{held} is held, {wanted} is wanted");
            assert_eq!(want(held).target.overlaps(&want(wanted).target), *overlaps, "{note}");
            store.take("ann", &[held]);
            assert_eq!(
                !store.check(&agent("bob"), &wants(&[wanted])).unwrap().is_empty(),
                *overlaps,
                "{note}"
            );
            assert_eq!(!store.holders(&want(wanted)).unwrap().is_empty(), *overlaps, "{note}");
            let outcome = store.reserve(&ask("bob", &[wanted])).unwrap();
            assert_eq!(matches!(outcome, Outcome::Refused(_)), *overlaps, "{note}");
            store.give_back("ann", &[held]);
            store.give_back("bob", &[wanted]);
        }
    }
}

#[test]
fn a_conflict_names_the_file_rather_than_the_pattern() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["d/x"]);
    let refusal = store.refuse("bob", &["pattern:d/*"]);
    assert!(matches!(refusal.conflicts[0].contended(), Target::File(file) if file.as_bytes() == b"d/x"));
}
