//! The record of one command that was run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mala_core::{AgentId, EvidenceId, IssueId, LockName, RunId, Timestamp};
use mala_git::{Content, Oid, RepoPath};
use serde::{Deserialize, Serialize};

use crate::serial;

/// How mala knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// mala ran the command itself.
    Observed,
    /// An agent's client wrote down that it ran it.
    Transcript,
}

/// One command, what it ran on, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub id: EvidenceId,
    #[serde(deserialize_with = "serial::name")]
    pub agent: AgentId,
    #[serde(deserialize_with = "serial::maybe_name", default)]
    pub issue: Option<IssueId>,
    #[serde(deserialize_with = "serial::maybe_name", default)]
    pub run: Option<RunId>,
    /// The command line, secrets masked.
    pub argv: Vec<String>,
    /// The folder it ran in; for an isolated run, the folder of the checkout that stands for. See [`Self::folder`].
    pub cwd: String,
    #[serde(deserialize_with = "serial::time")]
    pub started_at: Timestamp,
    #[serde(deserialize_with = "serial::time")]
    pub ended_at: Timestamp,
    /// Nothing if a signal ended it.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub strength: Strength,
    /// It ran in a snapshot that held nobody else's changes.
    pub isolated: bool,
    /// The named lock that was held meanwhile.
    #[serde(deserialize_with = "serial::maybe_name", default)]
    pub mutex: Option<LockName>,
    pub output_sha256: Option<String>,
    pub output_log: Option<String>,
    /// The commit everything else was the same as. Nothing before the first commit.
    pub head: Option<Oid>,
    /// All that it ran on, where mala made the checkout that it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Oid>,
    /// Every file that differed from `head` when it started.
    pub files: BTreeMap<RepoPath, Content>,
    /// Which of them were links or could be run: the mode that git has for each. Nothing if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<BTreeMap<RepoPath, String>>,
    /// Files that held something else when it ended.
    pub after: BTreeMap<RepoPath, Content>,
    /// Which of all these files are not this agent's.
    pub foreign: Vec<RepoPath>,
    /// Who held those of them that somebody held.
    pub holders: BTreeMap<RepoPath, String>,
}

impl Evidence {
    pub fn has_passed(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// The folder it ran in, byte for byte: in [`Self::cwd`], a path that is no text stands as in lists of files.
    pub fn folder(&self) -> PathBuf {
        RepoPath::from_text(&self.cwd)
            .map_or_else(|| PathBuf::from(&self.cwd), |path| path.as_path().to_owned())
    }

    /// The command line for a person.
    pub fn command(&self) -> String {
        self.argv.join(" ")
    }

    pub fn is_foreign(&self, path: &RepoPath) -> bool {
        self.foreign.binary_search(path).is_ok()
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended in an unknown way".to_owned(),
        }
    }
}
