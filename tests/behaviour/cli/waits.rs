//! `mala lock acquire --wait` and `mala wait`.

use mala_tests::{World, eventually};

use super::{Answer, Sleeper, done, held, pair, run, start};

fn until_waiting(world: &World, count: usize) {
    eventually("the waiters are queued", || {
        done(world, "status --json").json()["waiters"].as_array().unwrap().len() == count
    });
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let waiter = start(&world, "lock acquire a --agent B --wait 60s --json");
    until_waiting(&world, 1);
    done(&world, "lock release a --agent A");
    let answer: Answer = waiter.wait_with_output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["granted"][0]["agent"]), (0, &"B".into()));
    assert!(answer.err.contains("waiting: up to 1m for `a`, held by `A`"), "{}", answer.err);
    assert_eq!(held(&world), [pair("a", "B")]);
    let owner = &done(&world, "lock list --json").json()["locks"][0]["owner"]["pid"];
    assert_eq!(*owner, std::process::id(), "the lock outlives the command that waited for it");
}

#[test]
fn a_waiter_gets_the_lock_when_its_holder_is_killed() {
    let world = World::new();
    let mut owner = Sleeper::start();
    done(&world, &format!("lock acquire a --agent A --owner-pid {}", owner.pid()));
    let waiter = start(&world, "lock acquire a --agent B --wait 60s");
    until_waiting(&world, 1);
    owner.kill();
    assert!(waiter.wait_with_output().unwrap().status.success());
}

#[test]
fn a_wait_that_runs_out_is_refused_and_leaves_nothing() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let answer = run(&world, "lock acquire a free --agent B --wait 100ms --json");
    assert_eq!(answer.code, 1);
    let json = answer.json();
    assert_eq!((&json["cause"], &json["conflicts"][0]["agent"]), (&"timeout".into(), &"A".into()));
    assert_eq!(held(&world), [pair("a", "A")]);
    assert_eq!((world.count("waiter"), world.wake_files().len()), (0, 0));
}

#[test]
fn a_wait_that_would_close_a_circle_is_refused_at_once() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    done(&world, "lock acquire b --agent B");
    let mut waiter = start(&world, "lock acquire b --agent A --wait 60s");
    until_waiting(&world, 1);
    let answer = run(&world, "lock acquire a --agent B --wait 60s --json");
    assert_eq!(answer.code, 1);
    let json = answer.json();
    assert_eq!((&json["cause"], &json["deadlock"]), (&"deadlock".into(), &serde_json::json!(["B", "A"])));
    assert!(answer.err.contains("B -> A -> B"), "{}", answer.err);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn waiters_are_shown_in_their_order() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    let mut waiters = Vec::new();
    for (count, agent) in (1..).zip(["B", "C", "D"]) {
        waiters.push(start(&world, &format!("lock acquire a --agent {agent} --wait 60s")));
        until_waiting(&world, count);
    }
    let status = done(&world, "status --json").json();
    let shown: Vec<_> = status["waiters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| (w["agent"].clone(), w["position"].clone()))
        .collect();
    assert_eq!(shown, [("B".into(), 1.into()), ("C".into(), 2.into()), ("D".into(), 3.into())]);
    for mut waiter in waiters {
        waiter.kill().unwrap();
        waiter.wait().unwrap();
    }
}

#[test]
fn waiting_for_an_issue_ends_when_it_is_closed_when_the_time_is_up_or_when_there_is_no_such_issue() {
    let world = World::new();
    done(&world, "issue add --id bd-1 Something");
    let nobody = run(&world, "wait bd-1 --timeout 1s --json");
    assert_eq!((nobody.code, &nobody.json()["state"]), (1, &"timeout".into()), "{nobody:?}");
    assert!(nobody.err.contains("nobody works on"), "{nobody:?}");
    let unknown = run(&world, "wait bd-2");
    assert!(unknown.code == 2 && unknown.err.contains("bd-2"), "{unknown:?}");
    let waiter = start(&world, "wait bd-1 --json");
    done(&world, "issue close bd-1");
    let answer: Answer = waiter.wait_with_output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["state"]), (0, &"landed".into()), "{answer:?}");
}
