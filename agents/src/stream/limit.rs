//! Messages of clients and their providers that mean "not now".

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{Date, Time};
use mala_core::Timestamp;

/// Being told to slow down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// When to go on, if that was said.
    pub until: Option<Timestamp>,
    pub message: String,
}

impl Limited {
    pub(super) fn until_seconds(seconds: Option<i64>, message: &str) -> Self {
        let until = seconds.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        Self { until, message: short(message) }
    }
}

const LONGEST: usize = 300;

/// What providers and clients write when a limit is reached. All in lower case.
const SIGNS: &[&str] = &[
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "usage limit",
    "hit your limit",
    "limit reached",
    "too many requests",
    "status: 429",
    "error: 429",
    "(429)",
    "code 429",
    "quota exceeded",
    "exceeded your current quota",
    "resource_exhausted",
    "resource has been exhausted",
    "overloaded",
    "error: 529",
    "daily quota",
    "is at capacity",
];

/// The limit that an error message is about, if it is about one.
pub fn recognise(message: &str) -> Option<Limited> {
    let lower = message.to_lowercase();
    SIGNS
        .iter()
        .any(|sign| lower.contains(sign))
        .then(|| Limited { until: until(&lower), message: short(message) })
}

fn until(message: &str) -> Option<Timestamp> {
    at_seconds(message).or_else(|| in_words(message)).or_else(|| at_time_of_day(message, &Zoned::now()))
}

pub(super) fn short(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect()
}

/// `...limit reached|1794794629`: the second when it ends.
fn at_seconds(message: &str) -> Option<Timestamp> {
    let (_, seconds) = message.rsplit_once('|')?;
    let digits: String = seconds.trim().chars().take_while(char::is_ascii_digit).collect();
    let seconds: i64 = digits.parse().ok()?;
    (digits.len() == 10).then(|| Timestamp::from_millis(seconds * 1000))
}

/// `try again in 2 hours 5 minutes`, `retry after 30s`, `try again in 1.2s`.
fn in_words(message: &str) -> Option<Timestamp> {
    const MARKS: &[&str] =
        &["again in ", "retry in ", "retry after ", "resets in ", "retry-after: ", "wait "];
    let after = MARKS.iter().find_map(|mark| message.split_once(mark).map(|(_, after)| after))?;
    let mut total = Duration::ZERO;
    let mut rest = after.trim_start();
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..digits].trim_end_matches('.').parse().ok()?;
        let unit_from = rest[digits..].trim_start();
        let letters = unit_from.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit_from.len());
        total += Duration::try_from_secs_f64(amount * seconds_in(&unit_from[..letters])?).ok()?;
        rest = unit_from[letters..].trim_start_matches([' ', ',']).trim_start_matches("and ");
    }
    (total > Duration::ZERO).then(|| Timestamp::now().plus(total))
}

/// `try again at 11:06 AM`, `try again at Nov 19th, 2026 11:06 AM`: the client writes the local time.
fn at_time_of_day(message: &str, now: &Zoned) -> Option<Timestamp> {
    let (_, after) = message.split_once("again at ")?;
    let words: Vec<&str> =
        after.split_whitespace().take(5).map(|word| word.trim_matches([',', '.', ';', ')'])).collect();
    let at = words.iter().position(|word| word.contains(':'))?;
    let (hour, minute) = words[at].split_once(':')?;
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match words.get(at + 1).copied() {
        Some("am") => hour % 12,
        Some("pm") => hour % 12 + 12,
        _ => hour,
    };
    let time = Time::new(hour, minute, 0, 0).ok()?;
    let when = match words[..at] {
        [] => {
            let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()?;
            if today <= *now { today.tomorrow().ok()? } else { today }
        }
        [month, day, year] => {
            let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
            let date = Date::new(year.parse().ok()?, month_of(month)?, day).ok()?;
            date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?
        }
        _ => return None,
    };
    Some(Timestamp::from_millis(when.timestamp().as_millisecond()))
}

fn month_of(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| name.starts_with(month))?;
    i8::try_from(at + 1).ok()
}

fn seconds_in(unit: &str) -> Option<f64> {
    match unit {
        "ms" | "milliseconds" => Some(0.001),
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(message: &str) -> Option<u64> {
        let until = recognise(message).unwrap_or_else(|| panic!("`{message}` is a limit")).until?;
        Some((until.since(Timestamp::now()).as_secs_f64()).round() as u64)
    }

    #[test]
    fn limits_of_the_clients_are_recognised_with_their_end() {
        assert_eq!(seconds("You've hit your usage limit. Try again in 2 hours 5 minutes."), Some(7500));
        assert_eq!(seconds("Rate limit reached for o9. Please try again in 1m30s."), Some(90));
        assert_eq!(seconds("429 Too Many Requests; retry after 30"), Some(30));
        assert_eq!(seconds("exceeded retry limit, last status: 429 Too Many Requests"), None);
        assert_eq!(seconds("API Error: 529 {\"type\":\"overloaded_error\"}"), None);
        assert_eq!(seconds("Resource has been exhausted (e.g. check quota). RESOURCE_EXHAUSTED"), None);
        assert_eq!(seconds("[API Error: You have exhausted your daily quota on this model.]"), None);
        assert_eq!(seconds("Selected model is at capacity. Please try a different model."), None);
        let old = recognise("Claude AI usage limit reached|1794794629").unwrap();
        assert_eq!(old.until, Some(Timestamp::from_millis(1_794_794_629_000)));
    }

    #[test]
    fn a_time_of_day_is_the_next_such_time_here() {
        let now: Zoned = "2026-11-18T10:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let at = |message: &str| {
            let millis = at_time_of_day(&message.to_lowercase(), &now)?.as_millis();
            Some(jiff::Timestamp::from_millisecond(millis).unwrap().to_string())
        };
        let utc = |text: &str| Some(text.to_owned());
        assert_eq!(at("hit your limit, or try again at 11:06 AM."), utc("2026-11-18T10:06:00Z"));
        assert_eq!(at("try again at 9:30 AM"), utc("2026-11-19T08:30:00Z"), "it is past that today");
        assert_eq!(at("try again at 12:05 am"), utc("2026-11-18T23:05:00Z"));
        assert_eq!(at("try again at 12:05 PM"), utc("2026-11-18T11:05:00Z"));
        assert_eq!(at("try again at Nov 21st, 2026 6:00 PM."), utc("2026-11-21T17:00:00Z"));
        for odd in [
            "try again at noon",
            "try again at 99:99 PM",
            "try again at :",
            "try again at Foo 1, 2026 1:00 PM",
        ] {
            assert_eq!(at(odd), None, "{odd}");
        }
    }

    #[test]
    fn other_failures_are_no_limits() {
        for message in
            ["", "invalid api key", "model not found", "error 1429 in line 529", "limits.rs not found"]
        {
            assert_eq!(recognise(message), None, "{message}");
        }
    }

    #[test]
    fn hostile_texts_do_not_break_the_reading() {
        for message in [
            "rate limit, try again in 99999999999999999999999 days",
            "rate limit, wait 1.2.3s",
            "rate limit|99",
        ] {
            assert_eq!(recognise(message).unwrap().until, None, "{message}");
        }
    }
}
