//! Names of files as git knows them: bytes, relative to the top of the checkout.
//!
//! In JSON a name that is text stands as it is. Any other name, and one that begins with a quote, is written the way
//! git quotes names, so that every name has exactly one text and every text at most one name.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Path of a file inside a repository, exactly as git stores it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Where the file lies if the checkout is at `root`.
    pub fn within(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// True if this is `folder` itself or lies in it. The empty path is the whole checkout.
    pub fn is_within(&self, folder: &Self) -> bool {
        folder.0.is_empty()
            || self.0.strip_prefix(folder.0.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// The one text of this name; see the module.
    pub fn to_text(&self) -> String {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with('"') => text.to_owned(),
            _ => quoted(&self.0),
        }
    }

    /// As git reads a name from a line, whatever is in it.
    pub fn to_quoted(&self) -> String {
        quoted(&self.0)
    }

    /// The name that [`Self::to_text`] wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix('"') {
            None => Some(Self(text.as_bytes().to_vec())),
            Some(rest) => unquoted(rest.strip_suffix('"')?).map(Self),
        }
    }
}

/// The way git quotes a name, in ASCII on one line.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            0x20..0x7f => text.push(char::from(byte)),
            _ => text.extend(
                [b'\\', b'0' + (byte >> 6), b'0' + ((byte >> 3) & 7), b'0' + (byte & 7)].map(char::from),
            ),
        }
    }
    text.push('"');
    text
}

fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            plain @ (b'"' | b'\\') => bytes.push(plain),
            high => {
                let digits = [high, rest.next()?, rest.next()?];
                let number = digits
                    .iter()
                    .try_fold(0u32, |sum, digit| Some(sum * 8 + char::from(*digit).to_digit(8)?))?;
                bytes.push(u8::try_from(number).ok()?);
            }
        }
    }
    Some(bytes)
}

/// Shows the name on one line: bytes that are no text as `\xNN`, control characters escaped.
impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter.is_control() {
                    true => write!(f, "{}", letter.escape_default())?,
                    false => fmt::Write::write_char(f, letter)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02X}"))?;
        }
        Ok(())
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_text(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a quoted path")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_text_of_its_own_and_comes_back() {
        let names: [&[u8]; 8] = [
            b"src/a.rs",
            "src/\u{e4}.rs".as_bytes(),
            b"a\nb",
            b"\"quoted\"",
            b"\xff\xfe",
            b"\\377\\376",
            b"\"\\377\"",
            b"",
        ];
        let texts: std::collections::HashSet<String> =
            names.iter().map(|name| RepoPath::from_bytes(*name).to_text()).collect();
        assert_eq!(texts.len(), names.len());
        for name in names {
            let path = RepoPath::from_bytes(name);
            assert_eq!(RepoPath::from_text(&path.to_text()), Some(path));
        }
        assert_eq!(RepoPath::from_bytes(b"\xff").to_text(), "\"\\377\"");
    }

    #[test]
    fn half_a_quote_is_not_a_name() {
        for text in ["\"", "\"abc", "\"\\9\"", "\"\\77\"", "\"\\777\""] {
            assert_eq!(RepoPath::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_folder_holds_what_is_below_it_and_nothing_beside_it() {
        let path = |text: &str| RepoPath::from_bytes(text);
        assert!(path("src/a.rs").is_within(&path("src")));
        assert!(path("src/a.rs").is_within(&path("src/a.rs")));
        assert!(path("src/a.rs").is_within(&path("")));
        assert!(!path("src2/a.rs").is_within(&path("src")));
        assert!(!path("src").is_within(&path("src/a.rs")));
    }
}
