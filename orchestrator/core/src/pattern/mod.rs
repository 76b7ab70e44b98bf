//! The pattern language of file locks, and the one rule for when two patterns overlap.
//!
//! A pattern describes paths relative to the scope. It is made of segments between `/`:
//!
//! | written | stands for |
//! | --- | --- |
//! | `*` | any run of characters within one segment, also none |
//! | `?` | one character |
//! | `[a-z_]` | one of these characters; a `]` that comes first is a member |
//! | `[^a]`, `[!a]` | one character that is not listed |
//! | `\` | the next character as itself, also in a class |
//! | `**` as a whole segment | any run of segments, also none; at the end, at least one |
//!
//! So `a/**/b` covers `a/b`, and `src/**` covers what is inside `src` but not `src` itself. A character
//! is a Unicode scalar, or one byte that is not valid UTF-8. Nothing but a `/` matches a `/`. Braces
//! and every half-written construct are errors: a pattern never silently becomes a literal.
//!
//! **Overlap is exact**: [`Pattern::overlaps`] is true if, and only if, some path matches both. Two
//! liberties, both towards yes: a file called `.` or `..` counts as possible, and so do stray bytes
//! that, put side by side, would read as a valid character.
//!
//! **Overlap is bounded.** Each side is walked once with the set of places the other side can have
//! got to; nothing backtracks. A step is one look at a pair of segments or of characters; an overlap
//! takes at most `2 *` [`MAX_WILDCARD_TOKENS`] steps per byte of the two texts.
//!
//! This module reads no files and resolves no symlinks: a path is compared as given, so callers pass
//! keys, which are already clean.

mod chars;
mod class;
mod error;
mod name;
mod parse;
mod parse_name;
mod sequence;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

pub use self::error::{PatternError, PatternProblem};
pub use self::text::{has_meta, may_match, may_name_directory};

use self::name::{Name, NameRef};
use self::sequence::{Element, Sequence};
use self::text::{Lossy, escape_into, needless_escape};

/// The longest pattern text, as long as the longest path Linux takes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// The longest text of a pattern with wildcards. Room for any folder people work in, followed by `/**`;
/// the work of an overlap grows with it.
pub const MAX_WILDCARD_BYTES: usize = 512;

/// The most segments of a pattern with wildcards, not counting `**`.
pub const MAX_WILDCARD_SEGMENTS: usize = 60;

/// The most `**` segments of a pattern, counted as typed.
pub const MAX_RECURSIVE_SEGMENTS: usize = 8;

/// The most tokens in all segments with wildcards together. Each character, `?`, `*` and member of a
/// class is one; segments without wildcards, and `**`, are free.
pub const MAX_WILDCARD_TOKENS: usize = 60;

/// A set of paths: a single one, or those that a pattern with wildcards describes.
///
/// Two patterns are equal when their normalised texts are. Different texts can still describe the
/// same paths, as `[ab]` and `[ba]` do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Vec<u8>,
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Body {
    Path(Vec<u8>),
    /// At least one name, at least one wildcard or gap, and no gap at the end.
    Names(Sequence<Name>),
}

impl Pattern {
    /// Reads a pattern. Empty and `.` segments and repeated `**` are cleaned away.
    ///
    /// # Errors
    ///
    /// When the text is not a pattern or is over a limit; the error says what to write instead.
    pub fn parse(text: &[u8]) -> Result<Self, PatternError> {
        parse::parse(text).map_err(|problem| PatternError::new(text, problem))
    }

    /// As [`Self::parse`], for what a person typed: a `\` before a letter or a digit is refused. It would stand for nothing, and
    /// was meant for something: the `\` in a file's name, the end of a folder's, or what `\d` is elsewhere.
    pub fn parse_typed(text: &[u8]) -> Result<Self, PatternError> {
        match needless_escape(text) {
            Some(letter) => Err(PatternError::new(text, PatternProblem::NeedlessEscape(letter))),
            None => Self::parse(text),
        }
    }

    /// The pattern of one concrete path, in which no byte is special. It knows no limits and cleans
    /// nothing. Of a clean relative path, [`Self::text`] parses to the same pattern again as long as
    /// that text is within [`MAX_PATTERN_BYTES`].
    pub fn literal(path: &[u8]) -> Self {
        let mut text = Vec::with_capacity(path.len());
        escape_into(&mut text, path);
        Self { text, body: Body::Path(path.to_vec()) }
    }

    /// The normalised text, which parses to this pattern.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether this is one concrete path.
    pub fn is_literal(&self) -> bool {
        matches!(self.body, Body::Path(_))
    }

    /// The leading segments without wildcards, as the bytes of a path: `src/a` for `src/a/*/b`.
    ///
    /// A literal pattern gives its whole path. Every path that another pattern matches starts with
    /// this prefix and a `/`, unless the prefix is empty.
    pub fn literal_prefix(&self) -> Vec<u8> {
        match &self.body {
            Body::Path(path) => path.clone(),
            Body::Names(names) => {
                let leading = names.before_first_gap().iter();
                let literals: Vec<&[u8]> = leading.map_while(Name::as_literal).collect();
                literals.join(&b'/')
            }
        }
    }

    /// Whether some path matches both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap(self.paths(), other.paths())
    }

    /// Whether `path` matches: whether this pattern overlaps the literal pattern of `path`.
    pub fn matches(&self, path: &[u8]) -> bool {
        overlap(self.paths(), Paths::One(path))
    }

    /// Whether the pattern names `path` as a directory that paths which match lie in: `gen` for `gen/**` and `*/gen/*.rs`. Segments
    /// with wildcards name none: `*/*.rs` would name everything there is, and `**/test_*/x` every test.
    pub fn names_directory(&self, path: &[u8]) -> bool {
        match &self.body {
            Body::Path(own) => is_above(path, own),
            Body::Names(names) => names.continues_after(
                path.split(|&byte| byte == b'/'),
                |segment, name| NameRef::Literal(segment).meets(name.as_ref()),
                |name| name.as_literal().is_some(),
            ),
        }
    }

    fn paths(&self) -> Paths<'_> {
        match &self.body {
            Body::Path(path) => Paths::One(path),
            Body::Names(names) => Paths::Like(names),
        }
    }
}

/// Shows the text on one line: stray bytes as `\xNN`, control characters escaped.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lossy(&self.text).fmt(f)
    }
}

/// Whether `path` lies below `directory`. Both are clean.
pub(crate) fn is_above(directory: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

/// The paths of a pattern, borrowed, so that a concrete path is compared without being copied.
#[derive(Clone, Copy)]
enum Paths<'a> {
    One(&'a [u8]),
    Like(&'a Sequence<Name>),
}

/// The overlap rule of the whole product.
///
/// Different leading literal segments end it at the first segment, without allocating.
fn overlap(a: Paths<'_>, b: Paths<'_>) -> bool {
    match (a, b) {
        (Paths::One(a), Paths::One(b)) => a == b,
        (Paths::One(path), Paths::Like(names)) | (Paths::Like(names), Paths::One(path)) => {
            let segments = path.split(|&byte| byte == b'/');
            names.meets(segments.map(Element::Item), |segment, name| {
                NameRef::Literal(segment).meets(name.as_ref())
            })
        }
        (Paths::Like(a), Paths::Like(b)) => b.meets(a.elements(), |a, b| a.as_ref().meets(b.as_ref())),
    }
}
