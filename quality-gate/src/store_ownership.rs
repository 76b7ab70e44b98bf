//! Who owned what, as the lock store has it.

use std::cell::RefCell;

use mala_core::{AgentId, Fence, Key, Lock, Mode, Target, Timestamp, Want};
use mala_git::{Holder, Ownership, OwnershipError};
use mala_store::{Store, StoreError};

/// Answers from the store itself.
#[derive(Debug)]
pub struct StoreOwnership(RefCell<Store>);

impl StoreOwnership {
    pub fn new(store: Store) -> Self {
        Self(RefCell::new(store))
    }

    pub fn into_store(self) -> Store {
        self.0.into_inner()
    }
}

impl Ownership for StoreOwnership {
    fn owned(
        &self,
        agent: &AgentId,
        path: &Key,
        since: Option<Timestamp>,
    ) -> Result<Option<Fence>, OwnershipError> {
        self.0.borrow_mut().owned(agent, path, since).map_err(|error| unknown(path, error))
    }

    fn holder(&self, path: &Key, other_than: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        let want = Want { target: Target::File(path.clone()), aliases: Vec::new(), mode: Mode::Exclusive };
        let holders = self.0.borrow_mut().holders(&want).map_err(|error| unknown(path, error))?;
        let is_other = |lock: &Lock| lock.mode == Mode::Exclusive && Some(&lock.agent) != other_than;
        let holder = holders.into_iter().find(is_other);
        Ok(holder.map(|lock| Holder { agent: lock.agent, issue: lock.issue, since: lock.acquired_at }))
    }
}

fn unknown(path: &Key, source: StoreError) -> OwnershipError {
    OwnershipError { path: path.clone(), source: Box::new(source) }
}
