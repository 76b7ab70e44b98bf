//! `mala lock ask`, `answer`, `take`, `cancel` and `asks`.

use std::fs;

use mala_tests::{World, eventually};
use serde_json::Value;

use super::{Answer, Sleeper, done, fields, held, mala, pair, run, start};

/// Short enough to become overdue while a test runs.
const SOON: [(&str, &str); 3] =
    [("MALA_ASKS_DUE", "1s"), ("MALA_ASKS_URGENT", "1s"), ("MALA_ASKS_IDLE", "1s")];

/// Ann holds `a`, which is committed.
fn world() -> World {
    let world = World::new();
    world.write("a", "committed\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire a --agent ann");
    world
}

/// Bob asks for `a`; the id of his ask.
fn ask(world: &World) -> String {
    let answer = done(world, "lock ask a --why tests --agent bob --json").json();
    answer["asks"][0]["id"].as_str().unwrap().to_owned()
}

/// The same, due at once.
fn ask_soon(world: &World) -> String {
    let answer: Answer = soon(world, "lock ask a --why tests --agent bob --json");
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.json()["asks"][0]["id"].as_str().unwrap().to_owned()
}

fn soon(world: &World, line: &str) -> Answer {
    mala(world, line.split_whitespace()).envs(SOON).output().unwrap().into()
}

fn asks(world: &World) -> Value {
    done(world, "lock asks --all --json").json()["asks"].clone()
}

fn until_overdue(world: &World) {
    eventually("the ask is overdue", || asks(world)[0]["overdue"] == true);
}

fn events(world: &World, kind: &str) -> Vec<Value> {
    done(world, &format!("logs list --kind {kind} --json")).json()["events"].as_array().unwrap().clone()
}

#[test]
fn an_ask_is_answered_with_the_documented_fields_and_changes_nothing() {
    let world = world();
    let answer = done(&world, "lock ask a --why tests --agent bob --json").json();
    assert_eq!(fields(&answer), ["asks", "granted"]);
    assert_eq!(
        fields(&answer["asks"][0]),
        [
            "answered_at",
            "asker",
            "created_at",
            "due_at",
            "ended_by",
            "eta",
            "fence",
            "holder",
            "id",
            "lock",
            "mode",
            "overdue",
            "path",
            "state",
            "urgency",
            "why"
        ]
    );
    assert_eq!(held(&world), [pair("a", "ann")]);
    assert_eq!(
        done(&world, "lock ask a --why again --agent bob --json").json()["asks"],
        answer["asks"],
        "once"
    );
    let text = done(&world, "lock ask a --why again --agent cleo").out;
    assert!(text.starts_with("asked `ann` for `a` (ask ") && text.contains("due in "), "{text}");
    done(&world, "lock ask a --why now --urgent --agent dan");
    let due_after = |asker: &str| -> i64 {
        let sql = "SELECT due_at - created_at FROM ask WHERE asker = ?1";
        world.sql().query_row(sql, [asker], |row| row.get(0)).unwrap()
    };
    assert_eq!((due_after("bob"), due_after("dan")), (600_000, 300_000));
}

#[test]
fn status_and_asks_show_who_asks_whom_for_what() {
    let world = world();
    assert_eq!(done(&world, "lock asks").out, "nobody asks for anything\n");
    let id = ask(&world);
    assert_eq!(done(&world, "status --json").json()["asks"], asks(&world));
    for line in ["status", "lock asks", "lock asks --mine --agent ann", "lock asks --mine --agent bob"] {
        let text = done(&world, line).out;
        assert!(
            text.contains(&id) && text.contains("open, due in ") && text.contains("tests"),
            "{line}: {text}"
        );
    }
    assert_eq!(done(&world, "lock asks --mine --agent cleo").out, "nobody asks for anything\n");
}

#[test]
fn a_released_lock_belongs_to_the_asker_at_once() {
    let world = world();
    let id = ask(&world);
    let waiter = start(&world, "lock acquire a --agent cleo --wait 60s");
    eventually("cleo waits", || world.count("waiter") == 1);
    let answer = done(&world, &format!("lock answer {id} release --agent ann --json")).json();
    assert_eq!(
        (&answer["ask"]["state"], &answer["granted"][0]["agent"]),
        (&"released".into(), &"bob".into())
    );
    assert_eq!(held(&world), [pair("a", "bob")], "also before those who waited longer");
    done(&world, "lock release a --agent bob");
    assert!(waiter.wait_with_output().unwrap().status.success());
}

#[test]
fn whoever_waits_for_an_answer_has_the_lock_with_it() {
    let world = world();
    let waiter = start(&world, "lock ask a --why tests --agent bob --wait 60s --json");
    eventually("bob waits", || world.count("waiter") == 1);
    let id = asks(&world)[0]["id"].as_str().unwrap().to_owned();
    done(&world, &format!("lock answer {id} release --agent ann"));
    let answer: Answer = waiter.wait_with_output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["granted"][0]["agent"]), (0, &"bob".into()), "{answer:?}");
    assert_eq!((held(&world), world.count("waiter")), (vec![pair("a", "bob")], 0));
    let owner = &done(&world, "lock list --json").json()["locks"][0]["owner"]["pid"];
    assert_eq!(*owner, std::process::id(), "the lock outlives the command that waited for it");
}

#[test]
fn whoever_gets_the_lock_first_is_asked_too_while_somebody_waits() {
    let world = world();
    let first = start(&world, "lock acquire a --agent cleo --wait 60s");
    eventually("cleo waits", || world.count("waiter") == 1);
    let waiter = start(&world, "lock ask a --why tests --agent bob --wait 60s");
    eventually("bob waits", || world.count("waiter") == 2);
    done(&world, "lock release a --agent ann");
    assert!(first.wait_with_output().unwrap().status.success());
    let pending = || done(&world, "lock asks --json").json()["asks"].clone();
    eventually("cleo is asked", || pending()[0]["holder"] == "cleo");
    let id = pending()[0]["id"].as_str().unwrap().to_owned();
    done(&world, &format!("lock answer {id} release --agent cleo"));
    let answer: Answer = waiter.wait_with_output().unwrap().into();
    assert!(answer.code == 0 && answer.err.starts_with("asked: `ann` for `a` (ask "), "{answer:?}");
}

#[test]
fn whoever_was_given_the_lock_instead_is_asked_too() {
    let world = world();
    let other = done(&world, "lock ask a --why first --agent cleo --json").json()["asks"][0]["id"].clone();
    let waiter = start(&world, "lock ask a --why tests --agent bob --wait 60s");
    eventually("bob waits", || world.count("waiter") == 1);
    done(&world, &format!("lock answer {} release --agent ann", other.as_str().unwrap()));
    assert_eq!(held(&world), [pair("a", "cleo")]);
    let pending = || done(&world, "lock asks --json").json()["asks"].clone();
    eventually("cleo is asked", || pending()[0]["holder"] == "cleo");
    let id = pending()[0]["id"].as_str().unwrap().to_owned();
    done(&world, &format!("lock answer {id} release --agent cleo"));
    assert!(waiter.wait_with_output().unwrap().status.success());
}

#[test]
fn a_wait_that_runs_out_leaves_the_ask_and_no_place_in_the_queue() {
    let world = world();
    let answer = run(&world, "lock ask a --why tests --agent bob --wait 100ms --json");
    assert_eq!((answer.code, &answer.json()["cause"]), (1, &"timeout".into()), "{answer:?}");
    assert_eq!(answer.json()["asks"][0]["state"], "open");
    assert_eq!((world.count("waiter"), world.wake_files().len()), (0, 0));
    assert_eq!(run(&world, "lock ask a --why tests --agent bob --wait 2h").code, 2, "too long");
}

#[test]
fn asking_and_waiting_in_a_circle_is_refused_at_once_with_the_circle() {
    let world = world();
    done(&world, "lock acquire b --agent bob");
    let mut waiter = start(&world, "lock ask b --why tests --agent ann --wait 60s");
    eventually("ann waits", || world.count("waiter") == 1);
    let answer = run(&world, "lock ask a --why tests --agent bob --wait 60s --json");
    assert_eq!(answer.code, 1);
    assert_eq!(answer.json()["deadlock"], serde_json::json!(["bob", "ann"]));
    assert!(answer.err.contains("bob -> ann -> bob"), "{}", answer.err);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn what_nobody_else_holds_is_locked_by_asking_for_it() {
    let world = world();
    let free = done(&world, "lock ask free --why tests --agent bob --json").json();
    assert_eq!((&free["granted"][0]["path"], &free["asks"]), (&"free".into(), &serde_json::json!([])));
    done(&world, "lock ask a --why tests --agent ann");
    assert_eq!(world.count("ask"), 0);
    assert_eq!(run(&world, "lock ask a --agent bob").code, 2, "without a reason nobody can decide");
}

#[test]
fn only_the_holder_answers_and_only_the_asker_takes_or_cancels() {
    let world = world();
    let id = ask(&world);
    done(&world, "lock acquire c --agent cleo");
    for line in [
        "answer ID release --agent bob",
        "answer ID defer --agent cleo",
        "take ID --agent cleo",
        "cancel ID --agent ann",
    ] {
        let answer = run(&world, &format!("lock {}", line.replace("ID", &id)));
        assert!(answer.code == 1 && answer.err.contains("only `"), "{line}: {answer:?}");
    }
    let unknown = run(&world, "lock answer nope release --agent ann");
    assert!(unknown.code == 2 && unknown.err.contains("no ask `nope` is known"), "{unknown:?}");
    assert_eq!(run(&world, &format!("lock answer {id} release --eta 5m --agent ann")).code, 2);
    assert_eq!(asks(&world)[0]["state"], "open");
    done(&world, &format!("lock cancel {id} --agent bob"));
    assert_eq!(asks(&world)[0]["state"], "cancelled");
    let late = run(&world, &format!("lock answer {id} release --agent ann"));
    assert!(late.code == 1 && late.err.contains("is cancelled already"), "{late:?}");
    assert_eq!(held(&world)[0], pair("a", "ann"));
}

#[test]
fn a_holder_puts_an_ask_off_once_and_for_an_hour_at_most() {
    let world = world();
    let id = ask(&world);
    let long = run(&world, &format!("lock answer {id} defer --eta 61m --agent ann"));
    assert!(long.code == 1 && long.err.contains("at most 60 more minutes"), "{long:?}");
    let text = done(&world, &format!("lock answer {id} defer --eta 20m --agent ann")).out;
    assert_eq!(text, "`bob` was told that you need `a` for 20m\n");
    assert_eq!((&asks(&world)[0]["state"], asks(&world)[0]["eta"].is_null()), (&"deferred".into(), false));
    let twice = run(&world, &format!("lock answer {id} defer --eta 20m --agent ann"));
    assert!(twice.code == 1 && twice.err.contains("was deferred already"), "{twice:?}");
}

#[test]
fn nothing_is_taken_from_somebody_who_is_at_work() {
    let world = world();
    let id = ask_soon(&world);
    let early = run(&world, &format!("lock take {id} --agent bob"));
    assert!(early.code == 1, "{early:?}");
    until_overdue(&world);
    done(&world, "lock acquire other --agent ann");
    let busy = run(&world, &format!("lock take {id} --agent bob"));
    assert!(busy.code == 1 && busy.err.contains("was active"), "{busy:?}");
    assert!(held(&world).contains(&pair("a", "ann")));
}

#[test]
fn an_overdue_lock_of_a_silent_holder_without_changes_is_taken_and_everybody_is_told() {
    let world = world();
    let id = ask_soon(&world);
    until_overdue(&world);
    eventually("ann was silent for long", || soon(&world, &format!("lock take {id} --agent bob")).code == 0);
    assert_eq!(held(&world), [pair("a", "bob")]);
    let event = &events(&world, "ask.taken")[0];
    assert_eq!((&event["detail"]["by"], &event["detail"]["forced"]), (&"bob".into(), &false.into()));
    let refused = run(&world, "lock acquire a --agent ann");
    assert!(refused.err.contains("taken from you by `bob`") && refused.err.contains("tests"), "{refused:?}");
    assert!(refused.err.contains("mala lock ask a --why"), "{refused:?}");
    let told = done(&world, "msg inbox --agent ann").out;
    assert!(told.contains("`a` was taken from you by `bob`"), "{told}");
}

#[test]
fn a_person_can_take_a_lock_by_force_and_uncommitted_work_is_saved_first() {
    let world = world();
    world.write("a", "half done\n");
    let id = ask(&world);
    assert_eq!(run(&world, &format!("lock take {id} --agent bob")).code, 1);
    let taken = done(&world, &format!("lock take {id} --force --json")).json();
    let saved = taken["saved_ref"].as_str().unwrap();
    assert_eq!(saved, format!("refs/mala/taken/{id}"));
    assert_eq!(world.git(&["show", &format!("{saved}:a")]), "half done");
    assert_eq!(fs::read_to_string(world.root().join("a")).unwrap(), "half done\n", "and nothing was changed");
    assert_eq!(held(&world), [pair("a", "bob")]);
    assert_eq!(events(&world, "ask.taken")[0]["detail"]["saved"], *saved);
    let told = done(&world, "msg inbox --agent ann --json").json();
    assert!(told["messages"][0]["body"].as_str().unwrap().contains(saved), "{told}");
}

#[test]
fn what_a_dead_holder_held_is_taken_at_once_and_its_work_is_saved() {
    let world = World::new();
    world.write("a", "committed\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    let mut owner = Sleeper::start();
    done(&world, &format!("lock acquire a --agent ann --owner-pid {}", owner.pid()));
    world.write("a", "half done\n");
    let id = ask(&world);
    owner.kill();
    let taken = done(&world, &format!("lock take {id} --agent bob --json")).json();
    assert_eq!(taken["granted"][0]["agent"], "bob");
    assert_eq!(world.git(&["show", &format!("refs/mala/taken/{id}:a")]), "half done");
}

#[test]
fn whoever_comes_next_after_an_ask_was_due_says_so_exactly_once() {
    let world = world();
    ask_soon(&world);
    until_overdue(&world);
    for line in
        ["lock asks", "lock asks --all", "lock ask a --why tests --agent bob", "lock take nope --agent bob"]
    {
        run(&world, line);
    }
    assert_eq!(events(&world, "ask.overdue").len(), 1);
    assert_eq!(held(&world), [pair("a", "ann")], "and nothing else happens");
}

#[test]
fn a_commit_hands_files_that_are_done_to_whoever_asked_for_them() {
    let world = world();
    world.write("a", "finished\n");
    world.write("b", "half done\n");
    done(&world, "lock acquire b --agent ann");
    ask(&world);
    done(&world, "lock ask b --why tests --agent cleo");
    let commit = mala(&world, ["commit", "--agent", "ann", "-m", "done with a", "a", "--json"])
        .envs([("GIT_AUTHOR_NAME", "t"), ("GIT_AUTHOR_EMAIL", "t@example.invalid")])
        .envs([("GIT_COMMITTER_NAME", "t"), ("GIT_COMMITTER_EMAIL", "t@example.invalid")])
        .output()
        .unwrap();
    let answer = Answer::from(commit);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["handed_on"], serde_json::json!([{ "path": "a", "agent": "bob" }]));
    assert_eq!(held(&world), [pair("a", "bob"), pair("b", "ann")], "what was not committed stays");
}

#[test]
fn an_answer_may_stand_before_its_ask_or_behind_it() {
    let world = world();
    let id = ask(&world);
    let unclear = run(&world, &format!("lock answer {id} perhaps --agent ann"));
    assert_eq!(unclear.code, 2, "{unclear:?}");
    assert!(unclear.err.contains("`perhaps` is no answer"), "{unclear:?}");
    done(&world, &format!("lock answer {id} defer --agent ann"));
    done(&world, &format!("lock answer release {id} --agent ann"));
    assert_eq!(held(&world), [pair("a", "bob")]);
}
