//! Reading back what the types of `mala-core` only write.

use std::fmt::Display;
use std::str::FromStr;

use mala_core::Timestamp;
use mala_core::issue::parse_moment;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A name that was written as text.
pub(crate) fn name<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// A name that may be missing.
pub(crate) fn maybe_name<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}

/// An instant in RFC 3339.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_moment(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a time")))
}

/// True for a word that can be the beginning of an object name.
pub(crate) fn is_commit_like(word: &str) -> bool {
    (7..=64).contains(&word.len()) && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
