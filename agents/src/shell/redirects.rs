//! The grammar of redirections and here-documents.

use super::ast::{Part, Redirect, RedirectKind, Word};
use super::parse::{ParseError, Parsed, Parser, memchr};

/// A here-document that was announced and starts behind the next newline.
pub(super) struct WaitingDoc {
    doc: usize,
    delimiter: String,
    is_literal: bool,
    strips_tabs: bool,
}

impl Parser<'_> {
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let start = self.at;
        while self.byte(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let has_number = self.at > start;
        let is_process = matches!(self.byte(1), Some(b'(')) && !has_number;
        let table = [
            ("<<<", RedirectKind::HereString),
            ("<<-", RedirectKind::HereDoc { doc: 0 }),
            ("<<", RedirectKind::HereDoc { doc: 0 }),
            ("<&", RedirectKind::Duplicate),
            ("<>", RedirectKind::Write),
            (">>", RedirectKind::Write),
            (">&", RedirectKind::Duplicate),
            (">|", RedirectKind::Write),
            ("&>>", RedirectKind::Write),
            ("&>", RedirectKind::Write),
            ("<", RedirectKind::Read),
            (">", RedirectKind::Write),
        ];
        let found = table.into_iter().find(|(sign, _)| self.starts(sign));
        let Some((sign, mut kind)) = found.filter(|(sign, _)| sign.len() > 1 || !is_process) else {
            self.at = start;
            return Ok(None);
        };
        if has_number && sign.starts_with('&') {
            // `echo 1 &> f`: the number is a word of its own there, but not in `echo 1&> f`.
            self.at = start;
            return Ok(None);
        }
        self.at += sign.len();
        if kind != RedirectKind::Read && self.byte(0) == Some(b'!') {
            // `>! f` is `>| f` to zsh, and `f` a word of its own to bash.
            return Err(ParseError::Unexpected(self.at));
        }
        self.blanks();
        let mut target = self.word()?;
        if let RedirectKind::HereDoc { doc } = &mut kind {
            *doc = self.announce(&target, sign == "<<-");
            target = Word::default();
        }
        Ok(Some(Redirect { kind, target }))
    }

    fn announce(&mut self, delimiter: &Word, strips_tabs: bool) -> usize {
        let mut text = String::new();
        let mut is_literal = false;
        for part in &delimiter.parts {
            match part {
                Part::Bare(part) => text.push_str(part),
                Part::Quoted(part) => {
                    is_literal = true;
                    text.push_str(part);
                }
                Part::Variable { name, .. } => {
                    text.push('$');
                    text.push_str(name);
                }
                Part::Command { .. } | Part::Process(_) | Part::Opaque { .. } | Part::Arithmetic { .. } => {}
            }
        }
        let doc = self.docs.len();
        self.docs.push(Word::default());
        self.waiting.push(WaitingDoc { doc, delimiter: text, is_literal, strips_tabs });
        doc
    }

    /// Reads the documents that were announced; `at` is behind the newline.
    pub(super) fn newline_documents(&mut self) -> Parsed<()> {
        for waiting in std::mem::take(&mut self.waiting) {
            let start = self.at;
            let (mut line, mut stop) = (start, self.end);
            self.at = self.end;
            while line < self.end {
                let rest = &self.text[line..self.end];
                let length = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
                let text = &rest[..length];
                let text = if waiting.strips_tabs { text.trim_start_matches('\t') } else { text };
                let next = (line + length + 1).min(self.end);
                if text == waiting.delimiter {
                    (stop, self.at) = (line, next);
                    break;
                }
                line = next;
            }
            let parts = self.document(start, stop, waiting.is_literal)?;
            self.docs[waiting.doc] = Word { parts, span: None };
        }
        Ok(())
    }

    fn document(&mut self, start: usize, stop: usize, is_literal: bool) -> Parsed<Vec<Part>> {
        if is_literal {
            return Ok(vec![Part::Quoted(self.text[start..stop].to_owned())]);
        }
        let (at, end) = (self.at, self.end);
        (self.at, self.end) = (start, stop);
        let parts = self.deeper(Self::document_text);
        (self.at, self.end) = (at, end);
        parts
    }
}
