//! What clients wrote down themselves, as evidence where the settings accept it.
//!
//! Which transcript is an agent's is known from its client's hooks; a person may name one. An agent may not: it could have
//! written anything into it.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use mala_core::file::open_regular;
use mala_core::{AgentId, Fence};
use mala_git::{Oid, Ownership, Repo, RepoPath};
use mala_store::{EventKind, Store};

use super::Client;
use crate::Evidence;
use crate::judge::JudgeError;

/// The file that a client keeps of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTranscript {
    client: Client,
    path: PathBuf,
}

impl SessionTranscript {
    /// The one that a client says it keeps, if it is of a kind that can be read.
    pub fn of_client(client: &str, path: PathBuf) -> Option<Self> {
        Some(Self { client: Client::named(client)?, path })
    }

    /// The one that an agent's client told of when its last session began.
    pub fn of_session(
        store: &mut Store,
        agent: &AgentId,
        since: Option<Fence>,
    ) -> Result<Option<Self>, JudgeError> {
        let sessions = store.facts(agent, &[EventKind::SessionStarted], since)?;
        let told = |detail: &serde_json::Value| {
            let client = Client::named(detail["client"].as_str()?)?;
            Some(Self { client, path: PathBuf::from(detail["transcript"].as_str()?) })
        };
        Ok(sessions.iter().rev().find_map(|session| told(&session.detail)))
    }

    /// One that a person names; nothing if it is of no kind that can be read.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        let client = open_regular(path).and_then(|file| Client::of(BufReader::new(file)))?;
        Ok(client.map(|client| Self { client, path: path.to_owned() }))
    }

    /// What it says about the files of a commit. One that cannot be read says nothing.
    pub fn evidence(
        &self,
        repo: &Repo,
        ownership: &dyn Ownership,
        agent: &AgentId,
        commit: &Oid,
    ) -> Result<Vec<Evidence>, JudgeError> {
        let calls = open_regular(&self.path).and_then(|file| super::calls(self.client, BufReader::new(file)));
        let Ok(calls) = calls else { return Ok(Vec::new()) };
        let changes = repo.changes_of(&repo.commit(commit)?)?;
        let paths: Vec<RepoPath> = changes.into_iter().map(|change| change.path).collect();
        Ok(super::evidence(repo, ownership, agent, &calls, &paths)?)
    }
}
