//! From the text of one segment to a [`Name`].

use std::iter::Peekable;

use super::MAX_WILDCARD_TOKENS;
use super::chars::{Char, Chars};
use super::class::{Class, parse_class};
use super::error::PatternProblem;
use super::name::{Glob, Name, Token};
use super::text::has_meta;

/// How many tokens the segments with wildcards may still use.
pub(super) struct TokenBudget(usize);

impl TokenBudget {
    pub(super) fn new() -> Self {
        Self(MAX_WILDCARD_TOKENS)
    }

    fn spend(&mut self, tokens: usize) -> Result<(), PatternProblem> {
        self.0 = self.0.checked_sub(tokens).ok_or(PatternProblem::TooManyTokens)?;
        Ok(())
    }
}

/// Reads one segment. A segment without wildcards is a literal and spends nothing.
pub(super) fn parse_name(segment: &[u8], budget: &mut TokenBudget) -> Result<Name, PatternProblem> {
    if !has_meta(segment) {
        return Ok(Name::Literal(segment.into()));
    }
    let parser = NameParser {
        input: Chars(segment).peekable(),
        literal: Vec::with_capacity(segment.len()),
        glob: Glob::new(),
        budget,
    };
    parser.name()
}

struct NameParser<'a> {
    input: Peekable<Chars<'a>>,
    /// Literal bytes since the last wildcard. Kept as bytes until a wildcard comes, because two
    /// escaped stray bytes can be one character once they stand side by side.
    literal: Vec<u8>,
    glob: Glob,
    budget: &'a mut TokenBudget,
}

impl NameParser<'_> {
    fn name(mut self) -> Result<Name, PatternProblem> {
        while let Some(c) = self.input.next() {
            match c.as_scalar() {
                Some('*') => self.star()?,
                Some('?') => self.token(Token::Any, 1)?,
                Some('[') => self.class()?,
                Some('\\') => self.escaped()?.append_to(&mut self.literal),
                Some(brace @ ('{' | '}')) => return Err(PatternProblem::Brace(brace)),
                _ => c.append_to(&mut self.literal),
            }
        }
        if self.glob.items().is_empty() && !self.glob.has_gaps() {
            return Ok(Name::Literal(self.literal.into()));
        }
        self.flush_literal()?;
        Ok(Name::Glob(self.glob))
    }

    fn star(&mut self) -> Result<(), PatternProblem> {
        if self.input.peek().is_some_and(|c| c.is('*')) {
            return Err(PatternProblem::GluedRecursion);
        }
        self.flush_literal()?;
        self.budget.spend(1)?;
        self.glob.push_gap();
        Ok(())
    }

    fn token(&mut self, token: Token, cost: usize) -> Result<(), PatternProblem> {
        self.flush_literal()?;
        self.budget.spend(cost)?;
        self.glob.push(token);
        Ok(())
    }

    fn flush_literal(&mut self) -> Result<(), PatternProblem> {
        self.glob.reserve(self.literal.len());
        for c in Chars(&self.literal) {
            self.budget.spend(1)?;
            self.glob.push(Token::Char(c));
        }
        self.literal.clear();
        Ok(())
    }

    fn escaped(&mut self) -> Result<Char, PatternProblem> {
        self.input.next().ok_or(PatternProblem::TrailingEscape)
    }

    fn class(&mut self) -> Result<(), PatternProblem> {
        let Class { set, members } = parse_class(&mut self.input)?;
        match set.single() {
            // `[*]` is a common way to quote: the same as `\*`.
            Some(c) => c.append_to(&mut self.literal),
            None => self.token(Token::Class(set), members)?,
        }
        Ok(())
    }
}
