//! Overlap against the definition: does any path match both patterns?
//!
//! Small patterns over `a` and `b`, and every path that is long enough to matter, judged by the oracle.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::oracle::naive_matches;
use super::*;

/// The longest path that is enumerated.
const LONGEST: usize = 7;

/// To these tokens all letters but `a` and `b` are alike, so `c` stands for the rest of the alphabet.
const TOKENS: &[&[u8]] = &[b"a", b"b", b"*", b"?", b"[ab]", b"[a-b]", b"[^a]", b"[!b]", b"[^ab]", b"[!a-b]"];

/// Every clean path over `a`, `b` and `c` of up to `LONGEST` bytes, shortest first.
static PATHS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut longest: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..LONGEST {
        let grown = longest.iter().flat_map(|path| b"abc/".map(|byte| [&path[..], &[byte]].concat()));
        longest = grown.filter(|path| !path.starts_with(b"/") && !path.ends_with(b"//")).collect();
        all.extend(longest.iter().filter(|path| !path.ends_with(b"/")).cloned());
    }
    all
});

/// A pattern as its segments, each a list of tokens.
#[derive(Debug, Clone)]
struct Small(Vec<Vec<&'static [u8]>>);

impl Small {
    fn text(&self) -> Vec<u8> {
        let segments: Vec<Vec<u8>> = self.0.iter().map(|segment| segment.concat()).collect();
        segments.join(&b'/')
    }

    fn is_deep(&self) -> bool {
        self.0.iter().any(|segment| segment[..] == [b"**"])
    }

    /// The fewest characters of each name that the pattern insists on.
    fn widths(&self) -> Vec<usize> {
        let (last, before) = self.0.split_last().expect("a segment");
        before
            .iter()
            .filter(|segment| segment[..] != [b"**"])
            .chain([last])
            .map(|name| name.iter().filter(|token| !token.starts_with(b"*")).count())
            .map(|characters| characters.max(1))
            .collect()
    }
}

fn small_pattern() -> impl Strategy<Value = Small> {
    let name = vec(select(TOKENS), 1..=3).prop_map(|mut tokens| {
        tokens.dedup_by(|a, b| *a == b"*" && *b == b"*");
        tokens
    });
    let recursive = Just(vec![&b"**"[..]]);
    vec(prop_oneof![1 => recursive, 2 => name], 1..=4).prop_map(Small)
}

fn small_pair() -> impl Strategy<Value = (Small, Small)> {
    (small_pattern(), small_pattern())
        .prop_filter("shared paths can be too long", |(a, b)| witness_len(a, b) <= LONGEST)
}

/// A length within which two overlapping patterns share a path: in a shortest shared path, every name
/// and every character is there because one of the patterns insists on it.
fn witness_len(a: &Small, b: &Small) -> usize {
    let (widths_a, widths_b) = (a.widths(), b.widths());
    let names = match (a.is_deep(), b.is_deep()) {
        (false, _) => widths_a.len(),
        (true, false) => widths_b.len(),
        (true, true) => widths_a.len() + widths_b.len(),
    };
    let characters: usize = widths_a.iter().chain(&widths_b).sum();
    characters + names - 1
}

proptest! {
    #[test]
    fn overlap_is_the_existence_of_a_shared_path((a, b) in small_pair()) {
        let longest = witness_len(&a, &b);
        let (a, b) = (a.text(), b.text());
        let shared = PATHS
            .iter()
            .take_while(|path| path.len() <= longest)
            .find(|path| naive_matches(&a, path) && naive_matches(&b, path));
        let overlap = pattern(&a).overlaps(&pattern(&b));
        prop_assert_eq!(overlap, shared.is_some(), "{} {}: {:?}", Lossy(&a), Lossy(&b), shared);
    }
}
