//! Sessions: an agent is known by its process, not by what it says.

use mala_store::{Party, process};
use mala_tests::{Terse, World, party};

fn lineage() -> Vec<mala_core::Owner> {
    let me = process::Process::find(std::process::id()).unwrap();
    std::iter::once(me.owner()).chain(me.ancestors().map(|ancestor| ancestor.owner())).collect()
}

#[test]
fn a_session_is_found_from_below_its_process() {
    let world = World::new();
    let mut store = world.store();
    let lineage = lineage();
    store.register_session(&Party { owner: lineage[1].clone(), ..party("claude-1") }, "claude").unwrap();
    assert_eq!(store.session_among(&lineage).unwrap().unwrap().agent.as_str(), "claude-1");
    assert_eq!(store.session_among(&lineage[..1]).unwrap(), None, "only from below");
    // The nearest one counts: a client started by another client is a session of its own.
    store.register_session(&Party { owner: lineage[0].clone(), ..party("claude-2") }, "claude").unwrap();
    assert_eq!(store.session_among(&lineage).unwrap().unwrap().agent.as_str(), "claude-2");
}

#[test]
fn somebody_who_merely_locks_is_no_session() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    assert_eq!(store.session_among(&lineage()).unwrap(), None);
}
