//! Words to arguments: quotes removed, braces, `~` and known variables expanded. What cannot be known stays a hole.

use std::ops::Range;
use std::path::Path;

use super::ast::{Effect, Part, Word};
use super::state::State;

/// Braces in one word that are expanded; more of them, and the word counts as unknown.
const MAX_BRACES: usize = 16;

/// The most arguments one word may become.
const MAX_FIELDS: usize = 128;

/// One argument of a command, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arg {
    /// [`Known::All`]: the argument. [`Known::Pattern`]: the pattern, what stands for itself escaped. [`Known::Head`]:
    /// how it begins.
    pub(super) text: String,
    pub(super) known: Known,
    pub(super) span: Option<Range<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    All,
    Pattern,
    Head,
}

impl Arg {
    pub(super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), known: Known::All, span: None }
    }

    pub(super) fn unknown() -> Self {
        Self { text: String::new(), known: Known::Head, span: None }
    }

    pub(super) fn as_literal(&self) -> Option<&str> {
        (self.known == Known::All).then_some(self.text.as_str())
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.as_literal() == Some(text)
    }

    /// True if the shell could put an option here that cannot be seen.
    pub(super) fn may_be_option(&self) -> bool {
        match self.known {
            Known::All => false,
            Known::Head => self.text.is_empty() || self.text.starts_with('-'),
            Known::Pattern => self.text.starts_with(['*', '?', '[', '-']),
        }
    }

    /// The argument without its first `bytes`, which are known to be there.
    pub(super) fn tail(&self, bytes: usize) -> Self {
        Self { text: self.text[bytes..].to_owned(), known: self.known, span: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// `active`: not quoted, so a wildcard or brace has its meaning.
    Char {
        char: char,
        active: bool,
    },
    Hole,
    /// Two arguments meet here.
    Break,
}

/// What `word` becomes. `home` is where `~` leads.
pub(super) fn expand(word: &Word, state: &State, home: Option<&Path>) -> Vec<Arg> {
    if let [Part::Bare(text) | Part::Quoted(text)] = word.parts.as_slice()
        && !(text.contains(['*', '?', '[', '{', '~']) && matches!(word.parts[0], Part::Bare(_)))
    {
        return vec![Arg { text: text.clone(), known: Known::All, span: word.span.clone() }];
    }
    let units = units(word, state, home);
    let Some(alternatives) = braces(units.clone()) else {
        return vec![Arg { known: Known::Head, ..arg(&units, word) }];
    };
    let keeps_empty = word.parts.iter().any(|part| matches!(part, Part::Quoted(_)) || is_quoted(part))
        || word.parts.is_empty();
    let fields = alternatives.iter().flat_map(|units| units.split(|unit| *unit == Unit::Break));
    fields.filter(|field| keeps_empty || !field.is_empty()).map(|field| arg(field, word)).collect()
}

/// The value a variable gets from `word`: no braces, no splitting.
pub(super) fn value(word: &Word, state: &State, home: Option<&Path>) -> Arg {
    let quoted = Word { parts: word.parts.iter().map(as_quoted).collect(), span: None };
    let tilde = matches!(word.parts.first(), Some(Part::Bare(text)) if text.starts_with('~'));
    let units = units(if tilde { word } else { &quoted }, state, home);
    arg(&units, &Word::default())
}

fn is_quoted(part: &Part) -> bool {
    matches!(
        part,
        Part::Variable { quoted: true, .. }
            | Part::Command { quoted: true, .. }
            | Part::Opaque { quoted: true, .. }
            | Part::Arithmetic { quoted: true, .. }
    )
}

fn as_quoted(part: &Part) -> Part {
    match part {
        Part::Bare(text) | Part::Quoted(text) => Part::Quoted(text.clone()),
        Part::Variable { name, .. } => Part::Variable { name: name.clone(), quoted: true },
        Part::Command { .. } | Part::Opaque { .. } | Part::Arithmetic { .. } => {
            Part::Opaque { inside: Vec::new(), effect: Effect::Nothing, quoted: true }
        }
        Part::Process(_) => Part::Quoted("/dev/fd/63".to_owned()),
    }
}

fn units(word: &Word, state: &State, home: Option<&Path>) -> Vec<Unit> {
    let mut units = Vec::new();
    for (index, part) in word.parts.iter().enumerate() {
        match part {
            Part::Bare(text) if index == 0 && text.starts_with('~') => tilde(&mut units, text, home),
            Part::Bare(text) => push(&mut units, text, true),
            Part::Quoted(text) => push(&mut units, text, false),
            Part::Process(_) => push(&mut units, "/dev/fd/63", false),
            // The end of a path to zsh, and the value with two more letters to bash.
            Part::Variable { .. } if word.parts.get(index + 1).is_some_and(is_modifier) => {
                units.push(Unit::Hole);
            }
            Part::Variable { name, quoted } => match state.variable(name, home) {
                Some(value) => push_value(&mut units, &value, *quoted),
                None => units.push(Unit::Hole),
            },
            Part::Command { .. } | Part::Opaque { .. } | Part::Arithmetic { .. } => units.push(Unit::Hole),
        }
    }
    units
}

/// `:t` and the like behind a variable.
fn is_modifier(part: &Part) -> bool {
    let (Part::Bare(text) | Part::Quoted(text)) = part else { return false };
    text.strip_prefix(':')
        .is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_alphabetic() || char == '&'))
}

fn push(units: &mut Vec<Unit>, text: &str, active: bool) {
    units.extend(text.chars().map(|char| Unit::Char { char, active }));
}

fn push_value(units: &mut Vec<Unit>, value: &Arg, quoted: bool) {
    match value.known {
        Known::Pattern => {
            let mut chars = value.text.chars();
            while let Some(char) = chars.next() {
                match char {
                    '\\' => {
                        units.extend(chars.next().map(|char| Unit::Char { char, active: false }));
                    }
                    _ => units.push(Unit::Char { char, active: "*?[]".contains(char) }),
                }
            }
        }
        Known::All if quoted => push(units, &value.text, false),
        Known::All | Known::Head => {
            for char in value.text.chars() {
                units.push(match char {
                    ' ' | '\t' | '\n' if !quoted => Unit::Break,
                    _ => Unit::Char { char, active: !quoted && "*?[]".contains(char) },
                });
            }
            if value.known == Known::Head {
                units.push(Unit::Hole);
            }
        }
    }
}

fn tilde(units: &mut Vec<Unit>, text: &str, home: Option<&Path>) {
    let name = text.find('/').unwrap_or(text.len());
    match home.and_then(Path::to_str) {
        Some(home) if name == 1 => push(units, home, false),
        _ => units.push(Unit::Hole),
    }
    push(units, &text[name..], true);
}

/// The argument these units spell.
fn arg(units: &[Unit], word: &Word) -> Arg {
    let closes = units.iter().rposition(|unit| matches!(unit, Unit::Char { char: ']', active: true }));
    let is_wild = |at: usize, unit: &Unit| match unit {
        Unit::Char { char: '*' | '?', active: true } => true,
        Unit::Char { char: '[', active: true } => closes.is_some_and(|close| close > at),
        _ => false,
    };
    let hole = units.iter().position(|unit| *unit == Unit::Hole);
    let is_pattern = hole.is_none() && units.iter().enumerate().any(|(at, unit)| is_wild(at, unit));
    let mut text = String::with_capacity(units.len());
    for unit in &units[..hole.unwrap_or(units.len())] {
        match unit {
            Unit::Char { char, active } => {
                if is_pattern && !active && "*?[]\\".contains(*char) {
                    text.push('\\');
                }
                text.push(*char);
            }
            Unit::Break => text.push(' '),
            Unit::Hole => {}
        }
    }
    let known = match (hole, is_pattern) {
        (Some(_), _) => Known::Head,
        (None, true) => Known::Pattern,
        (None, false) => Known::All,
    };
    Arg { text, known, span: word.span.clone() }
}

fn active(unit: Option<&Unit>) -> Option<char> {
    match unit {
        Some(Unit::Char { char, active: true }) => Some(*char),
        _ => None,
    }
}

/// Every word that `{a,b}` and `{1..3}` stand for; nothing if they are too many.
fn braces(units: Vec<Unit>) -> Option<Vec<Vec<Unit>>> {
    let count = units.iter().filter(|unit| active(Some(unit)) == Some('{')).count();
    if count == 0 {
        return Some(vec![units]);
    }
    if count > MAX_BRACES {
        return None;
    }
    let Some((open, close, alternatives)) = first_brace(&units) else { return Some(vec![units]) };
    let tails = braces(units[close + 1..].to_vec())?;
    let mut words = Vec::new();
    for alternative in alternatives {
        for middle in braces(alternative)? {
            for tail in &tails {
                if words.len() == MAX_FIELDS {
                    return None;
                }
                words.push([&units[..open], &middle, tail].concat());
            }
        }
    }
    Some(words)
}

/// The first brace that has a meaning: where it opens and closes, and what it offers.
fn first_brace(units: &[Unit]) -> Option<(usize, usize, Vec<Vec<Unit>>)> {
    for open in 0..units.len() {
        if active(units.get(open)) != Some('{') {
            continue;
        }
        let (mut depth, mut parts, mut start) = (0_usize, Vec::new(), open + 1);
        for at in open + 1..units.len() {
            match active(units.get(at)) {
                Some('{') => depth += 1,
                Some('}') if depth > 0 => depth -= 1,
                Some(',') if depth == 0 => {
                    parts.push(units[start..at].to_vec());
                    start = at + 1;
                }
                Some('}') => {
                    parts.push(units[start..at].to_vec());
                    if parts.len() > 1 {
                        return Some((open, at, parts));
                    }
                    if let Some(parts) = sequence(&parts[0]) {
                        return Some((open, at, parts));
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

/// `1..3` and `a..c`; with a step or too long it becomes a hole.
fn sequence(units: &[Unit]) -> Option<Vec<Vec<Unit>>> {
    let text: Option<String> = units.iter().map(|unit| active(Some(unit))).collect();
    let text = text?;
    let (from, to) = text.split_once("..")?;
    let spelled = |text: String| text.chars().map(|char| Unit::Char { char, active: true }).collect();
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>())
        && !text.contains("..0")
        && !text.starts_with('0')
        && from.abs_diff(to) < MAX_FIELDS as u64
    {
        return Some((from.min(to)..=from.max(to)).map(|number| spelled(number.to_string())).collect());
    }
    if let ([from], [to]) = (from.as_bytes(), to.as_bytes())
        && from.is_ascii_alphabetic()
        && to.is_ascii_alphabetic()
    {
        return Some(
            (*from.min(to)..=*from.max(to)).map(|byte| spelled(char::from(byte).to_string())).collect(),
        );
    }
    Some(vec![vec![Unit::Hole]])
}
