//! The table that is printed, and how figures are written in it.

use std::fmt;

/// Rows of what was measured, and its value.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(String, String)>);

impl Table {
    pub(crate) fn row(&mut self, what: &str, value: String) {
        self.0.push((what.to_owned(), value));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | measured |\n| --- | --- |")?;
        self.0.iter().try_for_each(|(what, value)| writeln!(f, "| {what} | {value} |"))
    }
}

/// With a comma before every three digits.
pub(crate) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn percent(part: usize, all: usize) -> String {
    let percent = if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 };
    format!("{percent:.1} % ({} of {})", number(part), number(all))
}

/// Median, 95th percentile and greatest.
pub(crate) fn spread(mut values: Vec<usize>) -> String {
    values.sort_unstable();
    let at = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100);
        values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    };
    format!("{}, {}, {}", number(at(50)), number(at(95)), number(at(100)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(
            [0, 999, 1_000, 63_005, 1_234_567].map(number),
            ["0", "999", "1,000", "63,005", "1,234,567"]
        );
        assert_eq!(percent(1, 8), "12.5 % (1 of 8)");
        assert_eq!(spread((1..=100).rev().collect()), "50, 95, 100");
        assert_eq!(spread(vec![7]), "7, 7, 7");
        assert_eq!(spread(Vec::new()), "0, 0, 0");
    }
}
