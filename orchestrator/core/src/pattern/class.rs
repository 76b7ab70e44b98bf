//! From the text of a class, such as `[a-z_]`, to the set of its characters.

use std::iter::Peekable;

use super::chars::{Char, CharSet, Chars, Span};
use super::error::PatternProblem;

pub(super) struct Class {
    /// Never empty.
    pub(super) set: CharSet,
    /// How many characters and ranges were written down.
    pub(super) members: usize,
}

/// Reads a class whose `[` has been read, up to and including its `]`.
pub(super) fn parse_class(input: &mut Peekable<Chars<'_>>) -> Result<Class, PatternProblem> {
    let negated = input.next_if(|c| c.is('^') || c.is('!')).is_some();
    let spans = parse_members(input)?;
    let members = spans.len();
    let set = if negated { CharSet::except(spans) } else { CharSet::of(spans) };
    if set.is_empty() {
        return Err(PatternProblem::ImpossibleClass);
    }
    Ok(Class { set, members })
}

fn parse_members(input: &mut Peekable<Chars<'_>>) -> Result<Vec<Span>, PatternProblem> {
    let mut spans = Vec::new();
    loop {
        let c = next(input)?;
        if c.is(']') && !spans.is_empty() {
            return Ok(spans);
        }
        if c.is(']') && input.peek().is_none() {
            return Err(PatternProblem::EmptyClass);
        }
        if c.is('[') && input.peek().is_some_and(|c| c.is(':')) {
            return Err(PatternProblem::NamedClass);
        }
        let low = unescape(c, input)?;
        parse_span(low, input, &mut spans)?;
    }
}

/// Adds the range that starts at `low`, or `low` alone.
fn parse_span(
    low: Char,
    input: &mut Peekable<Chars<'_>>,
    spans: &mut Vec<Span>,
) -> Result<(), PatternProblem> {
    let Some(dash) = input.next_if(|c| c.is('-')) else {
        spans.push(Span::only(low));
        return Ok(());
    };
    // A `-` just before the `]` stands for itself.
    if input.peek().is_some_and(|c| c.is(']')) {
        spans.extend([Span::only(low), Span::only(dash)]);
        return Ok(());
    }
    let c = next(input)?;
    let high = unescape(c, input)?;
    let span = Span::between(low, high)
        .ok_or_else(|| PatternProblem::ReversedRange { low: low.to_string(), high: high.to_string() })?;
    spans.push(span);
    Ok(())
}

fn next(input: &mut Peekable<Chars<'_>>) -> Result<Char, PatternProblem> {
    input.next().ok_or(PatternProblem::UnclosedClass)
}

fn unescape(c: Char, input: &mut Peekable<Chars<'_>>) -> Result<Char, PatternProblem> {
    if c.is('\\') { next(input) } else { Ok(c) }
}
