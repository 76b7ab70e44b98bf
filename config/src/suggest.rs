//! "Did you mean": the known name closest to one that nobody knows.

use crate::key::{Key, sections};
use crate::tables;

/// The section somebody probably meant.
pub(crate) fn section(name: &str) -> Option<&'static str> {
    closest(name, all_sections(), |section| section)
}

fn all_sections() -> impl Iterator<Item = &'static str> {
    sections().into_iter().chain([tables::VARIABLES]).chain(tables::SECTIONS.iter().copied())
}

/// The setting somebody probably meant: a similar name in the same section, or this very name in another one.
pub(crate) fn setting(dotted: &str) -> Option<Key> {
    let (section, name) = split(dotted);
    closest(name, in_section(section), |key| key.name()).or_else(|| Key::all().find(|key| key.name() == name))
}

/// What to say about an unknown setting.
pub(crate) fn setting_help(dotted: &str) -> String {
    if let Some(key) = setting(dotted) {
        return format!("did you mean `{key}`?");
    }
    let (section, name) = split(dotted);
    let here: Vec<String> = in_section(section).map(|key| format!("`{}`", key.name())).collect();
    match section {
        "" => section_help(name),
        _ if here.is_empty() => section_help(section),
        _ => format!("`[{section}]` has {}", here.join(", ")),
    }
}

/// What to say about an unknown section.
pub(crate) fn section_help(name: &str) -> String {
    if let Some(section) = section(name) {
        return format!("did you mean `[{section}]`?");
    }
    let known: Vec<String> = all_sections().map(|section| format!("`[{section}]`")).collect();
    format!("the sections are {}", known.join(", "))
}

/// What to say about an unknown field of a table.
pub(crate) fn field_help(name: &str, known: &[&'static str]) -> String {
    let field = name.rsplit('.').next().unwrap_or(name);
    match closest(field, known.iter().copied(), |known| known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("it has {}", known.join(", ")),
    }
}

/// Section and name; a name outside of any section has an empty one.
fn split(dotted: &str) -> (&str, &str) {
    dotted.split_once('.').unwrap_or(("", dotted))
}

fn in_section(section: &str) -> impl Iterator<Item = Key> {
    Key::all().filter(move |key| key.section() == section)
}

/// At most one slip in three letters; more than that is another word.
fn closest<T>(word: &str, known: impl Iterator<Item = T>, text: fn(&T) -> &'static str) -> Option<T> {
    let limit = (word.chars().count() / 3).max(1);
    known
        .map(|candidate| (strsim::osa_distance(word, text(&candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(dotted: &str) -> Option<String> {
        setting(dotted).map(|key| key.to_string())
    }

    #[test]
    fn finds_slips_of_the_finger() {
        assert_eq!(suggested("lock.tll").as_deref(), Some("lock.ttl"));
        assert_eq!(suggested("lock.tlt").as_deref(), Some("lock.ttl"));
        assert_eq!(suggested("lock.max-wait").as_deref(), Some("lock.max_wait"));
        assert_eq!(suggested("health.wait_share").as_deref(), Some("health.waited_share"));
        assert_eq!(section("lokc"), Some("lock"));
    }

    #[test]
    fn finds_the_right_name_in_the_wrong_section() {
        assert_eq!(suggested("status.ttl").as_deref(), Some("lock.ttl"));
        assert_eq!(suggested("ttl").as_deref(), Some("lock.ttl"));
    }

    #[test]
    fn does_not_guess_when_nothing_is_close() {
        assert_eq!(suggested("lock.colour"), None);
        assert_eq!(section("telemetry"), None);
        insta::assert_snapshot!(setting_help("lock.colour"), @"`[lock]` has `ttl`, `max_ttl`, `max_wait`, `groups`");
        insta::assert_snapshot!(setting_help("colour"), @"the sections are `[project]`, `[issues]`, `[lock]`, `[enforcement]`, `[test]`, `[validate]`, `[gate]`, `[queue]`, `[transcripts]`, `[asks]`, `[run]`, `[notify]`, `[keep]`, `[status]`, `[health]`, `[retain]`, `[env]`, `[mutex]`, `[agents]`, `[price]`");
        insta::assert_snapshot!(section_help("telemetry"), @"the sections are `[project]`, `[issues]`, `[lock]`, `[enforcement]`, `[test]`, `[validate]`, `[gate]`, `[queue]`, `[transcripts]`, `[asks]`, `[run]`, `[notify]`, `[keep]`, `[status]`, `[health]`, `[retain]`, `[env]`, `[mutex]`, `[agents]`, `[price]`");
    }
}
