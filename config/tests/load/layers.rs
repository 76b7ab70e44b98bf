//! Which layer wins, and what holds without any.

use std::path::PathBuf;
use std::time::Duration;

use mala_config::{AgentKind, Origin, Preset, PromptBy, Proposal, Settings, render_new_file};

use super::World;

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
    lock.groups = []  # default
    enforcement.unlocked = "acquire"  # default
    enforcement.require_kernel = false  # default
    test.commands = []  # default
    test.wait = "1h"  # default
    validate.commands = []  # default
    validate.equivalents = []  # default
    validate.directory = ""  # default
    validate.empty = "fail"  # default
    validate.strict = false  # default
    validate.clean = false  # default
    validate.docs = ["docs/**", "**/*.md"]  # default
    gate.issue_pattern = "bd-<id>"  # default
    gate.people = false  # default
    gate.stop_attempts = 3  # default
    gate.land = "branch"  # default
    queue.slots = 2  # default
    queue.window = 16  # default
    queue.timeout = "1h"  # default
    queue.setup = []  # default
    queue.build = []  # default
    queue.directory = ""  # default
    queue.max_disk = ""  # default
    queue.cold = "audit"  # default
    transcripts.evidence = false  # default
    asks.due = "10m"  # default
    asks.urgent = "5m"  # default
    asks.idle = "10m"  # default
    run.max_agents = 4  # default
    run.profile = "claude"  # default
    run.fallback = ""  # default
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
    run.no_change = "ask"  # default
    run.take_added = "next-run"  # default
    run.hold = "auto"  # default
    run.before = []  # default
    run.after = []  # default
    run.command_timeout = "5m"  # default
    notify.command = ""  # default
    notify.webhook = ""  # default
    notify.desktop = false  # default
    notify.timeout = "10s"  # default
    keep.max_file = "8MB"  # default
    keep.max_total = "64MB"  # default
    keep.max_files = 5000  # default
    status.refresh = "1s"  # default
    health.waited_share = 0.05  # default
    health.mutex_wait = "10m"  # default
    retain.age = "90d"  # default
    retain.size = "4GB"  # default
    retain.refs = "90d"  # default
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
    lock.groups = []  # default
    enforcement.unlocked = "acquire"  # default
    enforcement.require_kernel = false  # default
    test.commands = []  # default
    test.wait = "1h"  # default
    validate.commands = []  # default
    validate.equivalents = []  # default
    validate.directory = ""  # default
    validate.empty = "fail"  # default
    validate.strict = false  # default
    validate.clean = false  # default
    validate.docs = ["docs/**", "**/*.md"]  # default
    gate.issue_pattern = "bd-<id>"  # default
    gate.people = false  # default
    gate.stop_attempts = 3  # default
    gate.land = "branch"  # default
    queue.slots = 2  # default
    queue.window = 16  # default
    queue.timeout = "1h"  # default
    queue.setup = []  # default
    queue.build = []  # default
    queue.directory = ""  # default
    queue.max_disk = ""  # default
    queue.cold = "audit"  # default
    transcripts.evidence = false  # default
    asks.due = "10m"  # default
    asks.urgent = "5m"  # default
    asks.idle = "10m"  # default
    run.max_agents = 4  # default
    run.profile = "claude"  # default
    run.fallback = ""  # default
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
    run.no_change = "ask"  # default
    run.take_added = "next-run"  # default
    run.hold = "auto"  # default
    run.before = []  # default
    run.after = []  # default
    run.command_timeout = "5m"  # default
    notify.command = ""  # default
    notify.webhook = ""  # default
    notify.desktop = false  # default
    notify.timeout = "10s"  # default
    keep.max_file = "8MB"  # default
    keep.max_total = "64MB"  # default
    keep.max_files = 5000  # default
    status.refresh = "4m"  # --refresh 4m
    health.waited_share = 0.05  # default
    health.mutex_wait = "10m"  # default
    retain.age = "90d"  # default
    retain.size = "4GB"  # default
    retain.refs = "90d"  # default
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
        ("lock.groups", "['a.src a.lock', 'b.src b.lock']", "a.src a.lock, b.src b.lock"),
        ("enforcement.unlocked", "'deny'", "deny"),
        ("enforcement.require_kernel", "true", "true"),
        ("test.commands", "['make check', 'tox']", "make check, tox"),
        ("test.wait", "'2m'", "2m"),
        ("validate.commands", "['tox']", "tox"),
        ("validate.equivalents", "[['tox', 'pytest']]", "tox = pytest"),
        ("validate.directory", "'sub'", "sub"),
        ("validate.empty", "'pass'", "pass"),
        ("validate.strict", "true", "true"),
        ("validate.clean", "true", "true"),
        ("validate.docs", "['doc/*']", "doc/*"),
        ("gate.issue_pattern", "'#<id>'", "#<id>"),
        ("gate.people", "true", "true"),
        ("gate.stop_attempts", "0", "0"),
        ("gate.land", "'queue'", "queue"),
        ("queue.slots", "3", "3"),
        ("queue.window", "4", "4"),
        ("queue.timeout", "'10m'", "10m"),
        ("queue.setup", "['make deps']", "make deps"),
        ("queue.build", "['a', 'b']", "a,b"),
        ("queue.directory", "'/var/slots'", "/var/slots"),
        ("queue.max_disk", "'20GB'", "20GB"),
        ("queue.cold", "'never'", "never"),
        ("transcripts.evidence", "true", "true"),
        ("asks.due", "'2m'", "2m"),
        ("asks.urgent", "'1m'", "1m"),
        ("asks.idle", "'1m'", "1m"),
        ("run.max_agents", "9", "9"),
        ("run.profile", "'fast'", "fast"),
        ("run.fallback", "'slow'", "slow"),
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
        ("run.no_change", "'close'", "close"),
        ("run.take_added", "'now'", "now"),
        ("run.hold", "'offer'", "offer"),
        ("run.before", "['createdb app_{slot}', 'make {{x}}']", "createdb app_{slot},make {{x}}"),
        ("run.after", "['dropdb app_{slot}']", "dropdb app_{slot}"),
        ("run.command_timeout", "'1m'", "1m"),
        ("notify.command", "'tell-me'", "tell-me"),
        ("notify.webhook", "'http://x.invalid'", "http://x.invalid"),
        ("notify.desktop", "true", "true"),
        ("notify.timeout", "'1m'", "1m"),
        ("keep.max_file", "'1MB'", "1MB"),
        ("keep.max_total", "'2MB'", "2MB"),
        ("keep.max_files", "0x03", "3"),
        ("status.refresh", "'2s'", "2s"),
        ("health.waited_share", "1", "1"),
        ("health.mutex_wait", "'1m'", "1m"),
        ("retain.age", "'2d'", "2d"),
        ("retain.size", "'20GB'", "20GB"),
        ("retain.refs", "'3d'", "3d"),
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
fn layers_are_compared_only_after_all_are_applied() {
    let world = World::new().user_file("[lock]\nttl = \"2d\"\n").repo_file("[lock]\nmax_ttl = \"3d\"\n");
    assert_eq!(world.loaded().settings.lock.ttl, Duration::from_hours(48));
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
fn a_new_file_sets_nothing_but_its_preset_and_can_be_uncommented() {
    for preset in Preset::ALL {
        let text = render_new_file(&Proposal::for_preset(*preset));
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

#[test]
fn each_layer_may_say_what_a_model_charges_and_prices_of_ones_own_have_no_date() {
    let price = |world: World, model: &str| {
        let settings = world.loaded().settings;
        settings.prices.of(model).map(|price| (price.input, price.cached, price.output, price.date.is_some()))
    };
    assert_eq!(price(World::new(), "gpt-5"), Some((1.25, 0.125, 10.0, true)));
    let user = "[price]\ngpt-5 = { input = 2 }\nmine = { input = 1, output = 4 }\n";
    let repo = "[price.gpt-5]\noutput = 12.5\n[price.\"a.b/c\"]\ninput = 0\noutput = 0\n";
    let world = || World::new().user_file(user).repo_file(repo);
    assert_eq!(price(world(), "gpt-5"), Some((2.0, 0.125, 12.5, false)));
    assert_eq!(price(world(), "mine-20270101"), Some((1.0, 1.0, 4.0, false)));
    assert_eq!(price(world(), "a.b/c"), Some((0.0, 0.0, 0.0, false)));
    let world = || world().env("MALA_PRICE", "gpt-5 = { output = 13 }, new = { input = 1, output = 2 }");
    assert_eq!(price(world(), "gpt-5"), Some((2.0, 0.125, 13.0, false)));
    assert_eq!(price(world(), "new"), Some((1.0, 1.0, 2.0, false)));
    assert_eq!(price(world(), "other"), None);
}
