//! Who is calling: the agent of a supervised tree, or the session of a client above this process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use mala_core::{AgentId, NameError, Owner};
use mala_store::process::Process;
use mala_store::{Party, Session, Store, StoreError};

use crate::StoreGuard;

/// A command that a process of an agent's tree has its supervisor run.
#[derive(Debug)]
pub struct Supervised {
    pub party: Party,
    /// Tells when the process that asked has ended, or does not want an answer any more.
    pub asker: OwnedFd,
    pub pid: u32,
    pub guard: Arc<StoreGuard>,
}

/// The processes above this one, nearest first.
pub fn ancestors() -> Vec<Owner> {
    let me = Process::find(std::process::id());
    me.iter().flat_map(Process::ancestors).map(|process| process.owner()).collect()
}

/// The sessions of the nearest process above that has any, the one that was last heard of first.
pub fn sessions_above(store: &mut Store) -> Result<Vec<Session>, StoreError> {
    store.sessions_among(&ancestors())
}

/// What a session is called that nobody named, e.g. `claude-4242`.
pub fn session_name(session: &Process) -> Result<AgentId, NameError> {
    AgentId::new(format!("{}-{}", session.name, session.pid))
}
