//! Work on its way through the landing queue.

use std::fs;

use mala_core::{AttemptState, EntryState, IssueId};
use mala_store::EntryFilter;

use super::world::{QueueAnswer, World, accepted};
use crate::event::Event;
use crate::summary::AttemptResult;

fn entry_states(world: &mut World) -> Vec<EntryState> {
    let entries = world.store.entries(&EntryFilter::default()).unwrap();
    entries.into_iter().map(|entry| entry.state).collect()
}

#[tokio::test(start_paused = true)]
async fn offered_work_that_lands_closes_its_issue() {
    let mut world = World::new();
    world.issue("a", &["a.txt"]);
    let offered = world.offered("a", "new\n");
    let head = offered.offer.clone().unwrap().head.to_string();
    world.judge([Ok(offered)]);
    let run = world.run(async |mut stage| stage.session().await.says("done").await);
    let summary = run.await.unwrap();
    assert_eq!(summary.attempts[0].result, AttemptResult::Done);
    assert_eq!(summary.attempts[0].commits, [head]);
    assert!(world.shown("a").is_closed());
    assert_eq!(world.journal("a"), ["running", "gating", "offered"]);
    assert_eq!(entry_states(&mut world), [EntryState::Landed]);
}

#[tokio::test(start_paused = true)]
async fn offered_work_leaves_the_checkout_and_comes_back_when_it_is_rejected() {
    let mut world = World::new();
    world.issue("a", &["a.txt"]);
    let (first, second) = (world.offered("a", "first\n"), world.offered("a", "second\n"));
    let root = world.scope.root().to_owned();
    world.judge([Ok(second.clone()), Ok(accepted())]);
    world.queue([QueueAnswer::Conflict]);
    drop(first);
    let run = world.run(async |mut stage| {
        let session = stage.session().await;
        fs::write(root.join("a.txt"), "second\n").unwrap();
        session.says("done").await;
        stage.until(|event| matches!(event, Event::Queued { .. })).await;
        let again = stage.session().await;
        assert!(again.prompt.contains("the branch has changed `a.txt`"), "{}", again.prompt);
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "second\n", "it is back");
        fs::remove_file(root.join("a.txt")).unwrap();
        again.says("done").await;
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.attempts[0].result, AttemptResult::Done);
    let states = ["running", "gating", "offered", "retrying", "running", "gating"];
    assert_eq!(world.journal("a"), states);
    assert_eq!(world.file("a.txt"), None);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_rejected_for_the_last_time_is_kept_and_named() {
    let mut world = World::new();
    world.options.gate_attempts = 0;
    world.issue("a", &["a.txt"]);
    let offered = world.offered("a", "new\n");
    let pin = offered.offer.clone().unwrap().pin;
    world.judge([Ok(offered)]);
    world.queue([QueueAnswer::Conflict]);
    let run = world.run(async |mut stage| stage.session().await.says("done").await);
    let attempt = run.await.unwrap().attempts.remove(0);
    assert_eq!(attempt.result, AttemptResult::Blocked);
    assert_eq!(attempt.saved_ref.as_deref(), Some(pin.as_str()));
    assert!(attempt.commits.is_empty(), "nothing is on the branch");
    assert!(world.shown("a").notes[0].text.contains(&pin));
    assert_eq!(world.attempt("a").state, AttemptState::HandedOver);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_is_in_the_way_of_stays_queued_and_holds_nobody_up() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.options.issues = ["a", "b"].map(|id| IssueId::new(id).unwrap()).into();
    world.options.max_agents = 1;
    world.judge([Ok(world.offered("a", "new\n")), Ok(accepted())]);
    world.queue(vec![QueueAnswer::Hold; 1000]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        let held = stage.until(|event| matches!(event, Event::Held { .. })).await;
        assert!(matches!(held, Event::Held { why, .. } if why == "a person is in the way"));
        stage.session().await.says("done").await;
    });
    let summary = run.await.unwrap();
    assert_eq!((summary.attempts.len(), summary.attempts[0].issue.as_str()), (1, "b"));
    assert_eq!(
        summary.left[0].why,
        "its work waits in the landing queue as entry 1, because as the test says: mala queue run"
    );
    assert_eq!(world.attempt("a").state, AttemptState::Offered);
    assert!(!world.shown("a").is_closed(), "it is closed when it is on the branch, not before");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_no_validation() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(world.offered("a", "new\n"))]);
    world.queue([QueueAnswer::Hang, QueueAnswer::Hang]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        stage.until(|event| matches!(event, Event::Queued { .. })).await;
        stage.interrupt();
    });
    let summary = run.await.unwrap();
    assert!(summary.attempts.is_empty());
    assert_eq!(summary.left[0].why, "its work waits in the landing queue as entry 1: mala queue run");
    assert_eq!(entry_states(&mut world), [EntryState::Waiting]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_itself_blames_nobody() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(world.offered("a", "new\n"))]);
    world.queue(vec![QueueAnswer::Break; 3]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        stage
            .until(
                |event| matches!(event, Event::Warning { text } if text.contains("the landing queue failed")),
            )
            .await;
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.left.len(), 1, "{:?}", summary.attempts);
    assert_eq!(entry_states(&mut world), [EntryState::Waiting]);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_in_the_queue_is_settled_by_the_next() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.options.issues = vec![IssueId::new("a").unwrap()];
    world.judge([Ok(world.offered("a", "new\n"))]);
    world.queue([QueueAnswer::Hold, QueueAnswer::Hold]);
    let run = world.run(async |mut stage| stage.session().await.says("done").await);
    assert_eq!(run.await.unwrap().left.len(), 1);
    let first = world.store.current_run().unwrap().unwrap().id;
    world.store.end_run(&first, &serde_json::json!({})).unwrap();
    world.options.issues = vec![IssueId::new("b").unwrap()];
    world.judge([Ok(accepted())]);
    let run = world.run(async |mut stage| stage.session().await.says("done").await);
    run.await.unwrap();
    assert!(world.shown("a").is_closed());
    assert_eq!(world.attempt("a").state, AttemptState::Done);
}

#[tokio::test(start_paused = true)]
async fn what_has_landed_is_audited_when_the_run_has_nothing_left_to_do() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(world.offered("a", "new\n"))]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        let ended = stage.until(|event| matches!(event, Event::AuditEnded { .. })).await;
        assert!(matches!(ended, Event::AuditEnded { passed: true, .. }));
    });
    assert_eq!(run.await.unwrap().attempts[0].result, AttemptResult::Done);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_an_audit() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(world.offered("a", "new\n"))]);
    world.queue([QueueAnswer::Land, QueueAnswer::Hang]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        stage.until(|event| matches!(event, Event::AuditBegun { .. })).await;
        stage.interrupt();
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.attempts[0].result, AttemptResult::Done, "it is on the branch");
}
