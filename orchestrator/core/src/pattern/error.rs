//! Why a text is not a pattern. Each message says what to write instead.

use super::text::Lossy;
use super::{
    MAX_PATTERN_BYTES, MAX_RECURSIVE_SEGMENTS, MAX_WILDCARD_BYTES, MAX_WILDCARD_SEGMENTS, MAX_WILDCARD_TOKENS,
};

/// How much of a refused text its error repeats.
const EXCERPT_BYTES: usize = 120;

/// A text that is not a pattern, and the problem with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern `{pattern}`: {problem}")]
pub struct PatternError {
    pattern: String,
    problem: PatternProblem,
}

impl PatternError {
    pub(super) fn new(text: &[u8], problem: PatternProblem) -> Self {
        let pattern = match text.get(..EXCERPT_BYTES) {
            Some(start) if text.len() > EXCERPT_BYTES => format!("{}...", Lossy(start)),
            _ => Lossy(text).to_string(),
        };
        Self { pattern, problem }
    }

    /// The refused text, made printable and cut when it is very long.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &PatternProblem {
        &self.problem
    }
}

/// What is wrong with a text that was meant as a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternProblem {
    /// Nothing is left once `.` and empty segments are dropped.
    #[error("it names no file; write a path such as `src/lib.rs`, or `**` for every file")]
    Empty,
    /// It starts with `/`.
    #[error("it starts with `/`; write it relative to the top of the checkout")]
    Absolute,
    /// It holds a `..` segment.
    #[error("it contains `..`; write the path from the top of the checkout without `..`")]
    Parent,
    /// It holds a NUL byte.
    #[error("it contains a NUL byte, which no path can; remove it")]
    Nul,
    /// An unescaped `{` or `}`.
    #[error("`{0}` is not supported; give one pattern per alternative, or write `\\{0}` for the character")]
    Brace(char),
    /// A `[` without its `]` in the same segment.
    #[error("`[` is not closed before the next `/` or the end; add `]`, or write `\\[` for the character")]
    UnclosedClass,
    /// `[]`, `[^]` or `[!]`.
    #[error("a class is empty; list characters as in `[a-z]`, or write `\\[` for the character")]
    EmptyClass,
    /// A class that leaves no character, such as the negation of every character.
    #[error("a class matches no character; list fewer characters after its `^` or `!`")]
    ImpossibleClass,
    /// `[:` inside a class, which other tools read as a named class.
    #[error("named classes such as `[:alpha:]` are not supported; write ranges such as `a-zA-Z`")]
    NamedClass,
    /// A range whose end comes before its start.
    #[error("the range `{low}-{high}` runs backwards; write `{high}-{low}`")]
    ReversedRange {
        /// The start as written.
        low: String,
        /// The end as written.
        high: String,
    },
    /// A `\` with nothing after it in its segment.
    #[error("a `\\` has no character after it to escape; write `\\\\` for the character, or remove it")]
    TrailingEscape,
    /// A typed `\` before a letter or a digit.
    #[error(
        "a `\\` stands before `{0}`, which needs none; write `/` between folders, or `\\\\` for the character"
    )]
    NeedlessEscape(char),
    /// `**` that is not a whole segment.
    #[error("`**` must be a whole segment; write `**/*.rs` for every depth, or one `*` within a name")]
    GluedRecursion,
    /// More than [`MAX_PATTERN_BYTES`].
    #[error("it is longer than {MAX_PATTERN_BYTES} bytes; name a folder above it, as in `src/**`")]
    TooLong,
    /// Has wildcards and more than [`MAX_WILDCARD_BYTES`].
    #[error(
        "it has wildcards and is longer than {MAX_WILDCARD_BYTES} bytes; \
         name a folder above it, as in `src/**`"
    )]
    TooLongForWildcards,
    /// Has wildcards and more than [`MAX_WILDCARD_SEGMENTS`] segments.
    #[error(
        "it has wildcards and more than {MAX_WILDCARD_SEGMENTS} segments; \
         name a folder above it, as in `src/**`"
    )]
    TooManySegments,
    /// More than [`MAX_RECURSIVE_SEGMENTS`].
    #[error("it has more than {MAX_RECURSIVE_SEGMENTS} `**` segments; one `**` already spans folders")]
    TooManyRecursive,
    /// More than [`MAX_WILDCARD_TOKENS`].
    #[error(
        "its segments with wildcards have more than {MAX_WILDCARD_TOKENS} characters and wildcards \
         together; shorten them, for example to `*`"
    )]
    TooManyTokens,
}
