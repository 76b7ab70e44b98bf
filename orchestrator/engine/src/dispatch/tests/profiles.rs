//! Profiles that cannot work, and those that give way to another.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use mala_agents::stream::{Progress, Tokens, Usage};
use mala_config::Settings;

use super::world::{World, accepted, limited, rejected, said};
use crate::event::Event;
use crate::session::{SessionEnd, Stop};
use crate::summary::{AttemptResult, Summary};

const DENIED: &str = "unexpected status 401 Unauthorized";

fn denied() -> SessionEnd {
    let mut end = said("");
    end.status = Ok(ExitStatus::from_raw(1 << 8));
    end.report.denied = Some(DENIED.to_owned());
    end
}

fn failed_without_a_reply() -> SessionEnd {
    SessionEnd { status: Ok(ExitStatus::from_raw(41 << 8)), ..said("") }
}

fn reasons(summary: &Summary) -> Vec<&str> {
    summary.attempts.iter().filter_map(|attempt| attempt.reason.as_deref()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_refused_account_stops_its_profile_and_leaves_its_issues_ready() {
    let mut world = World::new();
    world.options.attempts = 3;
    world.options.max_agents = 1;
    for issue in ["a", "b", "c"] {
        world.issue(issue, &[]);
    }
    let grace = world.options.grace;
    let run = world.run(async |mut stage| {
        let mut session = stage.session().await;
        session.tells(Progress::Denied, Usage::default()).await;
        assert_eq!(session.stop().await, Stop::Ask(grace), "its own retries are not waited for");
        session.ends(denied()).await;
        let warning = stage.until(|event| matches!(event, Event::Warning { .. })).await;
        let Event::Warning { text } = warning else { unreachable!() };
        assert!(text.contains(DENIED) && text.contains("`fake` is stopped"), "{text}");
    });
    let summary = run.await.unwrap();
    assert_eq!(summary.attempts.len(), 1, "{:?}", reasons(&summary));
    assert_eq!(summary.attempts[0].result, AttemptResult::HandedOver);
    let left: Vec<&str> = summary.left.iter().map(|left| left.issue.as_str()).collect();
    assert_eq!(left, ["b", "c"]);
    assert!(summary.left.iter().all(|left| left.why.contains(DENIED)), "{:?}", summary.left);
}

#[tokio::test(start_paused = true)]
async fn starts_without_one_reply_stop_their_profile() {
    let mut world = World::new();
    world.options.attempts = 10;
    world.options.max_agents = 1;
    world.issue("a", &[]);
    let run = world.run(async |mut stage| {
        for _ in 0..2 {
            stage.session().await.ends(failed_without_a_reply()).await;
        }
        // One reply, and the count begins anew.
        let mut end = failed_without_a_reply();
        end.report.usage.turns = 1;
        stage.session().await.ends(end).await;
        for _ in 0..3 {
            stage.session().await.ends(failed_without_a_reply()).await;
        }
    });
    let summary = run.await.unwrap();
    let last = summary.attempts.last().unwrap();
    let reason = last.reason.as_deref().unwrap();
    assert!(reason.contains("3 starts without a reply") && reason.contains("code 41"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn hooks_that_are_not_called_are_told_once_for_a_profile_and_counted_for_each_attempt() {
    for (heard, told) in [(Some(false), true), (Some(true), false), (None, false)] {
        let mut world = World::new();
        world.options.max_agents = 1;
        world.hear_hooks(heard);
        for issue in ["a", "b"] {
            world.issue(issue, &[]);
        }
        world.judge([Ok(accepted()), Ok(accepted())]);
        let run = world.run(async |mut stage| {
            let mut profiles = Vec::new();
            for _ in ["a", "b"] {
                let session = stage.session().await;
                session.tells(Progress::ToolEnded, Usage::default()).await;
                session.tells(Progress::ToolEnded, Usage::default()).await;
                session.says("done").await;
                loop {
                    match stage.until(|_| true).await {
                        Event::Unhooked { profile, .. } => profiles.push(profile),
                        Event::Done { .. } => break,
                        _ => {}
                    }
                }
            }
            assert_eq!(profiles, vec!["fake"; usize::from(told)], "once is enough");
        });
        let unhooked: Vec<bool> = run.await.unwrap().attempts.iter().map(|it| it.is_unhooked).collect();
        assert_eq!(unhooked, [told; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_profile_takes_over_while_the_first_is_limited() {
    let mut world = World::new();
    world.options.max_agents = 2;
    world.options.stagger = Duration::from_secs(10);
    let mut other = world.options.profiles.known[0].clone();
    other.0.name = "other".to_owned();
    world.options.profiles.known.push(other);
    world.options.profiles.fallback = Some("other".to_owned());
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.judge([Ok(accepted()), Ok(accepted())]);
    let run = world.run(async |mut stage| {
        stage.session().await.ends(limited(None)).await;
        let second = stage.session().await;
        assert_eq!(second.attempt.profile.as_deref(), Some("other"));
        second.says("done").await;
        let first = stage.session().await;
        assert_eq!(first.attempt.profile.as_deref(), Some("fake"));
        first.says("done").await;
    });
    assert!(run.await.unwrap().is_all_done());
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_lost_begins_anew_with_the_whole_task() {
    let mut world = World::new();
    world.issue("a", &[]);
    world.judge([Ok(rejected("`sh check.sh` has not run")), Ok(accepted())]);
    let run = world.run(async |mut stage| {
        stage.session().await.says("done").await;
        let resumed = stage.session().await;
        assert_eq!(resumed.conversation.as_deref(), Some("s1"));
        let mut lost = failed_without_a_reply();
        lost.report.session = None;
        resumed.ends(lost).await;
        let anew = stage.session().await;
        assert_eq!(anew.conversation, None);
        assert!(anew.prompt.contains("You work on the issue"), "{}", anew.prompt);
        assert!(anew.prompt.contains("`sh check.sh` has not run"), "{}", anew.prompt);
        anew.says("done").await;
    });
    let summary = run.await.unwrap();
    assert!(summary.is_all_done() && summary.attempts.len() == 1, "{summary:?}");
}

fn used(model: &str) -> Usage {
    let tokens = Tokens { input: 1_000_000, ..Tokens::default() };
    Usage { models: [(model.to_owned(), tokens)].into(), turns: 1, ..Usage::default() }
}

/// A session that has used `model`, and has nothing more to say of its cost.
fn ended(model: &str) -> SessionEnd {
    let mut end = said("done");
    end.report.usage = used(model);
    end
}

#[tokio::test(start_paused = true)]
async fn where_dollars_are_limited_a_model_without_a_price_stops_its_profile() {
    for (budget, sessions) in [(Some(5.0), 1), (None, 3)] {
        let mut world = World::new();
        world.options.budget = budget;
        world.options.prices = Settings::default().prices.into();
        world.options.max_agents = 1;
        world.issue("a", &[]);
        world.issue("b", &[]);
        world.judge([Ok(rejected("`sh check.sh` has not run")), Ok(accepted()), Ok(accepted())]);
        let run = world.run(async |mut stage| {
            stage.session().await.ends(ended("nobody-knows")).await;
            for _ in 1..sessions {
                stage.session().await.ends(ended("gpt-5")).await;
            }
        });
        let summary = run.await.unwrap();
        assert_eq!(summary.cost.exact(), None);
        assert_eq!(summary.cost.unpriced().collect::<Vec<_>>(), ["nobody-knows"]);
        if budget.is_some() {
            let reason = reasons(&summary)[0];
            assert!(reason.contains("stopped") && reason.contains("`nobody-knows`"), "{reason}");
            assert_eq!(summary.left[0].issue.as_str(), "b");
        } else {
            assert!(summary.is_all_done(), "{summary:?}");
            assert_eq!(summary.cost.at_least(), 2.5);
        }
    }
}
