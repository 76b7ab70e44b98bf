//! What a person gets from `Settings::load`: which layer wins, and what they read when something is wrong.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mala_config::{
    AgentKind, ConfigError, Loaded, Origin, Override, Preset, PromptBy, Settings, Sources, render_new_file,
};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use tempfile::TempDir;

/// A folder with the files of one test, and what is given besides them.
struct World {
    dir: TempDir,
    sources: Sources,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder"), sources: Sources::default() }
    }

    fn repo(text: &str) -> Self {
        Self::new().repo_file(text)
    }

    fn user_file(mut self, text: &str) -> Self {
        self.sources.user_file = Some(self.write("user.toml", text.as_bytes()));
        self
    }

    fn repo_file(mut self, text: &str) -> Self {
        self.sources.repo_file = Some(self.write("mala.toml", text.as_bytes()));
        self
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.sources.env.push((OsString::from(name), value.as_ref().to_owned()));
        self
    }

    fn argument(mut self, key: &str, value: &str) -> Self {
        let typed = format!("--{} {value}", key.rsplit('.').next().unwrap_or(key));
        self.sources.overrides.push(Override { key: key.to_owned(), value: value.to_owned(), typed });
        self
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).expect("a writable temporary folder");
        path
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        Settings::load(&self.sources)
    }

    fn loaded(&self) -> Loaded {
        self.load().expect("legal settings")
    }

    /// The error as a terminal shows it.
    fn error(&self) -> String {
        self.rendered(&self.load().expect_err("illegal settings"))
    }

    /// The warnings as a terminal shows them.
    fn warnings(&self) -> String {
        self.loaded().warnings.iter().map(|warning| self.rendered(warning)).collect()
    }

    /// Every setting with its origin, one in a line.
    fn listing(&self) -> String {
        let loaded = self.loaded();
        let lines: Vec<String> = loaded
            .entries()
            .map(|entry| format!("{} = {}  # {}", entry.key, entry.value, entry.origin))
            .collect();
        self.without_dir(&lines.join("\n"))
    }

    fn rendered(&self, diagnostic: &dyn Diagnostic) -> String {
        let handler =
            GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_wrap_lines(false);
        let mut report = String::new();
        handler.render_report(&mut report, diagnostic).expect("writing to a string");
        let lines: Vec<&str> = report.lines().map(str::trim_end).collect();
        self.without_dir(&format!("{}\n", lines.join("\n")))
    }

    fn without_dir(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

#[test]
fn without_any_file_the_defaults_hold() {
    let world = World::new();
    let loaded = world.loaded();
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.warnings.is_empty());
    insta::assert_snapshot!(world.listing(), @r#"
    project.preset = "none"  # default
    issues.source = "auto"  # default
    lock.ttl = "30m"  # default
    lock.max_ttl = "1d"  # default
    lock.max_wait = "1h"  # default
    enforcement.unlocked = "acquire"  # default
    enforcement.require_kernel = false  # default
    test.commands = []  # default
    test.wait = "1h"  # default
    validate.commands = []  # default
    validate.strict = false  # default
    validate.clean = false  # default
    validate.docs = ["docs/**", "**/*.md"]  # default
    gate.issue_pattern = "bd-<id>"  # default
    gate.people = false  # default
    gate.stop_attempts = 3  # default
    isolated.share = []  # default
    isolated.copy = []  # default
    transcripts.evidence = false  # default
    asks.due = "10m"  # default
    asks.urgent = "5m"  # default
    asks.idle = "10m"  # default
    run.max_agents = 4  # default
    run.profile = "claude"  # default
    run.stagger = "2s"  # default
    run.attempts = 3  # default
    run.retry_pause = "2s"  # default
    run.gate_attempts = 3  # default
    run.idle = "10m"  # default
    run.total = "2h"  # default
    run.turns = 0  # default
    run.cost = 0  # default
    run.budget = 0  # default
    run.answer_wait = "5m"  # default
    run.mitigate = false  # default
    status.refresh = "1s"  # default
    health.wait_rate = 0.05  # default
    health.waits_per_day = 20  # default
    health.mutex_wait = "10m"  # default
    logs.keep = "90d"  # default
    "#);
}

#[test]
fn files_that_do_not_exist_are_no_problem() {
    let mut world = World::new();
    world.sources.user_file = Some(world.dir.path().join("nowhere/mala.toml"));
    world.sources.repo_file = Some(PathBuf::from("/dev/null/mala.toml"));
    assert_eq!(world.loaded().settings, Settings::default());
}

#[test]
fn an_empty_file_and_an_empty_section_change_nothing() {
    let world = World::new().user_file("").repo_file("\u{feff}# nothing but a byte order mark\n[lock]\n");
    let loaded = world.loaded();
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.warnings.is_empty());
}

#[test]
fn each_layer_overrides_the_ones_below_it() {
    let user = "[lock]\nttl = '1m'\nmax_ttl = '1h'\nmax_wait = '1m'\n[status]\nrefresh = '1m'\n";
    let repo = "[lock]\nmax_ttl = '2h'\nmax_wait = '2m'\n[status]\nrefresh = '2m'\n";
    let world = World::new()
        .user_file(user)
        .repo_file(repo)
        .env("MALA_LOCK_MAX_WAIT", "3m")
        .env("MALA_STATUS_REFRESH", "3m")
        .argument("status.refresh", "4m");
    insta::assert_snapshot!(world.listing(), @r#"
    project.preset = "none"  # default
    issues.source = "auto"  # default
    lock.ttl = "1m"  # user.toml:2:7
    lock.max_ttl = "2h"  # mala.toml:2:11
    lock.max_wait = "3m"  # MALA_LOCK_MAX_WAIT
    enforcement.unlocked = "acquire"  # default
    enforcement.require_kernel = false  # default
    test.commands = []  # default
    test.wait = "1h"  # default
    validate.commands = []  # default
    validate.strict = false  # default
    validate.clean = false  # default
    validate.docs = ["docs/**", "**/*.md"]  # default
    gate.issue_pattern = "bd-<id>"  # default
    gate.people = false  # default
    gate.stop_attempts = 3  # default
    isolated.share = []  # default
    isolated.copy = []  # default
    transcripts.evidence = false  # default
    asks.due = "10m"  # default
    asks.urgent = "5m"  # default
    asks.idle = "10m"  # default
    run.max_agents = 4  # default
    run.profile = "claude"  # default
    run.stagger = "2s"  # default
    run.attempts = 3  # default
    run.retry_pause = "2s"  # default
    run.gate_attempts = 3  # default
    run.idle = "10m"  # default
    run.total = "2h"  # default
    run.turns = 0  # default
    run.cost = 0  # default
    run.budget = 0  # default
    run.answer_wait = "5m"  # default
    run.mitigate = false  # default
    status.refresh = "4m"  # --refresh 4m
    health.wait_rate = 0.05  # default
    health.waits_per_day = 20  # default
    health.mutex_wait = "10m"  # default
    logs.keep = "90d"  # default
    "#);
}

#[test]
fn an_origin_tells_the_files_apart() {
    let world = World::new().user_file("lock.ttl = '1m'").repo_file("lock.max_ttl = '2h'");
    let loaded = world.loaded();
    let origins: Vec<&Origin> = loaded.entries().map(|entry| entry.origin).collect();
    assert!(
        matches!(origins[2..5], [Origin::UserFile(_), Origin::RepoFile(_), Origin::Default]),
        "{origins:?}"
    );
}

#[test]
fn every_setting_can_be_set_from_every_layer() {
    let values = [
        ("project.preset", "'rust'", "rust"),
        ("issues.source", "'builtin'", "builtin"),
        ("lock.ttl", "'2m'", "2m"),
        ("lock.max_ttl", "'2h'", "2h"),
        ("lock.max_wait", "'2m'", "2m"),
        ("enforcement.unlocked", "'deny'", "deny"),
        ("enforcement.require_kernel", "true", "true"),
        ("test.commands", "['make check', 'tox']", "make check, tox"),
        ("test.wait", "'2m'", "2m"),
        ("validate.commands", "['tox']", "tox"),
        ("validate.strict", "true", "true"),
        ("validate.clean", "true", "true"),
        ("validate.docs", "['doc/*']", "doc/*"),
        ("gate.issue_pattern", "'#<id>'", "#<id>"),
        ("gate.people", "true", "true"),
        ("gate.stop_attempts", "0", "0"),
        ("isolated.share", "['a', 'b']", "a,b"),
        ("isolated.copy", "['c']", " c ,"),
        ("transcripts.evidence", "true", "true"),
        ("asks.due", "'2m'", "2m"),
        ("asks.urgent", "'1m'", "1m"),
        ("asks.idle", "'1m'", "1m"),
        ("run.max_agents", "9", "9"),
        ("run.profile", "'fast'", "fast"),
        ("run.stagger", "'10ms'", "10ms"),
        ("run.attempts", "1", "1"),
        ("run.retry_pause", "'10ms'", "10ms"),
        ("run.gate_attempts", "0", "0"),
        ("run.idle", "'1m'", "1m"),
        ("run.total", "'1h'", "1h"),
        ("run.turns", "7", "7"),
        ("run.cost", "2.5", "2.5"),
        ("run.budget", "50", "50"),
        ("run.answer_wait", "'1m'", "1m"),
        ("run.mitigate", "true", "true"),
        ("status.refresh", "'2s'", "2s"),
        ("health.wait_rate", "1", "1"),
        ("health.waits_per_day", "0x02", "2"),
        ("health.mutex_wait", "'1m'", "1m"),
        ("logs.keep", "'2d'", "2d"),
    ];
    let keys: Vec<String> = World::new().loaded().entries().map(|entry| entry.key.to_string()).collect();
    assert_eq!(keys, values.map(|(key, ..)| key));
    let file: Vec<String> = values.iter().map(|(key, toml, _)| format!("{key} = {toml}\n")).collect();
    let from_file = World::repo(&file.concat()).loaded().settings;
    let (mut from_env, mut from_arguments) = (World::new(), World::new());
    for (entry, (key, _, text)) in World::new().loaded().entries().zip(values) {
        assert_ne!(entry.value, text, "the default is no test of `{key}`");
        from_env = from_env.env(&entry.key.variable(), text);
        from_arguments = from_arguments.argument(key, text);
    }
    assert_eq!(from_file.lock.max_ttl, Duration::from_hours(2));
    assert_eq!(from_env.loaded().settings, from_file);
    assert_eq!(from_arguments.loaded().settings, from_file);
}

#[test]
fn the_last_argument_wins() {
    let world = World::new().argument("lock.ttl", "1m").argument("lock.ttl", "2m");
    assert_eq!(world.loaded().settings.lock.ttl, Duration::from_mins(2));
}

#[test]
fn a_value_that_is_no_duration_is_shown_where_it_is_written() {
    insta::assert_snapshot!(World::repo("[lock]\nttl = \"10\"\n").error(), @r#"
     × bad value for `lock.ttl` in `mala.toml:2:7`: `10` cannot be read as a duration, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`
      ╭─[mala.toml:2:7]
    1 │ [lock]
    2 │ ttl = "10"
      ·       ────
      ╰────
     help: `lock.ttl` takes a duration from 1s to 7d, for example `ttl = "30m"`
    "#);
}

#[test]
fn a_value_of_the_wrong_type_is_an_error() {
    insta::assert_snapshot!(World::repo("[health]\nwaits_per_day = \"many\"\n").error(), @r#"
     × bad value for `health.waits_per_day` in `mala.toml:2:17`: expected a whole number, found string
      ╭─[mala.toml:2:17]
    1 │ [health]
    2 │ waits_per_day = "many"
      ·                 ──────
      ╰────
     help: `health.waits_per_day` takes a whole number, 1 or more, for example `waits_per_day = 20`
    "#);
    insta::assert_snapshot!(World::repo("[lock.ttl]\nminutes = 5\n").error(), @r#"
     × bad value for `lock.ttl` in `mala.toml:1:1`: expected a duration in quotes, found table
      ╭─[mala.toml:1:1]
    1 │ [lock.ttl]
      · ──────────
    2 │ minutes = 5
      ╰────
     help: `lock.ttl` takes a duration from 1s to 7d, for example `ttl = "30m"`
    "#);
}

#[test]
fn every_range_is_checked_at_both_ends() {
    let legal = [
        ("lock.ttl", "1s", "24h"),
        ("lock.max_ttl", "30m", "7d"),
        ("lock.max_wait", "1s", "24h"),
        ("status.refresh", "100ms", "1h"),
        ("health.wait_rate", "0", "1"),
        ("health.waits_per_day", "1", "18446744073709551615"),
        ("logs.keep", "1d", "3650d"),
    ];
    for (key, lowest, highest) in legal {
        for value in [lowest, highest] {
            assert!(World::new().argument(key, value).load().is_ok(), "{key} = {value}");
        }
    }
    let illegal = [
        ("lock.ttl", "999ms", "7d1s"),
        ("lock.max_ttl", "999ms", "7d1s"),
        ("lock.max_wait", "999ms", "24h1s"),
        ("status.refresh", "99ms", "1h1s"),
        ("health.wait_rate", "-0.1", "1.1"),
        ("health.waits_per_day", "0", "18446744073709551616"),
        ("logs.keep", "23h", "3651d"),
        ("health.wait_rate", "nan", "inf"),
    ];
    for (key, below, above) in illegal {
        for value in [below, above] {
            let error = World::new().argument(key, value).load().expect_err("out of range");
            assert!(error.to_string().contains("out of range"), "{key} = {value}: {error}");
        }
    }
}

#[test]
fn an_error_in_a_number_shows_its_legal_values() {
    insta::assert_snapshot!(World::repo("[health]\nwait_rate = 5\n").error(), @r"
     × bad value for `health.wait_rate` in `mala.toml:2:13`: `5` is out of range
      ╭─[mala.toml:2:13]
    1 │ [health]
    2 │ wait_rate = 5
      ·             ─
      ╰────
     help: `health.wait_rate` takes a number from 0 to 1, for example `wait_rate = 0.05`
    ");
    insta::assert_snapshot!(World::repo("health = { waits_per_day = -1 }\n").error(), @r"
     × bad value for `health.waits_per_day` in `mala.toml:1:28`: `-1` is out of range
      ╭─[mala.toml:1:28]
    1 │ health = { waits_per_day = -1 }
      ·                            ──
      ╰────
     help: `health.waits_per_day` takes a whole number, 1 or more, for example `waits_per_day = 20`
    ");
}

#[test]
fn all_bad_values_are_reported_at_once_in_the_order_of_the_file() {
    let world = World::new()
        .user_file("[status]\nrefresh = 1\n\n[health]\nwait_rate = 2.0\n")
        .repo_file("[logs]\nkeep = \"1y\"\n")
        .env("MALA_LOCK_TTL", "soon");
    insta::assert_snapshot!(world.error(), @r#"
      × bad value for `status.refresh` in `user.toml:2:11`: expected a duration in quotes, found integer
       ╭─[user.toml:2:11]
     1 │ [status]
     2 │ refresh = 1
       ·           ─
     3 │
       ╰────
      help: `status.refresh` takes a duration from 100ms to 1h, for example `refresh = "1s"`

    Error:
      × bad value for `health.wait_rate` in `user.toml:5:13`: `2.0` is out of range
       ╭─[user.toml:5:13]
     4 │ [health]
     5 │ wait_rate = 2.0
       ·             ───
       ╰────
      help: `health.wait_rate` takes a number from 0 to 1, for example `wait_rate = 0.05`

    Error:
      × bad value for `logs.keep` in `mala.toml:2:8`: `1y` has no fixed length, count in days instead of months or years, like `30d`
       ╭─[mala.toml:2:8]
     1 │ [logs]
     2 │ keep = "1y"
       ·        ────
       ╰────
      help: `logs.keep` takes a duration from 1d to 3650d, for example `keep = "90d"`

    Error:
      × bad value for `lock.ttl` in `MALA_LOCK_TTL`: `soon` cannot be read as a duration, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`
      help: `lock.ttl` takes a duration from 1s to 7d, for example `MALA_LOCK_TTL=30m`
    "#);
    assert_eq!(world.load().expect_err("four bad values").problems().count(), 4);
}

#[test]
fn invalid_toml_is_shown_where_it_breaks() {
    insta::assert_snapshot!(World::repo("[lock\nttl = \"10m\"\n").error(), @r#"
     × invalid TOML in `mala.toml:1:6`: unclosed table, expected `]`
      ╭─[mala.toml:1:6]
    1 │ [lock
      ·      ▲
    2 │ ttl = "10m"
      ╰────
     help: correct it there, or move the file away
    "#);
    insta::assert_snapshot!(World::repo("[lock]\nttl = \"1m\"\nttl = \"2m\"\n").error(), @r#"
     × invalid TOML in `mala.toml:3:1`: duplicate key
      ╭─[mala.toml:3:1]
    2 │ ttl = "1m"
    3 │ ttl = "2m"
      · ───
      ╰────
     help: correct it there, or move the file away
    "#);
    insta::assert_snapshot!(World::repo("[lock]\nttl =").error(), @r"
     × invalid TOML in `mala.toml:2:6`: string values must be quoted, expected literal string
      ╭─[mala.toml:2:6]
    1 │ [lock]
    2 │ ttl =
      ╰────
     help: correct it there, or move the file away
    ");
}

#[test]
fn a_section_that_is_a_value_is_an_error() {
    insta::assert_snapshot!(World::repo("lock = \"30m\"\n").error(), @r#"
     × `lock` in `mala.toml:1:8` is not a section
      ╭─[mala.toml:1:8]
    1 │ lock = "30m"
      ·        ─────
      ╰────
     help: write `[lock]` and its settings below it
    "#);
    assert!(World::repo("[[lock]]\nttl = \"1m\"\n").load().is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
    let mut world = World::new();
    world.sources.repo_file = Some(world.write("mala.toml", b"[lock]\nttl = \"\xff\"\n"));
    insta::assert_snapshot!(world.error(), @r"
    × cannot read the settings in `mala.toml`
    ╰─▶ invalid utf-8 sequence of 1 bytes from index 14
    help: make it a readable text file, or move it away
    ");
    world.sources.repo_file = None;
    world.sources.user_file = Some(world.dir.path().to_owned());
    insta::assert_snapshot!(world.error().replace(&world.dir.path().display().to_string(), "[folder]"), @r"
    × cannot read the settings in `[folder]`
    ╰─▶ Is a directory (os error 21)
    help: make it a readable text file, or move it away
    ");
}

#[test]
fn an_unknown_setting_is_a_warning_with_a_suggestion() {
    let world = World::repo("[lock]\ntll = \"10m\"\n");
    assert_eq!(world.loaded().settings, Settings::default());
    insta::assert_snapshot!(world.warnings(), @r#"
     ⚠ unknown setting `lock.tll` in `mala.toml:2:1` is ignored
      ╭─[mala.toml:2:1]
    1 │ [lock]
    2 │ tll = "10m"
      · ───
      ╰────
     help: did you mean `lock.ttl`?
    "#);
    let loaded = world.loaded();
    let place = loaded.warnings[0].place().expect("a place in a file");
    assert_eq!((place.line(), place.column()), (2, 1));
    assert!(place.file().ends_with("/mala.toml"));
}

#[test]
fn an_unknown_section_is_one_warning() {
    insta::assert_snapshot!(World::repo("[locks]\nttl = \"10m\"\nmax_ttl = 5\n").warnings(), @r#"
     ⚠ unknown section `[locks]` in `mala.toml:1:2` is ignored
      ╭─[mala.toml:1:2]
    1 │ [locks]
      ·  ─────
    2 │ ttl = "10m"
      ╰────
     help: did you mean `[lock]`?
    "#);
    insta::assert_snapshot!(World::repo("ttl = \"10m\"\n").warnings(), @r#"
     ⚠ unknown setting `ttl` in `mala.toml:1:1` is ignored
      ╭─[mala.toml:1:1]
    1 │ ttl = "10m"
      · ───
      ╰────
     help: did you mean `lock.ttl`?
    "#);
}

#[test]
fn a_bad_variable_is_named() {
    insta::assert_snapshot!(World::new().env("MALA_LOCK_TTL", "10").error(), @r"
    × bad value for `lock.ttl` in `MALA_LOCK_TTL`: `10` cannot be read as a duration, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`
    help: `lock.ttl` takes a duration from 1s to 7d, for example `MALA_LOCK_TTL=30m`
    ");
    insta::assert_snapshot!(World::new().env("MALA_LOCK_TTL", "").error(), @r"
    × bad value for `lock.ttl` in `MALA_LOCK_TTL`: a duration is missing, write it like `500ms`, `30s`, `10m`, `2h`, `7d` or `1h30m`
    help: `lock.ttl` takes a duration from 1s to 7d, for example `MALA_LOCK_TTL=30m`
    ");
    let bytes = OsStr::from_bytes(b"10m\xff");
    insta::assert_snapshot!(World::new().env("MALA_LOCK_TTL", bytes).error(), @r"
    × bad value for `lock.ttl` in `MALA_LOCK_TTL`: `10m�` is not valid UTF-8
    help: `lock.ttl` takes a duration from 1s to 7d, for example `MALA_LOCK_TTL=30m`
    ");
}

#[test]
fn only_variables_that_start_like_a_section_are_warned_about() {
    let world = World::new()
        .env("MALA_LOCK_TLL", "10m")
        .env("MALA_LOCK_ttl", "10m")
        .env("MALA_LOGS_COLOUR", "red")
        .env("MALA_AGENT", "otter")
        .env("MALA_LOCKS_TTL", "nonsense")
        .env("PATH", "/bin");
    insta::assert_snapshot!(world.warnings(), @r"
    ⚠ unknown variable `MALA_LOCK_TLL` is ignored
    help: did you mean `MALA_LOCK_TTL`?
    ⚠ unknown variable `MALA_LOCK_ttl` is ignored
    help: did you mean `MALA_LOCK_TTL`?
    ⚠ unknown variable `MALA_LOGS_COLOUR` is ignored
    help: `[logs]` has `keep`
    ");
}

#[test]
fn a_bad_argument_is_named_as_it_was_typed() {
    insta::assert_snapshot!(World::new().argument("logs.keep", "1h").error(), @r"
    × bad value for `logs.keep` in `--keep 1h`: `1h` is out of range
    help: `logs.keep` takes a duration from 1d to 3650d, for example `--keep 90d`
    ");
    insta::assert_snapshot!(World::new().argument("lock.tll", "1h").error(), @r"
    × unknown setting `lock.tll` in `--tll 1h`
    help: did you mean `lock.ttl`?
    ");
}

#[test]
fn a_lease_longer_than_the_longest_lease_is_an_error() {
    insta::assert_snapshot!(World::repo("[lock]\nmax_ttl = \"10m\"\n").error(), @r#"
     × `lock.ttl` is 30m (default), longer than `lock.max_ttl`, which is 10m (mala.toml:2:11)
      ╭─[mala.toml:2:11]
    1 │ [lock]
    2 │ max_ttl = "10m"
      ·           ─────
      ╰────
     help: shorten `lock.ttl` or raise `lock.max_ttl`
    "#);
    let both = World::repo("[lock]\nttl = \"2h\"\n").env("MALA_LOCK_MAX_TTL", "1h");
    insta::assert_snapshot!(both.error(), @r#"
     × `lock.ttl` is 2h (mala.toml:2:7), longer than `lock.max_ttl`, which is 1h (MALA_LOCK_MAX_TTL)
      ╭─[mala.toml:2:7]
    1 │ [lock]
    2 │ ttl = "2h"
      ·       ────
      ╰────
     help: shorten `lock.ttl` or raise `lock.max_ttl`
    "#);
    assert!(World::repo("[lock]\nttl = \"24h\"\n").load().is_ok());
}

#[test]
fn layers_are_compared_only_after_all_are_applied() {
    let world = World::new().user_file("[lock]\nttl = \"2d\"\n").repo_file("[lock]\nmax_ttl = \"3d\"\n");
    assert_eq!(world.loaded().settings.lock.ttl, Duration::from_hours(48));
}

#[test]
fn a_refused_value_is_not_compared_with_others() {
    let error = World::repo("[lock]\nttl = \"2d\"\nmax_ttl = \"3x\"\n").load().expect_err("a bad value");
    assert_eq!(error.problems().count(), 1);
}

#[test]
fn tables_have_names_of_the_users_own_and_later_layers_win_field_by_field() {
    let user = "[agents.fast]\nkind = 'claude'\nmodel = 'small'\nturns = 3\n";
    let repo = "[agents.fast]\nmodel = 'large'\nenv = { A = '1' }\n[agents.mine]\nkind = 'command'\n\
                command = ['x', '{prompt}']\nprompt = 'argument'\nlabels = ['docs']\nidle = '1m'\ntotal = '2m'\n\
                cost = 1\n[mutex.db]\ncommands = ['make db-test']\n";
    let settings = World::new().user_file(user).repo_file(repo).loaded().settings;
    let [fast, mine] = settings.agents.as_slice() else { panic!("two profiles") };
    assert_eq!(
        (fast.kind, fast.model.as_deref(), fast.turns),
        (Some(AgentKind::Claude), Some("large"), Some(3))
    );
    assert_eq!(fast.env["A"], "1");
    assert_eq!(
        (mine.kind, mine.prompt, mine.cost),
        (Some(AgentKind::Command), Some(PromptBy::Argument), Some(1.0))
    );
    assert_eq!((mine.idle, mine.total), (Some(Duration::from_mins(1)), Some(Duration::from_mins(2))));
    let guarded = settings.guarded();
    assert_eq!((guarded[0].0.as_str(), guarded[0].1.to_string().as_str()), ("db", "make db-test"));
}

#[test]
fn a_table_that_makes_no_sense_is_shown_where_it_is_written() {
    insta::assert_snapshot!(World::repo("[agents.a]\nkind = 'clod'\n[mutex.db]\ncommands = ['a | b']\n").error(), @r#"
      × bad value for `agents.a.kind` in `mala.toml:2:8`: `clod` is not one of the words in quotes
       ╭─[mala.toml:2:8]
     1 │ [agents.a]
     2 │ kind = 'clod'
       ·        ──────
     3 │ [mutex.db]
       ╰────
      help: `agents.a.kind` takes claude, codex, gemini, opencode, command

    Error:
      × bad value for `mutex.db.commands` in `mala.toml:4:12`: `a | b` is not a command: `|` is for a shell; write plain words, such as `cargo test`
       ╭─[mala.toml:4:12]
     3 │ [mutex.db]
     4 │ commands = ['a | b']
       ·            ─────────
       ╰────
      help: `mutex.db.commands` takes a list of commands such as ["make db-test"]
    "#);
    insta::assert_snapshot!(World::repo("[mutex]\ncommands = ['a']\n").error(), @r#"
     × `mutex.commands` in `mala.toml:2:12` is not a section
      ╭─[mala.toml:2:12]
    1 │ [mutex]
    2 │ commands = ['a']
      ·            ─────
      ╰────
     help: write `[mutex.commands]` and its settings below it
    "#);
    insta::assert_snapshot!(World::repo("[agents.a]\nmodell = 'x'\n").warnings(), @r#"
     ⚠ unknown field `agents.a.modell` in `mala.toml:2:1` is ignored
      ╭─[mala.toml:2:1]
    1 │ [agents.a]
    2 │ modell = 'x'
      · ──────
      ╰────
     help: did you mean `model`?
    "#);
}

#[test]
fn a_list_must_hold_commands_and_a_pattern_its_id() {
    insta::assert_snapshot!(World::repo("[test]\ncommands = ['/bin/x']\n").error(), @r#"
     × bad value for `test.commands` in `mala.toml:2:12`: `/bin/x` is not a command: `/bin/x` has a folder; name the program alone, such as `pytest`
      ╭─[mala.toml:2:12]
    1 │ [test]
    2 │ commands = ['/bin/x']
      ·            ──────────
      ╰────
     help: `test.commands` takes a list of commands such as ["cargo test"], for example `commands = []`
    "#);
    insta::assert_snapshot!(World::repo("[test]\ncommands = 'pytest'\n").error(), @r#"
     × bad value for `test.commands` in `mala.toml:2:12`: expected a list of texts in quotes, found string
      ╭─[mala.toml:2:12]
    1 │ [test]
    2 │ commands = 'pytest'
      ·            ────────
      ╰────
     help: `test.commands` takes a list of commands such as ["cargo test"], for example `commands = []`
    "#);
    insta::assert_snapshot!(World::repo("[gate]\nissue_pattern = 'id'\n").error(), @r#"
     × bad value for `gate.issue_pattern` in `mala.toml:2:17`: `id` does not contain `<id>`
      ╭─[mala.toml:2:17]
    1 │ [gate]
    2 │ issue_pattern = 'id'
      ·                 ────
      ╰────
     help: `gate.issue_pattern` takes text with `<id>` in it, for example `issue_pattern = "bd-<id>"`
    "#);
}

#[test]
fn configured_paths_stay_inside_the_repository() {
    insta::assert_snapshot!(World::repo("[isolated]\nshare = ['target', '../x']\n").error(), @r#"
     × bad value for `isolated.share` in `mala.toml:2:9`: invalid pattern `../x`: it contains `..`; write the path from the top of the checkout without `..`
      ╭─[mala.toml:2:9]
    1 │ [isolated]
    2 │ share = ['target', '../x']
      ·         ──────────────────
      ╰────
     help: `isolated.share` takes a list of folders in the repository such as ["target"], for example `share = []`
    "#);
    for key in ["isolated.share", "isolated.copy", "validate.docs"] {
        for path in ["/x", "../x", "a/../../x", "a/.."] {
            let error = World::new().argument(key, path).load().expect_err("it leads out");
            assert!(error.to_string().contains("invalid pattern"), "{key} = {path}: {error}");
        }
    }
    assert!(
        World::repo("isolated.share = ['./node_modules', 'a/b']\nvalidate.docs = ['*.md']").load().is_ok()
    );
    let error = World::new().argument("isolated.copy", "build/*").load().expect_err("a pattern");
    assert!(error.to_string().ends_with("`build/*` is a pattern, not a folder"), "{error}");
    assert!(
        World::new().argument("validate.docs", "docs/[a").load().is_err(),
        "never taken for a plain name"
    );
}

#[test]
fn what_an_agent_may_cost_is_never_negative() {
    insta::assert_snapshot!(World::repo("[agents.a]\ncost = -1\n").error(), @r"
     × bad value for `agents.a.cost` in `mala.toml:2:8`: `-1` is out of range
      ╭─[mala.toml:2:8]
    1 │ [agents.a]
    2 │ cost = -1
      ·        ──
      ╰────
     help: `agents.a.cost` takes a number from 0 to 1000000
    ");
    for cost in ["nan", "inf", "-0.5", "1000001"] {
        assert!(World::repo(&format!("[agents.a]\ncost = {cost}\n")).load().is_err(), "{cost}");
    }
    assert_eq!(World::repo("[agents.a]\ncost = 0\n").loaded().settings.agents[0].cost, Some(0.0));
}

#[test]
fn a_new_file_sets_nothing_but_its_preset_and_can_be_uncommented() {
    for preset in Preset::ALL {
        let text = render_new_file(*preset);
        let loaded = World::repo(&text).loaded();
        let mut expected = Settings::default();
        expected.project.preset = *preset;
        assert_eq!(loaded.settings, expected, "{text}");
        assert!(loaded.warnings.is_empty(), "{text}");
        assert!(text.lines().all(|line| line.len() <= 110), "{text}");

        let is_setting = |line: &&str| line.starts_with("# ") && line.contains(" = ");
        let uncommented: Vec<&str> =
            text.lines().map(|line| if is_setting(&line) { &line[2..] } else { line }).collect();
        assert_eq!(text.lines().filter(is_setting).count(), 5);
        let loaded = World::repo(&uncommented.join("\n")).loaded();
        assert_eq!(loaded.settings, expected, "the defaults, written out");
        assert!(loaded.warnings.is_empty());
    }
}
