//! Who owned what, as the lock store has it.

use std::cell::RefCell;
use std::collections::HashMap;

use mala_core::{AgentId, EvidenceId, Fence, Key, Lock, Mode, Target, Want};
use mala_git::{Holder, Ownership, OwnershipError, TestEvents};
use mala_store::{EventKind, Store, StoreError};

/// Answers from the store itself.
#[derive(Debug)]
pub struct StoreOwnership {
    store: RefCell<Store>,
    /// The tests of the agents that were asked about, read once.
    tests: RefCell<HashMap<AgentId, HashMap<String, TestEvents>>>,
}

impl StoreOwnership {
    pub fn new(store: Store) -> Self {
        Self { store: RefCell::new(store), tests: RefCell::default() }
    }

    pub fn into_store(self) -> Store {
        self.store.into_inner()
    }
}

/// All tests of an agent, by the id of their records.
fn tests_of(store: &mut Store, agent: &AgentId) -> Result<HashMap<String, TestEvents>, StoreError> {
    let mut tests: HashMap<String, TestEvents> = HashMap::new();
    for fact in store.facts(agent, &[EventKind::TestStarted, EventKind::TestEnded], None)? {
        let Some(id) = fact.detail["evidence"].as_str() else { continue };
        let events = tests.entry(id.to_owned()).or_default();
        let is_end = fact.kind == EventKind::TestEnded.as_str();
        *(if is_end { &mut events.ended } else { &mut events.began }) = Some(Fence(fact.seq));
    }
    Ok(tests)
}

impl Ownership for StoreOwnership {
    fn owned(
        &self,
        agent: &AgentId,
        path: &Key,
        since: Option<Fence>,
    ) -> Result<Option<Fence>, OwnershipError> {
        self.store.borrow_mut().owned(agent, path, since).map_err(|error| unknown(path, error))
    }

    fn holder(&self, path: &Key, other_than: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        let want = Want { target: Target::File(path.clone()), aliases: Vec::new(), mode: Mode::Exclusive };
        let holders = self.store.borrow_mut().holders(&want).map_err(|error| unknown(path, error))?;
        let is_other = |lock: &Lock| lock.mode == Mode::Exclusive && Some(&lock.agent) != other_than;
        let holder = holders.into_iter().find(is_other);
        Ok(holder.map(|lock| Holder { agent: lock.agent, issue: lock.issue, since: lock.acquired_at }))
    }

    fn test_events(&self, agent: &AgentId, test: &EvidenceId) -> Result<TestEvents, OwnershipError> {
        let mut tests = self.tests.borrow_mut();
        if !tests.contains_key(agent) {
            let known = tests_of(&mut self.store.borrow_mut(), agent);
            let known = known.map_err(|error| unknown(&Key::from_stored(Vec::new()), error))?;
            tests.insert(agent.clone(), known);
        }
        Ok(tests.get(agent).and_then(|tests| tests.get(test.as_str())).copied().unwrap_or_default())
    }
}

fn unknown(path: &Key, source: StoreError) -> OwnershipError {
    OwnershipError { path: path.clone(), source: Box::new(source) }
}
