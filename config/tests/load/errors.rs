//! What a person reads when a value is wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use mala_config::Share;

use super::World;

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
    insta::assert_snapshot!(World::repo("[keep]\nmax_files = \"many\"\n").error(), @r#"
     × bad value for `keep.max_files` in `mala.toml:2:13`: expected a whole number, found string
      ╭─[mala.toml:2:13]
    1 │ [keep]
    2 │ max_files = "many"
      ·             ──────
      ╰────
     help: `keep.max_files` takes a whole number, 1 or more, for example `max_files = 5000`
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
fn a_variable_that_nobody_can_fill_in_or_that_is_malas_is_an_error() {
    insta::assert_snapshot!(World::repo("[env]\nURL = \"app_{agent}\"\nMALA_X = \"1\"\n").error(), @r#"
      × bad value for `env.URL` in `mala.toml:2:7`: `app_{agent}` cannot be filled in: there is only `{slot}` and `{port_base}`, and `{{` is a brace
       ╭─[mala.toml:2:7]
     1 │ [env]
     2 │ URL = "app_{agent}"
       ·       ─────────────
     3 │ MALA_X = "1"
       ╰────
      help: `env.URL` takes a text such as "postgres:///app_{slot}"

    Error:
      × bad value for `env.MALA_X` in `mala.toml:3:10`: `MALA_X` cannot be set: letters, digits and `_`, and not beginning with `MALA_`
       ╭─[mala.toml:3:10]
     2 │ URL = "app_{agent}"
     3 │ MALA_X = "1"
       ·          ───
       ╰────
      help: `env.MALA_X` takes a text such as "postgres:///app_{slot}"
    "#);
}

#[test]
fn variables_of_every_layer_are_known_and_the_nearer_one_wins() {
    let world = World::repo("[env]\nURL = \"app_{slot}\"\nA = \"repo\"\n")
        .user_file("[env]\nA = \"mine\"\nB = \"{port_base}\"\n");
    let variables = world.loaded().settings.env.at(Share { slot: "2", port_base: Some(20_000) }).unwrap();
    let expected = [("A", "repo"), ("B", "20000"), ("URL", "app_2")];
    assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn every_range_is_checked_at_both_ends() {
    let legal = [
        ("lock.ttl", "1s", "24h"),
        ("lock.max_ttl", "30m", "7d"),
        ("lock.max_wait", "1s", "24h"),
        ("status.refresh", "100ms", "1h"),
        ("health.waited_share", "0", "1"),
        ("keep.max_files", "1", "18446744073709551615"),
        ("retain.age", "1d", "3650d"),
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
        ("health.waited_share", "-0.1", "1.1"),
        ("keep.max_files", "0", "18446744073709551616"),
        ("retain.age", "23h", "3651d"),
        ("health.waited_share", "nan", "inf"),
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
    insta::assert_snapshot!(World::repo("[health]\nwaited_share = 5\n").error(), @r"
     × bad value for `health.waited_share` in `mala.toml:2:16`: `5` is out of range
      ╭─[mala.toml:2:16]
    1 │ [health]
    2 │ waited_share = 5
      ·                ─
      ╰────
     help: `health.waited_share` takes a number from 0 to 1, for example `waited_share = 0.05`
    ");
    insta::assert_snapshot!(World::repo("keep = { max_files = -1 }\n").error(), @r"
     × bad value for `keep.max_files` in `mala.toml:1:22`: `-1` is out of range
      ╭─[mala.toml:1:22]
    1 │ keep = { max_files = -1 }
      ·                      ──
      ╰────
     help: `keep.max_files` takes a whole number, 1 or more, for example `max_files = 5000`
    ");
}

#[test]
fn all_bad_values_are_reported_at_once_in_the_order_of_the_file() {
    let world = World::new()
        .user_file("[status]\nrefresh = 1\n\n[health]\nwaited_share = 2.0\n")
        .repo_file("[retain]\nage = \"1y\"\n")
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
      × bad value for `health.waited_share` in `user.toml:5:16`: `2.0` is out of range
       ╭─[user.toml:5:16]
     4 │ [health]
     5 │ waited_share = 2.0
       ·                ───
       ╰────
      help: `health.waited_share` takes a number from 0 to 1, for example `waited_share = 0.05`

    Error:
      × bad value for `retain.age` in `mala.toml:2:7`: `1y` has no fixed length, count in days instead of months or years, like `30d`
       ╭─[mala.toml:2:7]
     1 │ [retain]
     2 │ age = "1y"
       ·       ────
       ╰────
      help: `retain.age` takes a duration from 1d to 3650d, for example `age = "90d"`

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
fn a_bad_argument_is_named_as_it_was_typed() {
    insta::assert_snapshot!(World::new().argument("retain.age", "1h").error(), @r"
    × bad value for `retain.age` in `--age 1h`: `1h` is out of range
    help: `retain.age` takes a duration from 1d to 3650d, for example `--age 90d`
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
fn a_refused_value_is_not_compared_with_others() {
    let error = World::repo("[lock]\nttl = \"2d\"\nmax_ttl = \"3x\"\n").load().expect_err("a bad value");
    assert_eq!(error.problems().count(), 1);
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
    insta::assert_snapshot!(World::repo("[queue]\nbuild = ['target', '../x']\n").error(), @r#"
     × bad value for `queue.build` in `mala.toml:2:9`: invalid pattern `../x`: it contains `..`; write the path from the top of the checkout without `..`
      ╭─[mala.toml:2:9]
    1 │ [queue]
    2 │ build = ['target', '../x']
      ·         ──────────────────
      ╰────
     help: `queue.build` takes a list of folders in the repository such as ["target"], for example `build = []`
    "#);
    for key in ["queue.build", "validate.docs"] {
        for path in ["/x", "../x", "a/../../x", "a/.."] {
            let error = World::new().argument(key, path).load().expect_err("it leads out");
            assert!(error.to_string().contains("invalid pattern"), "{key} = {path}: {error}");
        }
    }
    assert!(World::repo("queue.build = ['./node_modules', 'a/b']\nvalidate.docs = ['*.md']").load().is_ok());
    let error = World::new().argument("queue.build", "build/*").load().expect_err("a pattern");
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
fn equivalents_that_are_none_are_shown_where_they_are_written() {
    insta::assert_snapshot!(World::repo("[validate]\nequivalents = [[\"make test\"]]\n").error(), @r#"
     × bad value for `validate.equivalents` in `mala.toml:2:15`: `make test` stands alone; name at least two commands that test the same
      ╭─[mala.toml:2:15]
    1 │ [validate]
    2 │ equivalents = [["make test"]]
      ·               ───────────────
      ╰────
     help: `validate.equivalents` takes a list of lists of commands such as [["make test", "cargo test"]], for example `equivalents = []`
    "#);
    for (wrong, why) in [
        (r#"["make test", "cargo test"]"#, "expected a list of lists of commands in quotes, found string"),
        (r#"[["make test", "make && x"]]"#, "`make && x` is not a command: `&&` is for a shell"),
        (r#"[["make test", 5]]"#, "expected text in quotes, found integer"),
        ("[[]]", "stands alone"),
    ] {
        let error = World::repo(&format!("[validate]\nequivalents = {wrong}\n")).error();
        assert!(error.contains(why) && error.contains("mala.toml:2:15"), "{error}");
    }
    let error =
        World::new().argument("validate.equivalents", "make test = ").load().expect_err("one command");
    assert!(error.to_string().contains("stands alone"), "{error}");
}

#[test]
fn equivalents_can_be_given_in_one_text() {
    let loaded =
        World::new().argument("validate.equivalents", "make test = cargo test, a --b=c = d").load().unwrap();
    let of = |group: &[mala_core::CommandPattern]| group.iter().map(ToString::to_string).collect::<Vec<_>>();
    let groups = &loaded.settings.validate.equivalents;
    assert_eq!(
        (of(&groups[0]), of(&groups[1])),
        (vec!["make test".into(), "cargo test".into()], vec!["a --b=c".into(), "d".into()])
    );
}

#[test]
fn a_price_that_makes_no_sense_is_refused() {
    insta::assert_snapshot!(World::repo("[price]\nm = { input = -1, output = 2 }\n").error(), @r"
     × bad value for `price.m.input` in `mala.toml:2:15`: `-1` is out of range
      ╭─[mala.toml:2:15]
    1 │ [price]
    2 │ m = { input = -1, output = 2 }
      ·               ──
      ╰────
     help: `price.m.input` takes dollars for a million tokens, a number from 0 to 1000000
    ");
    insta::assert_snapshot!(World::repo("[price]\nm = { input = 1 }\n").error(), @r#"
     × the price of `m` has no `output`
     help: below [price], in dollars for a million tokens: "m" = { input = 2.0, output = 10.0 }
    "#);
    for bad in ["m = 5", "m: 5", "m = { input = 'a' }"] {
        let error = World::new().env("MALA_PRICE", bad).error();
        assert!(error.contains("MALA_PRICE:1:"), "{error}");
    }
}
