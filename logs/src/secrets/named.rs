//! Values behind telling names: variables, settings, options, headers, and what else has a name.

use std::ops::Range;

use super::name::{is_password, is_secret};
use super::scan::{Secret, Text};
use super::value::{Value, is_code, is_placeholder, is_word, value_at};

/// The longest name, on either side of the word that it was found by.
const MAX_NAME: usize = 64;
/// The longest value of a header.
const MAX_HEADER: usize = 16 << 10;
/// A value without quotes that is longer is not looked at any further.
const MAX_VALUE: usize = 1 << 10;
/// How far before `password` a `.netrc` has `machine` or `login`.
const NETRC: usize = 256;

/// Headers with secrets that have no telling name.
const HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie", "set-cookie"];
/// Settings of servers whose value is the next word.
const DIRECTIVES: &[&str] = &["requirepass", "masterauth"];

/// How a name and its value belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// `NAME=value`
    Assigned,
    /// `name = value`, `name: value`
    Spaced,
    /// `name:value`
    Joined,
    /// `--name value`
    Option,
}

/// A name in the text.
struct Name<'t> {
    range: Range<usize>,
    text: &'t str,
}

impl<'t> Name<'t> {
    /// The whole name that the hit is a part of.
    fn around(text: &Text<'t>, hit: &Range<usize>) -> Option<Self> {
        // The `=` of `sig=` is not of the name.
        let hit_end = hit.end - usize::from(text.before(hit.end) == Some(b'='));
        let is_in = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let begin = text.begin_of(hit.start, MAX_NAME, is_in);
        let end = text.end_of(hit_end, MAX_NAME, is_in);
        let name = std::str::from_utf8(&text.bytes[begin..end]).ok()?;
        let name = name.trim_end_matches(['.', '-']);
        Some(Self { range: begin..begin + name.len(), text: name })
    }

    /// The name behind the last dot: of `settings.password`, the password.
    fn last(&self) -> &'t str {
        self.text.rsplit('.').next().unwrap_or(self.text)
    }

    fn is_option(&self, text: &Text<'_>) -> bool {
        let before = text.before(self.range.start);
        self.text.starts_with('-')
            && before.is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`[(=".contains(&byte))
    }

    /// A header is a name alone at the beginning of a line or behind a quote.
    fn is_header(&self) -> bool {
        let name = self.text.to_ascii_lowercase();
        HEADERS.contains(&name.as_str()) || (name.contains('-') && !name.starts_with('-') && is_secret(&name))
    }
}

/// The value of the name that the hit is a part of.
pub(super) fn secret(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    let name = Name::around(text, &hit)?;
    let begin = name.range.start;
    let found = |range: Range<usize>| Some(Secret::new(begin, range));
    if text.before(begin) == Some(b'<') {
        return is_secret(name.last()).then(|| element(text, &name)).flatten().and_then(found);
    }
    let quote = text.at(name.range.end).filter(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\'));
    let Some((link, at)) = link(text, &name, quote.is_some()) else {
        return next_word(text, &name).map(|range| Secret::new(begin.saturating_sub(NETRC), range));
    };
    let value = value_at(text, at)?;
    if link != Link::Option && quote.is_none() && name.is_header() && text.before(at) != Some(b'=')
        // `x-access-token:...@host` is a user.
        && !is_path(text, &name)
    {
        return header(text, &value).and_then(found);
    }
    let is_telling = match link {
        Link::Assigned | Link::Option => is_secret(name.text),
        Link::Spaced | Link::Joined => is_secret(name.last()),
    };
    let content = &text.bytes[value.range.clone()];
    let is_encoded = is_auth(name.last()) && is_user_and_password(content);
    let is_header = quote.is_some() && HEADERS.contains(&name.text.to_ascii_lowercase().as_str());
    if !(is_telling || is_encoded || is_header) || is_placeholder(content) {
        return None;
    }
    match value.is_quoted {
        // Messages put what they name into backticks.
        true if text.at(at) == Some(b'`') && !is_password(name.last()) && !is_random(content) => None,
        true => found(value.range),
        false => unquoted(text, &name, link, value.range).and_then(found),
    }
}

/// What stands between a name and its value, and where the value begins.
fn link(text: &Text<'_>, name: &Name<'_>, is_quoted: bool) -> Option<(Link, usize)> {
    let mut end = name.range.end;
    if is_quoted {
        end = text.end_of(end, 4, |byte| byte == b'\\');
        end = text.end_of(end, 1, |byte| b"\"'`".contains(&byte));
        end = text.end_of(end, 1, |byte| byte == b']');
    }
    let blanks = text.skip_blanks(end);
    let sign = text.end_of(blanks, 3, |byte| b":=>!~?+".contains(&byte));
    let value = text.skip_blanks(sign);
    match &text.bytes[blanks..sign] {
        b"=" if blanks == end && value == sign => Some((Link::Assigned, value)),
        b":" if blanks == end && value == sign && !is_quoted => Some((Link::Joined, value)),
        b"=" | b":" | b":=" | b"=>" | b"?=" | b"+=" => Some((Link::Spaced, value)),
        b"" if !is_quoted && blanks > end && name.is_option(text) => Some((Link::Option, blanks)),
        _ => None,
    }
}

/// The value of a header: to the end of the line or of the quotes that it stands in.
fn header(text: &Text<'_>, value: &Value) -> Option<Range<usize>> {
    if value.is_quoted {
        return Some(value.range.clone());
    }
    let begin = value.range.start;
    let end = text.end_of(begin, MAX_HEADER, |byte| !matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`'));
    let content = text.bytes[begin..end].trim_ascii_end();
    let last = content.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_told = !is_placeholder(last) && !is_word(content) && !is_code(content);
    (is_told && last != super::MASK.as_bytes()).then(|| begin..begin + content.len())
}

/// The part of a value without quotes that is a secret; nothing if it is code, or a word of a sentence.
fn unquoted(text: &Text<'_>, name: &Name<'_>, link: Link, run: Range<usize>) -> Option<Range<usize>> {
    let value = &text.bytes[run.start..run.end.min(run.start + MAX_VALUE)];
    let is_query = matches!(text.before(name.range.start), Some(b'?' | b'&'));
    let length = match link {
        Link::Assigned if is_query => {
            value.iter().position(|byte| b"&#".contains(byte)).unwrap_or(value.len())
        }
        _ => value.len(),
    };
    let value = value[..length].trim_ascii_end();
    let trimmed = value.len() - value.iter().rev().take_while(|byte| b",;)}]>".contains(byte)).count();
    let value = &value[..trimmed];
    // One that is longer is masked as a whole: no code and no sentence looks like that.
    let end = if run.len() > MAX_VALUE { run.end } else { run.start + trimmed };
    let range = run.start..end;
    let is_variable = !name.text.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_value = match link {
        _ if value.is_empty() || is_placeholder(value) => false,
        Link::Assigned if is_variable => true,
        Link::Assigned => !is_word(value) && !is_code(value),
        // A value that begins with `-` would rather be the next option.
        Link::Option => !value.starts_with(b"-") && !is_word(value) && !names_itself(name, value),
        Link::Joined => {
            is_password(name.last()) && is_mixed(value) && !is_path(text, name) && !is_code(value)
        }
        Link::Spaced => {
            !is_path(text, name)
                && !is_word(value)
                && !is_code(value)
                && !names_itself(name, value)
                && if is_password(name.last()) {
                    is_mixed(value) || is_alone(text, &run)
                } else {
                    is_random(value)
                }
        }
    };
    is_value.then_some(range)
}

/// True for the name itself as its own placeholder: `--token TOKEN`, `password: password`.
fn names_itself(name: &Name<'_>, value: &[u8]) -> bool {
    let is_upper = value.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    (is_upper && is_secret(&String::from_utf8_lossy(value)))
        || value.eq_ignore_ascii_case(name.last().as_bytes())
}

/// True for `src/auth/token: ...`: what follows a file is said about it.
fn is_path(text: &Text<'_>, name: &Name<'_>) -> bool {
    matches!(text.before(name.range.start), Some(b'/' | b'\\'))
}

/// True if nothing follows in the line: words of a sentence are followed by others.
fn is_alone(text: &Text<'_>, run: &Range<usize>) -> bool {
    text.at(text.skip_blanks(run.end))
        .is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'#' | b'"' | b'\'' | b'`'))
}

/// True if it is no plain word.
fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_alphabetic)
        && value.iter().any(|byte| !byte.is_ascii_alphabetic() && *byte != b'_')
}

/// True if it looks drawn by lot, as tokens and keys are.
fn is_random(value: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    value.len() >= 8
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !value.iter().any(|byte| b"():,<>[]{}".contains(byte))
}

fn is_auth(name: &str) -> bool {
    matches!(name, "auth" | "_auth")
}

/// `<password>value</password>`
fn element(text: &Text<'_>, name: &Name<'_>) -> Option<Range<usize>> {
    let open = text.end_of(name.range.end, 128, |byte| !matches!(byte, b'>' | b'<' | b'\n'));
    if text.at(open) != Some(b'>') || text.before(open) == Some(b'/') {
        return None;
    }
    let end = text.end_of(open + 1, MAX_HEADER, |byte| !matches!(byte, b'<' | b'\n'));
    let value = &text.bytes[open + 1..end];
    let is_value =
        text.at(end) == Some(b'<') && text.at(end + 1) == Some(b'/') && !is_placeholder(value.trim_ascii());
    is_value.then_some(open + 1..end)
}

/// A name whose value is the next word: in SQL, in a `.netrc`, in a Dockerfile, in settings of servers.
fn next_word(text: &Text<'_>, name: &Name<'_>) -> Option<Range<usize>> {
    let at = text.end_of(name.range.end, 64, |byte| byte.is_ascii_whitespace());
    if at == name.range.end {
        return None;
    }
    let value = value_at(text, at)?;
    let content = &text.bytes[value.range.clone()];
    if is_placeholder(content) {
        return None;
    }
    let before = &text.bytes[name.range.start.saturating_sub(NETRC)..name.range.start];
    let follows = |words: &[&[u8]]| {
        words.iter().any(|word| before.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
    };
    let is_sql = value.is_quoted && name.text.eq_ignore_ascii_case("password") && text.at(at) == Some(b'\'');
    let is_netrc = name.text == "password" && follows(&[b"machine ", b"login "]) && !is_word(content);
    let is_docker = before.ends_with(b"ENV ") && is_secret(name.text);
    let is_directive = DIRECTIVES.contains(&name.text);
    (is_sql || is_netrc || is_docker || is_directive).then_some(value.range)
}

/// `IDENTIFIED BY 'value'`
pub(super) fn sql_password(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    let value = value_at(text, text.skip_blanks(hit.end))?;
    (value.is_quoted && !is_placeholder(&text.bytes[value.range.clone()]))
        .then(|| Secret::new(hit.start, value.range))
}

/// `Bearer TOKEN`, `Basic BASE64`. Words are neither.
pub(super) fn after_scheme(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    if !text.is_boundary(hit.start) {
        return None;
    }
    let begin = text.skip_blanks(hit.end);
    let is_in = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    let end = text.end_of(begin, MAX_HEADER, is_in);
    let value = &text.bytes[begin..end];
    let is_bearer = text.bytes[hit.start].eq_ignore_ascii_case(&b'b')
        && text.bytes[hit.start + 1].eq_ignore_ascii_case(&b'e');
    let is_secret = match is_bearer {
        true => value.len() >= 20 || (value.len() >= 8 && value.iter().any(u8::is_ascii_digit)),
        false => is_user_and_password(value),
    };
    is_secret.then(|| Secret::new(hit.start, begin..end))
}

/// True for `user:password` in base64.
fn is_user_and_password(value: &[u8]) -> bool {
    let value = value.strip_suffix(b"==").or_else(|| value.strip_suffix(b"=")).unwrap_or(value);
    if value.len() < 4 {
        return false;
    }
    let (mut bits, mut count, mut has_colon) = (0_u32, 0, false);
    for byte in value {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        (bits, count) = (bits << 6 | u32::from(six), count + 6);
        if count >= 8 {
            count -= 8;
            let decoded = (bits >> count) as u8;
            if decoded.is_ascii_control() {
                return false;
            }
            has_colon |= decoded == b':';
        }
    }
    has_colon
}
