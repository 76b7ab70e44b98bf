//! The grammar of words: quotes, escapes, expansions and the commands inside them.

use super::ast::{Effect, Part, Word};
use super::parse::{ParseError, Parsed, Parser, memchr};

/// Where a run of text with expansions ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// At a `"`.
    Quote,
    /// At a `}`; `quoted` if the whole `${...}` stands in quotes.
    Brace { quoted: bool },
    /// At the `))` that closes it.
    Arithmetic,
    /// At the end of a here-document.
    End,
}

impl Parser<'_> {
    pub(super) fn word(&mut self) -> Parsed<Word> {
        let start = self.at;
        let mut parts = Vec::new();
        while let Some(byte) = self.byte(0) {
            match byte {
                b'<' | b'>' if self.byte(1) == Some(b'(') => {
                    self.at += 2;
                    let list = self.inner_list()?;
                    self.expect(b')', "a process substitution")?;
                    parts.push(Part::Process(list));
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' => self.escape(&mut parts),
                b'\'' => parts.push(Part::Quoted(self.single_quotes()?)),
                b'"' => {
                    self.at += 1;
                    self.double_quotes(&mut parts)?;
                }
                b'$' => self.dollar(&mut parts, false)?,
                b'`' => self.backticks(&mut parts, false)?,
                _ => {
                    let rest = &self.text.as_bytes()[self.at..self.end];
                    let plain = rest.iter().position(|byte| b" \t\n;&|()<>\\'\"$`".contains(byte));
                    let length = plain.unwrap_or(rest.len());
                    push_bare(&mut parts, &self.text[self.at..self.at + length]);
                    self.at += length;
                }
            }
        }
        if self.at == start {
            return Err(match self.byte(0) {
                None => ParseError::Unfinished("a redirection or a word"),
                Some(_) => ParseError::Unexpected(start),
            });
        }
        Ok(Word { parts, span: self.mapped.then_some(start..self.at) })
    }

    /// A backslash outside quotes.
    fn escape(&mut self, parts: &mut Vec<Part>) {
        self.at += 1;
        match self.next_char() {
            None => push_bare(parts, "\\"),
            Some('\n') => {}
            Some(char) => parts.push(Part::Quoted(char.to_string())),
        }
    }

    fn next_char(&mut self) -> Option<char> {
        let char = self.text[self.at..self.end].chars().next()?;
        self.at += char.len_utf8();
        Some(char)
    }

    fn single_quotes(&mut self) -> Parsed<String> {
        let start = self.at + 1;
        let length = memchr(b'\'', &self.text.as_bytes()[start..self.end])
            .ok_or(ParseError::Unfinished("single quotes"))?;
        self.at = start + length + 1;
        Ok(self.text[start..start + length].to_owned())
    }

    /// Behind the opening `"`.
    fn double_quotes(&mut self, parts: &mut Vec<Part>) -> Parsed<()> {
        let inside = self.deeper(|parser| parser.run(Stop::Quote))?;
        if inside.is_empty() {
            parts.push(Part::Quoted(String::new()));
        }
        parts.extend(inside);
        Ok(())
    }

    pub(super) fn document_text(&mut self) -> Parsed<Vec<Part>> {
        self.run(Stop::End)
    }

    /// Behind the `((`.
    pub(super) fn arithmetic(&mut self) -> Parsed<Word> {
        let inside = self.deeper(|parser| parser.run(Stop::Arithmetic))?;
        Ok(Word { parts: vec![Part::Arithmetic { inside, quoted: true }], span: None })
    }

    fn run(&mut self, stop: Stop) -> Parsed<Vec<Part>> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut parentheses = 0_usize;
        loop {
            let Some(byte) = self.byte(0) else {
                if stop != Stop::End {
                    return Err(ParseError::Unfinished("quotes or an expansion"));
                }
                flush(&mut parts, &mut text);
                return Ok(parts);
            };
            match (byte, stop) {
                (b'"', Stop::Quote) | (b'}', Stop::Brace { .. }) => {
                    self.at += 1;
                    flush(&mut parts, &mut text);
                    return Ok(parts);
                }
                (b')', Stop::Arithmetic) if parentheses == 0 => {
                    self.at += 1;
                    self.expect(b')', "an arithmetic expression")?;
                    flush(&mut parts, &mut text);
                    return Ok(parts);
                }
                (b'(' | b')', Stop::Arithmetic) => {
                    if byte == b'(' {
                        parentheses += 1;
                    } else {
                        parentheses -= 1;
                    }
                    self.at += 1;
                }
                (b'"', Stop::Brace { .. } | Stop::Arithmetic) => {
                    self.at += 1;
                    flush(&mut parts, &mut text);
                    self.double_quotes(&mut parts)?;
                }
                (b'\'', Stop::Brace { quoted: false }) => text.push_str(&self.single_quotes()?),
                (b'\\', _) => self.escape_in_quotes(&mut text, stop),
                (b'$', _) => {
                    flush(&mut parts, &mut text);
                    self.dollar(&mut parts, true)?;
                }
                (b'`', _) => {
                    flush(&mut parts, &mut text);
                    self.backticks(&mut parts, true)?;
                }
                _ => {
                    let rest = &self.text.as_bytes()[self.at..self.end];
                    let length = rest.iter().skip(1).position(|byte| b"\"'}()\\$`".contains(byte));
                    let length = length.map_or(rest.len(), |length| length + 1);
                    // Never inside a character: it starts on one, and what ends it is ASCII.
                    text.push_str(&self.text[self.at..self.at + length]);
                    self.at += length;
                }
            }
        }
    }

    fn escape_in_quotes(&mut self, text: &mut String, stop: Stop) {
        self.at += 1;
        match self.byte(0) {
            Some(b'\n') => self.at += 1,
            Some(byte @ (b'$' | b'`' | b'\\')) => {
                self.at += 1;
                text.push(char::from(byte));
            }
            Some(byte @ (b'"' | b'}')) if stop != Stop::End => {
                self.at += 1;
                text.push(char::from(byte));
            }
            _ => text.push('\\'),
        }
    }

    /// At a `$`.
    fn dollar(&mut self, parts: &mut Vec<Part>, quoted: bool) -> Parsed<()> {
        self.at += 1;
        match self.byte(0) {
            Some(b'(') if self.is_arithmetic() => {
                self.at += 2;
                let inside = self.deeper(|parser| parser.run(Stop::Arithmetic))?;
                parts.push(Part::Arithmetic { inside, quoted });
            }
            Some(b'(') => {
                self.at += 1;
                let list = self.inner_list()?;
                self.expect(b')', "a command substitution")?;
                parts.push(Part::Command { list, quoted });
            }
            Some(b'{') => self.braced(parts, quoted)?,
            Some(b'\'') if !quoted => {
                self.at += 1;
                let text = self.ansi_quotes()?;
                parts.push(Part::Quoted(text));
            }
            Some(b'"') if !quoted => {
                self.at += 1;
                self.double_quotes(parts)?;
            }
            Some(b'[') => parts.push(Part::Opaque { inside: Vec::new(), effect: Effect::Unknown, quoted }),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = self.name();
                parts.push(Part::Variable { name, quoted });
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?$!-".contains(&byte) => {
                self.at += 1;
                parts.push(Part::Variable { name: char::from(byte).to_string(), quoted });
            }
            _ if quoted => parts.push(Part::Quoted("$".to_owned())),
            _ => push_bare(parts, "$"),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        self.at += length;
        self.text[self.at - length..self.at].to_owned()
    }

    /// At the `{` of `${`.
    fn braced(&mut self, parts: &mut Vec<Part>, quoted: bool) -> Parsed<()> {
        self.at += 1;
        let start = self.at;
        let name = self.name();
        if !name.is_empty() && self.byte(0) == Some(b'}') {
            self.at += 1;
            parts.push(Part::Variable { name, quoted });
            return Ok(());
        }
        self.at = start;
        if self.starts("#}") {
            self.at += 2;
            parts.push(Part::Opaque { inside: Vec::new(), effect: Effect::Nothing, quoted });
            return Ok(());
        }
        let inside = self.deeper(|parser| parser.run(Stop::Brace { quoted }))?;
        let effect = effect_of(&self.text[start..self.at - 1]);
        parts.push(Part::Opaque { inside: vec![Word { parts: inside, span: None }], effect, quoted });
        Ok(())
    }

    /// At a backtick: the text up to the next one, its escapes removed, is a command.
    fn backticks(&mut self, parts: &mut Vec<Part>, quoted: bool) -> Parsed<()> {
        let start = self.at + 1;
        let mut close = start;
        let mut has_escapes = false;
        loop {
            match self.text.as_bytes()[..self.end].get(close) {
                None => return Err(ParseError::Unfinished("backticks")),
                Some(b'`') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    close += 2;
                }
                Some(_) => close += 1,
            }
        }
        let list = if has_escapes {
            let inner = unescape_backticks(&self.text[start..close], quoted);
            self.deeper(|outer| {
                let mut parser = Parser::new(&inner, false);
                parser.docs = std::mem::take(&mut outer.docs);
                parser.inherit_depth(outer);
                let list = parser.inner_list();
                let ended = parser.at >= parser.end;
                outer.docs = parser.docs;
                if ended { list } else { Err(ParseError::Unexpected(start)) }
            })?
        } else {
            let end = std::mem::replace(&mut self.end, close);
            self.at = start;
            let list = self.inner_list();
            self.end = end;
            if self.at != close {
                return Err(list.err().unwrap_or(ParseError::Unexpected(self.at)));
            }
            list?
        };
        self.at = close + 1;
        parts.push(Part::Command { list, quoted });
        Ok(())
    }

    /// At `((`: true if what it opens is closed by `))` and not by two single ones.
    pub(super) fn is_arithmetic(&self) -> bool {
        if !self.starts("((") {
            return false;
        }
        let bytes = &self.text.as_bytes()[..self.end];
        let (mut at, mut open) = (self.at + 2, 2_usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\'' | b'"' => match memchr(*byte, &bytes[at + 1..]) {
                    Some(length) => at += length + 1,
                    None => return false,
                },
                b'(' => open += 1,
                b')' if open == 2 => return bytes.get(at + 1) == Some(&b')'),
                b')' => open -= 1,
                _ => {}
            }
            at += 1;
        }
        false
    }

    /// Behind `$'`.
    fn ansi_quotes(&mut self) -> Parsed<String> {
        let mut text = Vec::new();
        loop {
            match self.next_char() {
                None => return Err(ParseError::Unfinished("`$'` quotes")),
                Some('\'') => return Ok(String::from_utf8_lossy(&text).into_owned()),
                Some('\\') => self.ansi_escape(&mut text),
                Some(char) => text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn ansi_escape(&mut self, text: &mut Vec<u8>) {
        let Some(char) = self.next_char() else { return };
        let number = match char {
            'n' => Some(u32::from(b'\n')),
            't' => Some(u32::from(b'\t')),
            'r' => Some(u32::from(b'\r')),
            'a' => Some(7),
            'b' => Some(8),
            'e' | 'E' => Some(27),
            'f' => Some(12),
            'v' => Some(11),
            'x' => self.digits(16, 2),
            'u' => self.digits(16, 4),
            'U' => self.digits(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            'c' => self.next_char().map(|char| u32::from(char) & 31),
            _ => None,
        };
        match number {
            Some(number) if matches!(char, 'x' | '0'..='7') => text.push(number.to_le_bytes()[0]),
            Some(number) => {
                let char = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None if matches!(char, '\\' | '\'' | '"' | '?') => text.push(char.to_string().as_bytes()[0]),
            None => {
                text.push(b'\\');
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }

    fn digits(&mut self, base: u32, most: usize) -> Option<u32> {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let length = rest.iter().take(most).take_while(|byte| char::from(**byte).is_digit(base)).count();
        let number = u32::from_str_radix(&self.text[self.at..self.at + length], base).ok();
        self.at += length;
        number
    }
}

/// What `${text}` does. The forms that are not known to do nothing set variables (`:=`), or evaluate text: `${!x}`, `${x@P}`,
/// `${x:i}`, `${x[i]}`.
fn effect_of(text: &str) -> Effect {
    let is_length = text.starts_with('#') && text.len() > 1;
    let is_list = text.starts_with('!');
    let text = if is_length || is_list { &text[1..] } else { text };
    let name = match text.as_bytes() {
        [b'@' | b'*' | b'?' | b'#' | b'$' | b'!' | b'-', ..] => 1,
        bytes => bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count(),
    };
    let rest = &text[name..];
    let indexed = ["[@]", "[*]"].iter().find_map(|index| rest.strip_prefix(index));
    let is_number =
        |text: &str| text.trim_start_matches([' ', '-']).bytes().all(|byte| byte.is_ascii_digit());
    let rest = match (is_list, indexed) {
        (true, None) => return if matches!(rest, "*" | "@") { Effect::Nothing } else { Effect::Unknown },
        (_, indexed) => indexed.unwrap_or(rest),
    };
    let is_plain = match rest.as_bytes() {
        _ if name == 0 => false,
        [] => true,
        _ if is_length || is_list => false,
        [b':', b'-' | b'+' | b'?', ..] | [b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',', ..] => true,
        [b':', ..] => rest[1..].split(':').all(is_number),
        _ => false,
    };
    if is_plain { Effect::Nothing } else { Effect::Unknown }
}

fn push_bare(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Bare(before)) => before.push_str(text),
        _ => parts.push(Part::Bare(text.to_owned())),
    }
}

fn flush(parts: &mut Vec<Part>, text: &mut String) {
    if !text.is_empty() {
        parts.push(Part::Quoted(std::mem::take(text)));
    }
}

fn unescape_backticks(text: &str, quoted: bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, chars.clone().next()) {
            ('\\', Some(next @ ('`' | '\\' | '$'))) => {
                plain.push(next);
                chars.next();
            }
            ('\\', Some('"')) if quoted => {
                plain.push('"');
                chars.next();
            }
            _ => plain.push(char),
        }
    }
    plain
}
