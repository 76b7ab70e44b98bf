//! Agents that wait for each other in a circle.

use std::time::Duration;

use mala_core::claim::Reading;
use mala_core::{AgentId, Mode, Scope, Urgency, Want};
use mala_session::acquire;
use mala_store::{AskRequest, Outcome, Party, Request, Store, process};

use super::world::{FakeSession, Stage, World, accepted, rejected};
use crate::event::Event;

const HOUR: Duration = Duration::from_secs(3600);

fn want(scope: &Scope, path: &str) -> Want {
    scope.want(scope.root(), path.as_ref(), Mode::Exclusive, Reading::Guess).unwrap()
}

/// What an agent does while its session runs.
struct Hand {
    scope: Scope,
    store: Store,
}

impl Hand {
    fn of(world: &World) -> Self {
        Self { scope: world.scope.clone(), store: world.other_store() }
    }

    fn party(session: &FakeSession) -> Party {
        Party {
            agent: session.attempt.agent.clone(),
            owner: process::current(),
            supervised: true,
            issue: Some(session.attempt.issue.clone()),
            run: Some(session.attempt.run.clone()),
        }
    }

    fn write(&mut self, session: &FakeSession, path: &str, text: &str) {
        let wants = vec![want(&self.scope, path)];
        let request = Request { party: Self::party(session), wants, ttl: HOUR, reason: None };
        let outcome = acquire(&self.scope, &mut self.store, &request).unwrap();
        assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
        std::fs::write(self.scope.root().join(path), text).unwrap();
    }

    fn ask(&mut self, session: &FakeSession, path: &str) {
        let (party, want) = (Self::party(session), want(&self.scope, path));
        let why = "needed".to_owned();
        let ask = AskRequest { party, want, ttl: HOUR, why, urgency: Urgency::Normal, due_in: HOUR };
        self.store.ask(&ask).unwrap();
    }

    fn holder(&mut self, path: &str) -> Option<AgentId> {
        let want = want(&self.scope, path);
        self.store.holders(&want).unwrap().pop().map(|lock| lock.agent)
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.scope.root().join(path)).ok()
    }
}

/// Sessions of the issues, in the order of their names.
async fn sessions<const N: usize>(stage: &mut Stage) -> [FakeSession; N] {
    let mut sessions = Vec::new();
    for _ in 0..N {
        sessions.push(stage.session().await);
    }
    sessions.sort_by_key(|session| session.attempt.id);
    sessions.try_into().unwrap()
}

fn is_parked(event: &Event) -> bool {
    matches!(event, Event::Parked { .. })
}

#[tokio::test(start_paused = true)]
async fn of_two_agents_that_need_each_others_files_the_later_one_yields_and_both_get_on() {
    let mut world = World::new();
    world.options.max_agents = 2;
    world.issue("a", &[]);
    world.issue("b", &[]);
    world.judge([Ok(rejected("no")), Ok(rejected("no")), Ok(accepted()), Ok(accepted())]);
    let mut hand = Hand::of(&world);
    let run = world.run(async |mut stage| {
        let [a, b] = sessions(&mut stage).await;
        let agents = [&a, &b].map(|session| session.attempt.agent.clone());
        hand.write(&a, "f.txt", "a's\n");
        hand.write(&b, "g.txt", "b's\n");
        hand.ask(&a, "g.txt");
        hand.ask(&b, "f.txt");
        a.says("I wait.").await;
        stage.until(is_parked).await;
        b.says("I wait, too.").await;
        let yielded = stage.until(|event| matches!(event, Event::Yielded { .. })).await;
        let Event::Yielded { agent, to, saved_ref, .. } = yielded else { unreachable!() };
        assert_eq!((&agent, to[0].as_str()), (&agents[1], "a"), "it was claimed last");
        assert_eq!(saved_ref.as_deref(), Some("refs/mala/b/1.aside"));
        let a = stage.session().await;
        assert!(a.prompt.contains("you waited for `g.txt`, which is yours now"), "{}", a.prompt);
        assert_eq!((hand.read("f.txt").as_deref(), hand.read("g.txt")), (Some("a's\n"), None));
        assert_eq!(
            (hand.holder("f.txt"), hand.holder("g.txt")),
            (Some(agents[0].clone()), Some(agents[0].clone()))
        );
        a.says("done").await;
        let b = stage.session().await;
        assert!(b.prompt.contains("It is back in its place"), "{}", b.prompt);
        assert_eq!(
            (hand.read("g.txt").as_deref(), hand.holder("f.txt")),
            (Some("b's\n"), Some(agents[1].clone()))
        );
        b.says("done").await;
    });
    let summary = run.await.unwrap();
    assert!(summary.is_all_done());
    assert_eq!(summary.attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(world.journal("b"), ["running", "gating", "retrying", "running", "gating"]);
    let aside = mala_git::Repo::new(world.scope.clone()).resolve("refs/mala/b/1.aside").unwrap();
    assert_eq!(aside, None, "it is in the checkout again");
}

#[tokio::test(start_paused = true)]
async fn in_a_circle_of_three_the_latest_yields_and_the_oldest_never_does() {
    let mut world = World::new();
    world.options.max_agents = 3;
    for id in ["a", "b", "c"] {
        world.issue(id, &[]);
    }
    world.judge((0..3).map(|_| Ok(rejected("no"))).chain((0..3).map(|_| Ok(accepted()))));
    let mut hand = Hand::of(&world);
    let run = world.run(async |mut stage| {
        let [a, b, c] = sessions(&mut stage).await;
        let files = ["a.txt", "b.txt", "c.txt"];
        let latest = c.attempt.agent.clone();
        for (session, file) in [&a, &b, &c].into_iter().zip(files) {
            hand.write(session, file, file);
        }
        // The oldest comes last, and closes the circle.
        for (session, file) in [(&b, "c.txt"), (&c, "a.txt"), (&a, "b.txt")] {
            hand.ask(session, file);
        }
        for session in [b, c, a] {
            session.says("I wait.").await;
            stage.until(is_parked).await;
        }
        let yielded = stage.until(|event| matches!(event, Event::Yielded { .. })).await;
        assert!(matches!(yielded, Event::Yielded { agent, .. } if agent == latest));
        for expected in ["b", "a", "c"] {
            let session = stage.session().await;
            assert_eq!(session.attempt.issue.as_str(), expected);
            session.says("done").await;
        }
    });
    let summary = run.await.unwrap();
    assert!(summary.is_all_done(), "{summary:?}");
    assert!(summary.attempts.iter().all(|attempt| attempt.attempt == 1));
}
