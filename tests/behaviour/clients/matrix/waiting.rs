//! Sessions that stop and go on: for a file, for an issue, for an answer, after a kill.

use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};

use mala_tests::clients::Kind;
use mala_tests::model::{Model, Refusal, Reply, Talk, say};
use mala_tests::{eventually, processes_with};
use serde_json::json;

use super::super::read;
use super::project::{ISSUE, Project, checkout};
use super::{Hands, Story};
use crate::cli::{MALA, done};
use crate::run::Run;

/// The end of a run, whose model has had an answer to everything.
fn end(run: Child, talk: &Talk) -> Run {
    let run = Run::of(run);
    assert_eq!(talk.complaints(), Vec::<String>::new(), "{run:?}\n{talk:#?}");
    run
}

fn status(project: &Project) -> serde_json::Value {
    done(&project.world, "status --json").json()
}

/// A change, and the offer of it.
fn change(hands: &Hands) -> Vec<Reply> {
    let mut calls = hands.look_and_edit("free.txt", "anybody's", "mine");
    calls.push(hands.shell(&format!("{MALA} commit -m 'bd-1: mine'")));
    calls
}

/// It asks for a file with the command and waits for an issue with the tool; both times it ends its turn.
pub(in crate::clients) fn asks_and_waits(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands)
        .shell("ask", &format!("{MALA} lock ask held.txt --why 'bd-1 needs a line in it'"))
        .say("I wait for held.txt.")
        .edit("edit", "held.txt", "theirs", "mine")
        .find_tools("mala issue wait")
        .then("wait", hands.mala("issue_wait", &json!({"issue": "bd-2"})))
        .say("I wait for bd-2.")
        .shell("commit", &format!("{MALA} commit -m 'bd-1: mine'"))
        .say("It is offered.")
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    project.issue("bd-2");
    let run = project.follow(&["--issue", ISSUE], |event, _| {
        if event["event"] == "parked" {
            let is_for_issue = event["issues"][0] == "bd-2";
            done(
                &project.world,
                if is_for_issue { "issue close bd-2" } else { "lock release held.txt --agent other" },
            );
        }
    });

    project.assert_landed(&run, "bd-1: mine");
    assert_eq!(read(&project.world, "held.txt"), "mine\n");
    assert_eq!((run.issues("parked"), run.all("rejected").len()), (vec![ISSUE; 2], 0), "{run:?}");
    assert!(
        told.of("wait").contains("end your turn now") || told.of("wait").contains("noted"),
        "{}",
        told.of("wait")
    );
}

/// A question is answered by a person's note, in the same session.
pub(in crate::clients) fn is_answered(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands)
        .say("Both would do. Whose should the file be, yours or mine?")
        .in_order(change(&hands), |_| None)
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.start(&[]);
    eventually("the question is seen", || {
        status(&project)["runs"][0]["attempts"][0]["state"] == "needs_input"
    });
    // The tracker is looked at right after the question; only then is a note an answer.
    std::thread::sleep(std::time::Duration::from_millis(500));
    done(&project.world, "issue note bd-1 Mine");
    let run = end(run, &told.talk);

    project.assert_landed(&run, "bd-1: mine");
    assert_eq!(
        run.only("needs_input")["question"],
        "Both would do. Whose should the file be, yours or mine?"
    );
    assert!(told.talk.told().contains("Mine"), "{}", told.talk.told());
    assert_eq!(run.issues("claimed").len(), 1, "{run:?}");
}

/// A model that says nothing at all.
pub(in crate::clients) fn goes_on_after_silence(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let silent = AtomicUsize::new(0);
    let told = Story::new(&hands)
        .in_order(change(&hands), move |_| (silent.fetch_add(1, Ordering::Relaxed) < 1).then(|| say("")))
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.run(&told.talk);
    project.assert_landed(&run, "bd-1: mine");
}

/// In the middle of the work the conversation is too long for the model.
pub(in crate::clients) fn goes_on_after_an_overflow(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let change = change(&hands);
    let (last, refused) = (change.len() - 1, AtomicUsize::new(0));
    let told = Story::new(&hands)
        .in_order(change, move |due| {
            (due == last && refused.fetch_add(1, Ordering::Relaxed) < 1)
                .then_some(Reply::Refuse(Refusal::Length))
        })
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.run(&told.talk);
    project.assert_landed(&run, "bd-1: mine");
}

/// A change whose offer hangs the first time, after it has made the file `begun`.
fn interrupted(hands: &Hands, begun: &Path) -> Story {
    let change = change(hands);
    let last = change.len() - 1;
    let hang = hands.hang(&format!("touch {}", begun.display()));
    let begun = begun.to_owned();
    Story::new(hands).in_order(change, move |due| (due == last && !begun.exists()).then(|| hang.clone()))
}

/// After a kill of the run in the middle of a command, nothing goes on, and the next run goes on with the session.
pub(in crate::clients) fn is_resumed_after_a_kill(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let begun = world.base().join("begun");
    let told = interrupted(&Hands::new(kind, &world), &begun).begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let mut run = project.start(&[]);
    eventually("the agent is in the middle of it", || begun.exists());
    eventually("its session is written down", || {
        let count = "SELECT count(*) FROM attempt WHERE session IS NOT NULL";
        project.world.sql().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let base = project.world.base().display().to_string();
    eventually("nothing of it goes on", || processes_with(&base).is_empty());
    let run = end(project.start(&["--resume"]), &told.talk);

    project.assert_landed(&run, "bd-1: mine");
    assert_eq!(run.issues("recovered"), [ISSUE], "{run:?}");
    assert!(run.all("started")[0]["session"].is_string(), "{run:?}");
}

/// A command that hangs: the session is told so, and goes on; nothing of the command is left.
pub(in crate::clients) fn is_woken_from_a_hanging_command(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let begun = world.base().join("begun");
    let told = interrupted(&Hands::new(kind, &world), &begun).begin(&model);
    // Long enough for a client to start beside other tests.
    let Some(project) = Project::new(kind, world, &told.talk, "idle = \"20s\"") else { return };
    let run = project.run(&told.talk);

    project.assert_landed(&run, "bd-1: mine");
    assert_eq!((run.issues("nudged"), run.issues("claimed").len()), (vec![ISSUE], 1), "{run:?}");
    let base = project.world.base().display().to_string();
    assert_eq!(processes_with(&base), Vec::<String>::new(), "nothing of it is left");
}
