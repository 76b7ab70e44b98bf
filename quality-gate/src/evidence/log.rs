//! The log of all evidence of a repository, chained so that a changed line is noticed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use mala_core::{AgentId, EvidenceId, Scope};
use mala_git::Oid;
use mala_logs::chain::{ChainError, ChainLine, ChainReader, Link, Order, Verified};
use mala_store::Store;
use memchr::memmem;
use serde::Deserialize;

use super::anchoring::{self, AnchorError};
use super::record::Evidence;

/// What stands before and after the long part of a record. Within a text, JSON would put a backslash before the quotes.
const FILES: &[u8] = b",\"files\":{";
const AFTER: &[u8] = b"},\"after\":{";

/// `<state>/evidence/evidence.jsonl`.
#[derive(Debug, Clone)]
pub struct EvidenceLog {
    scope: Scope,
    path: PathBuf,
}

/// Whose records are wanted. A record is not decoded before its line is known to contain these words.
#[derive(Debug, Clone, Copy)]
pub enum Of<'a> {
    Agent(&'a AgentId),
    /// Of anybody, as long as this word occurs.
    Anyone {
        word: &'a str,
    },
}

/// Enough of a record to know whether the rest is worth decoding.
#[derive(Debug, Clone, Deserialize)]
pub struct Head {
    pub id: EvidenceId,
    pub agent: String,
    pub argv: Vec<String>,
    pub ended_at: String,
    /// The commit it ran on.
    #[serde(rename = "head", default)]
    pub commit: Option<Oid>,
}

/// A record of which only the head has been decoded.
#[derive(Debug)]
pub struct Sighting<'a> {
    pub head: Head,
    line: ChainLine<'a>,
}

impl<'a> Sighting<'a> {
    fn of(line: ChainLine<'a>) -> Result<Self, ChainError> {
        let start = memmem::find(line.bytes(), FILES).map(|at| [&line.bytes()[..at], b"}"].concat());
        let head = start.and_then(|start| serde_json::from_slice(&start).ok());
        Ok(Self { head: head.map_or_else(|| line.decode(), Ok)?, line })
    }

    pub fn evidence(&self) -> Result<Evidence, ChainError> {
        self.line.decode()
    }

    /// The members of `files`, as they are written; nothing if the record has another form than mala gives it.
    pub(crate) fn files(&self) -> Option<&'a [u8]> {
        let bytes = self.line.bytes();
        let begin = memmem::find(bytes, FILES)? + FILES.len();
        let length = memmem::find(&bytes[begin..], AFTER)?;
        Some(&bytes[begin..begin + length])
    }
}

impl EvidenceLog {
    pub fn of(scope: &Scope) -> Self {
        Self { scope: scope.clone(), path: folder(scope).join("evidence.jsonl") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a record down; it is on the disk and anchored in the store when this returns.
    pub fn append(&self, evidence: &Evidence) -> Result<Link, AnchorError> {
        anchoring::append(&self.scope, &self.path, evidence)
    }

    /// Checks the whole chain, and that it is the one that the store knows of.
    pub fn verify(&self) -> Result<Verified, AnchorError> {
        anchoring::verify(&mut Store::open(&self.scope)?, &self.scope, &self.path)
    }

    /// The records, the newest first, until one of them ends the search.
    pub fn search(
        &self,
        of: Of<'_>,
        mut found: impl FnMut(Evidence) -> ControlFlow<()>,
    ) -> Result<(), ChainError> {
        self.sift(of, |sighting| Ok(found(sighting.evidence()?)))
    }

    /// As [`Self::search`], for whoever need not see all of every record.
    pub fn sift<E: From<ChainError>>(
        &self,
        of: Of<'_>,
        mut seen: impl FnMut(&Sighting<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let needle = of.needle();
        let finder = memmem::Finder::new(&needle);
        let mut lines = ChainReader::open(&self.path)?.lines(Order::NewestFirst);
        while let Some(line) = lines.next_line()? {
            if finder.find(line.bytes()).is_none() {
                continue;
            }
            let sighting = Sighting::of(line)?;
            if of.includes(&sighting.head) && seen(&sighting)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Where evidence lies.
pub(super) fn folder(scope: &Scope) -> PathBuf {
    scope.state_dir().join("evidence")
}

impl Of<'_> {
    /// What a line must contain, as JSON writes it.
    fn needle(&self) -> Vec<u8> {
        match self {
            Self::Agent(agent) => {
                format!("\"agent\":{}", serde_json::Value::from(agent.as_str())).into_bytes()
            }
            Self::Anyone { word } => word.as_bytes().to_vec(),
        }
    }

    fn includes(&self, head: &Head) -> bool {
        match self {
            Self::Agent(agent) => head.agent == agent.as_str(),
            Self::Anyone { .. } => true,
        }
    }
}
