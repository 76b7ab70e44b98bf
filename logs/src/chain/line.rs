//! The form of one line. It is exact, so every byte of a line counts: there is one way to write it.

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use super::error::Why;

const DIGITS: usize = 64;
const HASH: &[u8] = b",\"hash\":\"";
const CLOSE: &[u8] = b"\"}";

/// A SHA-256 as it is written: 64 lower-case hexadecimal digits.
///
/// Hashes are compared as text, because a digit in upper case means the same number but is a changed byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineHash([u8; DIGITS]);

impl LineHash {
    /// What the first line follows.
    pub(super) const NOTHING: Self = Self([b'0'; DIGITS]);

    fn of(parts: [&[u8]; 2]) -> Self {
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        let mut text = [0; DIGITS];
        hex::encode_to_slice(hasher.finalize(), &mut text).expect("two digits for each byte");
        Self(text)
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let text: [u8; DIGITS] = text.try_into().ok()?;
        text.iter().all(is_digit).then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits")
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LineHash({})", self.as_str())
    }
}

impl Serialize for LineHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A text is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotAHash;

impl std::str::FromStr for LineHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        Self::from_text(text.as_bytes()).ok_or(NotAHash)
    }
}

impl<'de> Deserialize<'de> for LineHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The end of a chain, from which the next line follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) seq: u64,
    pub(super) hash: LineHash,
}

impl End {
    pub(super) const EMPTY: Self = Self { seq: 0, hash: LineHash::NOTHING };
}

/// Why a record cannot be a line.
#[derive(Debug)]
pub(super) enum ComposeError {
    NotAnObject(jsonl::WriteError),
    Reserved(serde_json::Error),
}

/// A line before it has its hash.
#[derive(Serialize)]
struct Unsealed<'a, T> {
    seq: u64,
    prev: LineHash,
    #[serde(flatten)]
    record: &'a T,
}

/// Reading a line as this fails if a record brought one of the chain's own fields: fields may not come twice.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only their number matters")]
struct OwnFields {
    seq: IgnoredAny,
    prev: IgnoredAny,
    hash: IgnoredAny,
}

/// The line that follows `end`, with its line break, and the end after it.
pub(super) fn compose<T: Serialize>(end: End, record: &T) -> Result<(Vec<u8>, End), ComposeError> {
    let seq = end.seq + 1;
    let mut line = Vec::with_capacity(512);
    let unsealed = Unsealed { seq, prev: end.hash, record };
    jsonl::write(&mut line, &unsealed).map_err(ComposeError::NotAnObject)?;
    line.truncate(line.len() - b"\n".len());
    let hash = LineHash::of([&line, b""]);
    line.truncate(line.len() - b"}".len());
    line.extend_from_slice(HASH);
    line.extend_from_slice(hash.as_str().as_bytes());
    line.extend_from_slice(CLOSE);
    serde_json::from_slice::<OwnFields>(&line).map_err(ComposeError::Reserved)?;
    line.push(b'\n');
    Ok((line, End { seq, hash }))
}

/// The number of a line, which is written first.
pub(super) fn number(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let digits = &digits[..digits.iter().position(|byte| !byte.is_ascii_digit())?];
    // Nothing else may mean the same number.
    (digits.first() != Some(&b'0')).then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// The hash that a line says it has, and the bytes before it.
fn split(line: &[u8]) -> Option<(&[u8], LineHash)> {
    let rest = line.strip_suffix(CLOSE)?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(HASH)?, LineHash::from_text(hash)?))
}

/// What a line says about itself.
pub(super) fn end_of(line: &[u8]) -> Option<End> {
    Some(End { seq: number(line)?, hash: split(line)?.1 })
}

/// The end of the chain after this line, if it is the line that follows `end`.
pub(super) fn follow(end: End, line: &[u8]) -> Result<End, Why> {
    let found = number(line).ok_or(Why::Malformed)?;
    let (sealed, hash) = split(line).ok_or(Why::Malformed)?;
    if LineHash::of([sealed, b"}"]) != hash {
        return Err(Why::Changed);
    }
    let expected = end.seq + 1;
    if found != expected {
        return Err(Why::Number { found, expected });
    }
    let start = format!("{{\"seq\":{expected},\"prev\":\"{}\"", end.hash);
    if !sealed.starts_with(start.as_bytes()) {
        return Err(Why::Unlinked);
    }
    Ok(End { seq: expected, hash })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_line_without_its_hash() {
        let (line, end) = compose(End::EMPTY, &json!({"id": "e-1"})).unwrap();
        let text = String::from_utf8(line).unwrap();
        let zeros = "0".repeat(64);
        let without = format!("{{\"seq\":1,\"prev\":\"{zeros}\",\"id\":\"e-1\"}}");
        let by_sha256sum = "32c260819ee8a4abe3888b97690d208e6685eb26100e6ebbe167026bc3d151be";
        assert_eq!(text, format!("{},\"hash\":\"{by_sha256sum}\"}}\n", &without[..without.len() - 1]));
        assert_eq!(end.hash.as_str(), by_sha256sum);
    }

    #[test]
    fn a_line_follows_exactly_the_one_before_it() {
        let (first, one) = compose(End::EMPTY, &json!({})).unwrap();
        let (second, two) = compose(one, &json!({"text": "a\nb"})).unwrap();
        assert_eq!(follow(End::EMPTY, first.trim_ascii_end()), Ok(one));
        assert_eq!(follow(one, second.trim_ascii_end()), Ok(two));
        assert_eq!(end_of(second.trim_ascii_end()), Some(two));
        let wrong = follow(End::EMPTY, second.trim_ascii_end());
        assert_eq!(wrong, Err(Why::Number { found: 2, expected: 1 }));
        let forged = End { seq: 1, hash: LineHash::NOTHING };
        assert_eq!(follow(forged, second.trim_ascii_end()), Err(Why::Unlinked));
    }

    #[test]
    fn every_changed_byte_of_a_line_is_found() {
        let (line, _) = compose(End::EMPTY, &json!({"argv": ["cargo", "test"], "exit_code": 0})).unwrap();
        let line = line.trim_ascii_end();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.to_vec();
                changed[at] ^= 1 << bit;
                assert!(follow(End::EMPTY, &changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn only_objects_without_the_chains_own_fields_can_be_recorded() {
        for record in [json!(1), json!("a"), json!([1])] {
            assert!(matches!(compose(End::EMPTY, &record), Err(ComposeError::NotAnObject(_))), "{record}");
        }
        for record in [json!({"seq": 1}), json!({"prev": 1}), json!({"hash": 1})] {
            assert!(matches!(compose(End::EMPTY, &record), Err(ComposeError::Reserved(_))), "{record}");
        }
        assert!(compose(End::EMPTY, &json!({"inner": {"seq": 1, "hash": 2}})).is_ok());
    }
}
