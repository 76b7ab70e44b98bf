//! Keeps secrets out of whatever is recorded, shown or exported.
//!
//! What programs print and what is typed carries passwords and tokens. [`mask`] replaces what looks like one by `***`:
//! values of options, variables, headers and settings with a telling name, passwords in addresses, private keys, and tokens
//! of well-known shapes wherever they stand. What is masked cannot be read back. [`mask_bytes`], [`mask_json`],
//! [`mask_args`] and [`MaskingWriter`] do the same for bytes, JSON, the arguments of a command and a stream.
//!
//! It is a net, not a proof: a password that stands alone, under a name that tells nothing, is not recognised.
//!
//! **Cost.** One automaton looks for words and prefixes that secrets begin with or follow; rules look only at what stands
//! around them, so the time grows with the length of the text and nothing else. It is built when something is masked for the
//! first time: hooks that record nothing from outside never pay for it.

mod address;
mod command;
mod name;
mod named;
mod pem;
mod scan;
mod stream;
mod token;
mod value;

use std::borrow::Cow;
use std::path::Path;

use mala_core::file::read_tail;
use serde_json::Value;

use name::is_secret;
use scan::secrets_in;

pub use stream::MaskingWriter;

const MASK: &str = "***";

/// The text with secrets replaced by `***`.
pub fn mask(text: &str) -> Cow<'_, str> {
    match mask_bytes(text.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // Secrets begin and end beside ASCII, so this never replaces anything.
        Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
    }
}

/// The same for text in any encoding that has ASCII in it.
pub fn mask_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    let secrets = secrets_in(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = Vec::with_capacity(text.len());
    let mut copied = 0;
    for secret in secrets {
        masked.extend_from_slice(&text[copied..secret.range.start]);
        masked.extend_from_slice(MASK.as_bytes());
        copied = secret.range.end;
    }
    masked.extend_from_slice(&text[copied..]);
    Cow::Owned(masked)
}

/// The end of a file as text with secrets masked, at most `most` bytes of it. Nothing if it cannot be read.
pub fn tail(path: &Path, most: u64) -> Option<String> {
    // A secret must not lose what it is known by.
    let text = read_tail(path, most + stream::HELD as u64)?;
    let masked = mask(&text);
    let from = masked.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
    Some(masked[masked.ceil_char_boundary(from)..].to_owned())
}

/// Masks secrets in every text of a JSON value, and texts that belong to a telling name.
pub fn mask_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask(text) {
                *text = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask_json),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            Value::String(text) if !text.is_empty() && is_secret(name) => MASK.clone_into(text),
            value => mask_json(value),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The arguments of a command with secrets replaced by `***`. Seeing them one by one, it also knows where a value ends
/// and that an option's value is the next argument.
pub fn mask_args<S: AsRef<str>>(args: &[S]) -> Vec<String> {
    let program = args.first().map(|program| program.as_ref().rsplit('/').next().unwrap_or_default());
    let rules = program.map(command::rules_of).unwrap_or_default();
    let mut masked = Vec::with_capacity(args.len());
    let mut before = "";
    for arg in args {
        let arg = arg.as_ref();
        let secret = rules.iter().find_map(|rule| rule.secret_in(before, arg));
        masked.push(match secret {
            _ if takes_secret(before) => MASK.to_owned(),
            Some(range) => format!("{}{MASK}{}", &arg[..range.start], &arg[range.end..]),
            None => mask_arg(arg),
        });
        before = arg;
    }
    masked
}

/// True for `--password` and the like, whose value is the next argument.
fn takes_secret(option: &str) -> bool {
    option.starts_with('-') && !option.contains('=') && is_secret(option)
}

fn mask_arg(arg: &str) -> String {
    match arg.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_name(name) && is_secret(name) => {
            format!("{name}={MASK}")
        }
        _ => mask(arg).into_owned(),
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests;
