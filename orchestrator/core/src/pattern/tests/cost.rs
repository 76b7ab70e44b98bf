//! The bound on work that the module promises, counted in steps rather than in time.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::sequence::STEPS;
use super::*;

/// What no pair of legal patterns with wildcards reaches.
const WORST: usize = 50_000;

fn steps(a: &Pattern, b: &Pattern) -> usize {
    STEPS.set(0);
    a.overlaps(b);
    STEPS.take()
}

fn promised(a: &Pattern, b: &Pattern) -> usize {
    2 * MAX_WILDCARD_TOKENS * (a.text().len() + b.text().len())
}

/// Patterns built to be expensive, each near one limit or several.
fn hostile() -> Vec<Pattern> {
    let long = "a".repeat(MAX_WILDCARD_BYTES - 94);
    let stars = "*a".repeat(MAX_WILDCARD_TOKENS / 2);
    let names = "a/".repeat(MAX_WILDCARD_SEGMENTS - 2);
    let texts = [
        // Every place of a long glob stays open along a long literal.
        format!("**/{long}/*{}b*/**", "a".repeat(MAX_WILDCARD_TOKENS - 4)),
        format!("**/*{}b*/{long}/**", "a".repeat(MAX_WILDCARD_TOKENS - 4)),
        format!("**/{long}/{stars}/x"),
        format!("**/{long}/{}/y", "*a*/".repeat(20)),
        format!("{stars}b").replacen('*', "", 1),
        "*?".repeat(MAX_WILDCARD_TOKENS / 2),
        // Every place of a long list of segments stays open.
        format!("**/{names}x"),
        format!("**/{names}**"),
        format!("{}y", "**/a/a/a/a/a/a/a/".repeat(MAX_RECURSIVE_SEGMENTS)),
        format!("{}z", "**/*a/*a/*a/".repeat(MAX_RECURSIVE_SEGMENTS)),
        format!("{}z", "**/?/?/?/?/?/?/?/".repeat(MAX_RECURSIVE_SEGMENTS)),
        // Classes that never meet.
        "*[ac]".repeat(MAX_WILDCARD_TOKENS / 3),
        "*[bd]".repeat(MAX_WILDCARD_TOKENS / 3),
        format!("**/{}", "[^a-z]*".repeat(MAX_WILDCARD_TOKENS / 2)),
    ];
    texts.iter().map(pattern).collect()
}

#[test]
fn the_worst_legal_pairs_stay_bounded() {
    let patterns = hostile();
    for a in &patterns {
        for b in &patterns {
            let steps = steps(a, b);
            assert!(steps <= promised(a, b), "{steps} steps: {a} and {b}");
            assert!(steps <= WORST, "{steps} steps: {a} and {b}");
        }
    }
}

#[test]
fn long_paths_cost_in_proportion_to_their_length() {
    for pattern in hostile() {
        for unit in ["a", "a/", "ab/"] {
            let path = Pattern::literal(unit.repeat(20_000).as_bytes());
            let steps = steps(&pattern, &path);
            assert!(steps <= promised(&pattern, &path), "{steps} steps: {pattern}");
        }
    }
}

#[test]
fn different_first_segments_cost_next_to_nothing() {
    let held = pattern("orchestrator/**/*.rs");
    assert!(steps(&held, &Pattern::literal(b"agents/src/lib.rs")) <= 2);
    assert!(steps(&held, &pattern("agents/**/*.rs")) <= 2);
}

fn expensive_text() -> impl Strategy<Value = String> {
    let pieces = ["a", "aaaa", "b", "*", "*a", "?", "[ab]", "[^b]", "/", "/**/", "/a/", "/*/"];
    vec(select(pieces.to_vec()), 1..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// What "nothing backtracks" means: no pair of characters is looked at twice.
    #[test]
    fn random_pairs_cost_less_than_the_product_of_their_lengths(
        a in expensive_text(),
        b in expensive_text(),
    ) {
        if let (Ok(a), Ok(b)) = (Pattern::parse(a.as_bytes()), Pattern::parse(b.as_bytes())) {
            let steps = steps(&a, &b);
            prop_assert!(steps <= promised(&a, &b));
            prop_assert!(steps <= (a.text().len() + 1) * (b.text().len() + 1), "{} steps", steps);
        }
    }
}
