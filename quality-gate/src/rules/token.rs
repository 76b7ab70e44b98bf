//! Finding an issue's name in a text, as a whole word.
//!
//! `proj-1` is not in `proj-12`, `proj-1.2`, `xproj-1` or `proj-1-b`; it is in `proj-1.`, `(proj-1)` and `proj-1: fix`.

use std::fmt;
use std::str::FromStr;

use mala_core::IssueId;
use thiserror::Error;

/// Where the issue's id stands in a pattern.
const PLACE: &str = "<id>";

/// How commit messages name an issue, such as `bd-<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuePattern {
    before: String,
    after: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` must contain `<id>` exactly once, such as `bd-<id>`")]
pub struct IssuePatternError(String);

impl Default for IssuePattern {
    fn default() -> Self {
        Self { before: "bd-".to_owned(), after: String::new() }
    }
}

impl FromStr for IssuePattern {
    type Err = IssuePatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(PLACE) {
            Some((before, after)) if !after.contains(PLACE) => {
                Ok(Self { before: before.to_owned(), after: after.to_owned() })
            }
            _ => Err(IssuePatternError(text.to_owned())),
        }
    }
}

impl fmt::Display for IssuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{PLACE}{}", self.before, self.after)
    }
}

impl IssuePattern {
    /// What a message must say to name `issue`.
    pub fn token(&self, issue: &IssueId) -> String {
        // Some trackers' ids begin like that already.
        let before = if issue.as_str().starts_with(&self.before) { "" } else { &self.before };
        format!("{before}{issue}{}", self.after)
    }

    /// True if the author of `text` names the issue, by the pattern or by its bare id. What mala adds itself says nothing.
    pub fn names(&self, text: &str, issue: &IssueId) -> bool {
        // A bare id must look like one: a plain number or word could stand for anything.
        let is_telling = issue.as_str().contains('-');
        let (token, id) = (self.token(issue), issue.as_str());
        let is_named = |line: &str| contains_token(line, &token) || (is_telling && contains_token(line, id));
        authored(text).any(is_named)
    }

    /// True if `text` names some issue. The id is whatever stands in its place, up to the end of the word.
    pub fn names_any(&self, text: &str) -> bool {
        let words = authored(text).flat_map(|line| line.split(char::is_whitespace));
        let is_name = |word: &str| {
            word.match_indices(&self.before).any(|(at, _)| {
                let id = &word[at + self.before.len()..];
                let end = id.find(|letter| !is_part(letter) && !is_joint(letter)).unwrap_or(id.len());
                IssueId::new(id[..end].trim_end_matches(is_joint)).is_ok_and(|id| self.names(word, &id))
            })
        };
        words.into_iter().any(is_name)
    }
}

/// True if `token` occurs in `text` and is not part of something longer.
pub(crate) fn contains_token(text: &str, token: &str) -> bool {
    if token.is_empty() {
        return false;
    }
    let mut from = 0;
    while let Some(at) = text[from..].find(token).map(|at| at + from) {
        let end = at + token.len();
        if !joins(text[..at].chars().rev()) && !joins(text[end..].chars()) {
            return true;
        }
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
    }
    false
}

/// The lines that are no trailers of mala's own.
fn authored(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("Mala-"))
}

/// True if what follows, seen from the token outwards, belongs to the same word.
fn joins(mut outwards: impl Iterator<Item = char>) -> bool {
    match outwards.next() {
        None => false,
        // A full stop ends a sentence, but `1.2` is one word.
        Some(letter) if is_joint(letter) => outwards.next().is_some_and(is_part),
        Some(letter) => is_part(letter),
    }
}

/// Joins two parts to one word, if there is a part on either side.
fn is_joint(letter: char) -> bool {
    matches!(letter, '.' | '/' | '@' | '+' | '~')
}

/// Letters, digits, hyphens, and everything that is neither a blank nor known punctuation: signs that cannot be seen
/// must not end a word.
fn is_part(letter: char) -> bool {
    const PUNCTUATION: &str = "\u{2013}\u{2014}\u{2026}\u{2018}\u{2019}\u{201c}\u{201d}\u{ab}\u{bb}\u{2022}\u{b7}\u{3001}\u{3002}\
        \u{ff08}\u{ff09}\u{3010}\u{3011}\u{300c}\u{300d}\u{ff1a}\u{ff0c}\u{ff01}\u{ff1f}\u{ff1b}";
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric()
            || matches!(letter, '-' | '_')
            || (letter.is_ascii_control() && !letter.is_ascii_whitespace());
    }
    !letter.is_whitespace() && !PUNCTUATION.contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, id: &str) -> bool {
        IssuePattern::default().names(text, &IssueId::new(id).unwrap())
    }

    #[test]
    fn an_id_is_found_as_a_whole_word() {
        for text in [
            "bd-proj-1",
            "bd-proj-1: fix",
            "bd-proj-1:fix",
            "fix (bd-proj-1)",
            "fix [bd-proj-1]",
            "closes bd-proj-1.",
            "closes bd-proj-1, at last",
            "closes bd-proj-1\nand more",
            "\u{201c}bd-proj-1\u{201d} \u{2014} done",
            "fix\u{3001}bd-proj-1\u{3002}",
            "bd-proj-12 and bd-proj-1",
            "bd-proj-1's sibling",
            "fix\n\nfor bd-proj-1",
        ] {
            assert!(names(text, "proj-1"), "{text:?}");
        }
    }

    #[test]
    fn part_of_a_longer_word_is_not_the_id() {
        for text in [
            "",
            "proj1",
            "proj-12",
            "x/proj-1",
            "bd-proj-12",
            "bd-proj-1a",
            "bd-proj-1-b",
            "bd-proj-1_b",
            "bd-proj-1.2",
            "bd-proj-1/2",
            "xbd-proj-1",
            "x-bd-proj-1",
            "x.bd-proj-1",
            "bd-proj-1\u{b2}",
            "bd-proj-1\u{301}",
            "bd-proj-1\u{200b}2",
            "bd-proj-1\u{661}",
            "BD-PROJ-1",
            "bd-proj-\u{ff11}",
            "Mala-Issue: proj-12",
            "fix\n\nMala-Issue: proj-1\nMala-Agent: bd-proj-1",
        ] {
            assert!(!names(text, "proj-1"), "{text:?}");
        }
    }

    #[test]
    fn a_bare_id_counts_if_it_cannot_be_an_ordinary_word() {
        assert!(names("proj-1: fix", "proj-1"));
        assert!(!names("fix 12 bugs", "12"));
        assert!(names("fix bd-12", "12"));
    }

    #[test]
    fn ids_of_any_kind_are_taken_literally() {
        assert!(names("fix bd-a.*b", "a.*b"));
        assert!(!names("fix bd-aXXb", "a.*b"));
        assert!(names("bd-\u{e4}1 x", "\u{e4}1"));
    }

    #[test]
    fn any_issue_will_do_where_none_is_known() {
        let pattern = IssuePattern::default();
        for text in ["bd-x1: fix", "see (bd-proj-12.3)"] {
            assert!(pattern.names_any(text), "{text}");
        }
        for text in ["fix", "bd-", "bd- x", "xbd-1", "fix\n\nMala-Issue: bd-7"] {
            assert!(!pattern.names_any(text), "{text}");
        }
        let pattern: IssuePattern = "#<id>".parse().unwrap();
        assert!(pattern.names_any("fixes #12.") && !pattern.names_any("fixes # 12"));
    }

    #[test]
    fn what_has_no_word_names_no_issue_whatever_the_pattern_is() {
        for pattern in ["<id>", "#<id>", "...<id>", "<id>.", "bd-<id>"] {
            assert!(!pattern.parse::<IssuePattern>().unwrap().names_any("...\n"), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_needs_one_place_for_the_id() {
        for text in ["", "bd-", "<id><id>"] {
            assert!(text.parse::<IssuePattern>().is_err(), "{text}");
        }
        assert_eq!("<id>:".parse::<IssuePattern>().unwrap().to_string(), "<id>:");
    }
}
