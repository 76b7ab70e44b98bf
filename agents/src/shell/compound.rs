//! The grammar of compound commands: groups, conditions, loops, functions.

use super::ast::{Kind, List};
use super::parse::{ParseError, Parsed, Parser};

impl Parser<'_> {
    /// `( ... )` or `(( ... ))`.
    pub(super) fn parenthesis(&mut self) -> Parsed<Kind> {
        if self.is_arithmetic() {
            self.at += 2;
            return Ok(Kind::Test(vec![self.arithmetic()?]));
        }
        self.at += 1;
        let list = self.inner_list()?;
        self.expect(b')', "parentheses")?;
        Ok(Kind::Subshell(list))
    }

    pub(super) fn compound(&mut self, word: &str) -> Parsed<Kind> {
        let start = self.at;
        self.at += word.len();
        match word {
            "{" => {
                let list = self.list(&["}"])?;
                self.keyword("}")?;
                Ok(Kind::Group(list))
            }
            "if" => self.conditional(),
            "while" | "until" => {
                let condition = self.list(&["do"])?;
                let body = self.do_done()?;
                Ok(Kind::Maybe { words: Vec::new(), parts: vec![condition, body] })
            }
            "for" | "select" => self.loop_over(),
            "case" => self.case(),
            "function" => {
                self.blanks();
                let name = self.word()?.bare().map(str::to_owned).ok_or(ParseError::Unexpected(start))?;
                // zsh runs a function without a name at once.
                if matches!(name.as_str(), "" | "{") {
                    return Err(ParseError::Unexpected(start));
                }
                self.blanks();
                if self.starts("()") {
                    self.at += 2;
                }
                self.function(name)
            }
            "[[" => self.double_bracket(),
            _ => Err(ParseError::Unexpected(start)),
        }
    }

    fn conditional(&mut self) -> Parsed<Kind> {
        let mut parts = vec![self.list(&["then"])?];
        self.keyword("then")?;
        loop {
            parts.push(self.list(&["elif", "else", "fi"])?);
            match self.reserved() {
                Some("elif") => {
                    self.at += 4;
                    parts.push(self.list(&["then"])?);
                    self.keyword("then")?;
                }
                Some("else") => self.at += 4,
                _ => {
                    self.keyword("fi")?;
                    return Ok(Kind::Maybe { words: Vec::new(), parts });
                }
            }
        }
    }

    fn do_done(&mut self) -> Parsed<List> {
        self.blank_lines()?;
        self.keyword("do")?;
        let body = self.list(&["done"])?;
        self.keyword("done")?;
        Ok(body)
    }

    fn loop_over(&mut self) -> Parsed<Kind> {
        self.blanks();
        if self.starts("((") {
            self.at += 2;
            let words = vec![self.arithmetic()?];
            self.blanks();
            if self.byte(0) == Some(b';') {
                self.at += 1;
            }
            let body = self.do_done()?;
            return Ok(Kind::Maybe { words, parts: vec![body] });
        }
        let at = self.at;
        let name = self.word()?.bare().map(str::to_owned).ok_or(ParseError::Unexpected(at))?;
        self.blank_lines()?;
        let mut items = None;
        if self.reserved() == Some("in") {
            self.at += 2;
            let mut words = Vec::new();
            self.blanks();
            while !matches!(self.byte(0), None | Some(b';' | b'\n' | b'&' | b'|' | b'(' | b')')) {
                words.push(self.word()?);
                self.blanks();
            }
            items = Some(words);
        }
        if self.byte(0) == Some(b';') {
            self.at += 1;
        }
        Ok(Kind::For { name, items, body: self.do_done()? })
    }

    fn case(&mut self) -> Parsed<Kind> {
        self.blanks();
        let mut words = vec![self.word()?];
        self.blank_lines()?;
        self.keyword("in")?;
        let mut parts = Vec::new();
        loop {
            self.blank_lines()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                return Ok(Kind::Maybe { words, parts });
            }
            if self.byte(0) == Some(b'(') {
                self.at += 1;
            }
            loop {
                self.blanks();
                words.push(self.word()?);
                self.blanks();
                match self.byte(0) {
                    Some(b'|') => self.at += 1,
                    _ => break,
                }
            }
            self.expect(b')', "a `case`")?;
            parts.push(self.list(&["esac"])?);
            for end in [";;&", ";;", ";&"] {
                if self.starts(end) {
                    self.at += end.len();
                    break;
                }
            }
        }
    }

    pub(super) fn function(&mut self, name: String) -> Parsed<Kind> {
        self.blank_lines()?;
        let body = Box::new(self.command()?);
        Ok(Kind::Function { name, body })
    }

    fn double_bracket(&mut self) -> Parsed<Kind> {
        let mut words = Vec::new();
        loop {
            self.blank_lines()?;
            match self.byte(0) {
                None => return Err(ParseError::Unfinished("`[[`")),
                Some(b']') if self.reserved() == Some("]]") => {
                    self.at += 2;
                    return Ok(Kind::Test(words));
                }
                Some(b'<' | b'>') if self.byte(1) == Some(b'(') => words.push(self.word()?),
                Some(b'<' | b'>' | b'(' | b')' | b'&' | b'|' | b';') => self.at += 1,
                Some(_) => words.push(self.word()?),
            }
        }
    }
}
