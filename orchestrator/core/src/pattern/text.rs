//! Pattern text as bytes: what is special in it, how to quote it, how to show it.

use std::fmt::{self, Write};

/// Whether `text` holds a byte that a pattern may read as something other than itself.
pub fn has_meta(text: &[u8]) -> bool {
    text.iter().any(|&byte| is_meta(byte))
}

/// Whether `path` can match the pattern with the normalised text `text`, judged by the bytes before the first special
/// one. A cheap no that spares parsing; a yes says nothing yet.
pub fn may_match(text: &[u8], path: &[u8]) -> bool {
    let plain = text.iter().position(|&byte| is_meta(byte)).unwrap_or(text.len());
    path.starts_with(&text[..plain])
}

/// Whether `path` can be a directory that the pattern with the normalised text `text` [names](super::Pattern::names_directory).
/// As cheap as [`may_match`].
pub fn may_name_directory(text: &[u8], path: &[u8]) -> bool {
    let plain = text.iter().position(|&byte| is_meta(byte)).unwrap_or(text.len());
    path.starts_with(&text[..plain]) || super::is_above(path, &text[..plain])
}

fn is_meta(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b'\\')
}

/// The first letter or digit that has a `\` before it.
pub(super) fn needless_escape(text: &[u8]) -> Option<char> {
    let text = String::from_utf8_lossy(text);
    let mut chars = text.chars();
    // Whatever stands behind a `\` is looked at together with it, also another one.
    std::iter::from_fn(|| chars.find(|c| *c == '\\').and_then(|_| chars.next())).find(|c| c.is_alphanumeric())
}

/// Appends `literal` to `out` so that parsing reads every byte as itself.
///
/// A `]` needs no escape outside a class. Not giving it one means that normalising never makes a text
/// longer, so the normalised text of a pattern within the limits is within them too.
pub(super) fn escape_into(out: &mut Vec<u8>, literal: &[u8]) {
    if !has_meta(literal) {
        out.extend_from_slice(literal);
        return;
    }
    for &byte in literal {
        if is_meta(byte) && byte != b']' {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Shows bytes on one line: stray bytes as `\xNN`, control characters escaped.
pub(super) struct Lossy<'a>(pub(super) &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    f.write_char(c)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}
