//! The table of settings: for each one its name, its kind, its legal values and the field that holds it.
//!
//! Everything else follows from a line here: how the setting is read from each layer, its environment variable,
//! the legal values in an error, the suggestions for a mistyped name, the listing with origins.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::format_duration;
use crate::settings::{Settings, Unlocked};
use crate::value::{Given, ValueError};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

const fn days(count: u64) -> Duration {
    Duration::from_hours(24 * count)
}

/// All settings, in the order of `defaults.toml`.
pub(crate) static SETTINGS: &[Setting] = &[
    duration("lock", "ttl", SECOND..=days(7), |s| &mut s.lock.ttl),
    duration("lock", "max_ttl", SECOND..=days(7), |s| &mut s.lock.max_ttl),
    duration("lock", "max_wait", SECOND..=days(1), |s| &mut s.lock.max_wait),
    unlocked("enforcement", "unlocked", |s| &mut s.enforcement.unlocked),
    switch("enforcement", "require_kernel", |s| &mut s.enforcement.require_kernel),
    duration("status", "refresh", Duration::from_millis(100)..=HOUR, |s| &mut s.status.refresh),
    fraction("health", "wait_rate", 0.0..=1.0, |s| &mut s.health.wait_rate),
    count("health", "waits_per_day", 1..=u64::MAX, |s| &mut s.health.waits_per_day),
    duration("logs", "keep", days(1)..=days(3650), |s| &mut s.logs.keep),
];

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Duration(Field<Duration>),
    Fraction(Field<f64>),
    Count(Field<u64>),
    Switch(fn(&mut Settings) -> &mut bool),
    Unlocked(fn(&mut Settings) -> &mut Unlocked),
}

/// A typed field of [`Settings`] and the values it may hold.
#[derive(Debug)]
struct Field<T> {
    legal: RangeInclusive<T>,
    of: fn(&mut Settings) -> &mut T,
}

impl<T: Copy + PartialOrd> Field<T> {
    fn set(&self, settings: &mut Settings, value: T, given: &Given<'_>) -> Result<(), ValueError> {
        if !self.legal.contains(&value) {
            return Err(ValueError::OutOfRange { text: given.to_string() });
        }
        *(self.of)(settings) = value;
        Ok(())
    }

    /// Reads through a copy, so that one accessor serves both directions.
    fn get(&self, mut settings: Settings) -> T {
        *(self.of)(&mut settings)
    }
}

impl Setting {
    /// Checks what was given and writes it into its field; leaves the field alone if it is not legal.
    pub(crate) fn set(&self, settings: &mut Settings, given: &Given<'_>) -> Result<(), ValueError> {
        match &self.kind {
            Kind::Duration(field) => field.set(settings, given.duration()?, given),
            Kind::Fraction(field) => field.set(settings, given.fraction()?, given),
            Kind::Count(field) => field.set(settings, given.count()?, given),
            Kind::Switch(of) => {
                *of(settings) = given.switch()?;
                Ok(())
            }
            Kind::Unlocked(of) => {
                *of(settings) = given.choice(Unlocked::NAMES)?;
                Ok(())
            }
        }
    }

    /// The value as one would type it in a variable or an argument.
    pub(crate) fn plain(&self, mut settings: Settings) -> String {
        match &self.kind {
            Kind::Duration(field) => format_duration(field.get(settings)),
            Kind::Fraction(field) => field.get(settings).to_string(),
            Kind::Count(field) => field.get(settings).to_string(),
            Kind::Switch(of) => of(&mut settings).to_string(),
            Kind::Unlocked(of) => of(&mut settings).name().to_owned(),
        }
    }

    /// The value as one would write it in `mala.toml`.
    pub(crate) fn toml(&self, settings: Settings) -> String {
        let plain = self.plain(settings);
        match &self.kind {
            Kind::Duration(_) | Kind::Unlocked(_) => format!("\"{plain}\""),
            Kind::Fraction(_) | Kind::Count(_) | Kind::Switch(_) => plain,
        }
    }

    /// The legal values, in words.
    pub(crate) fn legal(&self) -> String {
        match &self.kind {
            Kind::Duration(Field { legal, .. }) => {
                format!(
                    "a duration from {} to {}",
                    format_duration(*legal.start()),
                    format_duration(*legal.end())
                )
            }
            Kind::Fraction(Field { legal, .. }) => {
                format!("a number from {} to {}", legal.start(), legal.end())
            }
            Kind::Count(Field { legal, .. }) => format!("a whole number, {} or more", legal.start()),
            Kind::Switch(_) => "true or false".to_owned(),
            Kind::Unlocked(_) => {
                let names: Vec<_> = Unlocked::NAMES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                names.join(" or ")
            }
        }
    }
}

const fn duration(
    section: &'static str,
    name: &'static str,
    legal: RangeInclusive<Duration>,
    of: fn(&mut Settings) -> &mut Duration,
) -> Setting {
    Setting { section, name, kind: Kind::Duration(Field { legal, of }) }
}

const fn fraction(
    section: &'static str,
    name: &'static str,
    legal: RangeInclusive<f64>,
    of: fn(&mut Settings) -> &mut f64,
) -> Setting {
    Setting { section, name, kind: Kind::Fraction(Field { legal, of }) }
}

const fn count(
    section: &'static str,
    name: &'static str,
    legal: RangeInclusive<u64>,
    of: fn(&mut Settings) -> &mut u64,
) -> Setting {
    Setting { section, name, kind: Kind::Count(Field { legal, of }) }
}

const fn switch(section: &'static str, name: &'static str, of: fn(&mut Settings) -> &mut bool) -> Setting {
    Setting { section, name, kind: Kind::Switch(of) }
}

const fn unlocked(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Unlocked,
) -> Setting {
    Setting { section, name, kind: Kind::Unlocked(of) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use toml::de::DeTable;

    use super::*;
    use crate::{DEFAULTS, Key};

    /// `section.name` of every entry of the embedded file.
    fn documented() -> Vec<String> {
        let table = DeTable::parse(DEFAULTS).unwrap().into_inner();
        let names = |section: &str| -> Vec<String> {
            let entries = table[section].get_ref().as_table().unwrap();
            entries.keys().map(|name| format!("{section}.{}", name.get_ref())).collect()
        };
        table.keys().flat_map(|section| names(section.get_ref())).collect()
    }

    #[test]
    fn the_table_and_the_defaults_file_name_the_same_settings() {
        let documented: HashSet<String> = documented().into_iter().collect();
        let known: HashSet<String> = Key::all().map(|key| key.to_string()).collect();
        assert_eq!(known, documented);
        assert_eq!(known.len(), SETTINGS.len(), "a setting is listed twice");
    }

    /// Where the line of a setting starts in the embedded file.
    fn position(setting: &Setting) -> usize {
        let section = DEFAULTS.find(&format!("\n[{}]\n", setting.section)).unwrap();
        section + DEFAULTS[section..].find(&format!("\n{} = ", setting.name)).unwrap()
    }

    #[test]
    fn the_table_is_in_the_order_of_the_defaults_file() {
        assert!(SETTINGS.is_sorted_by_key(position));
    }

    #[test]
    fn the_comment_above_every_default_names_its_legal_values() {
        for setting in SETTINGS {
            let comment = DEFAULTS[..position(setting)].lines().last().unwrap();
            let documented = comment.starts_with("# ") && comment.contains(&setting.legal());
            assert!(documented, "`{comment}` does not say that `{}` takes {}", setting.name, setting.legal());
        }
    }

    #[test]
    fn every_setting_writes_a_field_of_its_own() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let mut settings = Settings::BLANK;
            setting.set(&mut settings, &Given::Text(&setting.plain(Settings::default()))).unwrap();
            for (other, untouched) in SETTINGS.iter().enumerate().filter(|(other, _)| *other != index) {
                let blank = untouched.plain(Settings::BLANK);
                assert_eq!(untouched.plain(settings), blank, "setting {index} wrote into {other}");
            }
        }
    }

    /// As each line has a field of its own, equal numbers mean that no field is left blank.
    #[test]
    fn every_field_has_its_line_in_the_table() {
        let printed = format!("{:#?}", Settings::BLANK);
        let fields = printed.lines().filter(|line| line.contains(": ") && line.ends_with(','));
        assert_eq!(fields.count(), SETTINGS.len());
    }

    #[test]
    fn legal_values_read_as_words() {
        let legal: Vec<String> = Key::all().map(|key| format!("{key}: {}", key.setting().legal())).collect();
        insta::assert_snapshot!(legal.join("\n"), @r#"
        lock.ttl: a duration from 1s to 7d
        lock.max_ttl: a duration from 1s to 7d
        lock.max_wait: a duration from 1s to 1d
        enforcement.unlocked: "acquire" or "deny"
        enforcement.require_kernel: true or false
        status.refresh: a duration from 100ms to 1h
        health.wait_rate: a number from 0 to 1
        health.waits_per_day: a whole number, 1 or more
        logs.keep: a duration from 1d to 3650d
        "#);
    }
}
