//! Who owned what, inside an agent's tree: answered by its supervisor.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use mala_core::{AgentId, Fence, IssueId, Key, Timestamp};
use mala_git::{Holder, Ownership, OwnershipError};
use serde::{Deserialize, Serialize};

use crate::{SessionError, supervisor_socket};

/// How many files the supervisor is asked about at once: names are no longer than four kilobytes, messages than four megabytes.
const MAX_FILES_PER_QUERY: usize = 1_000;

/// Answers from the supervisor of the tree that this process belongs to.
#[derive(Debug)]
pub struct SupervisorOwnership {
    socket: PathBuf,
    known: RefCell<HashMap<Key, Tenure>>,
}

/// What is known about one file, as `mala lock tenure` tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tenure {
    /// The fence under which the asking agent held it last.
    pub fence: Option<i64>,
    /// Who else holds it now.
    pub holder: Option<OtherHolder>,
}

/// Somebody else who holds a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OtherHolder {
    pub agent: String,
    pub issue: Option<String>,
    /// Milliseconds since 1970.
    pub since: i64,
}

impl SupervisorOwnership {
    pub fn new(socket: PathBuf) -> Self {
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
        let tenures = self
            .ask(paths)
            .map_err(|error| OwnershipError { path: first.clone(), source: Box::new(error) })?;
        self.known.borrow_mut().extend(paths.iter().cloned().zip(tenures));
        Ok(())
    }

    fn ask(&self, paths: &[Key]) -> Result<Vec<Tenure>, SessionError> {
        let words = ["mala", "lock", "tenure", "--json", "--"].map(OsString::from);
        let paths = paths.iter().map(|path| OsStr::from_bytes(path.as_bytes()).to_owned());
        let (code, answer) = supervisor_socket::query(&self.socket, words.into_iter().chain(paths))?;
        if code != 0 {
            return Err(SessionError::NoAnswer);
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Ownership for SupervisorOwnership {
    /// Whoever asks is the agent of the tree; how long ago it held the file makes no difference in here.
    fn owned(
        &self,
        _agent: &AgentId,
        path: &Key,
        _since: Option<Fence>,
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
        unknown.chunks(MAX_FILES_PER_QUERY).try_for_each(|paths| self.learn(paths))
    }
}
