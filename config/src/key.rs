//! Names of settings, and how a name in a file, a variable or an argument finds its setting.

use std::fmt;

use crate::DEFAULTS;
use crate::suggest::setting_help;
use crate::table::{SETTINGS, Setting};

const PREFIX: &str = "MALA_";

/// Name of a setting that exists, shown as `lock.ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(usize);

/// Settings that had another name once. The old one still works, with a warning.
const RENAMED: &[(&str, &str)] = &[("logs.keep", "retain.age")];

impl Key {
    /// The setting that had this name once.
    pub(crate) fn renamed(dotted: &str) -> Option<Self> {
        RENAMED.iter().find(|(old, _)| *old == dotted).and_then(|(_, new)| Self::find(new))
    }

    /// The same by the variable that it had, with the old name.
    pub(crate) fn renamed_variable(variable: &str) -> Option<(Self, &'static str)> {
        let had = |old: &str| format!("{PREFIX}{}", old.replace('.', "_").to_ascii_uppercase());
        let (old, _) = RENAMED.iter().find(|(old, _)| had(old) == variable)?;
        Some((Self::renamed(old)?, old))
    }

    /// All settings, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SETTINGS.len()).map(Self)
    }

    /// The setting with the name `lock.ttl`.
    pub fn find(dotted: &str) -> Option<Self> {
        let (section, name) = dotted.split_once('.')?;
        Self::all().find(|key| key.section() == section && key.name() == name)
    }

    /// The section of `mala.toml`: `lock`.
    pub fn section(self) -> &'static str {
        self.setting().section
    }

    /// The name inside the section: `ttl`.
    pub fn name(self) -> &'static str {
        self.setting().name
    }

    /// The environment variable that sets it: `MALA_LOCK_TTL`.
    pub fn variable(self) -> String {
        format!("{PREFIX}{}_{}", self.section(), self.name()).to_ascii_uppercase()
    }

    /// The setting that somebody has named, by its name of today or an earlier one. If there is none, what to say about it.
    pub fn named(dotted: &str) -> Result<Self, String> {
        Self::find(dotted).or_else(|| Self::renamed(dotted)).ok_or_else(|| setting_help(dotted))
    }

    /// What it is for and what it may hold, in words: the comment above its default.
    pub fn about(self) -> String {
        let section = DEFAULTS.find(&format!("\n[{}]\n", self.section())).unwrap_or_default();
        let line = format!("\n{} = ", self.name());
        let above = DEFAULTS[section..].find(&line).map_or("", |at| &DEFAULTS[section..section + at]);
        let mut lines: Vec<&str> = above.lines().rev().map_while(|line| line.strip_prefix("# ")).collect();
        lines.reverse();
        lines.join(" ")
    }

    /// Its line in the table.
    pub(crate) fn setting(self) -> &'static Setting {
        &SETTINGS[self.0]
    }

    /// Its position in the table.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.section(), self.name())
    }
}

/// The sections, each once.
pub(crate) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = Key::all().map(Key::section).collect();
    sections.dedup();
    sections
}

/// What a variable would set if all its letters are right: `lock.ttl` for `MALA_LOCK_TTL`. `None` if it does not
/// start like the settings of a section, as with `MALA_AGENT`.
pub(crate) fn variable_to_dotted(variable: &str) -> Option<String> {
    let (section, name) = variable.strip_prefix(PREFIX)?.split_once('_')?;
    let section = sections().into_iter().find(|known| known.to_ascii_uppercase() == section)?;
    Some(format!("{section}.{}", name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_says_what_it_is_for() {
        for key in Key::all() {
            let about = key.about();
            assert!(about.ends_with('.') && about.contains(&key.setting().legal()), "{key}: {about}");
        }
        let named = |name| Key::named(name).map(|key| key.to_string());
        assert_eq!(named("logs.keep").as_deref(), Ok("retain.age"));
        assert_eq!(named("lock.tll"), Err("did you mean `lock.ttl`?".to_owned()));
    }

    #[test]
    fn every_key_is_found_by_its_name_and_by_its_variable() {
        for key in Key::all() {
            assert_eq!(Key::find(&key.to_string()), Some(key));
            assert_eq!(variable_to_dotted(&key.variable()), Some(key.to_string()));
        }
        assert_eq!(Key::find("lock.max_ttl").unwrap().variable(), "MALA_LOCK_MAX_TTL");
    }

    #[test]
    fn other_variables_are_not_settings() {
        for variable in ["MALA_AGENT", "MALA_LOCK", "MALA_LOCKS_TTL", "MALA_lock_ttl", "LOCK_TTL", "MALA_"] {
            assert_eq!(variable_to_dotted(variable), None, "{variable}");
        }
    }
}
