//! Providers that say no: the session goes on when it may, and nothing is begun that cannot succeed.

use std::sync::atomic::{AtomicUsize, Ordering};

use mala_tests::clients::Kind;
use mala_tests::model::{Model, Refusal, Reply};
use nix::sys::signal::{Signal, kill};

use super::project::{ISSUE, Project, checkout};
use super::{Hands, Story};
use crate::cli::{MALA, done};

/// Whatever keeps the model from replying, its agent rests, loses nothing, and burns no attempt.
fn rests(kind: Kind, refusal: Refusal) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands)
        .edit("edit", "free.txt", "anybody's", "mine")
        .then("refused", Reply::Refuse(refusal))
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.follow(&[], |event, pid| {
        if event["event"] == "paused" {
            kill(pid, Signal::SIGINT).unwrap();
        }
    });

    assert_eq!(run.only("paused")["issue"], ISSUE, "{run:?}");
    assert_eq!(run.only("handed_over")["is_blocked"], false, "{run:?}");
    assert_eq!(done(&project.world, "issue show bd-1 --json").json()["issue"]["status"], "open");
    assert_eq!(project.world.git(&["status", "--porcelain"]), "", "its work is saved: {run:?}");
    assert!(done(&project.world, "diff bd-1").out.contains("+mine"), "{run:?}");
}

pub(in crate::clients) fn rests_while_overloaded(kind: Kind) {
    rests(kind, Refusal::Overload);
}

/// A client that tries again by itself until its provider can reply.
pub(in crate::clients) fn outlasts_an_overload(kind: Kind) {
    goes_on_after(kind, Refusal::Overload);
}

pub(in crate::clients) fn rests_without_quota(kind: Kind) {
    rests(kind, Refusal::Quota);
}

/// A limit that ends soon: the same session goes on.
pub(in crate::clients) fn goes_on_after_a_limit(kind: Kind) {
    goes_on_after(kind, Refusal::Rate);
}

fn goes_on_after(kind: Kind, refusal: Refusal) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let mut calls = hands.look_and_edit("free.txt", "anybody's", "mine");
    let (last, refused) = (calls.len(), AtomicUsize::new(0));
    calls.push(hands.shell(&format!("{MALA} commit -m 'bd-1: mine'")));
    let told = Story::new(&hands)
        .in_order(calls, move |due| {
            (due == last && refused.fetch_add(1, Ordering::Relaxed) < 1).then_some(Reply::Refuse(refusal))
        })
        .begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.run(&told.talk);
    project.assert_landed(&run, "bd-1: mine");
    assert_eq!(run.issues("claimed").len(), 1, "it burned no attempt: {run:?}");
}

/// An account that is not let in: the profile is stopped, and the issue stays ready.
pub(in crate::clients) fn stops_without_an_account(kind: Kind) {
    let (world, model) = (checkout(), Model::start());
    let hands = Hands::new(kind, &world);
    let told = Story::new(&hands).then("refused", Reply::Refuse(Refusal::Account)).begin(&model);
    let Some(project) = Project::new(kind, world, &told.talk, "") else { return };
    let run = project.run(&told.talk);

    assert_eq!(run.code, 1, "{run:?}");
    let why = run.only("handed_over")["reason"].as_str().unwrap().to_owned();
    assert!(why.contains(&format!("the profile `{}` cannot work", kind.name())), "{why}");
    assert_eq!(
        (run.issues("started").len(), &run.only("handed_over")["is_blocked"]),
        (1, &false.into()),
        "{run:?}"
    );
    assert_eq!(done(&project.world, "issue show bd-1 --json").json()["issue"]["status"], "open");
}
