//! Durations as people write them: `500ms`, `30s`, `10m`, `2h`, `7d`, `1h30m`.
//!
//! Owns the one way durations are read and written, for settings and for arguments such as `--ttl`. The grammar
//! is jiff's "friendly" format. A day is always 24 hours, because a lease knows no time zone; years and months
//! are refused, because they have no fixed length.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanParser, SpanPrinter};
use jiff::{Span, SpanRelativeTo, SpanRound, Unit};
use thiserror::Error;

const EXAMPLES: &str = "`500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`";

/// Why a text is not a usable duration.
#[derive(Debug, Error)]
pub enum DurationError {
    /// Not a duration, most often because a unit is missing, or longer than can be counted.
    #[error("`{text}` cannot be read as a duration, write it like {}", EXAMPLES)]
    Malformed {
        /// What was written.
        text: String,
        /// The parser's view.
        source: jiff::Error,
    },
    /// Nothing where a duration should be.
    #[error("a duration is missing, write it like {}", EXAMPLES)]
    Empty,
    /// A unit without a fixed length.
    #[error("`{text}` has no fixed length, count in days instead of months or years, like `30d`")]
    Calendar {
        /// What was written.
        text: String,
        /// The parser's view.
        source: jiff::Error,
    },
    /// Zero or negative.
    #[error("`{text}` is not longer than zero, write it like {}", EXAMPLES)]
    NotPositive {
        /// What was written.
        text: String,
    },
}

/// Reads a positive duration.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let owned = || text.to_owned();
    if text.trim().is_empty() {
        return Err(DurationError::Empty);
    }
    let span = SpanParser::new()
        .parse_span(text)
        .map_err(|source| DurationError::Malformed { text: owned(), source })?;
    let signed = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|source| DurationError::Calendar { text: owned(), source })?;
    match Duration::try_from(signed) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(DurationError::NotPositive { text: owned() }),
    }
}

/// Writes a duration so that [`parse_duration`] reads it back, in days and smaller units.
pub fn format_duration(duration: Duration) -> String {
    let printer = SpanPrinter::new().spacing(Spacing::None);
    let in_days = SpanRound::new().largest(Unit::Day).days_are_24_hours();
    match Span::try_from(duration).and_then(|span| span.round(in_days)) {
        Ok(span) => printer.span_to_string(&span),
        // Longer than jiff can count in days: thousands of years, still worth printing.
        Err(_) => printer.unsigned_duration_to_string(&duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse_duration(text).unwrap_err().to_string()
    }

    #[test]
    fn reads_every_unit_and_combinations() {
        let cases = [
            ("500ms", Duration::from_millis(500)),
            ("30s", Duration::from_secs(30)),
            ("10m", Duration::from_mins(10)),
            ("2h", Duration::from_hours(2)),
            ("7d", Duration::from_hours(7 * 24)),
            ("1h30m", Duration::from_mins(90)),
            ("1h 30m", Duration::from_mins(90)),
            ("1.5h", Duration::from_mins(90)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_it_writes_it_reads_back() {
        for text in ["1ms", "500ms", "30s", "1m30s", "1h30m", "1d", "3650d", "1d1ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::MAX), "5124095576030431h15s999ms999µs999ns");
    }

    #[test]
    fn refuses_what_has_no_unit_or_no_number() {
        insta::assert_snapshot!(message("10"), @"`10` cannot be read as a duration, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`");
        for text in ["0", "m", "10x", "10M", "ten minutes", "P1D", "10m,", "1h-30m", "10m 10h"] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationError::Malformed { .. }), "{text:?}: {error}");
        }
    }

    #[test]
    fn refuses_nothing() {
        insta::assert_snapshot!(message(""), @"a duration is missing, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`");
        assert!(matches!(parse_duration(" "), Err(DurationError::Empty)));
    }

    #[test]
    fn refuses_what_is_too_long() {
        for text in ["99999999999h", "9999999999999999999999999s", "99999999999d", "18446744073709551616ms"] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationError::Malformed { .. }), "{text:?}: {error}");
        }
    }

    #[test]
    fn refuses_zero_and_negative() {
        insta::assert_snapshot!(message("0s"), @"`0s` is not longer than zero, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`");
        for text in ["0d", "-5m", "5m ago"] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationError::NotPositive { .. }), "{text:?}: {error}");
        }
    }

    #[test]
    fn refuses_units_without_a_fixed_length() {
        insta::assert_snapshot!(message("1y"), @"`1y` has no fixed length, count in days instead of months or years, like `30d`");
        assert!(matches!(parse_duration("2mo"), Err(DurationError::Calendar { .. })));
    }
}
