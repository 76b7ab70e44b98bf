//! What clients wrote down themselves, as evidence where the settings accept it.
//!
//! Which transcript is an agent's is known from its client's hooks; a person may name one. An agent may not: it could have
//! written anything into it.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use mala_agents::HookCall;
use mala_core::file::open_regular;
use mala_core::{AgentId, Timestamp};
use mala_gate::Evidence;
use mala_gate::evidence::EvidenceError;
use mala_gate::transcript::{self, Client};
use mala_git::{Oid, Ownership, Repo, RepoPath};
use mala_store::{EventKind, Store};

use crate::error::CliError;

/// The file that a client keeps of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transcript {
    client: Client,
    path: PathBuf,
}

impl Transcript {
    /// The one that a hook's call tells of, if it is of a kind that can be read.
    pub(crate) fn told(call: &HookCall) -> Option<Self> {
        Some(Self { client: Client::named(call.client.name())?, path: call.transcript.clone()? })
    }

    /// The one that an agent's client told of when its last session began.
    pub(crate) fn of_session(
        store: &mut Store,
        agent: &AgentId,
        since: Option<Timestamp>,
    ) -> Result<Option<Self>, CliError> {
        let sessions = store.facts(agent, &[EventKind::SessionStarted], since)?;
        let told = |detail: &serde_json::Value| {
            let client = Client::named(detail["client"].as_str()?)?;
            Some(Self { client, path: PathBuf::from(detail["transcript"].as_str()?) })
        };
        Ok(sessions.iter().rev().find_map(|session| told(&session.detail)))
    }

    /// One that a person names.
    pub(crate) fn named(path: &Path) -> Result<Self, CliError> {
        let failed = |error| CliError::usage(format!("cannot read `{}`: {error}", path.display()));
        let client = open_regular(path).and_then(|file| Client::of(BufReader::new(file))).map_err(failed)?;
        let client = client.ok_or_else(|| {
            CliError::usage(format!("`{}` is not a transcript of Claude Code or Codex", path.display()))
        })?;
        Ok(Self { client, path: path.to_owned() })
    }

    /// What it says about the files of a commit. One that cannot be read says nothing.
    pub(crate) fn evidence(
        &self,
        repo: &Repo,
        ownership: &dyn Ownership,
        agent: &AgentId,
        commit: &Oid,
    ) -> Result<Vec<Evidence>, CliError> {
        let calls =
            open_regular(&self.path).and_then(|file| transcript::calls(self.client, BufReader::new(file)));
        let Ok(calls) = calls else { return Ok(Vec::new()) };
        let changes = repo.changes_of(&repo.commit(commit)?)?;
        let paths: Vec<RepoPath> = changes.into_iter().map(|change| change.path).collect();
        transcript::evidence(repo, ownership, agent, &calls, &paths).map_err(|error| match error {
            EvidenceError::Git(error) => error.into(),
            EvidenceError::Ownership(error) => error.into(),
            error => CliError::failed(error),
        })
    }
}
