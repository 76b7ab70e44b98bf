//! Private keys in PEM and its relatives, over many lines or in one.

use std::ops::Range;

use super::scan::{Secret, Text};

pub(super) const ANCHORS: &[&str] = &["-----begin ", "-----end ", "---- begin "];

/// The longest key that is looked for, and the longest line of one.
const MAX_KEY: usize = 64 << 10;
const MAX_LINE: usize = 16 << 10;
/// Lines of a key are longer, but for its last one.
const SHORT: usize = 16;

/// A private key from its first line on, as far as what follows can be one; or, if only its end was kept, back from its last.
pub(super) fn block(text: &Text<'_>, hit: Range<usize>) -> Option<Secret> {
    let marker = private_marker(text, &hit)?;
    let begin_of_key = |at: usize| Secret::new(at, at..marker.end);
    if is_end(&text.bytes[hit.clone()]) {
        let first = first_line_before(text, hit.start);
        return (first < hit.start).then(|| begin_of_key(first));
    }
    let end = end_of_key(text, marker.end);
    // A line that only names the beginning of a key is none.
    (end > marker.end).then(|| Secret::new(marker.start, marker.start..end))
}

/// Where a private key begins of which more may follow.
pub(super) fn open_key(bytes: &[u8]) -> Option<usize> {
    let text = Text::new(bytes);
    let begin =
        memchr::memmem::rfind(bytes, b"---- BEGIN ").max(memchr::memmem::rfind(bytes, b"-----BEGIN "))?;
    let marker = private_marker(&text, &(begin..begin + ANCHORS[0].len()));
    // Its first line may not be there as a whole.
    let Some(marker) = marker else { return (bytes.len() - begin < 80).then_some(begin) };
    let end = end_of_key(&text, marker.end);
    let is_over = end > marker.end && bytes[..end].ends_with(b"----");
    (!is_over && after_separators(&text, end) + 2 * MAX_LINE > bytes.len()).then_some(begin)
}

fn is_end(marker: &[u8]) -> bool {
    marker.trim_ascii_start().to_ascii_uppercase().windows(5).any(|word| word == b"-END ")
}

/// The whole `-----BEGIN ... PRIVATE KEY-----`.
fn private_marker(text: &Text<'_>, hit: &Range<usize>) -> Option<Range<usize>> {
    let end = text.end_of(hit.end, 64, |byte| byte.is_ascii_alphanumeric() || byte == b' ');
    let title = text.bytes[hit.end..end].to_ascii_uppercase();
    let is_private = title.windows(11).any(|words| words == b"PRIVATE KEY");
    let dashes = text.end_of(end, 5, |byte| byte == b'-');
    (is_private && dashes - end >= 4).then_some(hit.start..dashes)
}

/// Where the words end that can be of a key: those of base64, its headers, and its last marker. What stands around lines to
/// quote, number or join them is passed over.
fn end_of_key(text: &Text<'_>, marker: usize) -> usize {
    let limit = marker.saturating_add(MAX_KEY);
    let (mut end, mut at, mut short) = (marker, marker, 0);
    while at < limit {
        at = after_separators(text, at);
        if text.bytes[at.min(text.bytes.len())..].starts_with(b"---") {
            let last = text.end_of(at, 96, |byte| byte.is_ascii_alphanumeric() || b" -".contains(&byte));
            let is_last = is_end(&text.bytes[at..last]);
            return if is_last { last } else { end };
        }
        let word = text.end_of(at, MAX_LINE, |byte| !is_separator(byte) && byte != b'\\');
        match &text.bytes[at..word] {
            [] => return end,
            [.., b':'] => word_end_of_header(text, &mut at, word),
            content if content.iter().all(|byte| is_base64(*byte)) => {
                short = if content.len() < SHORT { short + 1 } else { 0 };
                if short > 1 {
                    return end;
                }
                end = if short == 0 { word } else { end };
                at = word;
            }
            _ => return end,
        }
    }
    end
}

/// A header such as `Proc-Type: 4,ENCRYPTED` is passed over with its value, the number of a line without.
fn word_end_of_header(text: &Text<'_>, at: &mut usize, word: usize) {
    let is_number = text.bytes[*at..word - 1].iter().all(u8::is_ascii_digit);
    *at = if is_number { word } else { text.end_of(word, MAX_LINE, |byte| !matches!(byte, b'\n' | b'\\')) };
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte)
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`|>#*,;()".contains(&byte)
}

/// Over what stands between two lines: spaces, quotes, a line break that is written out as `\n`.
fn after_separators(text: &Text<'_>, from: usize) -> usize {
    let mut at = from;
    loop {
        at = text.end_of(at, MAX_LINE, is_separator);
        let escapes = text.end_of(at, 4, |byte| byte == b'\\');
        match text.at(escapes) {
            Some(b'n' | b'r' | b't') if escapes > at => at = escapes + 1,
            _ => return at,
        }
    }
}

/// Where the lines of base64 before the last marker begin.
fn first_line_before(text: &Text<'_>, marker: usize) -> usize {
    let least = marker.saturating_sub(MAX_KEY);
    let mut begin = text.begin_of(marker, 64, |byte| byte != b'\n');
    let mut first = marker;
    while begin > least.max(1) {
        let line = text.begin_of(begin - 1, MAX_LINE, |byte| byte != b'\n');
        let content = text.bytes[line..begin - 1].trim_ascii();
        let content = content.rsplit(|byte| is_separator(*byte)).next().unwrap_or_default();
        let is_long = content.len() >= SHORT || first == marker;
        if content.is_empty() || !is_long || !content.iter().all(|byte| is_base64(*byte)) {
            break;
        }
        (first, begin) = (line, line);
    }
    first
}
