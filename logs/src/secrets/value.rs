//! Values that follow a name: where they end, and whether they can be a secret at all.

use std::ops::Range;

use super::scan::Text;

/// The longest secret that stands in quotes.
const MAX_QUOTED: usize = 4 << 10;

/// A value behind a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    /// Without its quotes.
    pub(super) range: Range<usize>,
    pub(super) is_quoted: bool,
}

/// The value that begins here: in quotes that end in the same line, or up to the next space or quote.
pub(super) fn value_at(text: &Text<'_>, at: usize) -> Option<Value> {
    let escapes = text.end_of(at, 4, |byte| byte == b'\\') - at;
    if let Some(quote) = text.at(at + escapes).filter(|byte| matches!(byte, b'"' | b'\'' | b'`')) {
        let begin = at + escapes + 1;
        if let Some(end) = closing(text, begin, quote, escapes) {
            return Some(Value { range: begin..end, is_quoted: true });
        }
        return bare(text, begin);
    }
    bare(text, at)
}

fn bare(text: &Text<'_>, at: usize) -> Option<Value> {
    let end = text.end_of_run(at);
    (end > at).then_some(Value { range: at..end, is_quoted: false })
}

/// Where the quotes are closed by the same quote behind as many backslashes.
fn closing(text: &Text<'_>, begin: usize, quote: u8, escapes: usize) -> Option<usize> {
    let mut backslashes = 0;
    for at in begin..text.bytes.len().min(begin + MAX_QUOTED) {
        match text.bytes[at] {
            b'\n' => return None,
            b'\\' => backslashes += 1,
            byte if byte == quote && (quote == b'\'' || backslashes <= escapes) => {
                return Some(at - backslashes.min(escapes));
            }
            _ => backslashes = 0,
        }
    }
    None
}

/// True for what stands where a secret will be: `$TOKEN`, `${{ secrets.X }}`, `<token>`, `***`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let is_variable = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_' || byte.is_ascii_digit())
    };
    match value {
        []
        | [b'$', b'{' | b'(', ..]
        | [b'{', b'{' | b'}', ..]
        | [b'%', b'(' | b's', ..]
        | [b'<', .., b'>']
        | [b'[', .., b']'] => true,
        [b'$', name @ ..] | [b'%', name @ .., b'%'] => is_variable(name),
        value => {
            value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X' | b'-' | b'_'))
                && value.len() > 1
        }
    }
}

/// Words that stand behind a name in code and in sentences, and are nobody's secret.
const WORDS: &[&str] = &[
    "a",
    "an",
    "and",
    "any",
    "are",
    "as",
    "be",
    "bool",
    "boolean",
    "byte",
    "bytes",
    "can",
    "cannot",
    "char",
    "const",
    "default",
    "does",
    "empty",
    "error",
    "expected",
    "expired",
    "false",
    "field",
    "flag",
    "for",
    "from",
    "has",
    "in",
    "incorrect",
    "int",
    "integer",
    "into",
    "invalid",
    "is",
    "it",
    "key",
    "let",
    "missing",
    "must",
    "mut",
    "new",
    "nil",
    "no",
    "none",
    "not",
    "null",
    "number",
    "object",
    "of",
    "ok",
    "on",
    "one",
    "option",
    "optional",
    "or",
    "passwd",
    "password",
    "please",
    "pub",
    "required",
    "requires",
    "secret",
    "self",
    "set",
    "should",
    "str",
    "string",
    "text",
    "that",
    "the",
    "this",
    "to",
    "token",
    "tokens",
    "true",
    "type",
    "undefined",
    "unexpected",
    "unknown",
    "unset",
    "value",
    "was",
    "will",
    "with",
    "wrong",
    "yes",
    "your",
];

/// True for a word that is no value.
pub(super) fn is_word(value: &[u8]) -> bool {
    std::str::from_utf8(value)
        .is_ok_and(|value| WORDS.binary_search(&value.to_ascii_lowercase().as_str()).is_ok())
}

/// True for what can only be code: a call, a path, a type, a member of something.
pub(super) fn is_code(value: &[u8]) -> bool {
    let has = |what: &[u8]| value.windows(what.len()).any(|part| part == what);
    if has(b"::") || has(b"->") || has(b"=>") {
        return true;
    }
    match value {
        [b'<' | b'[' | b'{' | b'(' | b'|' | b'&' | b'*' | b'/' | b'.', ..] => return true,
        [b'$', rest @ ..] => return rest.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_'),
        _ => {}
    }
    if let Some(call) = value.iter().position(|byte| matches!(byte, b'(' | b'[' | b'<')) {
        return is_member(&value[..call]);
    }
    value.contains(&b'.') && is_member(value)
}

/// `a` or `a.b.c`, with words that begin with a letter and mean something, unlike `a1B2c3.x9`.
fn is_member(value: &[u8]) -> bool {
    let value = value.strip_suffix(b"?").or_else(|| value.strip_suffix(b"!")).unwrap_or(value);
    !value.is_empty() && value.split(|byte| *byte == b'.').all(is_identifier)
}

fn is_identifier(word: &[u8]) -> bool {
    let is_begin = word.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    is_begin && digits <= 2 && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order() {
        assert!(WORDS.is_sorted());
    }

    #[test]
    fn placeholders_and_code_are_no_values() {
        for text in
            ["$TOKEN", "${x}", "${{ secrets.X }}", "<token>", "xxxx", "****", "{{ token }}", "%TOKEN%"]
        {
            assert!(is_placeholder(text.as_bytes()), "{text}");
        }
        for text in
            ["models.CharField", "os.getenv(", "self.token", "&str", "Vec<u8>", "std::env", "[u8;", "$this"]
        {
            assert!(is_code(text.as_bytes()), "{text}");
        }
        for text in ["hunter2", "$ecret9", "x", "a1B2c3D4.x9y8z7", "p@ss(word", "xkcd"] {
            assert!(!is_placeholder(text.as_bytes()) && !is_code(text.as_bytes()), "{text}");
        }
    }
}
