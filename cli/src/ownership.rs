//! Who owned what, for the gate: answered by the store, or by the supervisor inside an agent's tree.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use mala_core::{AgentId, Fence, IssueId, Key, Lock, Mode, Target, Timestamp, Want};
use mala_git::{Holder, Ownership, OwnershipError};
use mala_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::desk;
use crate::error::{CliError, Code};

/// Answers from the store itself.
#[derive(Debug)]
pub(crate) struct StoreOwnership(RefCell<Store>);

impl StoreOwnership {
    pub(crate) fn new(store: Store) -> Self {
        Self(RefCell::new(store))
    }

    pub(crate) fn into_store(self) -> Store {
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

/// How many files the supervisor is asked about at once: names are no longer than four kilobytes, messages than four megabytes.
const AT_ONCE: usize = 1_000;

/// Answers from the supervisor of the tree that this process belongs to.
#[derive(Debug)]
pub(crate) struct DeskOwnership {
    socket: PathBuf,
    known: RefCell<HashMap<Key, Tenure>>,
}

/// What is known about one file, as `mala lock tenure` tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tenure {
    /// The fence under which the asking agent held it last.
    pub(crate) fence: Option<i64>,
    /// Who else holds it now.
    pub(crate) holder: Option<Other>,
}

/// Somebody else who holds a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Other {
    pub(crate) agent: String,
    pub(crate) issue: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) since: i64,
}

impl DeskOwnership {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, known: RefCell::default() }
    }

    fn tenure(&self, path: &Key) -> Result<Tenure, OwnershipError> {
        if !self.known.borrow().contains_key(path) {
            self.learn(std::slice::from_ref(path))?;
        }
        let unsaid = || OwnershipError { path: path.clone(), source: "the supervisor did not say".into() };
        self.known.borrow().get(path).cloned().ok_or_else(unsaid)
    }

    fn learn(&self, paths: &[Key]) -> Result<(), OwnershipError> {
        let Some(first) = paths.first() else { return Ok(()) };
        let tenures = self.ask(paths).map_err(|error| OwnershipError {
            path: first.clone(),
            source: error.messages().join(": ").into(),
        })?;
        self.known.borrow_mut().extend(paths.iter().cloned().zip(tenures));
        Ok(())
    }

    fn ask(&self, paths: &[Key]) -> Result<Vec<Tenure>, CliError> {
        let words = ["mala", "lock", "tenure", "--json", "--"].map(OsString::from);
        let paths = paths.iter().map(|path| OsStr::from_bytes(path.as_bytes()).to_owned());
        let (code, answer) = desk::query(&self.socket, words.into_iter().chain(paths))?;
        if code != Code::SUCCESS {
            return Err(CliError::failed("the supervisor of this agent could not say who owns it"));
        }
        serde_json::from_slice(&answer).map_err(CliError::failed)
    }
}

impl Ownership for DeskOwnership {
    /// Whoever asks is the agent of the tree; how long ago it held the file makes no difference in here.
    fn owned(
        &self,
        _agent: &AgentId,
        path: &Key,
        _since: Option<Timestamp>,
    ) -> Result<Option<Fence>, OwnershipError> {
        Ok(self.tenure(path)?.fence.map(Fence))
    }

    fn holder(&self, path: &Key, _other_than: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        let Some(other) = self.tenure(path)?.holder else { return Ok(None) };
        let bad = |error: mala_core::NameError| OwnershipError { path: path.clone(), source: error.into() };
        Ok(Some(Holder {
            agent: AgentId::new(other.agent).map_err(bad)?,
            issue: other.issue.map(IssueId::new).transpose().map_err(bad)?,
            since: Timestamp::from_millis(other.since),
        }))
    }

    fn expect(&self, paths: &[Key]) -> Result<(), OwnershipError> {
        let unknown: Vec<Key> =
            paths.iter().filter(|path| !self.known.borrow().contains_key(path)).cloned().collect();
        unknown.chunks(AT_ONCE).try_for_each(|paths| self.learn(paths))
    }
}
