//! `mala lock`: the contract of each subcommand.

use mala_tests::World;

use super::{done, fields, held, pair, run};

#[test]
fn acquire_answers_with_the_documented_fields() {
    let world = World::new();
    let granted = done(&world, "lock acquire a --agent A --issue bd-1 --reason why --json").json();
    assert_eq!(fields(&granted), ["conflicts", "granted"]);
    let lock = &granted["granted"][0];
    let expected = [
        "acquired_at",
        "agent",
        "expires_at",
        "fence",
        "id",
        "issue",
        "key",
        "kind",
        "mode",
        "owner",
        "path",
        "reason",
        "run",
    ];
    assert_eq!(fields(lock), expected);
    assert_eq!(fields(&lock["owner"]), ["boot_id", "host", "node", "pid", "start_time"]);
    assert_eq!(
        (&lock["path"], &lock["agent"], &lock["mode"]),
        (&"a".into(), &"A".into(), &"exclusive".into())
    );
    assert_eq!((&lock["issue"], &lock["reason"]), (&"bd-1".into(), &"why".into()));
    assert!(lock["expires_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(done(&world, "lock list --json").json()["locks"][0], *lock, "list shows the very same");
}

#[test]
fn a_refusal_names_the_holder_and_takes_nothing() {
    let world = World::new();
    done(&world, "lock acquire src/a --agent A --issue bd-1");
    let refused = run(&world, "lock acquire free src/a --agent B --json");
    assert_eq!(refused.code, 1);
    let json = refused.json();
    assert_eq!(json["granted"], serde_json::json!([]));
    let conflict = &json["conflicts"][0];
    let expected = ["agent", "fence", "held", "issue", "mode", "path", "requested", "since"];
    assert_eq!(fields(conflict), expected);
    assert_eq!(
        (&conflict["path"], &conflict["agent"], &conflict["issue"]),
        (&"src/a".into(), &"A".into(), &"bd-1".into())
    );
    assert_eq!(held(&world), [pair("src/a", "A")], "not even the free file");
    assert!(refused.err.contains("`src/a` is held by `A` (issue bd-1, exclusive)"), "{}", refused.err);
    assert!(refused.err.contains("hint:"), "it says what to do next");
}

#[test]
fn every_conflict_is_reported_with_its_holder() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    done(&world, "lock acquire b --agent B");
    let json = run(&world, "lock acquire a b c --agent C --json").json();
    let holders: Vec<_> =
        json["conflicts"].as_array().unwrap().iter().map(|c| c["agent"].as_str().unwrap()).collect();
    assert_eq!(holders, ["A", "B"]);
}

#[test]
fn a_pattern_conflict_names_the_file_and_the_pattern() {
    let world = World::new();
    done(&world, "lock acquire src/** --agent A");
    let conflict = &run(&world, "lock acquire src/x.rs --agent B --json").json()["conflicts"][0];
    let named = (&conflict["path"], &conflict["requested"], &conflict["held"]);
    assert_eq!(named, (&"src/x.rs".into(), &"src/x.rs".into(), &"src/**".into()));
    let conflict = &run(&world, "lock acquire **/*.rs --agent B --json").json()["conflicts"][0];
    assert_eq!((&conflict["requested"], &conflict["held"]), (&"**/*.rs".into(), &"src/**".into()));
}

#[test]
fn shared_locks_stand_beside_each_other_and_not_beside_exclusive_ones() {
    let world = World::new();
    done(&world, "lock acquire a --agent A --shared");
    done(&world, "lock acquire a --agent B --shared");
    assert_eq!(run(&world, "lock acquire a --agent A").code, 1, "an upgrade checks the others");
    done(&world, "lock release a --agent B");
    done(&world, "lock acquire a --agent A");
    assert_eq!(run(&world, "lock acquire a --agent B --shared").code, 1);
}

#[test]
fn asking_again_renews_one_lock() {
    let world = World::new();
    let first = done(&world, "lock acquire a --agent A --json").json();
    let again = done(&world, "lock acquire a ./a --agent A --json").json();
    assert_eq!(first["granted"][0]["id"], again["granted"][0]["id"]);
    assert_eq!(first["granted"][0]["fence"], again["granted"][0]["fence"]);
    assert_eq!(held(&world).len(), 1);
}

#[test]
fn fences_grow_from_holder_to_holder() {
    let world = World::new();
    let fence = |agent| {
        done(&world, &format!("lock acquire a --agent {agent} --json")).json()["granted"][0]["fence"].as_i64()
    };
    let first = fence("A");
    done(&world, "lock release a --agent A");
    assert!(fence("B") > first);
}

#[test]
fn releasing_is_for_the_holder_alone_and_may_be_repeated() {
    let world = World::new();
    done(&world, "lock acquire a b --agent A");
    done(&world, "lock acquire mine --agent B");
    let refused = run(&world, "lock release mine a --agent B --json");
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["conflicts"][0]["agent"], "A");
    assert_eq!(held(&world).len(), 3, "nothing was released");
    assert_eq!(done(&world, "lock release a --agent A --json").json()["released"][0]["path"], "a");
    assert_eq!(done(&world, "lock release a --agent A --json").json()["released"], serde_json::json!([]));
    done(&world, "lock release --all --agent A");
    assert_eq!(held(&world), [pair("mine", "B")]);
}

#[test]
fn check_and_holder_answer_without_changing_anything() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let events = world.count("event");
    let free = done(&world, "lock check b --agent B --json").json();
    assert_eq!(free, serde_json::json!({ "available": true, "conflicts": [] }));
    let taken = run(&world, "lock check a --agent B --json");
    assert_eq!((taken.code, &taken.json()["available"]), (1, &false.into()));
    done(&world, "lock check a --agent A");
    assert_eq!(done(&world, "lock holder a --json").json()["holders"][0]["agent"], "A");
    assert_eq!(done(&world, "lock holder b --json").json()["holders"], serde_json::json!([]));
    assert_eq!((world.count("event"), world.count("lock"), world.count("agent")), (events, 1, 1));
}

#[test]
fn renewing_moves_the_end_of_the_lease() {
    let world = World::new();
    let before = done(&world, "lock acquire a --agent A --ttl 5m --json").json();
    let after = done(&world, "lock renew a --agent A --ttl 2h --json").json();
    assert!(after["renewed"][0]["expires_at"].as_str() > before["granted"][0]["expires_at"].as_str());
    let missing = run(&world, "lock renew a b --agent A --json");
    assert_eq!((missing.code, &missing.json()["not_held"][0]), (1, &"b".into()));
}

#[test]
fn transferring_hands_over_all_or_the_named_ones() {
    let world = World::new();
    done(&world, "lock acquire a b c --agent A");
    done(&world, "lock acquire d --agent B");
    done(&world, "lock transfer --from A --to B a");
    assert_eq!(held(&world), [pair("a", "B"), pair("b", "A"), pair("c", "A"), pair("d", "B")]);
    let moved = done(&world, "lock transfer --from A --to B --json").json();
    assert_eq!(moved["transferred"].as_array().unwrap().len(), 2);
    assert!(held(&world).iter().all(|(_, agent)| agent == "B"));
}

#[test]
fn overlaps_answers_yes_or_no_with_success() {
    let world = World::new();
    for (a, b, overlap) in [
        ("src/**", "src/a/b.rs", true),
        ("src/*", "src/a/b.rs", false),
        ("a/**/b", "a/b", true),
        ("[a-c]x", "[d-f]x", false),
        ("./a", "a/", true),
        ("a//b", "a/b", true),
    ] {
        let answer = done(&world, &format!("lock overlaps {a} {b} --json"));
        assert_eq!(answer.json()["overlap"], overlap, "{a} {b}");
    }
    assert_eq!(run(&world, "lock overlaps a{b,c} x").code, 2);
    assert_eq!(run(&world, "lock overlaps [z-a] x").code, 2);
}
