//! The log of all evidence of a repository, chained so that a changed line is noticed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use mala_core::{AgentId, Scope};
use mala_logs::chain::{ChainError, ChainReader, ChainWriter, Link, Order, Verified, verify};
use memchr::memmem;
use serde::Deserialize;

use super::record::Evidence;

/// `<state>/evidence/evidence.jsonl`.
#[derive(Debug, Clone)]
pub struct EvidenceLog {
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
    pub agent: String,
    pub argv: Vec<String>,
    pub ended_at: String,
}

impl EvidenceLog {
    pub fn of(scope: &Scope) -> Self {
        Self { path: folder(scope).join("evidence.jsonl") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a record down; it is on the disk when this returns.
    pub fn append(&self, evidence: &Evidence) -> Result<Link, ChainError> {
        ChainWriter::open(&self.path)?.append(evidence)
    }

    /// Checks the whole chain.
    pub fn verify(&self) -> Result<Verified, ChainError> {
        verify(&self.path)
    }

    /// The records, the newest first, of those whose head `wanted` agrees to. It may also end the search.
    pub fn search(
        &self,
        of: Of<'_>,
        mut wanted: impl FnMut(&Head) -> ControlFlow<(), bool>,
        mut found: impl FnMut(Evidence) -> ControlFlow<()>,
    ) -> Result<(), ChainError> {
        let needle = of.needle();
        let finder = memmem::Finder::new(&needle);
        let mut lines = ChainReader::open(&self.path)?.lines(Order::NewestFirst);
        while let Some(line) = lines.next_line()? {
            if finder.find(line.bytes()).is_none() {
                continue;
            }
            let head: Head = line.decode()?;
            if !of.includes(&head) {
                continue;
            }
            match wanted(&head) {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(false) => {}
                ControlFlow::Continue(true) => {
                    if found(line.decode()?).is_break() {
                        break;
                    }
                }
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
