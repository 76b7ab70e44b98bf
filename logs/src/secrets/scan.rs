//! One pass over a text: where secrets may be, and which rule looks closer.

use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::token::{SHAPES, Shape, TOKENS, Token};
use super::{MASK, address, command, named, pem, token};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Secret {
    /// Where what tells that it is one begins: the name, the scheme, the secret itself.
    pub(super) begin: usize,
    /// What must not be shown.
    pub(super) range: Range<usize>,
}

impl Secret {
    pub(super) fn new(begin: usize, range: Range<usize>) -> Self {
        Self { begin, range }
    }
}

/// Which rule looks at the text around a hit.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Token(&'static Token),
    Shape(Shape),
    /// A word that telling names have.
    Name,
    /// What an authorization begins with: `Bearer`, `Basic`.
    Scheme,
    Sql,
    Address,
    Dsn,
    Pem,
    Command(&'static [command::Rule]),
}

/// Words of names that tell of a secret. `name::is_secret` decides.
const NAME_WORDS: &[&str] =
    &["token", "secret", "pass", "pwd", "credential", "key", "auth", "cookie", "sig="];

struct Scanner {
    automaton: AhoCorasick,
    /// By the number of the pattern.
    rules: Vec<Rule>,
}

static SCANNER: LazyLock<Scanner> = LazyLock::new(Scanner::build);

impl Scanner {
    fn build() -> Self {
        let mut anchors: Vec<(&str, Rule)> = Vec::new();
        anchors.extend(TOKENS.iter().map(|token| (token.prefix, Rule::Token(token))));
        anchors.extend(SHAPES.iter().map(|(anchor, shape)| (*anchor, Rule::Shape(*shape))));
        anchors.extend(NAME_WORDS.iter().map(|word| (*word, Rule::Name)));
        anchors.extend(["bearer ", "basic "].map(|scheme| (scheme, Rule::Scheme)));
        anchors.push(("identified by ", Rule::Sql));
        anchors.push(("://", Rule::Address));
        anchors.extend(["@tcp(", "@unix("].map(|mark| (mark, Rule::Dsn)));
        anchors.extend(pem::ANCHORS.iter().map(|anchor| (*anchor, Rule::Pem)));
        anchors.extend(command::PROGRAMS.iter().map(|(program, rules)| (*program, Rule::Command(rules))));
        let (patterns, rules): (Vec<&str>, Vec<Rule>) = anchors.into_iter().unzip();
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            // Quick to build: most texts are short.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns)
            .expect("a few hundred short patterns");
        Self { automaton, rules }
    }
}

/// The secrets of a text, in order and apart from each other. What is masked already is none.
pub(super) fn secrets_in(bytes: &[u8]) -> Vec<Secret> {
    let scanner = &*SCANNER;
    let text = Text::new(bytes);
    let mut found: Vec<Secret> = Vec::new();
    for hit in scanner.automaton.find_overlapping_iter(bytes) {
        let at = hit.range();
        let secret = match scanner.rules[hit.pattern().as_usize()] {
            Rule::Token(kind) => token::secret(&text, at, kind),
            Rule::Shape(shape) => token::shape(&text, at, shape),
            Rule::Name => named::secret(&text, at),
            Rule::Scheme => named::after_scheme(&text, at),
            Rule::Sql => named::sql_password(&text, at),
            Rule::Address => address::password(&text, at),
            Rule::Dsn => address::dsn_password(&text, at),
            Rule::Pem => pem::block(&text, at),
            Rule::Command(rules) => {
                found.extend(command::secrets(&text, at, rules));
                None
            }
        };
        found.extend(secret);
    }
    found.retain(|secret| !secret.range.is_empty() && &bytes[secret.range.clone()] != MASK.as_bytes());
    merged(found)
}

/// Those that overlap become one.
fn merged(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by_key(|secret| secret.range.start);
    let mut merged: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match merged.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
                last.begin = last.begin.min(secret.begin);
            }
            _ => merged.push(secret),
        }
    }
    merged
}

/// A text, with what the rules ask of it again and again.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    /// The last run without spaces and quotes: one long run must not be walked once for each name in it.
    run: Cell<(usize, usize)>,
    /// How far the last command was walked, and by which rules.
    command: Cell<(*const command::Rule, usize)>,
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, run: Cell::new((0, 0)), command: Cell::new((std::ptr::null(), 0)) }
    }

    pub(super) fn at(&self, index: usize) -> Option<u8> {
        self.bytes.get(index).copied()
    }

    pub(super) fn before(&self, index: usize) -> Option<u8> {
        index.checked_sub(1).and_then(|index| self.at(index))
    }

    /// True if a word may begin here.
    pub(super) fn is_boundary(&self, index: usize) -> bool {
        self.before(index).is_none_or(|byte| !byte.is_ascii_alphanumeric())
    }

    /// Where a run of bytes of one kind ends, at most `most` bytes on.
    pub(super) fn end_of(&self, from: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
        let run = self.bytes[from.min(self.bytes.len())..].iter().take(most);
        from + run.take_while(|byte| is_in(**byte)).count()
    }

    /// Where a run of bytes of one kind that ends at `to` begins, at most `most` bytes before.
    pub(super) fn begin_of(&self, to: usize, most: usize, is_in: impl Fn(u8) -> bool) -> usize {
        to - self.bytes[..to].iter().rev().take(most).take_while(|byte| is_in(**byte)).count()
    }

    /// Where the run without spaces and quotes ends that `from` is in.
    pub(super) fn end_of_run(&self, from: usize) -> usize {
        let (begin, end) = self.run.get();
        if (begin..end).contains(&from) {
            return end;
        }
        let is_in = |byte: u8| !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'`');
        let end = self.end_of(from, usize::MAX, is_in);
        self.run.set((from, end));
        end
    }

    /// False for a command in a command that the same rules have been through.
    pub(super) fn begins_command(&self, at: usize, rules: &[command::Rule]) -> bool {
        let (last, end) = self.command.get();
        last != rules.as_ptr() || at >= end
    }

    pub(super) fn end_command(&self, at: usize, rules: &[command::Rule]) {
        self.command.set((rules.as_ptr(), at));
    }

    pub(super) fn skip_blanks(&self, from: usize) -> usize {
        self.end_of(from, usize::MAX, |byte| matches!(byte, b' ' | b'\t'))
    }
}
