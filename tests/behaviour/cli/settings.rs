//! Settings reach the commands, layer over layer.

use std::fs;

use mala_tests::World;

use super::{Answer, done, mala, run};

/// The lease that `mala lock acquire` gives, in whole minutes.
fn lease(world: &World, extra: &[&str], env: Option<&str>) -> i64 {
    let mut command = mala(world, ["lock", "acquire", "--agent", "A", "--json"].iter().chain(extra));
    command.arg(format!("file{}", fastrand::u64(..)));
    if let Some(ttl) = env {
        command.env("MALA_LOCK_TTL", ttl);
    }
    let answer: Answer = command.output().unwrap().into();
    let lock = answer.json()["granted"][0].clone();
    let millis =
        |field: &str| lock[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    (millis("expires_at") - millis("acquired_at")) / 60_000
}

#[test]
fn a_later_layer_wins() {
    let world = World::new();
    assert_eq!(lease(&world, &[], None), 30);
    fs::create_dir_all(world.home().join(".config/mala")).unwrap();
    fs::write(world.home().join(".config/mala/mala.toml"), "[lock]\nttl = \"20m\"\n").unwrap();
    assert_eq!(lease(&world, &[], None), 20);
    world.write("mala.toml", "[lock]\nttl = \"10m\"\n");
    assert_eq!(lease(&world, &[], None), 10);
    assert_eq!(lease(&world, &[], Some("5m")), 5);
    assert_eq!(lease(&world, &["--ttl", "2m"], Some("5m")), 2);
}

#[test]
fn an_unknown_name_warns_with_its_place_and_nothing_else_happens() {
    let world = World::new();
    world.write("mala.toml", "[lock]\ntl = \"10m\"\n");
    let answer = done(&world, "status");
    assert!(
        answer.err.contains("unknown setting `lock.tl`") && answer.err.contains("mala.toml:2:1"),
        "{}",
        answer.err
    );
}

#[test]
fn a_bad_value_is_an_error_that_shows_its_place() {
    let world = World::new();
    world.write("mala.toml", "[lock]\nttl = \"soon\"\n");
    let answer = run(&world, "lock acquire a --agent A");
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("mala.toml:2") && answer.err.contains("ttl = \"soon\""), "{}", answer.err);
    assert_eq!(run(&world, "doctor").code, 1, "the doctor sees it too");
    let json = run(&world, "lock acquire a --agent A --json").json();
    assert_eq!(json["error"]["kind"], "usage");
}
