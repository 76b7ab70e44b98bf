//! Two kinds of time. What the wall clock shows is for people, and is stored and shown as such; it may be set at any moment and
//! goes on while the machine sleeps. So whatever has a length or an end is measured on a line that only goes forward.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Milliseconds since the Unix epoch. Shown as RFC 3339 in UTC with exactly three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// What the wall clock shows. Everything that asks for it asks here.
    pub fn now() -> Self {
        let now = jiff::Timestamp::now().as_millisecond();
        Self(now.saturating_add(wall_clock_error()))
    }

    /// This instant moved into the future; saturates at the end of time.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// This instant moved into the past; saturates at the beginning of time.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        span_between(earlier.0, self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{} ms after 1970", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A moment on a line that nobody sets and that stands still while the machine sleeps, in milliseconds. Only good to be
/// compared with other moments of the same line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SteadyTime(i64);

impl SteadyTime {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        span_between(earlier.0, self.0)
    }
}

/// How long the machine has been awake since it was started, the same for all of its processes: `CLOCK_MONOTONIC`, which on Linux
/// does not count suspend (`clock_gettime(2)`).
pub fn uptime() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    let time =
        clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every system that mala runs on has this clock");
    time.into()
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn span_between(earlier: i64, later: i64) -> Duration {
    Duration::from_millis(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}

/// By how many milliseconds the wall clock is wrong, for tests: the environment names a file that holds seconds, and whoever
/// writes there sets the clock of every process that looks.
#[cfg(debug_assertions)]
fn wall_clock_error() -> i64 {
    let file = std::env::var_os("MALA_WALL_CLOCK_ERROR");
    let seconds = file.and_then(|file| std::fs::read_to_string(file).ok());
    seconds.and_then(|seconds| seconds.trim().parse::<i64>().ok()).unwrap_or(0).saturating_mul(1000)
}

#[cfg(not(debug_assertions))]
fn wall_clock_error() -> i64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_utc_with_exactly_three_decimals() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(1_794_794_629_007).to_string(), "2026-11-16T02:03:49.007Z");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
        let end = SteadyTime::from_millis(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(SteadyTime::from_millis(5).since(SteadyTime::from_millis(9)), Duration::ZERO);
    }

    #[test]
    fn uptime_only_grows() {
        let before = uptime();
        assert!(before > Duration::ZERO && uptime() >= before);
    }
}
