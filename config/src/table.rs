//! The table of settings: for each one its name, its kind, its legal values and the field that holds it.
//!
//! Everything else follows from a line here: how the setting is read from each layer, its environment variable,
//! the legal values in an error, the suggestions for a mistyped name, the listing with origins.

use std::ops::RangeInclusive;
use std::time::Duration;

use mala_core::CommandPattern;

use crate::duration::format_duration;
use crate::preset::Preset;
use crate::settings::{Cold, EmptyRun, Hold, Land, NoChange, Settings, Source, TakeAdded, Unlocked, Word};
use crate::size::{EXAMPLE, format_size};
use crate::value::{Given, MONEY, ValueError};
use crate::variables::ShareTemplate;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

const fn days(count: u64) -> Duration {
    Duration::from_hours(24 * count)
}

/// All settings, in the order of `defaults.toml`.
pub(crate) static SETTINGS: &[Setting] = &[
    choice::<Preset>("project", "preset"),
    choice::<Source>("issues", "source"),
    duration("lock", "ttl", SECOND..=days(7), |s| &mut s.lock.ttl),
    duration("lock", "max_ttl", SECOND..=days(7), |s| &mut s.lock.max_ttl),
    duration("lock", "max_wait", SECOND..=days(1), |s| &mut s.lock.max_wait),
    Setting { section: "lock", name: "groups", kind: Kind::Groups(|s| &mut s.lock.groups) },
    choice::<Unlocked>("enforcement", "unlocked"),
    switch("enforcement", "require_kernel", |s| &mut s.enforcement.require_kernel),
    commands("test", "commands", |s| &mut s.test.commands),
    duration("test", "wait", SECOND..=days(1), |s| &mut s.test.wait),
    commands("validate", "commands", |s| &mut s.validate.commands),
    command_groups("validate", "equivalents", |s| &mut s.validate.equivalents),
    text("validate", "directory", None, |s| &mut s.validate.directory),
    choice::<EmptyRun>("validate", "empty"),
    switch("validate", "strict", |s| &mut s.validate.strict),
    switch("validate", "clean", |s| &mut s.validate.clean),
    patterns("validate", "docs", |s| &mut s.validate.docs),
    text("gate", "issue_pattern", Some("<id>"), |s| &mut s.gate.issue_pattern),
    switch("gate", "people", |s| &mut s.gate.people),
    count("gate", "stop_attempts", 0..=u64::MAX, |s| &mut s.gate.stop_attempts),
    choice::<Land>("gate", "land"),
    count("queue", "slots", 1..=u64::MAX, |s| &mut s.queue.slots),
    count("queue", "window", 1..=u64::MAX, |s| &mut s.queue.window),
    duration("queue", "timeout", SECOND..=days(7), |s| &mut s.queue.timeout),
    commands("queue", "setup", |s| &mut s.queue.setup),
    folders("queue", "build", |s| &mut s.queue.build),
    text("queue", "directory", None, |s| &mut s.queue.directory),
    size("queue", "max_disk", |s| &mut s.queue.max_disk),
    choice::<Cold>("queue", "cold"),
    switch("transcripts", "evidence", |s| &mut s.transcripts.evidence),
    duration("asks", "due", SECOND..=days(1), |s| &mut s.asks.due),
    duration("asks", "urgent", SECOND..=days(1), |s| &mut s.asks.urgent),
    duration("asks", "idle", SECOND..=days(7), |s| &mut s.asks.idle),
    count("run", "max_agents", 1..=u64::MAX, |s| &mut s.run.max_agents),
    text("run", "profile", None, |s| &mut s.run.profile),
    text("run", "fallback", None, |s| &mut s.run.fallback),
    duration("run", "stagger", Duration::from_millis(1)..=HOUR, |s| &mut s.run.stagger),
    count("run", "attempts", 1..=u64::MAX, |s| &mut s.run.attempts),
    duration("run", "retry_pause", Duration::from_millis(1)..=HOUR, |s| &mut s.run.retry_pause),
    count("run", "gate_attempts", 0..=u64::MAX, |s| &mut s.run.gate_attempts),
    duration("run", "idle", SECOND..=days(7), |s| &mut s.run.idle),
    duration("run", "total", SECOND..=days(7), |s| &mut s.run.total),
    count("run", "turns", 0..=u64::MAX, |s| &mut s.run.turns),
    fraction("run", "cost", MONEY, |s| &mut s.run.cost),
    fraction("run", "budget", MONEY, |s| &mut s.run.budget),
    duration("run", "answer_wait", SECOND..=days(1), |s| &mut s.run.answer_wait),
    choice::<NoChange>("run", "no_change"),
    choice::<TakeAdded>("run", "take_added"),
    choice::<Hold>("run", "hold"),
    templates("run", "before", |s| &mut s.run.before),
    templates("run", "after", |s| &mut s.run.after),
    duration("run", "command_timeout", SECOND..=days(1), |s| &mut s.run.command_timeout),
    text("notify", "command", None, |s| &mut s.notify.command),
    text("notify", "webhook", None, |s| &mut s.notify.webhook),
    switch("notify", "desktop", |s| &mut s.notify.desktop),
    duration("notify", "timeout", SECOND..=HOUR, |s| &mut s.notify.timeout),
    size("keep", "max_file", |s| &mut s.keep.max_file),
    size("keep", "max_total", |s| &mut s.keep.max_total),
    count("keep", "max_files", 1..=u64::MAX, |s| &mut s.keep.max_files),
    duration("status", "refresh", Duration::from_millis(100)..=HOUR, |s| &mut s.status.refresh),
    fraction("health", "waited_share", 0.0..=1.0, |s| &mut s.health.waited_share),
    duration("health", "mutex_wait", SECOND..=days(1), |s| &mut s.health.mutex_wait),
    duration("retain", "age", days(1)..=days(3650), |s| &mut s.retain.age),
    size("retain", "size", |s| &mut s.retain.size),
    duration("retain", "refs", days(1)..=days(3650), |s| &mut s.retain.refs),
];

/// A kind of word that one setting holds.
trait Chosen: Word {
    fn of(settings: &mut Settings) -> &mut Self;
}

impl Chosen for Preset {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.project.preset
    }
}

impl Chosen for EmptyRun {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.validate.empty
    }
}

impl Chosen for Land {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.gate.land
    }
}

impl Chosen for Cold {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.queue.cold
    }
}

impl Chosen for NoChange {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.run.no_change
    }
}

impl Chosen for TakeAdded {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.run.take_added
    }
}

impl Chosen for Hold {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.run.hold
    }
}

impl Chosen for Source {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.issues.source
    }
}

impl Chosen for Unlocked {
    fn of(settings: &mut Settings) -> &mut Self {
        &mut settings.enforcement.unlocked
    }
}

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
    /// In bytes; zero is written as an empty text.
    Size(fn(&mut Settings) -> &mut u64),
    Switch(fn(&mut Settings) -> &mut bool),
    Choice(Choice),
    Text {
        of: fn(&mut Settings) -> &mut String,
        needs: Option<&'static str>,
    },
    Patterns(fn(&mut Settings) -> &mut Vec<String>),
    Folders(fn(&mut Settings) -> &mut Vec<String>),
    Groups(fn(&mut Settings) -> &mut Vec<String>),
    Commands(fn(&mut Settings) -> &mut Vec<CommandPattern>),
    CommandGroups(fn(&mut Settings) -> &mut Vec<Vec<CommandPattern>>),
    Templates(fn(&mut Settings) -> &mut Vec<ShareTemplate>),
}

/// A setting that is one of a few words, whatever they mean.
#[derive(Debug)]
struct Choice {
    set: fn(&mut Settings, &Given<'_>) -> Result<(), ValueError>,
    get: fn(&mut Settings) -> &'static str,
    words: fn() -> Vec<&'static str>,
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

    fn get(&self, settings: &mut Settings) -> T {
        *(self.of)(settings)
    }
}

impl Setting {
    /// Checks what was given and writes it into its field; leaves the field alone if it is not legal.
    pub(crate) fn set(&self, settings: &mut Settings, given: &Given<'_>) -> Result<(), ValueError> {
        match &self.kind {
            Kind::Duration(field) => field.set(settings, given.duration()?, given),
            Kind::Fraction(field) => field.set(settings, given.fraction()?, given),
            Kind::Count(field) => field.set(settings, given.count()?, given),
            Kind::Size(of) => {
                *of(settings) = given.size()?;
                Ok(())
            }
            Kind::Switch(of) => {
                *of(settings) = given.switch()?;
                Ok(())
            }
            Kind::Choice(choice) => (choice.set)(settings, given),
            Kind::Text { of, needs } => {
                let text = given.text()?;
                if let Some(needs) = needs.filter(|needs| !text.contains(needs)) {
                    return Err(ValueError::Lacks { text, needs });
                }
                *of(settings) = text;
                Ok(())
            }
            Kind::Patterns(of) => {
                *of(settings) = given.patterns()?;
                Ok(())
            }
            Kind::Folders(of) => {
                *of(settings) = given.folders()?;
                Ok(())
            }
            Kind::Groups(of) => {
                *of(settings) = given.groups()?;
                Ok(())
            }
            Kind::Commands(of) => {
                *of(settings) = given.commands()?;
                Ok(())
            }
            Kind::CommandGroups(of) => {
                *of(settings) = given.command_groups()?;
                Ok(())
            }
            Kind::Templates(of) => {
                *of(settings) = given.templates()?;
                Ok(())
            }
        }
    }

    /// The value as one would type it in a variable or an argument.
    pub(crate) fn plain(&self, settings: &Settings) -> String {
        // One accessor serves both directions, so reading goes through a copy.
        let settings = &mut settings.clone();
        match &self.kind {
            Kind::Duration(field) => format_duration(field.get(settings)),
            Kind::Fraction(field) => field.get(settings).to_string(),
            Kind::Count(field) => field.get(settings).to_string(),
            Kind::Size(of) => format_size(*of(settings)),
            Kind::Switch(of) => of(settings).to_string(),
            Kind::Choice(choice) => (choice.get)(settings).to_owned(),
            Kind::Text { of, .. } => of(settings).clone(),
            Kind::Patterns(of) | Kind::Folders(of) | Kind::Groups(of) => of(settings).join(", "),
            Kind::Commands(of) => strings(of(settings)).join(", "),
            Kind::Templates(of) => strings(of(settings)).join(", "),
            Kind::CommandGroups(of) => {
                of(settings).iter().map(|group| strings(group).join(" = ")).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The value as one would write it in `mala.toml`.
    pub(crate) fn toml(&self, settings: &Settings) -> String {
        let copy = &mut settings.clone();
        match &self.kind {
            Kind::Duration(_) | Kind::Size(_) | Kind::Choice(_) | Kind::Text { .. } => {
                quoted(&self.plain(settings))
            }
            Kind::Fraction(_) | Kind::Count(_) | Kind::Switch(_) => self.plain(settings),
            Kind::Patterns(of) | Kind::Folders(of) | Kind::Groups(of) => list(of(copy)),
            Kind::Commands(of) => list(&strings(of(copy))),
            Kind::Templates(of) => list(&strings(of(copy))),
            Kind::CommandGroups(of) => {
                let groups: Vec<String> = of(copy).iter().map(|group| list(&strings(group))).collect();
                format!("[{}]", groups.join(", "))
            }
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
            Kind::Size(_) => format!("a size such as \"{EXAMPLE}\", or empty for no bound"),
            Kind::Switch(_) => "true or false".to_owned(),
            Kind::Choice(choice) => {
                let words: Vec<String> = (choice.words)().into_iter().map(quoted).collect();
                let (last, others) = words.split_last().expect("there is something to choose from");
                format!("{} or {last}", others.join(", "))
            }
            Kind::Text { needs: Some(needs), .. } => format!("text with `{needs}` in it"),
            Kind::Text { needs: None, .. } => "a text".to_owned(),
            Kind::Patterns(_) => "a list of patterns such as [\"docs/**\"]".to_owned(),
            Kind::Folders(_) => "a list of folders in the repository such as [\"target\"]".to_owned(),
            Kind::Groups(_) => "a list of groups of names such as [\"schema.src schema.lock\"]".to_owned(),
            Kind::Commands(_) => "a list of commands such as [\"cargo test\"]".to_owned(),
            Kind::Templates(_) => "a list of commands such as [\"createdb app_{slot}\"]".to_owned(),
            Kind::CommandGroups(_) => {
                "a list of lists of commands such as [[\"make test\", \"cargo test\"]]".to_owned()
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

const fn size(section: &'static str, name: &'static str, of: fn(&mut Settings) -> &mut u64) -> Setting {
    Setting { section, name, kind: Kind::Size(of) }
}

const fn switch(section: &'static str, name: &'static str, of: fn(&mut Settings) -> &mut bool) -> Setting {
    Setting { section, name, kind: Kind::Switch(of) }
}

/// A word has one setting of its own, see [`Chosen`].
const fn choice<T: Chosen>(section: &'static str, name: &'static str) -> Setting {
    let choice = Choice {
        set: |settings, given| {
            *T::of(settings) = given.choice(T::WORDS)?;
            Ok(())
        },
        get: |settings| T::of(settings).word(),
        words: || T::WORDS.iter().map(|(word, _)| *word).collect(),
    };
    Setting { section, name, kind: Kind::Choice(choice) }
}

const fn text(
    section: &'static str,
    name: &'static str,
    needs: Option<&'static str>,
    of: fn(&mut Settings) -> &mut String,
) -> Setting {
    Setting { section, name, kind: Kind::Text { of, needs } }
}

const fn patterns(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Vec<String>,
) -> Setting {
    Setting { section, name, kind: Kind::Patterns(of) }
}

const fn folders(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Vec<String>,
) -> Setting {
    Setting { section, name, kind: Kind::Folders(of) }
}

const fn commands(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Vec<CommandPattern>,
) -> Setting {
    Setting { section, name, kind: Kind::Commands(of) }
}

const fn command_groups(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Vec<Vec<CommandPattern>>,
) -> Setting {
    Setting { section, name, kind: Kind::CommandGroups(of) }
}

const fn templates(
    section: &'static str,
    name: &'static str,
    of: fn(&mut Settings) -> &mut Vec<ShareTemplate>,
) -> Setting {
    Setting { section, name, kind: Kind::Templates(of) }
}

fn strings(entries: &[impl ToString]) -> Vec<String> {
    entries.iter().map(ToString::to_string).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn list(entries: &[String]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
    format!("[{}]", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use toml::de::DeTable;

    use super::*;
    use crate::{DEFAULTS, Key, tables};

    /// `section.name` of every entry of the embedded file.
    fn documented() -> Vec<String> {
        let table = DeTable::parse(DEFAULTS).unwrap().into_inner();
        let names = |section: &str| -> Vec<String> {
            let entries = table[section].get_ref().as_table().unwrap();
            entries.keys().map(|name| format!("{section}.{}", name.get_ref())).collect()
        };
        let settings = table.keys().filter(|section| !tables::SECTIONS.contains(&section.get_ref().as_ref()));
        settings.flat_map(|section| names(section.get_ref())).collect()
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
            setting.set(&mut settings, &Given::Text(&setting.plain(&Settings::default()))).unwrap();
            for (other, untouched) in SETTINGS.iter().enumerate().filter(|(other, _)| *other != index) {
                let blank = untouched.plain(&Settings::BLANK);
                assert_eq!(untouched.plain(&settings), blank, "setting {index} wrote into {other}");
            }
        }
    }

    /// As each line has a field of its own, equal numbers mean that no field is left blank.
    #[test]
    fn every_field_has_its_line_in_the_table() {
        let printed = format!("{:#?}", Settings::BLANK);
        let fields = printed.lines().filter(|line| line.contains(": ") && line.ends_with(','));
        // The two lists of tables have no line.
        assert_eq!(fields.count(), SETTINGS.len() + 2);
    }

    #[test]
    fn legal_values_read_as_words() {
        let legal: Vec<String> = Key::all().map(|key| format!("{key}: {}", key.setting().legal())).collect();
        insta::assert_snapshot!(legal.join("\n"), @r#"
        project.preset: "none", "python", "python-uv", "rust", "node" or "go"
        issues.source: "auto", "builtin", "br" or "bd"
        lock.ttl: a duration from 1s to 7d
        lock.max_ttl: a duration from 1s to 7d
        lock.max_wait: a duration from 1s to 1d
        lock.groups: a list of groups of names such as ["schema.src schema.lock"]
        enforcement.unlocked: "acquire" or "deny"
        enforcement.require_kernel: true or false
        test.commands: a list of commands such as ["cargo test"]
        test.wait: a duration from 1s to 1d
        validate.commands: a list of commands such as ["cargo test"]
        validate.equivalents: a list of lists of commands such as [["make test", "cargo test"]]
        validate.directory: a text
        validate.empty: "fail" or "pass"
        validate.strict: true or false
        validate.clean: true or false
        validate.docs: a list of patterns such as ["docs/**"]
        gate.issue_pattern: text with `<id>` in it
        gate.people: true or false
        gate.stop_attempts: a whole number, 0 or more
        gate.land: "branch" or "queue"
        queue.slots: a whole number, 1 or more
        queue.window: a whole number, 1 or more
        queue.timeout: a duration from 1s to 7d
        queue.setup: a list of commands such as ["cargo test"]
        queue.build: a list of folders in the repository such as ["target"]
        queue.directory: a text
        queue.max_disk: a size such as "20GB", or empty for no bound
        queue.cold: "audit", "always" or "never"
        transcripts.evidence: true or false
        asks.due: a duration from 1s to 1d
        asks.urgent: a duration from 1s to 1d
        asks.idle: a duration from 1s to 7d
        run.max_agents: a whole number, 1 or more
        run.profile: a text
        run.fallback: a text
        run.stagger: a duration from 1ms to 1h
        run.attempts: a whole number, 1 or more
        run.retry_pause: a duration from 1ms to 1h
        run.gate_attempts: a whole number, 0 or more
        run.idle: a duration from 1s to 7d
        run.total: a duration from 1s to 7d
        run.turns: a whole number, 0 or more
        run.cost: a number from 0 to 1000000
        run.budget: a number from 0 to 1000000
        run.answer_wait: a duration from 1s to 1d
        run.no_change: "ask" or "close"
        run.take_added: "next-run" or "now"
        run.hold: "auto", "landing" or "offer"
        run.before: a list of commands such as ["createdb app_{slot}"]
        run.after: a list of commands such as ["createdb app_{slot}"]
        run.command_timeout: a duration from 1s to 1d
        notify.command: a text
        notify.webhook: a text
        notify.desktop: true or false
        notify.timeout: a duration from 1s to 1h
        keep.max_file: a size such as "20GB", or empty for no bound
        keep.max_total: a size such as "20GB", or empty for no bound
        keep.max_files: a whole number, 1 or more
        status.refresh: a duration from 100ms to 1h
        health.waited_share: a number from 0 to 1
        health.mutex_wait: a duration from 1s to 1d
        retain.age: a duration from 1d to 3650d
        retain.size: a size such as "20GB", or empty for no bound
        retain.refs: a duration from 1d to 3650d
        "#);
    }
}
