//! What keeps agents from working: limits, questions, files of others.

use std::time::Duration;

use mala_agents::stream::{Progress, Tokens, Usage};
use mala_config::NoChange;
use mala_config::Settings;
use mala_core::{AgentId, AttemptState, Mode, Target, Urgency, Want, Who};
use mala_session::{acquire, acquire_or_wait};
use mala_store::{AskRequest, Party, Request, process};
use tokio::time::Instant;

use super::world::{World, accepted, limited, person, put_off, rejected};
use crate::event::Event;
use crate::limits::Limits;
use crate::session::Stop;
use crate::summary::AttemptResult;
use crate::validator::Judgement;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_client_that_is_told_to_slow_down_backs_off_and_goes_on_in_its_conversation() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(accepted())]);
    let until = world.now().plus(10 * MINUTE);
    let run = world.run(async |mut stage| {
        for (end, span) in [(None, 30), (None, 60), (Some(until), 500)] {
            let session = stage.session().await;
            let started = Instant::now();
            session.ends(limited(end)).await;
            stage.until(|event| matches!(event, Event::Paused { .. })).await;
            stage.until(|event| matches!(event, Event::Resumed { .. })).await;
            assert!(started.elapsed() >= Duration::from_secs(span), "{:?}", started.elapsed());
        }
        let last = stage.session().await;
        assert!(last.conversation.as_deref() == Some("s1") && last.prompt.contains("slow down"));
        last.says("done").await;
    });
    let summary = run.await.unwrap();
    assert_eq!((summary.attempts.len(), summary.attempts[0].gates), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn nobody_begins_with_an_account_that_was_told_to_slow_down() {
    let mut world = World::new();
    world.options.max_agents = 2;
    world.options.stagger = MINUTE / 6;
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.judge([Ok(accepted()), Ok(accepted())]);
    let run = world.run(async |mut stage| {
        stage.session().await.ends(limited(None)).await;
        let resting = stage.until(|event| matches!(event, Event::Resting { .. })).await;
        assert!(matches!(resting, Event::Resting { issue, .. } if issue.as_str() == "b"));
        stage.session().await.says("done").await;
        stage.session().await.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_is_told_so_once_and_then_has_had_enough() {
    let mut world = World::new();
    world.limits(Limits { idle: Some(5 * MINUTE), ..Limits::default() });
    world.issue("a", &[]);
    let grace = world.options.grace;
    let run = world.run(async |mut stage| {
        let mut first = stage.session().await;
        first.tells(Progress::Session("s1".to_owned()), Usage::default()).await;
        assert_eq!(first.stop().await, Stop::Ask(grace));
        stage.until(|event| matches!(event, Event::Nudged { .. })).await;
        first.says("").await;
        let mut second = stage.session().await;
        assert!(second.prompt.contains("it was silent for more than 5m"), "{}", second.prompt);
        assert_eq!(second.stop().await, Stop::Ask(grace));
        second.says("").await;
    });
    let attempt = run.await.unwrap().attempts.remove(0);
    assert_eq!(attempt.reason.as_deref(), Some("it was silent for more than 5m"));
    assert_eq!(attempt.gates, 1, "only the second end is judged");
}

#[tokio::test(start_paused = true)]
async fn each_limit_asks_the_agent_to_end_and_its_work_is_judged() {
    let used = |turns, cost| Usage { turns, cost: Some(cost), ..Usage::default() };
    let none = Limits::default();
    for (limits, usage, reason) in [
        (Limits { total: Some(MINUTE), ..none }, used(0, 0.0), "it worked for more than 1m"),
        (Limits { turns: Some(3), ..none }, used(4, 0.0), "it took more than 3 turns"),
        (Limits { cost: Some(1.0), ..none }, used(1, 1.5), "it cost $1.50, more than $1.00"),
    ] {
        let mut world = World::new();
        world.limits(limits);
        world.issue("a", &[]);
        let run = world.run(async |mut stage| {
            let mut session = stage.session().await;
            session.tells(Progress::Usage, usage).await;
            session.stop().await;
            session.says("half of it").await;
        });
        let attempt = run.await.unwrap().attempts.remove(0);
        assert_eq!((attempt.reason.as_deref(), attempt.gates), (Some(reason), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_spent_ends_the_run() {
    let mut world = World::new();
    world.options.budget = Some(1.0);
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        session.tells(Progress::Usage, Usage { cost: Some(2.0), ..Usage::default() }).await;
        session.stop().await;
        session.says("").await;
    });
    let stopped = run.await.unwrap().stopped.unwrap();
    assert_eq!(stopped, "the run has cost $2.00, more than its budget of $1.00");
}

#[tokio::test(start_paused = true)]
async fn tokens_spend_a_budget_at_the_price_of_their_model() {
    let mut world = World::new();
    world.options.budget = Some(1.0);
    world.options.prices = Settings::default().prices.into();
    world.issue("a", &[]);
    let tokens = Tokens { input: 1_000_000, cached: 0, output: 50_000 };
    let used = Usage { models: [("gpt-5".to_owned(), tokens)].into(), ..Usage::default() };
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        session.tells(Progress::Usage, used).await;
        session.stop().await;
        session.says("").await;
    });
    let stopped = run.await.unwrap().stopped.unwrap();
    assert_eq!(stopped, "the run has cost $1.75, more than its budget of $1.00");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_a_note_on_the_issue() {
    let mut world = World::new();
    let id = world.issue("a", &[]);
    world.judge([Ok(rejected("nothing")), Ok(accepted())]);
    let mut store = world.other_store();
    let run = world.run(async |mut stage| {
        stage.session().await.says("Red or blue?").await;
        stage.until(|event| matches!(event, Event::NeedsInput { .. })).await;
        tokio::time::sleep(MINUTE / 6).await;
        store.note(&person(), &id, "blue").unwrap();
        let session = stage.session().await;
        assert!(session.prompt.contains("The answer: blue"), "{}", session.prompt);
        session.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
    let states = ["running", "gating", "needs_input", "running", "gating"];
    assert_eq!(world.journal("a"), states);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_notes_on_the_issue_is_no_answer_and_who_has_answered_is_said() {
    let mut world = World::new();
    let id = world.issue("a", &[]);
    world.judge([Ok(rejected("nothing")), Ok(accepted())]);
    let mut store = world.other_store();
    let run = world.run(async |mut stage| {
        stage.session().await.says("Shall I delete it?").await;
        stage.until(|event| matches!(event, Event::NeedsInput { .. })).await;
        tokio::time::sleep(MINUTE / 12).await;
        let neighbour = Who::Agent(AgentId::new("neighbour").unwrap());
        store.note(&neighbour, &id, "yes, delete it all").unwrap();
        tokio::time::sleep(MINUTE / 12).await;
        store.note(&person(), &id, "no").unwrap();
        let session = stage.session().await;
        assert!(session.prompt.contains("The answer: no\n\n(by `pat`)"), "{}", session.prompt);
        assert!(!session.prompt.contains("delete it all"), "{}", session.prompt);
        session.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
}

#[tokio::test(start_paused = true)]
async fn what_only_an_agents_word_stands_behind_is_left_to_a_person() {
    for (no_change, result, status) in
        [(NoChange::Ask, AttemptResult::Blocked, "blocked"), (NoChange::Close, AttemptResult::Done, "closed")]
    {
        let mut world = World::new();
        world.options.no_change = no_change;
        world.issue("a", &[]);
        let said = "no-change: it works already".to_owned();
        world.judge([Ok(Judgement {
            accepted: true,
            outcome: Some(said.clone()),
            is_unproven: true,
            ..Judgement::default()
        })]);
        let run = world.run(async |mut stage| stage.session().await.says("done").await);
        let attempt = run.await.unwrap().attempts.remove(0);
        assert_eq!((attempt.result, world.shown("a").status.as_str()), (result, status));
        let reason = attempt.reason.unwrap_or_default();
        assert_eq!(
            reason.contains(&said) && reason.contains("mala issue close a"),
            no_change == NoChange::Ask,
            "{reason}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_said_to_have_none_and_the_next_one_is_left_to_a_person() {
    let mut world = World::new();
    world.options.attempts = 3;
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("Red or blue?").await;
        let session = stage.session().await;
        assert!(session.prompt.contains("Nobody is there to answer"), "{}", session.prompt);
        session.says("But red or blue?").await;
    });
    let attempt = run.await.unwrap().attempts.remove(0);
    assert_eq!(attempt.result, AttemptResult::Blocked);
    assert_eq!(attempt.reason.as_deref(), Some("it needs an answer: But red or blue?"));
    assert_eq!(world.shown("a").status, "blocked");
}

/// The holder of a file that an agent asks for.
fn holder() -> Party {
    let agent = AgentId::new("holder").unwrap();
    Party { agent, owner: process::current(), supervised: true, issue: None, run: None }
}

fn want(world: &World) -> Want {
    let scope = &world.scope;
    let path = "f.txt".as_ref();
    let reading = mala_core::claim::Reading::Guess;
    let want = scope.want(scope.root(), path, Mode::Exclusive, reading).unwrap();
    assert!(matches!(want.target, Target::File(_)));
    want
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_asked_for_a_file_is_parked_until_it_has_it() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(rejected("nothing")), Ok(accepted())]);
    let (mut store, want, scope) = (world.other_store(), want(&world), world.scope.clone());
    let held = Request { party: holder(), wants: vec![want.clone()], ttl: MINUTE, reason: None };
    acquire(&scope, &mut store, &held).unwrap();
    let run = world.run(async |mut stage| {
        let session = stage.session().await;
        let agent = session.attempt.agent.clone();
        let party = Party { agent, owner: process::current(), supervised: true, issue: None, run: None };
        let why = "I need it".to_owned();
        let ask = AskRequest { party, want, ttl: MINUTE, why, urgency: Urgency::Normal, due_in: MINUTE };
        store.ask(&ask).unwrap();
        session.says("I wait for f.txt.").await;
        stage.until(|event| matches!(event, Event::Parked { .. })).await;
        store.leave(&holder().agent).unwrap();
        let session = stage.session().await;
        assert!(session.prompt.contains("you waited for `f.txt`, which is yours now"), "{}", session.prompt);
        session.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
    let states = ["running", "gating", "retrying", "running", "gating"];
    assert_eq!(world.journal("a"), states);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_put_off_for_nothing_is_made_again_once() {
    let mut world = World::new();
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        stage.session().await.ends(put_off()).await;
        let session = stage.session().await;
        assert!(session.prompt.contains("the call that was put off can be made now"), "{}", session.prompt);
        session.ends(put_off()).await;
        stage.until(|event| matches!(event, Event::Gating { .. })).await;
        stage.session().await.ends(put_off()).await;
        stage.until(|event| matches!(event, Event::Gating { .. })).await;
    });
    let attempt = run.await.unwrap().attempts.remove(0);
    assert_eq!(attempt.gates, 2, "twice in a row is judged");
    assert_eq!(world.attempt("a").state, AttemptState::HandedOver);
}

#[tokio::test(start_paused = true)]
async fn an_issue_that_names_a_held_file_is_begun_and_takes_no_file() {
    let mut world = World::new();
    world.issue("a", &["f.txt", "g.txt"]);
    world.issue("b", &["g.txt"]);
    world.judge([Ok(accepted()), Ok(accepted())]);
    let mut store = world.other_store();
    let held = Request { party: holder(), wants: vec![want(&world)], ttl: MINUTE, reason: None };
    acquire(&world.scope, &mut store, &held).unwrap();
    let run = world.run(async |mut stage| {
        let (first, second) = (stage.session().await, stage.session().await);
        let holders: Vec<_> = store.locks().unwrap().into_iter().map(|lock| lock.agent).collect();
        assert_eq!(holders, [holder().agent]);
        first.says("done").await;
        second.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_in_the_middle_of_a_call_leaves_its_place_to_another() {
    let mut world = World::new();
    world.options.max_agents = 1;
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.judge([Ok(accepted()), Ok(accepted())]);
    let mut store = world.other_store();
    let held = Request { party: holder(), wants: vec![want(&world)], ttl: MINUTE, reason: None };
    acquire(&world.scope, &mut store, &held).unwrap();
    let (mut waiting, scope, wants) = (world.other_store(), world.scope.clone(), vec![want(&world)]);
    let run = world.run(async |mut stage| {
        let first = stage.session().await;
        let agent = first.attempt.agent.clone();
        let party = Party { agent, owner: process::current(), supervised: true, issue: None, run: None };
        let wish = Request { party, wants, ttl: MINUTE, reason: None };
        // In a thread of its own, so that the time of the test goes on.
        let call =
            std::thread::spawn(move || acquire_or_wait(&scope, &mut waiting, &wish, MINUTE.into(), |_| ()));
        let second = stage.session().await;
        assert_eq!(second.attempt.issue.as_str(), "b", "the first one is in the middle of its call");
        store.leave(&holder().agent).unwrap();
        call.join().unwrap().unwrap();
        first.says("done").await;
        second.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
}
