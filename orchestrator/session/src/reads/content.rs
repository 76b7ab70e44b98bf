//! What a file holds, in a few bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use mala_core::file::open_regular;
use sha2::{Digest, Sha256};

/// Longer files are not read: nobody writes them whole from memory.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Longer texts are known by their hash alone.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// What a file holds, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileContent {
    Absent,
    Present {
        /// SHA-256, as hex digits.
        hash: String,
        /// Nothing if it is long, or no text.
        text: Option<String>,
    },
}

impl FileContent {
    /// Nothing if it cannot be found out, or is too long.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match open_regular(path) {
            Ok(file) => Self::of_file(file).ok()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Self::Absent),
            Err(_) => None,
        }
    }

    fn of_file(file: File) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        if length > MAX_FILE_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        let hash = hex::encode(Sha256::digest(&bytes));
        let is_short = bytes.len() <= MAX_TEXT_BYTES;
        let text = is_short.then(|| String::from_utf8(bytes).ok()).flatten();
        Ok(Some(Self::Present { hash, text }))
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.hash() == other.hash()
    }

    fn hash(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Present { hash, .. } => Some(hash),
        }
    }

    /// The text; nothing if it is not known.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Absent => Some(""),
            Self::Present { text, .. } => text.as_deref(),
        }
    }

    /// `HASH` or `absent`, and the text behind a line feed.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let text = self.text().filter(|_| *self != Self::Absent).map(|text| format!("\n{text}"));
        format!("{}{}", self.hash().unwrap_or("absent"), text.unwrap_or_default()).into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (hash, text) = text.split_once('\n').map_or((text, None), |(hash, text)| (hash, Some(text)));
        match hash {
            "absent" => Some(Self::Absent),
            _ if hash.len() == 64 => {
                Some(Self::Present { hash: hash.to_owned(), text: text.map(str::to_owned) })
            }
            _ => None,
        }
    }
}
