//! Sessions: an agent is known by its process, not by what it says.

use std::sync::Barrier;
use std::thread;

use mala_core::AgentId;
use mala_store::{Party, Session, StoreError, process};
use mala_tests::{Terse, World, party};

fn lineage() -> Vec<mala_core::Owner> {
    let me = process::Process::find(std::process::id()).unwrap();
    std::iter::once(me.owner()).chain(me.ancestors().map(|ancestor| ancestor.owner())).collect()
}

fn session(owner: &mala_core::Owner, name: &str, conversation: Option<&str>) -> Session {
    let party = Party { owner: owner.clone(), ..party(name) };
    Session { party, conversation: conversation.map(str::to_owned) }
}

fn names(sessions: &[Session]) -> Vec<&str> {
    sessions.iter().map(|session| session.party.agent.as_str()).collect()
}

#[test]
fn a_session_is_found_from_below_its_process() {
    let world = World::new();
    let mut store = world.store();
    let lineage = lineage();
    store.join_session(&session(&lineage[1], "claude-1", None), "claude").unwrap();
    assert_eq!(names(&store.sessions_among(&lineage).unwrap()), ["claude-1"]);
    assert!(store.sessions_among(&lineage[..1]).unwrap().is_empty(), "only from below");
    // The nearest one counts: a client started by another client is a session of its own.
    store.join_session(&session(&lineage[0], "claude-2", None), "claude").unwrap();
    assert_eq!(names(&store.sessions_among(&lineage).unwrap()), ["claude-2"]);
}

#[test]
fn a_process_may_have_several_conversations_and_each_may_get_another_name() {
    let world = World::new();
    let mut store = world.store();
    let lineage = lineage();
    for (conversation, name) in [("a", "codex-1"), ("b", "codex-1-2"), ("a", "codex-1")] {
        let joined =
            store.join_session(&session(&lineage[0], "codex-1", Some(conversation)), "codex").unwrap();
        assert_eq!(joined.agent.as_str(), name, "{conversation}");
    }
    let elsewhere = store.join_session(&session(&lineage[1], "codex-1", Some("a")), "codex").unwrap_err();
    assert!(matches!(elsewhere, StoreError::AgentRuns { .. }), "{elsewhere}");
    store.continue_session(&AgentId::new("codex-1").unwrap(), "c").unwrap();
    let mut found: Vec<_> = store
        .sessions_among(&lineage)
        .unwrap()
        .into_iter()
        .map(|session| (session.party.agent.to_string(), session.conversation.unwrap()))
        .collect();
    found.sort();
    assert_eq!(found, [("codex-1".to_owned(), "c".to_owned()), ("codex-1-2".to_owned(), "b".to_owned())]);
}

#[test]
fn somebody_who_merely_locks_is_no_session() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    assert!(store.sessions_among(&lineage()).unwrap().is_empty());
}

#[test]
fn of_two_that_join_under_one_name_at_once_only_one_does() {
    let world = World::new();
    let lineage = lineage();
    for round in 0..20 {
        let name = format!("twin-{round}");
        let start = Barrier::new(2);
        let join = |owner: &mala_core::Owner| {
            let mut store = world.store();
            start.wait();
            store.join(&Party { owner: owner.clone(), supervised: true, ..party(&name) })
        };
        let joined = thread::scope(|scope| {
            let other = scope.spawn(|| join(&lineage[1]));
            [join(&lineage[0]), other.join().unwrap()]
        });
        let refused: Vec<_> = joined.iter().filter_map(|joined| joined.as_ref().err()).collect();
        assert!(matches!(refused[..], [StoreError::AgentRuns { .. }]), "{joined:?}");
        let winner = &lineage[usize::from(joined[0].is_err())];
        world
            .store()
            .join(&Party { owner: winner.clone(), supervised: true, ..party(&name) })
            .expect("it is its own name");
    }
}
