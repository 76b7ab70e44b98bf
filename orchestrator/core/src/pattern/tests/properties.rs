//! Rules that hold for every pattern, checked on random ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::oracle::naive_matches;
use super::*;

/// Every kind of token, with other alphabets, escapes and stray bytes.
const WIDE_TOKENS: &[&[u8]] = &[
    b"a",
    b"b",
    b"ab",
    b"*",
    b"*",
    b"?",
    b"[ab]",
    b"[^a]",
    b"[]a]",
    b"[!a-y]",
    b"\\*",
    b"\\a",
    b"]",
    b"\xC3\xA9",
    b"\xFF",
    b"[\xC3\xA0-\xC3\xBC]",
    b"[^\xFF]",
    b"[\xF0-\xFF]",
];

/// Joins tokens, dropping a `*` that would follow another one.
fn segment_of(mut tokens: Vec<&[u8]>) -> Vec<u8> {
    tokens.dedup_by(|a, b| *a == b"*" && *b == b"*");
    tokens.concat()
}

fn segment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => Just(b"**".to_vec()),
        3 => vec(select(WIDE_TOKENS), 1..=4).prop_map(segment_of),
    ]
}

fn wide_pattern() -> impl Strategy<Value = Vec<u8>> {
    vec(segment(), 1..=5).prop_map(|segments| segments.join(&b'/'))
}

const LETTERS: &[&[u8]] = &[b"a", b"b", b"z", b"]", b"*", b"\xC3\xA9", b"\xFF"];

fn letter() -> impl Strategy<Value = &'static [u8]> {
    select(LETTERS)
}

fn wide_path() -> impl Strategy<Value = Vec<u8>> {
    let name = vec(letter(), 1..=4).prop_map(|letters| letters.concat());
    vec(name, 1..=5).prop_map(|names| names.join(&b'/'))
}

fn joined(path: &[Vec<&[u8]>]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = path.iter().map(|name| name.concat()).collect();
    names.join(&b'/')
}

/// What [`loosened`] does to one letter. On the first letter of a segment, `Segment` makes the whole
/// segment a `**`; elsewhere it keeps the letter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loosening {
    Keep,
    Question,
    Star,
    Segment,
}

fn loosening() -> impl Strategy<Value = Loosening> {
    use Loosening::{Keep, Question, Segment, Star};
    select(&[Keep, Keep, Keep, Keep, Question, Star, Segment][..])
}

/// A pattern that matches `path`, made by turning parts of it into wildcards.
fn loosened(path: &[Vec<&[u8]>], how: &[Loosening]) -> Vec<u8> {
    let segments = path.iter().zip(how.chunks(5)).map(|(letters, how)| {
        if how[0] == Loosening::Segment {
            return b"**".to_vec();
        }
        let tokens = letters.iter().zip(how).map(|(letter, how)| match how {
            Loosening::Question => b"?".to_vec(),
            Loosening::Star => b"*".to_vec(),
            Loosening::Keep | Loosening::Segment => [b"\\", *letter].concat(),
        });
        let mut tokens: Vec<Vec<u8>> = tokens.collect();
        tokens.dedup_by(|a, b| a == b"*" && b == b"*");
        tokens.concat()
    });
    segments.collect::<Vec<_>>().join(&b'/')
}

proptest! {
    #[test]
    fn the_quick_look_never_rules_out_a_match(text in wide_pattern(), path in wide_path()) {
        if let Ok(pattern) = Pattern::parse(&text)
            && pattern.matches(&path)
        {
            prop_assert!(may_match(pattern.text(), &path));
        }
    }

    #[test]
    fn a_path_that_both_match_makes_them_overlap(
        path in vec(vec(letter(), 1..=4), 1..=5),
        a in vec(loosening(), 25),
        b in vec(loosening(), 25),
    ) {
        let (a, b) = (loosened(&path, &a), loosened(&path, &b));
        let path = joined(&path);
        prop_assert!(naive_matches(&a, &path), "{}", Lossy(&a));
        prop_assert!(pattern(&a).matches(&path), "{}", Lossy(&a));
        prop_assert!(pattern(&a).overlaps(&pattern(&b)), "{} {}", Lossy(&a), Lossy(&b));
    }

    #[test]
    fn overlap_is_symmetric(a in wide_pattern(), b in wide_pattern()) {
        let (a, b) = (pattern(&a), pattern(&b));
        prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
    }

    #[test]
    fn every_pattern_overlaps_itself(text in wide_pattern()) {
        let pattern = pattern(&text);
        prop_assert!(pattern.overlaps(&pattern));
    }

    #[test]
    fn matches_agrees_with_the_oracle(text in wide_pattern(), path in wide_path()) {
        prop_assert_eq!(pattern(&text).matches(&path), naive_matches(&text, &path));
    }

    #[test]
    fn matches_is_overlap_with_the_literal(text in wide_pattern(), path in wide_path()) {
        let (pattern, literal) = (pattern(&text), Pattern::literal(&path));
        prop_assert_eq!(pattern.matches(&path), pattern.overlaps(&literal));
    }

    #[test]
    fn text_parses_to_the_same_pattern(text in wide_pattern()) {
        let pattern = pattern(&text);
        prop_assert!(pattern.text().len() <= text.len());
        prop_assert_eq!(Pattern::parse(pattern.text()), Ok(pattern));
    }

    #[test]
    fn paths_survive_the_round_trip_through_text(path in wide_path()) {
        let literal = Pattern::literal(&path);
        prop_assert_eq!(Pattern::parse(literal.text()), Ok(literal));
    }

    #[test]
    fn literals_overlap_only_when_equal(a in any::<Vec<u8>>(), b in any::<Vec<u8>>()) {
        let literal = Pattern::literal(&a);
        prop_assert!(literal.overlaps(&literal));
        prop_assert_eq!(literal.overlaps(&Pattern::literal(&b)), a == b);
        prop_assert_eq!(literal.matches(&b), a == b);
    }

    #[test]
    fn paths_start_with_the_literal_prefix(
        path in vec(vec(letter(), 1..=4), 1..=5),
        how in vec(loosening(), 25),
    ) {
        let pattern = pattern(loosened(&path, &how));
        let prefix = pattern.literal_prefix();
        if pattern.is_literal() {
            prop_assert_eq!(prefix, joined(&path));
        } else if !prefix.is_empty() {
            prop_assert!(joined(&path).starts_with(&[&prefix[..], b"/"].concat()));
        }
    }

    #[test]
    fn parse_takes_any_bytes(text in any::<Vec<u8>>(), syntax in "[ab/*?\\[\\]^!{}\\\\.-]{0,24}") {
        for text in [&text[..], syntax.as_bytes()] {
            if let Ok(pattern) = Pattern::parse(text) {
                prop_assert!(pattern.overlaps(&pattern));
                prop_assert_eq!(Pattern::parse(pattern.text()), Ok(pattern));
            }
        }
    }
}
