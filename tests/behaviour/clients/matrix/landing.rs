//! From an issue to a commit on the branch, through the landing queue.

use mala_tests::clients::Kind;
use mala_tests::model::Model;
use serde_json::json;

use super::super::read;
use super::project::{Project, checkout};
use super::{Hands, Story};
use crate::cli::{MALA, held, pair};

/// It commits with git by habit and is told what to type; what it offers is rejected, and comes back to the same session.
pub(in crate::clients) fn lands(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands)
        .edit("edit", "free.txt", "anybody's", "broken")
        .shell("test", &format!("{MALA} test -- sh check.sh"))
        .shell("git", "git add free.txt && git commit -m 'bd-1: by habit'")
        .shell("commit", &format!("{MALA} commit -m 'bd-1: mine'"))
        .say("I have offered it.")
        .edit("mended", "free.txt", "broken", "mine")
        .find_tools("mala test commit")
        .then("test tool", hands.mala("test_run", &json!({"command": ["sh", "check.sh"]})))
        .then("commit tool", hands.mala("commit", &json!({"message": "bd-1: mine, mended"})))
        .say("It is offered again.")
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.run(&told.talk);

    project.assert_landed(&run, "bd-1: mine, mended");
    assert_eq!(read(&project.world, "free.txt"), "mine\n");
    assert_eq!(held(&project.world), [pair("held.txt", "other")]);
    for (step, words) in [
        ("test", "not in this test: held.txt"),
        ("git", "the branch moves only by landing"),
        ("git", "mala commit -m "),
        ("commit", "offered "),
    ] {
        assert!(told.of(step).to_lowercase().contains(words), "{step}: {}", told.of(step));
    }
    // Some models are shown what a tool has returned as text, some as JSON.
    for (step, [text, json]) in [
        ("test tool", ["passed", "\"exit_code\":0"]),
        ("commit tool", ["offered ", "\"candidate\":\"refs/mala/"]),
    ] {
        let said = told.of(step).replace("\\\"", "\"");
        assert!(said.contains(text) || said.contains(json), "{step}: {said}");
    }
    let rejected = run.only("rejected")["failed"][0]["detail"].as_str().unwrap().to_owned();
    assert!(rejected.starts_with("`sh check.sh` failed on what you offered"), "{rejected}");
    assert!(told.talk.told().contains(&rejected), "the same session is told why: {}", told.talk.told());
    let sessions: Vec<_> = run.all("started").into_iter().map(|event| event["session"].is_string()).collect();
    assert_eq!(sessions, [false, true], "{run:?}");
}

/// The same for a user without rights, below a directory that the group may write to.
pub(in crate::clients) fn works_for_an_ordinary_user(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands)
        .edit("edit", "free.txt", "anybody's", "mine")
        .edit("refused edit", "held.txt", "theirs", "mine")
        .shell("commit", &format!("{MALA} commit -m 'bd-1: mine'"))
        .say("It is offered.")
        .begin(&model);
    let Some(mut project) = Project::new(kind, world, &told.talk, "") else { return };
    project.give_to_an_ordinary_user();
    let run = project.follow(&[], |event, _| {
        // Claude puts the call off and makes it again when the file is its.
        if event["event"] == "parked" {
            assert_eq!(event["awaits"][0]["file"], "held.txt", "{event}");
            project.done("lock release held.txt --agent other");
        }
    });
    project.take_back();

    project.assert_landed(&run, "bd-1: mine");
    assert_eq!(told.talk.complaints(), Vec::<String>::new(), "{run:?}");
    let is_put_off = kind == Kind::Claude;
    assert_eq!(run.all("parked").len(), usize::from(is_put_off), "{run:?}");
    let refused = told.of("refused edit");
    assert!(is_put_off || refused.contains("`held.txt` is held by `other`"), "{refused}");
}
