//! What nobody knows is warned about and changes nothing.

use mala_config::Settings;

use super::World;

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
fn only_variables_that_start_like_a_section_are_warned_about() {
    let world = World::new()
        .env("MALA_LOCK_TLL", "10m")
        .env("MALA_LOCK_ttl", "10m")
        .env("MALA_HEALTH_COLOUR", "red")
        .env("MALA_AGENT", "otter")
        .env("MALA_LOCKS_TTL", "nonsense")
        .env("PATH", "/bin");
    insta::assert_snapshot!(world.warnings(), @r"
    ⚠ unknown variable `MALA_LOCK_TLL` is ignored
    help: did you mean `MALA_LOCK_TTL`?
    ⚠ unknown variable `MALA_LOCK_ttl` is ignored
    help: did you mean `MALA_LOCK_TTL`?
    ⚠ unknown variable `MALA_HEALTH_COLOUR` is ignored
    help: `[health]` has `waited_share`, `mutex_wait`
    ");
}

#[test]
fn a_setting_by_its_old_name_works_with_a_warning_that_names_the_new_one() {
    let world = World::repo("[logs]\nkeep = \"30d\"\nother = 1\n");
    insta::assert_snapshot!(world.warnings(), @r#"
     ⚠ `logs.keep` in `mala.toml:2:1` is called `retain.age` now
      ╭─[mala.toml:2:1]
    1 │ [logs]
    2 │ keep = "30d"
      · ────
    3 │ other = 1
      ╰────
     help: write it as `age` in `[retain]`
     ⚠ unknown setting `logs.other` in `mala.toml:3:1` is ignored
      ╭─[mala.toml:3:1]
    2 │ keep = "30d"
    3 │ other = 1
      · ─────
      ╰────
     help: the sections are `[project]`, `[issues]`, `[lock]`, `[enforcement]`, `[test]`, `[validate]`, `[gate]`, `[queue]`, `[transcripts]`, `[asks]`, `[run]`, `[notify]`, `[keep]`, `[status]`, `[health]`, `[retain]`, `[env]`, `[mutex]`, `[agents]`, `[price]`
    "#);
    assert_eq!(world.loaded().settings.retain.age, std::time::Duration::from_secs(30 * 24 * 60 * 60));
    let world = World::new().env("MALA_LOGS_KEEP", "31d");
    insta::assert_snapshot!(world.warnings(), @r"
    ⚠ `logs.keep` is called `retain.age` now
    help: write it as `age` in `[retain]`
    ");
    assert_eq!(world.loaded().settings.retain.age, std::time::Duration::from_secs(31 * 24 * 60 * 60));
}
