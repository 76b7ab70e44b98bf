//! Sizes as people write them: `500MB`, `20GB`, `1.5TB`, `64GiB`.
//!
//! Owns the one way sizes are read and written.

use thiserror::Error;

/// How a size may look.
pub(crate) const EXAMPLE: &str = "20GB";

/// The largest first, so that a size is written in the largest unit that fits.
const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
];

/// Why a text is not a usable size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a number with a unit.
    #[error("`{text}` cannot be read as a size, write it with a unit, like `{EXAMPLE}` or `500MB`")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// Nothing would ever fit.
    #[error("`{text}` is less than a byte, write it like `{EXAMPLE}`, or leave it empty for no bound")]
    Zero {
        /// What was written.
        text: String,
    },
}

/// Reads a size in bytes. An empty text is zero, which stands for no bound.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    let owned = || text.to_owned();
    let malformed = || SizeError::Malformed { text: owned() };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.bytes().all(|digit| matches!(digit, b'0' | b'.')) && !number.is_empty() {
        return Err(SizeError::Zero { text: owned() });
    }
    let unit = unit.trim();
    let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(malformed)?;
    let number: f64 = number.parse().map_err(|_not_a_number| malformed())?;
    #[expect(clippy::cast_precision_loss, reason = "a unit is a round number")]
    let size = number * *bytes as f64;
    // Beyond it not every whole number is one of these.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    if size > MAX_EXACT {
        return Err(malformed());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at above")]
    match size as u64 {
        0 => Err(SizeError::Zero { text: owned() }),
        size => Ok(size),
    }
}

/// Writes a size so that it can be read back; zero as nothing.
pub fn format_size(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    let exact = UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => {
            #[expect(clippy::cast_precision_loss, reason = "shown in thousands")]
            let thousands = bytes as f64 / 1_000.0;
            format!("{thousands}KB")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, size) in [
            ("20GB", 20_000_000_000),
            ("1.5 gb", 1_500_000_000),
            ("64GiB", 64 << 30),
            (" 500MB ", 500_000_000),
            ("1KB", 1_000),
            ("", 0),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["20", "GB", "-1GB", "many", "1.2.3GB", "1e3GB", "20 GB free", "99999999999TB"] {
            assert!(matches!(parse_size(text), Err(SizeError::Malformed { .. })), "{text}");
        }
        for text in ["0", "0GB", "0.0MB", "0.0001KB"] {
            assert!(matches!(parse_size(text), Err(SizeError::Zero { .. })), "{text}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        for size in [1, 999, 1_000, 1_500_000, 20_000_000_000, 64 << 30, 3 << 40, 12_345_678] {
            assert_eq!(parse_size(&format_size(size)), Ok(size), "{}", format_size(size));
        }
        assert_eq!([format_size(20_000_000_000), format_size(1 << 30), format_size(0)], ["20GB", "1GiB", ""]);
    }
}
