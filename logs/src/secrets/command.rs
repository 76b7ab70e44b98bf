//! Programs that take a password by an option with no telling name: `mysql -pSECRET`, `curl -u user:SECRET`.

use std::ops::Range;

use super::scan::{Secret, Text};
use super::value::{is_placeholder, value_at};

/// So much of a command line is looked at.
const MAX_COMMAND: usize = 1 << 10;

/// How a program takes its password.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// `-pSECRET`
    Attached(&'static str),
    /// `-p SECRET`
    Next(&'static str),
    /// `-u USER:SECRET`, `-uUSER:SECRET`, with this sign in between.
    Pair(&'static str, u8),
    /// `pass:SECRET`, wherever it stands.
    Begin(&'static str),
}

const MYSQL: &[Rule] = &[Rule::Attached("-p")];
const CURL: &[Rule] = &[
    Rule::Pair("-u", b':'),
    Rule::Pair("--user", b':'),
    Rule::Pair("-U", b':'),
    Rule::Pair("--proxy-user", b':'),
];

/// Programs by their names; what stands behind the name is an option's, or the next word.
pub(super) const PROGRAMS: &[(&str, &[Rule])] = &[
    ("mysql", MYSQL),
    ("mariadb", MYSQL),
    ("curl", CURL),
    ("sshpass", &[Rule::Attached("-p"), Rule::Next("-p")]),
    ("redis-cli", &[Rule::Next("-a"), Rule::Next("--pass")]),
    ("docker login", &[Rule::Next("-p")]),
    ("podman login", &[Rule::Next("-p")]),
    ("helm registry login", &[Rule::Next("-p")]),
    ("az login", &[Rule::Next("-p")]),
    ("mongosh", &[Rule::Next("-p")]),
    ("mongodump", &[Rule::Next("-p")]),
    ("sqlcmd", &[Rule::Next("-P"), Rule::Attached("-P")]),
    ("ldapsearch", &[Rule::Next("-w")]),
    ("ldapmodify", &[Rule::Next("-w")]),
    ("smbclient", &[Rule::Pair("-U", b'%')]),
    ("openssl", &[Rule::Begin("pass:"), Rule::Next("-k")]),
    ("wget", &[Rule::Next("--password")]),
];

/// The rules of the program with this name. Its relatives are called alike: `mysqldump`.
pub(super) fn rules_of(program: &str) -> &'static [Rule] {
    let is_it = |name: &str| program.starts_with(name.split(' ').next().unwrap_or(name));
    PROGRAMS.iter().find(|(name, _)| is_it(name)).map_or(&[], |(_, rules)| rules)
}

impl Rule {
    /// The secret in an argument, given the one before it.
    pub(super) fn secret_in(self, before: &str, arg: &str) -> Option<Range<usize>> {
        let range = match self {
            Self::Attached(option) => {
                let value = arg.strip_prefix(option)?;
                (!value.is_empty()).then_some(option.len()..arg.len())?
            }
            Self::Next(option) => (before == option && !arg.starts_with('-')).then_some(0..arg.len())?,
            Self::Pair(option, sign) => {
                let begin = if before == option {
                    0
                } else {
                    let rest = arg.strip_prefix(option)?;
                    arg.len() - rest.strip_prefix('=').unwrap_or(rest).len()
                };
                let length = arg[begin..].bytes().position(|byte| byte == sign)?;
                begin + length + 1..arg.len()
            }
            Self::Begin(begin) => arg.strip_prefix(begin).map(|_| begin.len()..arg.len())?,
        };
        let value = arg[range.clone()].as_bytes();
        // `-p3306:3306` is about ports.
        let is_ports = value.iter().all(|byte| byte.is_ascii_digit() || *byte == b':');
        let is_port = is_ports && matches!(self, Self::Attached(_)) && value.contains(&b':');
        (!range.is_empty() && !is_placeholder(value) && !is_port).then_some(range)
    }
}

/// The secrets in a command line that begins with a program's name.
pub(super) fn secrets(text: &Text<'_>, hit: Range<usize>, rules: &[Rule]) -> Vec<Secret> {
    let mut found = Vec::new();
    if !text.is_boundary(hit.start) || !text.begins_command(hit.start, rules) {
        return found;
    }
    let is_in = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let mut at = text.end_of(hit.end, 32, is_in);
    let limit = hit.end + MAX_COMMAND;
    let mut before = "";
    while at < limit
        && let Some(arg) = next_argument(text, text.skip_blanks(at))
        && let Ok(word) = std::str::from_utf8(&text.bytes[arg.clone()])
    {
        let ranges = rules.iter().filter_map(|rule| rule.secret_in(before, word));
        found.extend(
            ranges.map(|range| unquoted(text, hit.start, arg.start + range.start..arg.start + range.end)),
        );
        (before, at) = (word, text.end_of(arg.end, 1, |byte| matches!(byte, b'"' | b'\'')));
    }
    text.end_command(at, rules);
    found
}

/// The next word of a command, without the quotes around it. Nothing at the end of the command.
fn next_argument(text: &Text<'_>, at: usize) -> Option<Range<usize>> {
    if text.at(at).is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b';' | b'|' | b'&')) {
        return None;
    }
    if text.bytes[at..].starts_with(b"\\\n") {
        return next_argument(text, text.skip_blanks(at + 2));
    }
    if matches!(text.at(at), Some(b'"' | b'\'')) {
        return value_at(text, at).map(|value| value.range).filter(|range| range.end > at);
    }
    let end = text.end_of(at, MAX_COMMAND, |byte| !byte.is_ascii_whitespace());
    (end > at).then_some(at..end)
}

/// Without quotes inside an argument: `-p'SECRET'`.
fn unquoted(text: &Text<'_>, begin: usize, range: Range<usize>) -> Secret {
    let is_quote = |byte: Option<u8>| matches!(byte, Some(b'"' | b'\''));
    let start = if is_quote(text.at(range.start)) { range.start + 1 } else { range.start };
    let end = if is_quote(text.before(range.end)) && range.end > start { range.end - 1 } else { range.end };
    Secret::new(begin, start..end)
}
