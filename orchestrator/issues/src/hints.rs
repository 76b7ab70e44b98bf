//! Which files an issue says it will touch.
//!
//! A hint is written on purpose, in one of two forms; prose that merely mentions a path is none.
//!
//! **A line** that begins with `Files:`, followed by entries between commas:
//!
//! ```text
//! Files: src/parser.rs, `tests/**`
//! ```
//!
//! **A list** below a line that says only `Files:`, or below a heading of any level that says only `Files`. Blank lines
//! may come in between. The list is a fenced block with one entry a line, or list items. An item is one entry, or begins
//! with one in backticks and goes on in words:
//!
//! ```text
//! ## Files
//! - src/parser.rs
//! - `tests/**`: new cases
//! ```
//!
//! `Files` may be written in any case and in bold, and a `Files:` line may be a list item. An entry is one word, or
//! anything in backticks, that can be a path or a pattern inside the checkout: relative, without `..`, no address, and
//! if it has wildcards, a [pattern](mala_core::Pattern). If an entry of a `Files:` line is not, the whole line is
//! prose; an item or a line of a list that is not is left out. `none`, `n/a`, `tbd` and `unknown` are no entries.
//!
//! What stands in any other fenced block is not looked at.

use mala_core::{Pattern, pattern};

/// The hints in these texts in the order they are found, each once.
pub fn files<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        for entry in entries(text) {
            if !found.iter().any(|known| known == entry) {
                found.push(entry.to_owned());
            }
        }
    }
    found
}

/// What the next line may be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    Prose,
    /// Below `Files`, where a list may begin.
    Announced,
    /// Among list items that are hints.
    Items,
    /// In a fenced block that ends with this fence.
    Fenced {
        fence: &'a str,
        kind: Fenced,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fenced {
    Hints,
    Other,
}

fn entries(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut place = Place::Prose;
    for line in text.lines().map(str::trim) {
        place = match place {
            Place::Fenced { fence, .. } if closes(line, fence) => Place::Prose,
            Place::Fenced { kind, .. } => {
                found.extend((kind == Fenced::Hints).then(|| entry(line)).flatten());
                place
            }
            Place::Announced | Place::Items if line.is_empty() => place,
            Place::Prose | Place::Announced | Place::Items => outside(line, place, &mut found),
        };
    }
    found
}

/// Takes a line that is in no fenced block.
fn outside<'a>(line: &'a str, place: Place<'a>, found: &mut Vec<&'a str>) -> Place<'a> {
    if let Some(fence) = fence(line) {
        let kind = if place == Place::Announced { Fenced::Hints } else { Fenced::Other };
        return Place::Fenced { fence, kind };
    }
    if let Some(rest) = announced(item(line).unwrap_or(line)) {
        if rest.is_empty() {
            return Place::Announced;
        }
        found.extend(listed(rest).unwrap_or_default());
        return Place::Prose;
    }
    if is_heading(line) {
        return Place::Announced;
    }
    match (place, item(line)) {
        (Place::Announced | Place::Items, Some(item)) => {
            found.extend(first_entry(item));
            Place::Items
        }
        _ => Place::Prose,
    }
}

/// What follows `Files:` on its line.
fn announced(line: &str) -> Option<&str> {
    let (bold, line) = line.strip_prefix("**").map_or((false, line), |line| (true, line));
    let word = line.get(..5).filter(|word| word.eq_ignore_ascii_case("files"))?;
    let rest = &line[word.len()..];
    let rest = if bold {
        rest.strip_prefix(":**").or_else(|| rest.strip_prefix("**:"))?
    } else {
        rest.strip_prefix(':')?
    };
    Some(rest.trim())
}

fn is_heading(line: &str) -> bool {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let title = title.trim_end_matches('#').trim();
    (1..=6).contains(&level) && title.trim_end_matches(':').eq_ignore_ascii_case("files")
}

fn item(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+'])?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// The fence a line opens, without what is said about its language.
fn fence(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let len = line.len() - line.trim_start_matches(mark).len();
    (len >= 3).then(|| &line[..len])
}

fn closes(line: &str, opened: &str) -> bool {
    line.starts_with(opened) && fence(line).is_some_and(|fence| fence.len() == line.len())
}

/// All entries between commas, or nothing if one of them is prose.
fn listed(rest: &str) -> Option<Vec<&str>> {
    let rest = rest.trim_end_matches(['.', ';', ',']);
    rest.split(',').map(entry).collect()
}

/// The entry an item begins with.
fn first_entry(item: &str) -> Option<&str> {
    match item.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        Some((quoted, _)) => path(quoted),
        None => entry(item),
    }
}

/// A text that is nothing but one entry.
fn entry(text: &str) -> Option<&str> {
    let text = text.trim();
    match text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        Some(quoted) => path(quoted),
        None => path(text).filter(|word| !word.contains(char::is_whitespace) && !is_placeholder(word)),
    }
}

fn is_placeholder(word: &str) -> bool {
    ["none", "n/a", "tbd", "unknown"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether a text can be a path or a pattern inside the checkout.
fn path(text: &str) -> Option<&str> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let inside = !text.starts_with(['/', '~']) && text.split('/').all(|segment| segment != "..");
    let plain = !text.contains("://") && !text.contains(|c: char| c.is_control() || c == '`');
    let known = !pattern::has_meta(bytes) || Pattern::parse(bytes).is_ok();
    (!text.is_empty() && bytes.len() <= pattern::MAX_PATTERN_BYTES && inside && plain && known)
        .then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hints(text: &str) -> Vec<String> {
        files([text])
    }

    #[test]
    fn a_files_line_lists_paths_and_patterns() {
        assert_eq!(hints("Fix it.\nFiles: a, b/**\nThen test."), ["a", "b/**"]);
        assert_eq!(
            hints("  files:src/a.rs,`src/b c.rs` , Makefile."),
            ["src/a.rs", "src/b c.rs", "Makefile"]
        );
        assert_eq!(hints("- **Files:** a/**, b/**"), ["a/**", "b/**"]);
        assert_eq!(hints("**FILES**: x.rs"), ["x.rs"]);
    }

    #[test]
    fn a_list_below_a_files_heading_is_hints_too() {
        assert_eq!(hints("## Files\n\n```\nsrc/a.rs\n\nb c/*.py\n```\nafter/it"), ["src/a.rs"]);
        assert_eq!(hints("# files:\n~~~text\n`b c/*.py`\n~~~"), ["b c/*.py"]);
        assert_eq!(hints("Files:\n- a.rs\n\n* `b/**`: new cases\n+ c.rs\n\nd.rs"), ["a.rs", "b/**", "c.rs"]);
    }

    #[test]
    fn prose_that_mentions_a_path_is_no_hint() {
        for text in [
            "The files: are in src/a.rs",
            "See src/a.rs and `src/b.rs`.",
            "Files: see src/a.rs for the details",
            "Files: src/a.rs, and maybe src/b.rs",
            "Files touched: src/a.rs",
            "Profiles: a, b",
            "## Files and folders\n- a.rs",
            "## Files\nsrc/a.rs is the place\n- a.rs",
            "## Other\n- a.rs",
            "```\nFiles: a.rs\n## Files\n- a.rs\n```",
            "## Files\n```\n",
            "#######Files\n- a.rs",
        ] {
            assert_eq!(hints(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn a_list_ends_where_something_else_begins() {
        assert_eq!(hints("Files:\n- a.rs\nprose\n- b.rs"), ["a.rs"]);
        assert_eq!(hints("Files:\n- a.rs\n# Next\n- b.rs"), ["a.rs"]);
        assert_eq!(hints("Files:\n- a.rs\n```\nb.rs\n```\n- c.rs"), ["a.rs"]);
        assert_eq!(hints("Files:\n- two words\n- b.rs"), ["b.rs"]);
    }

    #[test]
    fn what_cannot_be_in_the_checkout_is_no_hint() {
        for entry in [
            "/etc/passwd",
            "~/.ssh/id",
            "../up",
            "a/../../up",
            "https://a/b",
            "a{b",
            "[x",
            "none",
            "TBD",
            "n/a",
        ] {
            assert_eq!(hints(&format!("Files: {entry}")), Vec::<String>::new(), "{entry}");
            assert_eq!(hints(&format!("Files: {entry}, ok.rs")), Vec::<String>::new(), "{entry}");
        }
        assert_eq!(hints("Files: `none`, a..b, .github/x.yml"), ["none", "a..b", ".github/x.yml"]);
    }

    #[test]
    fn hints_keep_their_order_and_are_not_repeated() {
        assert_eq!(files(["Files: b, a", "no hint", "Files: a, c"]), ["b", "a", "c"]);
    }

    #[test]
    fn a_fence_is_closed_only_by_one_like_it() {
        assert_eq!(hints("````\n```\nFiles: a\n````\nFiles: b"), ["b"]);
        assert_eq!(hints("```\n~~~\nFiles: a\n```\nFiles: b"), ["b"]);
        assert_eq!(hints("```\n```rust\nFiles: a\n```\nFiles: b"), ["b"]);
    }

    proptest! {
        #[test]
        fn every_word_that_is_listed_is_found(words in prop::collection::vec("[a-z]{1,3}(/[a-z]{1,3}){1,2}", 1..5)) {
            let mut expected = words.clone();
            let mut seen = Vec::new();
            expected.retain(|word| !is_placeholder(word) && !seen.contains(word) && { seen.push(word.clone()); true });
            prop_assume!(words.iter().all(|word| !is_placeholder(word)));
            prop_assert_eq!(hints(&format!("Files: {}", words.join(", "))), expected.clone());
            prop_assert_eq!(hints(&format!("### Files\n- {}", words.join("\n- "))), expected.clone());
            prop_assert_eq!(hints(&format!("Files:\n```\n{}\n```", words.join("\n"))), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(Files:|#|`|~|-|\\*|\n| |,|a|/|ü|\\[|\\.){0,40}") {
            for hint in hints(&text) {
                prop_assert!(path(&hint).is_some());
            }
        }
    }
}
