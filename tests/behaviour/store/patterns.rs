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

/// How two targets relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    /// Something can be both.
    Overlap,
    /// They cannot both be there: one is a file where the other one needs a directory.
    Displace,
    Apart,
}

use Pair::{Apart, Displace, Overlap};

const PAIRS: &[(&str, &str, Pair)] = &[
    ("a", "a", Overlap),
    ("a", "b", Apart),
    ("a", "a/b", Displace),
    ("a", "A", Apart),
    ("d/x", "pattern:d/*", Overlap),
    ("d/x", "pattern:d/**", Overlap),
    ("d", "pattern:d/**", Displace),
    ("d", "d/e/x", Displace),
    ("d/e", "pattern:d/*/x", Apart),
    ("d/e", "pattern:d/e*/x", Apart),
    ("d/e", "pattern:d/**/x", Apart),
    ("d/e", "pattern:**/e/*", Displace),
    ("d", "pattern:d*", Overlap),
    ("d-", "pattern:d/**", Apart),
    ("d/e/x", "pattern:d/*", Apart),
    ("d/e/x", "pattern:d/**", Overlap),
    ("d/x", "pattern:./d//*", Overlap),
    ("d0/x", "pattern:d/**", Apart),
    ("d.x", "pattern:d/**", Apart),
    ("x", "pattern:**/x", Overlap),
    ("d/e/x", "pattern:**/x", Overlap),
    ("d/e/xx", "pattern:**/x", Apart),
    ("d/*", "pattern:d/\\*", Overlap),
    ("d/x", "pattern:d/\\*", Apart),
    ("d/x", "pattern:d/x", Overlap),
    ("d/x/y", "pattern:d/x", Apart),
    ("pattern:d/x", "pattern:d/x", Overlap),
    ("pattern:d/x", "pattern:d/*", Overlap),
    ("pattern:a*", "pattern:*b", Overlap),
    ("pattern:a*", "pattern:b*", Apart),
    ("pattern:src/**/a.rs", "pattern:src/**/b.rs", Apart),
    ("pattern:src/**/a.rs", "pattern:**/deep/*.rs", Overlap),
    ("pattern:[a-c]?", "pattern:[d-f]?", Apart),
    ("pattern:[a-c]?", "pattern:[!a]?", Overlap),
    ("pattern:**", "name:test", Apart),
    ("test", "name:test", Apart),
    ("name:test", "name:test", Overlap),
    ("name:test", "name:tests", Apart),
];

#[test]
fn reserve_check_and_overlap_agree_on_a_table_of_pairs() {
    let world = World::new();
    let mut store = world.store();
    for (one, other, pair) in PAIRS {
        let (overlaps, excludes) = (*pair == Overlap, *pair != Apart);
        for (held, wanted) in [(one, other), (other, one)] {
            let note = format!("{held} is held, {wanted} is wanted");
            assert_eq!(want(held).target.overlaps(&want(wanted).target), overlaps, "{note}");
            store.take("ann", &[held]);
            assert_eq!(
                !store.check(&agent("bob"), &wants(&[wanted])).unwrap().is_empty(),
                excludes,
                "{note}"
            );
            assert_eq!(!store.holders(&want(wanted)).unwrap().is_empty(), overlaps, "{note}");
            let outcome = store.reserve(&ask("bob", &[wanted])).unwrap();
            assert_eq!(matches!(outcome, Outcome::Refused(_)), excludes, "{note}");
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
