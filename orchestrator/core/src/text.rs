//! Text for people: made safe to print, shortened, and spans of time as a person says them.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

/// Text from outside, safe to print: what a terminal would act on is escaped, so it stays on its line and in its order.
pub fn plain(text: impl Display) -> String {
    let text = text.to_string();
    if !text.contains(is_unprintable) {
        return text;
    }
    let escape = |c: char| if is_unprintable(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// True for what would change how other text is shown: control characters, line separators, marks that turn the direction of
/// writing around (<https://trojansource.codes>), and what takes no room at all, but for the joiners that scripts and emoji need.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
        assert_eq!(plain("a\u{202e}b\u{2028}c\u{200b}"), "a\\u{202e}b\\u{2028}c\\u{200b}");
        assert_eq!(plain("👩\u{200d}💻 می\u{200c}خواهم"), "👩\u{200d}💻 می\u{200c}خواهم", "joiners are text");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(short("日本語", 3), "日本語");
        assert_eq!(short("日本語", 2), "日本...");
    }
}
