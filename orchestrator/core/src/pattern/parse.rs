//! From text to [`Pattern`]: splitting, cleaning and the limits.
//!
//! One pass over a text of limited length; every limit ends it as soon as it is passed.

use super::error::PatternProblem;
use super::name::Name;
use super::parse_name::{TokenBudget, parse_name};
use super::sequence::Sequence;
use super::text::{escape_into, has_meta};
use super::{
    Body, MAX_PATTERN_BYTES, MAX_RECURSIVE_SEGMENTS, MAX_WILDCARD_BYTES, MAX_WILDCARD_SEGMENTS, Pattern,
};

pub(super) fn parse(text: &[u8]) -> Result<Pattern, PatternProblem> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(PatternProblem::TooLong);
    }
    if text.contains(&0) {
        return Err(PatternProblem::Nul);
    }
    if text.starts_with(b"/") {
        return Err(PatternProblem::Absolute);
    }
    if !has_meta(text) {
        return parse_path(text);
    }
    let mut builder = Builder::new(text.len());
    for segment in text.split(|&byte| byte == b'/') {
        builder.segment(segment)?;
    }
    builder.finish(text.len())
}

/// Cleans a text without anything special in it. The general way would do as well; this one spares
/// the common case its allocations.
fn parse_path(text: &[u8]) -> Result<Pattern, PatternProblem> {
    let mut path = Vec::with_capacity(text.len());
    for segment in text.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => return Err(PatternProblem::Parent),
            name => {
                separate(&mut path);
                path.extend_from_slice(name);
            }
        }
    }
    if path.is_empty() {
        return Err(PatternProblem::Empty);
    }
    Ok(Pattern::literal(&path))
}

fn separate(text: &mut Vec<u8>) {
    if !text.is_empty() {
        text.push(b'/');
    }
}

/// The pattern so far.
struct Builder {
    /// The normalised text. Literal segments are written in the one way `escape_into` does;
    /// segments with wildcards stay as typed, because people know them that way.
    text: Vec<u8>,
    names: Sequence<Name>,
    recursive_segments: usize,
    tokens: TokenBudget,
}

impl Builder {
    fn new(text_len: usize) -> Self {
        Self {
            text: Vec::with_capacity(text_len),
            names: Sequence::new(),
            recursive_segments: 0,
            tokens: TokenBudget::new(),
        }
    }

    fn segment(&mut self, segment: &[u8]) -> Result<(), PatternProblem> {
        match segment {
            b"" => return Ok(()),
            b"**" => return self.recursive_segment(),
            _ => {}
        }
        let name = parse_name(segment, &mut self.tokens)?;
        // Only now, so that `\.` is cleaned and `\.\.` refused as well.
        match name.as_literal() {
            Some(b".") => return Ok(()),
            Some(b"..") => return Err(PatternProblem::Parent),
            Some(literal) => {
                separate(&mut self.text);
                escape_into(&mut self.text, literal);
            }
            None => {
                separate(&mut self.text);
                self.text.extend_from_slice(segment);
            }
        }
        self.names.push(name);
        Ok(())
    }

    fn recursive_segment(&mut self) -> Result<(), PatternProblem> {
        self.recursive_segments += 1;
        if self.recursive_segments > MAX_RECURSIVE_SEGMENTS {
            return Err(PatternProblem::TooManyRecursive);
        }
        self.check_segments()?;
        if !self.names.ends_with_gap() {
            separate(&mut self.text);
            self.text.extend_from_slice(b"**");
            self.names.push_gap();
        }
        Ok(())
    }

    fn check_segments(&self) -> Result<(), PatternProblem> {
        if self.names.items().len() > MAX_WILDCARD_SEGMENTS {
            return Err(PatternProblem::TooManySegments);
        }
        Ok(())
    }

    fn finish(mut self, typed_len: usize) -> Result<Pattern, PatternProblem> {
        if self.text.is_empty() {
            return Err(PatternProblem::Empty);
        }
        if let Some(path) = self.literal_path() {
            return Ok(Pattern { text: self.text, body: Body::Path(path) });
        }
        if typed_len > MAX_WILDCARD_BYTES {
            return Err(PatternProblem::TooLongForWildcards);
        }
        self.check_segments()?;
        // A `**` at the end stands for what is inside, not for the folder itself.
        if self.names.ends_with_gap() {
            self.names.push(Name::any());
        }
        Ok(Pattern { text: self.text, body: Body::Names(self.names) })
    }

    /// The path, if every segment is literal.
    fn literal_path(&self) -> Option<Vec<u8>> {
        if self.names.has_gaps() {
            return None;
        }
        let names: Option<Vec<&[u8]>> = self.names.items().iter().map(Name::as_literal).collect();
        Some(names?.join(&b'/'))
    }
}
