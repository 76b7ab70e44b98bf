//! How attempts are judged and end.

use mala_core::AttemptState;
use tokio::time::Instant;

use super::world::{World, accepted, killed, rejected, said};
use crate::error::EngineError;
use crate::event::Event;
use crate::summary::AttemptResult;

#[tokio::test(start_paused = true)]
async fn work_that_the_gate_accepts_closes_its_issue() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(accepted())]);
    let run = world.run(async |mut stage| stage.session().await.says("done").await);
    let summary = run.await.unwrap();
    assert_eq!(summary.attempts[0].result, AttemptResult::Done);
    assert!(world.shown("a").is_closed());
    assert_eq!(world.journal("a"), ["running", "gating"]);
    assert_eq!(world.attempt("a").state, AttemptState::Done);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_rejected_goes_back_to_its_session_with_the_reasons() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(rejected("run the tests")), Ok(accepted())]);
    let run = world.run(async |mut stage| {
        let first = stage.session().await;
        assert_eq!(first.conversation, None);
        first.says("done").await;
        let second = stage.session().await;
        assert_eq!(second.conversation.as_deref(), Some("s1"));
        assert!(second.prompt.contains("run the tests"), "{}", second.prompt);
        second.says("done").await;
    });
    let summary = run.await.unwrap();
    assert_eq!((summary.attempts.len(), summary.attempts[0].gates), (1, 2));
    let states = ["running", "gating", "retrying", "running", "gating"];
    assert_eq!(world.journal("a"), states);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_rounds_or_progress_is_handed_over() {
    for (details, reason) in [
        (["1", "2", "3"], "the gate did not pass after it was told 2 times what is missing"),
        (["1", "1", "1"], "nothing has changed since the gate last said what is missing"),
    ] {
        let mut world = World::new();
        world.options.gate_attempts = 2;
        world.issue("a", &[]);
        world.judge(details.map(|detail| Ok(rejected(detail))));
        let run = world.run(async |mut stage| {
            for _ in 0..if details[0] == details[1] { 2 } else { 3 } {
                stage.session().await.says("done").await;
            }
        });
        let summary = run.await.unwrap();
        assert_eq!(summary.attempts[0].reason.as_deref(), Some(reason));
        assert_eq!(summary.attempts[0].result, AttemptResult::Blocked, "it was tried often enough");
        assert!(world.shown("a").notes[0].text.contains(reason));
        assert_eq!(world.attempt("a").state, AttemptState::HandedOver);
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_is_reaped_and_its_issue_tried_later_and_later() {
    let mut world = World::new();
    world.options.attempts = 3;
    world.issue("a", &[]);
    let mut waits = Vec::new();
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        for _ in 0..2 {
            let died = Instant::now();
            session.ends(killed(9)).await;
            stage.until(|event| matches!(event, Event::Resting { .. })).await;
            session = stage.session().await;
            waits.push(died.elapsed());
        }
        session.ends(killed(9)).await;
    });
    let summary = run.await.unwrap();
    let reasons: Vec<_> = summary.attempts.iter().map(|attempt| attempt.reason.clone().unwrap()).collect();
    assert_eq!(reasons, ["the agent was killed by signal 9"; 3]);
    assert!(waits[0].as_secs() == 10 && waits[1].as_secs() == 40, "{waits:?}");
    assert_eq!(world.reaped(), 6, "before it is judged and before it ends, each time");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_started_ends_its_attempt() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.fail_starts(1);
    let summary = world.run(async |_| ()).await.unwrap();
    let reason = summary.attempts[0].reason.clone().unwrap();
    assert_eq!(reason, "the agent could not be started: no such program");
    assert_eq!(world.journal("a"), ["running"], "it is written down before it is tried");
}

#[tokio::test(start_paused = true)]
async fn mala_that_cannot_start_agents_stops_and_counts_no_attempt() {
    let mut world = World::new();
    world.options.max_agents = 1;
    world.issue("a", &[]);
    world.issue("b", &[]);
    let run = world.run(async |mut stage| {
        let mut end = said("");
        end.launch_failure = Some("no kernel".to_owned());
        stage.session().await.ends(end).await;
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.stopped.as_deref(), Some("agents cannot be started: no kernel"));
    assert_eq!((summary.attempts.len(), summary.left.len()), (1, 1));
    assert!(world.attempt("a").interruption.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_fails_is_asked_again_and_not_for_ever() {
    let broken = || Err(EngineError::StorePoisoned);
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([broken(), broken(), Ok(accepted())]);
    let summary = world.run(async |mut stage| stage.session().await.says("done").await).await.unwrap();
    assert_eq!(summary.attempts[0].result, AttemptResult::Done);

    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([broken(), broken(), broken(), Ok(accepted())]);
    let summary = world.run(async |mut stage| stage.session().await.says("done").await).await.unwrap();
    assert!(summary.attempts[0].reason.as_ref().unwrap().starts_with("the gate itself failed: "));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_write_its_journal_ends() {
    let mut world = World::new();
    let id = world.issue("a", &[]);
    let mut store = world.other_store();
    let run = world.run(async |mut stage| {
        let session = stage.session().await;
        let finish = mala_store::Finish {
            end: mala_store::End::HandedOver { reason: "x".to_owned(), next: mala_store::Next::TryAgain },
            note: None,
            progress: mala_store::Progress::default(),
        };
        store.finish(session.attempt.id, &finish).unwrap();
        session.says("done").await;
    });
    let error = run.await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write the journal");
    assert_eq!(world.attempt(id.as_str()).state, AttemptState::HandedOver, "it stays as it was found");
}
