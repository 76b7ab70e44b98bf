//! The characters names are made of, and exact sets of them.

use std::fmt;

use super::sequence::count_step;
use super::text::Lossy;

/// Where stray bytes start: just above the last Unicode scalar.
const STRAY: u32 = 0x11_0000;
const LAST: u32 = STRAY + 0xFF;

/// Every character a name can hold: all but NUL, `/`, the surrogates (no scalars), and bytes that
/// can never be stray because they are ASCII. Sets are clipped to this, so that a class which is
/// left without members is found out.
const UNIVERSE: [Span; 4] = [
    Span::new(0x01, 0x2E),
    Span::new(0x30, 0xD7FF),
    Span::new(0xE000, 0x10_FFFF),
    Span::new(STRAY + 0x80, LAST),
];

/// One character of a name: a Unicode scalar, or one byte that is not part of valid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Char(u32);

impl Char {
    fn scalar(c: char) -> Self {
        Self(u32::from(c))
    }

    fn stray(byte: u8) -> Self {
        Self(STRAY + u32::from(byte))
    }

    pub(super) fn as_scalar(self) -> Option<char> {
        char::from_u32(self.0)
    }

    pub(super) fn is(self, c: char) -> bool {
        self == Self::scalar(c)
    }

    pub(super) fn append_to(self, out: &mut Vec<u8>) {
        match self.as_scalar() {
            Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.push(self.0.to_le_bytes()[0]),
        }
    }
}

impl fmt::Display for Char {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        Lossy(&bytes).fmt(f)
    }
}

/// Iterates over the characters of some bytes.
#[derive(Debug, Clone)]
pub(super) struct Chars<'a>(pub(super) &'a [u8]);

impl Iterator for Chars<'_> {
    type Item = Char;

    fn next(&mut self) -> Option<Char> {
        let (&first, rest) = self.0.split_first()?;
        if first.is_ascii() {
            self.0 = rest;
            return Some(Char(u32::from(first)));
        }
        let longest = self.0.get(..4).unwrap_or(self.0);
        let scalar = longest.utf8_chunks().next()?.valid().chars().next();
        self.0 = &self.0[scalar.map_or(1, char::len_utf8)..];
        Some(scalar.map_or(Char::stray(first), Char::scalar))
    }
}

/// The characters from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Span {
    low: u32,
    high: u32,
}

impl Span {
    const fn new(low: u32, high: u32) -> Self {
        Self { low, high }
    }

    /// `None` when the range runs backwards.
    pub(super) fn between(low: Char, high: Char) -> Option<Self> {
        (low.0 <= high.0).then_some(Self::new(low.0, high.0))
    }

    pub(super) fn only(c: Char) -> Self {
        Self::new(c.0, c.0)
    }

    fn intersection(self, other: Self) -> Option<Self> {
        let both = Self::new(self.low.max(other.low), self.high.min(other.high));
        (both.low <= both.high).then_some(both)
    }
}

/// A set of characters as sorted, disjoint spans within [`UNIVERSE`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CharSet(Box<[Span]>);

impl CharSet {
    /// The characters in any of `spans`, which may be unsorted and overlap.
    pub(super) fn of(spans: Vec<Span>) -> Self {
        // The complement comes out sorted and disjoint, so taking it twice tidies the spans.
        Self::clipped(&complement(complement(spans)))
    }

    /// The characters in none of `spans`.
    pub(super) fn except(spans: Vec<Span>) -> Self {
        Self::clipped(&complement(spans))
    }

    fn clipped(spans: &[Span]) -> Self {
        let clip = |part: Span| spans.iter().filter_map(move |s| s.intersection(part));
        Self(UNIVERSE.into_iter().flat_map(clip).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only member, if there is exactly one.
    pub(super) fn single(&self) -> Option<Char> {
        match *self.0 {
            [Span { low, high }] if low == high => Some(Char(low)),
            _ => None,
        }
    }

    pub(super) fn contains(&self, c: Char) -> bool {
        let after = self.0.partition_point(|span| span.low <= c.0);
        after > 0 && self.0[after - 1].high >= c.0
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&a), Some(&&b)) = (mine.peek(), theirs.peek()) {
            count_step();
            if a.intersection(b).is_some() {
                return true;
            }
            if a.high < b.high {
                mine.next();
            } else {
                theirs.next();
            }
        }
        false
    }
}

/// Everything up to [`LAST`] that no span covers, sorted and disjoint.
fn complement(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.low);
    let mut gaps = Vec::with_capacity(spans.len() + 1);
    let mut next = 0;
    for span in spans {
        if next < span.low {
            gaps.push(Span::new(next, span.low - 1));
        }
        next = next.max(span.high + 1);
    }
    if next <= LAST {
        gaps.push(Span::new(next, LAST));
    }
    gaps
}
