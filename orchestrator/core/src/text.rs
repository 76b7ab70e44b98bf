//! Text for people: made safe to print, shortened, and spans of time as a person says them.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

/// Text from outside, safe to print: control characters are escaped, so it stays on its line.
pub fn plain(text: impl Display) -> String {
    let text = text.to_string();
    if !text.contains(char::is_control) {
        return text;
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Text that is not longer than so many characters: what does not fit is left out and marked.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A span of time as a person says it: `40s`, `3m`, `2h 5m`, `4d 1h`.
pub fn span(span: Duration) -> String {
    let seconds = span.saturating_add(Duration::from_millis(500)).as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, 0) => format!("{hours}h"),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, 0, _) => format!("{days}d"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// An error with its causes, in one line.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(super::span(Duration::from_millis(1_799_990)), "30m", "rounded, not cut off");
        assert_eq!(shown(59), "59s");
        assert_eq!(shown(185), "3m");
        assert_eq!(shown(7_500), "2h 5m");
        assert_eq!(shown(349_200), "4d 1h");
    }

    #[test]
    fn hostile_text_stays_on_its_line() {
        assert_eq!(plain("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(plain("ünï 🦀"), "ünï 🦀");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(short("日本語", 3), "日本語");
        assert_eq!(short("日本語", 2), "日本...");
    }
}
