//! The grammar of commands: lists, pipelines, compound commands, redirections, here-documents.
//!
//! One pass, no backtracking, nesting bounded by [`MAX_DEPTH`]: time and stack are bounded by the length of the text,
//! whatever it says. Whatever does not fit the grammar is an error; the caller then knows nothing about the command.

use thiserror::Error;

use super::ast::{
    Assign, AssignKind, Chain, Command, Effect, Joint, Kind, List, Part, Pipeline, Script, Simple, Word,
};
use super::redirects::WaitingDoc;

/// How deep commands and substitutions may be nested.
const MAX_DEPTH: u32 = 48;

/// Why a text is no command line that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum ParseError {
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("it ends inside {0}")]
    Unfinished(&'static str),
    #[error("it does not read as a shell command at byte {0}")]
    Unexpected(usize),
}

pub(super) type Parsed<T> = Result<T, ParseError>;

/// Reads all of `text`. Spans in the result are places in `text` if `mapped`.
pub(super) fn parse(text: &str, mapped: bool) -> Parsed<Script> {
    let mut parser = Parser::new(text, mapped);
    let list = parser.list(&[])?;
    parser.newline_documents()?;
    if parser.at < parser.end {
        return Err(ParseError::Unexpected(parser.at));
    }
    Ok(Script { list, docs: parser.docs })
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) mapped: bool,
    pub(super) docs: Vec<Word>,
    depth: u32,
    pub(super) waiting: Vec<WaitingDoc>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, mapped: bool) -> Self {
        Self { text, at: 0, end: text.len(), mapped, docs: Vec::new(), depth: 0, waiting: Vec::new() }
    }

    pub(super) fn byte(&self, ahead: usize) -> Option<u8> {
        let at = self.at + ahead;
        (at < self.end).then(|| self.text.as_bytes()[at])
    }

    pub(super) fn starts(&self, with: &str) -> bool {
        self.text.as_bytes()[self.at..self.end].starts_with(with.as_bytes())
    }

    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(super) fn inherit_depth(&mut self, outer: &Self) {
        self.depth = outer.depth;
    }

    /// A list inside a substitution; what it announces and does not read is read behind the next newline outside.
    pub(super) fn inner_list(&mut self) -> Parsed<List> {
        let outside = std::mem::take(&mut self.waiting);
        let list = self.deeper(|parser| parser.list(&[]));
        let unread = std::mem::replace(&mut self.waiting, outside);
        self.waiting.extend(unread);
        list
    }

    /// Everything up to one of `stops` at the place of a command, a `)`, a `;;` or the end; none of them is consumed.
    pub(super) fn list(&mut self, stops: &[&str]) -> Parsed<List> {
        let mut list = List::default();
        loop {
            self.blank_lines()?;
            let ends = match self.byte(0) {
                None | Some(b')') => true,
                Some(b';') => self.starts(";;") || self.starts(";&"),
                Some(_) => self.reserved().is_some_and(|word| stops.contains(&word)),
            };
            if ends {
                return Ok(list);
            }
            let mut chain = self.chain()?;
            self.blanks();
            match self.byte(0) {
                Some(b'&') => {
                    self.at += 1;
                    chain.background = true;
                }
                Some(b';') if !self.starts(";;") && !self.starts(";&") => self.at += 1,
                None | Some(b'\n' | b')' | b';') => {}
                Some(_) => return Err(ParseError::Unexpected(self.at)),
            }
            list.chains.push(chain);
        }
    }

    fn chain(&mut self) -> Parsed<Chain> {
        let mut links = vec![(Joint::And, self.pipeline()?)];
        loop {
            self.blanks();
            let joint = match (self.byte(0), self.byte(1)) {
                (Some(b'&'), Some(b'&')) => Joint::And,
                (Some(b'|'), Some(b'|')) => Joint::Or,
                _ => return Ok(Chain { links, background: false }),
            };
            self.at += 2;
            self.blank_lines()?;
            links.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let mut pipeline = Pipeline::default();
        let start = self.at;
        loop {
            self.blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.blanks();
                    if self.reserved_like("-p") {
                        self.at += 2;
                    }
                }
                _ => break,
            }
        }
        let stands_alone = matches!(self.byte(0), None | Some(b'\n' | b';' | b')'));
        if stands_alone && self.text[start..self.at].contains(['!', 't']) {
            return Ok(pipeline); // `time` and `!` may
        }
        pipeline.commands.push(self.command()?);
        loop {
            self.blanks();
            if self.byte(0) != Some(b'|') || self.byte(1) == Some(b'|') {
                return Ok(pipeline);
            }
            self.at += if self.byte(1) == Some(b'&') { 2 } else { 1 };
            self.blank_lines()?;
            pipeline.commands.push(self.command()?);
        }
    }

    pub(super) fn command(&mut self) -> Parsed<Command> {
        self.deeper(|parser| {
            parser.blanks();
            let kind = match parser.reserved() {
                Some(word) => parser.compound(word)?,
                None if parser.byte(0) == Some(b'(') => parser.parenthesis()?,
                None => return parser.simple(),
            };
            let mut redirects = Vec::new();
            parser.blanks();
            while let Some(redirect) = parser.redirect()? {
                redirects.push(redirect);
                parser.blanks();
            }
            Ok(Command { kind, redirects })
        })
    }

    fn simple(&mut self) -> Parsed<Command> {
        let (mut simple, mut redirects) = (Simple::default(), Vec::new());
        let start = self.at;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.byte(0) {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'(') => {
                    let name = match simple.words.as_slice() {
                        [word] if simple.assigns.is_empty() && redirects.is_empty() => word.bare(),
                        _ => None,
                    };
                    let name = name.map(str::to_owned).ok_or(ParseError::Unexpected(self.at))?;
                    self.at += 1;
                    self.blanks();
                    self.expect(b')', "a function's `()`")?;
                    return Ok(Command { kind: self.function(name)?, redirects });
                }
                Some(_) => {}
            }
            if simple.words.is_empty()
                && let Some(assign) = self.assignment()?
            {
                simple.assigns.push(assign);
            } else {
                simple.words.push(self.word()?);
            }
        }
        if simple.words.is_empty() && simple.assigns.is_empty() && redirects.is_empty() {
            return Err(ParseError::Unexpected(start));
        }
        Ok(Command { kind: Kind::Simple(simple), redirects })
    }

    fn assignment(&mut self) -> Parsed<Option<Assign>> {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        if name == 0 || rest[0].is_ascii_digit() {
            return Ok(None);
        }
        let mut after = name;
        if rest.get(after) == Some(&b'[') {
            let close = rest[after..].iter().take(200).position(|byte| matches!(byte, b']' | b' ' | b'\n'));
            let Some(close) = close else { return Ok(None) };
            after += close + 1;
        }
        let appends = rest.get(after) == Some(&b'+');
        after += usize::from(appends);
        if rest.get(after) != Some(&b'=') {
            return Ok(None);
        }
        let is_array = rest.get(after + 1) == Some(&b'(');
        let kind = match (rest[name], is_array) {
            (b'[', _) => AssignKind::Indexed,
            (b'=', false) => AssignKind::Plain,
            _ => AssignKind::Other,
        };
        let name = self.text[self.at..self.at + name].to_owned();
        self.at += after + 1;
        let value = match self.byte(0) {
            Some(b'(') if is_array => self.array()?,
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')') => Word::default(),
            Some(_) => self.word()?,
        };
        Ok(Some(Assign { name, value, kind }))
    }

    fn array(&mut self) -> Parsed<Word> {
        self.at += 1;
        let mut inside = Vec::new();
        loop {
            self.blank_lines()?;
            match self.byte(0) {
                None => return Err(ParseError::Unfinished("an array")),
                Some(b')') => {
                    self.at += 1;
                    let parts = vec![Part::Opaque { inside, effect: Effect::Nothing, quoted: false }];
                    return Ok(Word { parts, span: None });
                }
                Some(_) => inside.push(self.word()?),
            }
        }
    }

    /// Blanks, continued lines and a comment.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.byte(0) {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.byte(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    let rest = &self.text.as_bytes()[self.at..self.end];
                    self.at += memchr(b'\n', rest).unwrap_or(rest.len());
                    return;
                }
                _ => return,
            }
        }
    }

    pub(super) fn blank_lines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if self.byte(0) != Some(b'\n') {
                return Ok(());
            }
            self.at += 1;
            self.newline_documents()?;
        }
    }

    /// The reserved word that stands here, if one does.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        const WORDS: &[&str] = &[
            "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "select", "in", "while",
            "until", "do", "done", "case", "esac", "function", "time", "coproc",
        ];
        WORDS.iter().find(|word| self.reserved_like(word)).copied()
    }

    /// True if `word` stands here as a word of its own.
    fn reserved_like(&self, word: &str) -> bool {
        self.starts(word)
            && self.byte(word.len()).is_none_or(|byte| {
                matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
                    || (byte == b'\\' && self.byte(word.len() + 1) == Some(b'\n'))
            })
    }

    pub(super) fn keyword(&mut self, word: &'static str) -> Parsed<()> {
        if !self.reserved_like(word) {
            return Err(match self.byte(0) {
                None => ParseError::Unfinished("a compound command"),
                Some(_) => ParseError::Unexpected(self.at),
            });
        }
        self.at += word.len();
        Ok(())
    }

    pub(super) fn expect(&mut self, byte: u8, place: &'static str) -> Parsed<()> {
        match self.byte(0) {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(ParseError::Unexpected(self.at)),
            None => Err(ParseError::Unfinished(place)),
        }
    }
}

pub(super) fn memchr(needle: u8, haystack: &[u8]) -> Option<usize> {
    haystack.iter().position(|byte| *byte == needle)
}
