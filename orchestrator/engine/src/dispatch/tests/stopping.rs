//! How a run ends before its work does.

use std::time::Duration;

use mala_core::{AttemptState, Interruption};

use super::world::{World, accepted, limited};
use crate::event::Event;
use crate::session::Stop;
use crate::summary::AttemptResult;

#[tokio::test(start_paused = true)]
async fn asked_once_what_agents_have_done_is_judged_and_the_rest_handed_over() {
    let mut world = World::new();
    world.options.max_agents = 2;
    for id in ["a", "b", "c"] {
        world.issue(id, &[]);
    }
    world.judge([Ok(accepted())]);
    let grace = world.options.grace;
    let run = world.run(async |mut stage| {
        let (mut first, mut second) = (stage.session().await, stage.session().await);
        stage.interrupt();
        assert_eq!((first.stop().await, second.stop().await), (Stop::Ask(grace), Stop::Ask(grace)));
        first.says("done").await;
        stage.until(|event| matches!(event, Event::Done { .. })).await;
        second.says("half of it").await;
    });
    let summary = run.await.unwrap();
    let results: Vec<_> = summary.attempts.iter().map(|attempt| attempt.result).collect();
    assert_eq!(results, [AttemptResult::Done, AttemptResult::HandedOver]);
    assert_eq!(summary.attempts[1].reason.as_deref(), Some("the run was stopped"));
    assert_eq!(summary.left[0].why, "not begun: the run was stopped");
    let open = summary.attempts[1].issue.clone();
    assert_eq!(world.attempt(open.as_str()).interruption, Some(Interruption::Stopped), "it does not count");
}

#[tokio::test(start_paused = true)]
async fn agents_at_rest_are_handed_over_at_once() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.issue("b", &[]);
    let run = world.run(async |mut stage| {
        let (first, second) = (stage.session().await, stage.session().await);
        first.ends(limited(None)).await;
        stage.until(|event| matches!(event, Event::Paused { .. })).await;
        second.says("Red or blue?").await;
        stage.until(|event| matches!(event, Event::NeedsInput { .. })).await;
        stage.interrupt();
    });
    let summary = run.await.unwrap();
    let reasons: Vec<_> = summary.attempts.iter().map(|attempt| attempt.reason.clone().unwrap()).collect();
    assert_eq!(reasons, ["the run was stopped", "the run was stopped"]);
}

#[tokio::test(start_paused = true)]
async fn asked_twice_nothing_is_judged_any_more() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(accepted())]);
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        stage.interrupt();
        session.stop().await;
        stage.interrupt();
        assert_eq!(session.stop().await, Stop::Ask(Duration::from_secs(2)));
        session.says("done").await;
    });
    let attempt = run.await.unwrap().attempts.remove(0);
    assert_eq!((attempt.result, attempt.gates), (AttemptResult::HandedOver, 0));
    assert_eq!(world.journal("a"), ["running"]);
}

#[tokio::test(start_paused = true)]
async fn asked_three_times_the_run_ends_now_and_the_next_one_knows() {
    let mut world = World::new();
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        (0..3).for_each(|_| stage.interrupt());
        let stops = [session.stop().await, session.stop().await, session.stop().await];
        assert_eq!(stops[2], Stop::Kill);
    });
    let summary = run.await.unwrap();
    assert!(summary.attempts.is_empty());
    assert_eq!(summary.left[0].why, "it was under way; the next start hands it over");
    let attempt = world.attempt("a");
    assert_eq!((attempt.state, attempt.interruption), (AttemptState::Running, Some(Interruption::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_time_is_over_ends_as_if_it_was_stopped() {
    let mut world = World::new();
    world.options.timeout = Some(Duration::from_secs(3600));
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        session.stop().await;
        session.says("").await;
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.stopped.as_deref(), Some("the run's time of 1h is over"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_after_the_stop_is_undone() {
    let mut world = World::new();
    world.issue("a", &[]);
    let (dispatcher, stage, interrupts) = world.dispatcher();
    stage.interrupt();
    let (mut dispatcher, issue) = (dispatcher, mala_core::IssueId::new("a").unwrap());
    let claim = dispatcher.ops.claim(&dispatcher.run, &issue, "fake", false);
    dispatcher.claiming.insert(issue.clone());
    dispatcher.on_interrupt();
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    dispatcher.worker_events = sender;
    dispatcher.on_claimed(issue.clone(), claim).await;
    let undone = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
    let undone = undone.expect("it is undone").unwrap();
    dispatcher.on_worker_event(undone).await;
    assert!(dispatcher.claiming.is_empty() && dispatcher.fatal.is_none());
    drop((interrupts, stage, dispatcher));
    assert_eq!(world.attempt("a").state, AttemptState::Ready, "no attempt is counted");
    assert_eq!(world.shown("a").status, "open");
}
