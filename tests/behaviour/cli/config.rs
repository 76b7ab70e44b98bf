//! `mala config`.

use mala_tests::World;
use serde_json::json;

use super::{done, mala};
use crate::cli::Answer;

fn world() -> World {
    let world = World::new();
    world.write(
        "mala.toml",
        "[run]\nmax_agents = 7\n[agents.fast]\nkind = \"claude\"\n[env]\nURL = \"app_{slot}\"\n",
    );
    world
}

#[test]
fn settings_are_listed_as_they_would_be_written_with_who_has_set_them() {
    let world = world();
    let all = done(&world, "config").out;
    assert!(all.contains("\n[queue]\nslots = 2\n"), "{all}");
    assert!(all.contains("\nmax_agents = 7  # ") && all.contains("mala.toml:2:14\n"), "{all}");
    assert!(all.ends_with("\n# and these tables: agents.fast, env.URL\n"), "{all}");
    toml::from_str::<toml::Table>(&all).expect("what is listed could be a file");
    let set = done(&world, "config list --set").out;
    assert_eq!(set.lines().next(), Some("[run]"));
    assert!(!set.contains("slots"), "{set}");
    let mut from_environment = mala(&world, ["config", "get", "run.max_agents", "--json"]);
    let answer: Answer = from_environment.env("MALA_RUN_MAX_AGENTS", "9").output().unwrap().into();
    let one = answer.json();
    assert_eq!(
        (&one["value"], &one["default"], &one["origin"], &one["set"]),
        (&json!(9), &json!(4), &json!("MALA_RUN_MAX_AGENTS"), &json!(true))
    );
}

#[test]
fn one_setting_is_printed_alone_or_explained() {
    let world = world();
    assert_eq!(done(&world, "config get run.max_agents").out, "7\n");
    assert_eq!(done(&world, "config get queue.timeout").out, "1h\n");
    let said = done(&world, "config explain run.max_agents").out;
    for part in [
        "run.max_agents = 7\n",
        "the default is 4",
        "below `[run]`",
        "MALA_RUN_MAX_AGENTS",
        "a whole number, 1 or more",
    ] {
        assert!(said.contains(part), "`{part}` is missing in {said}");
    }
    assert!(done(&world, "config explain queue.slots").out.contains("nobody has set it here"));
}

#[test]
fn what_is_no_setting_is_an_error_that_names_one() {
    let world = world();
    let answer: Answer = mala(&world, ["config", "get", "run.max_agent"]).output().unwrap().into();
    assert_eq!(answer.code, 2);
    assert!(
        answer.err.contains("no setting `run.max_agent`")
            && answer.err.contains("did you mean `run.max_agents`?"),
        "{answer:?}"
    );
    world.write("mala.toml", "[run]\nmax_agents = \"many\"\n");
    let answer: Answer = mala(&world, ["config"]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("bad value for `run.max_agents`"), "{answer:?}");
}
