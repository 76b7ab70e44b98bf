//! `mala msg`.

use std::io::Write;
use std::process::Stdio;

use mala_tests::{World, eventually};
use serde_json::{Value, json};

use super::{Answer, done, fields, mala, run};

/// Ann and bob are there.
fn world() -> World {
    let world = World::new();
    done(&world, "lock acquire a --agent ann");
    done(&world, "lock acquire b --agent bob");
    world
}

/// mala as a person.
fn as_person(world: &World, person: &str, args: &[&str]) -> Answer {
    mala(world, args).env("USER", person).output().unwrap().into()
}

fn bodies(answer: &Value) -> Vec<&str> {
    answer["messages"].as_array().unwrap().iter().map(|message| message["body"].as_str().unwrap()).collect()
}

#[test]
fn a_message_is_read_once_as_new_and_acknowledged() {
    let world = world();
    let sent = done(&world, "msg send --to bob --thread bd-12 --ack hello --agent ann --json").json();
    assert_eq!(fields(&sent), ["id", "thread", "to"]);
    assert_eq!(sent["to"], json!([{ "kind": "agent", "name": "bob" }]));
    let first = done(&world, "msg inbox --unread --agent bob --json").json();
    assert_eq!(fields(&first), ["messages", "next", "unread"]);
    assert_eq!(
        fields(&first["messages"][0]),
        [
            "ack_due",
            "acked_at",
            "at",
            "body",
            "broadcast",
            "from",
            "id",
            "importance",
            "overdue",
            "read_at",
            "thread",
            "to"
        ]
    );
    assert_eq!((bodies(&first), &first["unread"]), (vec!["hello"], &1.into()));
    assert_eq!(bodies(&done(&world, "msg inbox --unread --agent bob --json").json()), Vec::<&str>::new());
    let text = done(&world, "msg inbox --agent bob").out;
    assert!(text.contains("ann") && text.contains("bd-12") && text.contains("mala msg ack 1"), "{text}");
    let acked = done(&world, "msg ack 1 --agent bob --json").json();
    assert!(!acked["message"]["acked_at"].is_null(), "{acked}");
    assert_eq!(bodies(&done(&world, "msg thread bd-12 --json").json()), ["hello"]);
    let foreign = run(&world, "msg ack 1 --agent ann");
    assert!(foreign.code == 2 && foreign.err.contains("`ann` has no message 1"), "{foreign:?}");
}

#[test]
fn people_write_and_read_from_the_terminal() {
    let world = world();
    assert_eq!(as_person(&world, "eve", &["msg", "send", "--to", "ann", "what about bd-1?"]).code, 0);
    let inbox = done(&world, "msg inbox --agent ann --json").json();
    assert_eq!(inbox["messages"][0]["from"], json!({ "kind": "person", "name": "eve" }));
    done(&world, "msg send --to eve nearly-done --agent ann");
    let text = as_person(&world, "eve", &["msg", "inbox"]).out;
    assert!(text.contains("ann") && text.contains("nearly-done") && text.contains("new"), "{text}");
    done(&world, "msg send --to person:zoe hello --agent ann");
    assert!(as_person(&world, "zoe", &["msg", "inbox"]).out.contains("hello"));
    let nobody = run(&world, "msg send --to nobody hello --agent ann");
    assert!(nobody.code == 2 && nobody.err.contains("nobody called `nobody` is known"), "{nobody:?}");
}

#[test]
fn everybody_gets_one_copy_and_a_flood_is_refused() {
    let world = world();
    let twice = done(&world, "msg send --to bob --to bob once --agent ann --json").json();
    assert_eq!(twice["to"].as_array().unwrap().len(), 1);
    for round in 0..5 {
        done(&world, &format!("msg send --all round-{round} --agent ann"));
    }
    let flood = run(&world, "msg send --all too-much --agent ann");
    assert!(flood.code == 1 && flood.err.contains("has written to everybody 5 times"), "{flood:?}");
    done(&world, "msg send --to bob still-fine --agent ann");
    assert_eq!(bodies(&done(&world, "msg inbox --agent bob --json").json()).len(), 7);
    assert_eq!(
        bodies(&done(&world, "msg inbox --agent ann --json").json()).len(),
        0,
        "no copy for the sender"
    );
}

#[test]
fn a_body_has_at_most_64_kib() {
    let world = world();
    let send = |len: usize| -> Answer {
        let mut command = mala(&world, ["msg", "send", "--to", "bob", "--agent", "ann", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It stops reading when it has had enough.
        let _ = child.stdin.take().unwrap().write_all("x".repeat(len).as_bytes());
        child.wait_with_output().unwrap().into()
    };
    assert_eq!(send(64 * 1024).code, 0);
    let long = send(65 * 1024);
    assert!(long.code == 2 && long.err.contains("at most 65536 are allowed"), "{long:?}");
    assert_eq!(send(0).code, 2);
    assert_eq!(world.count("message"), 1);
}

#[test]
fn an_inbox_is_read_page_by_page() {
    let world = world();
    for number in 0..5 {
        done(&world, &format!("msg send --to bob m{number} --agent ann"));
    }
    let first = done(&world, "msg inbox --limit 2 --agent bob --json").json();
    assert_eq!(bodies(&first), ["m4", "m3"]);
    let next = first["next"].as_i64().unwrap();
    let second = done(&world, &format!("msg inbox --limit 3 --cursor {next} --agent bob --json")).json();
    assert_eq!((bodies(&second), second["next"].is_null()), (vec!["m2", "m1", "m0"], true));
    assert!(done(&world, "msg inbox --limit 2 --agent bob").out.contains("more: mala msg inbox --cursor"));
    assert_eq!(run(&world, "msg inbox --limit 0 --agent bob").code, 2);
}

#[test]
fn who_has_not_acknowledged_in_time_is_shown() {
    let world = world();
    assert_eq!(done(&world, "msg overdue").out, "everything was acknowledged in time\n");
    done(&world, "msg send --to bob --ack=1ms look --agent ann");
    eventually("it is overdue", || done(&world, "msg overdue").out.contains("look"));
    let overdue = done(&world, "msg overdue --json").json();
    assert_eq!(
        (&overdue["messages"][0]["to"]["name"], &overdue["messages"][0]["overdue"]),
        (&"bob".into(), &true.into())
    );
    done(&world, "msg ack 1 --agent bob");
    assert_eq!(done(&world, "msg overdue --json").json()["messages"], json!([]));
}

#[test]
fn hostile_text_stays_text() {
    let world = world();
    let body = "a\u{1b}[31m\n\"quoted\" $(rm -rf .)\tend";
    let sent: Answer =
        mala(&world, ["msg", "send", "--to", "bob", "--agent", "ann", body]).output().unwrap().into();
    assert_eq!(sent.code, 0, "{sent:?}");
    assert_eq!(bodies(&done(&world, "msg inbox --agent bob --json").json()), [body]);
    let text = done(&world, "msg inbox --agent bob").out;
    assert!(text.contains("a\\u{1b}[31m\n  \"quoted\" $(rm -rf .)    end"), "{text}");
}
