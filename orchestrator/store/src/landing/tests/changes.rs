//! What landed in a file since an agent last looked at it.

use mala_core::{Fence, Key};

use super::*;
use crate::ForeignChangeKind;

fn key(path: &str) -> Key {
    Key::from_stored(path.into())
}

fn by(agent: &str, head: char) -> NewEntry {
    NewEntry {
        agent: AgentId::new(agent).ok(),
        issue: IssueId::new(format!("bd-{head}")).ok(),
        ..offer(head)
    }
}

/// Lands a change of one file. Gives the newest event before it was on the branch.
fn land(store: &mut Store, new: &NewEntry, path: &str) -> (EntryId, Fence) {
    let entry = green(store, new);
    let (branch, changes) = (new.branch.clone(), vec![(entry.id, key(path))]);
    store.begin_landing(&NewLanding { branch, changes, ..landing(&[&entry]) }).unwrap();
    let before = store.newest_event().unwrap();
    store.finish_landing(&new.branch).unwrap();
    (entry.id, before)
}

/// What ann is told.
fn foreign(store: &mut Store, path: &str, since: Fence) -> Option<ForeignChangeKind> {
    let ann = AgentId::new("ann").unwrap();
    let history = store.file_history(&ann, &key(path), (since, Some(MAIN))).unwrap();
    history.foreign.map(|foreign| foreign.kind)
}

#[test]
fn a_file_that_another_agent_landed_since_is_told_and_ones_own_landing_is_not() {
    let store = &mut Table::new().store;
    let (entry, before) = land(store, &by("bob", 'a'), "src/a");
    land(store, &by("ann", 'b'), "src/b");
    land(store, &NewEntry { branch: "refs/heads/other".into(), ..by("bob", 'c') }, "src/c");
    let (issue, agent) = (IssueId::new("bd-a").ok(), AgentId::new("bob").ok());
    let landed = ForeignChangeKind::Landed { entry, issue, agent };
    assert_eq!(foreign(store, "src/a", before), Some(landed));
    let now = store.newest_event().unwrap();
    assert_eq!(foreign(store, "src/a", now), None, "it was there before");
    for path in ["src/b", "src/c", "src/d"] {
        assert_eq!(foreign(store, path, Fence(0)), None, "{path}");
    }
}

#[test]
fn a_landing_that_was_undone_has_changed_nothing() {
    let store = &mut Table::new().store;
    let entry = green(store, &by("bob", 'a'));
    let new = NewLanding { changes: vec![(entry.id, key("src/a"))], ..landing(&[&entry]) };
    store.begin_landing(&new).unwrap();
    store.undo_landing(MAIN).unwrap();
    assert_eq!(foreign(store, "src/a", Fence(0)), None);
    advance(store, &entry, &[EntryState::Validating, EntryState::Green]);
    store.begin_landing(&new).unwrap();
    store.finish_landing(MAIN).unwrap();
    assert!(foreign(store, "src/a", Fence(0)).is_some(), "the same files, written down once more");
}
