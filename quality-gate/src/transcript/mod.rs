//! Evidence from the clients' own transcripts, for commands that mala did not run itself.
//!
//! It is weaker, and marked so: a client wrote it down, and which content the command saw is concluded from when the files
//! were last changed. A file that was touched after the command had started counts as unknown, which is equal to nothing.
//! Only plain commands are read: whatever a shell could make of `pytest || true` proves nothing.

mod claude;
mod codex;
mod session;
mod shell;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mala_core::{AgentId, EvidenceId, Timestamp};
use mala_git::{Content, Ownership, Repo, RepoPath, Standing, standing};
use mala_logs::secrets::mask_args;
use serde_json::Value;

use crate::Evidence;
use crate::evidence::{EvidenceError, Strength};

pub use session::SessionTranscript;

/// Whose transcript it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// `~/.claude/projects/.../SESSION.jsonl`
    Claude,
    /// `$CODEX_HOME/sessions/.../rollout-....jsonl`
    Codex,
}

impl Client {
    /// The client of this name, if its transcripts can be read.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            _ => None,
        }
    }

    /// Whose transcript it is, by the first line that tells.
    pub fn of(transcript: impl BufRead) -> io::Result<Option<Self>> {
        for line in transcript.split(b'\n') {
            let Ok(line) = serde_json::from_slice::<Value>(&line?) else { continue };
            if line.pointer("/payload/type").or(line.pointer("/payload/cwd")).is_some() {
                return Ok(Some(Self::Codex));
            }
            if line.pointer("/message/content").is_some() || line.pointer("/sessionId").is_some() {
                return Ok(Some(Self::Claude));
            }
        }
        Ok(None)
    }
}

/// A command that a client says it ran to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub id: String,
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// Nothing if the transcript does not say.
    pub exit_code: Option<i32>,
}

/// The plain commands in a transcript, in their order. Lines that are not understood are passed over.
pub fn calls(client: Client, transcript: impl BufRead) -> io::Result<Vec<Call>> {
    let mut reader = match client {
        Client::Claude => Reader::Claude(claude::Reader::default()),
        Client::Codex => Reader::Codex(codex::Reader::default()),
    };
    let mut calls = Vec::new();
    for line in transcript.split(b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(&line?) else { continue };
        match &mut reader {
            Reader::Claude(reader) => reader.line(&line, &mut calls),
            Reader::Codex(reader) => reader.line(&line, &mut calls),
        }
    }
    Ok(calls)
}

enum Reader {
    Claude(claude::Reader),
    Codex(codex::Reader),
}

/// The calls as evidence about `paths`, the files of the commit that is to be judged; the newest first.
pub fn evidence(
    repo: &Repo,
    ownership: &dyn Ownership,
    agent: &AgentId,
    calls: &[Call],
    paths: &[RepoPath],
) -> Result<Vec<Evidence>, EvidenceError> {
    let status = repo.status()?;
    let now = repo.contents(status.paths().chain(paths))?;
    let mut foreign = BTreeMap::new();
    for path in now.keys().filter(|path| !paths.contains(path)) {
        if let Standing::Foreign { holder } = standing(path, repo, agent, ownership)? {
            foreign.insert(path.clone(), holder);
        }
    }
    let mut evidence: Vec<Evidence> =
        calls.iter().map(|call| conclude(repo, agent, call, &now, &foreign)).collect();
    evidence.reverse();
    Ok(evidence)
}

fn conclude(
    repo: &Repo,
    agent: &AgentId,
    call: &Call,
    now: &BTreeMap<RepoPath, Content>,
    foreign: &BTreeMap<RepoPath, Option<String>>,
) -> Evidence {
    let then = |(path, content): (&RepoPath, &Content)| {
        let is_old = is_untouched_since(&path.within(repo.root()), call.started_at);
        (path.clone(), if is_old { content.clone() } else { Content::Unknown })
    };
    let holder = |(path, holder): (&RepoPath, &Option<String>)| Some((path.clone(), holder.clone()?));
    Evidence {
        id: EvidenceId::named(call.id.clone()),
        agent: agent.clone(),
        issue: None,
        run: None,
        argv: mask_args(&call.argv),
        cwd: RepoPath::from_bytes(call.cwd.as_os_str().as_bytes()).to_text(),
        started_at: call.started_at,
        ended_at: call.ended_at,
        exit_code: call.exit_code,
        signal: None,
        strength: Strength::Transcript,
        isolated: false,
        mutex: None,
        output_sha256: None,
        output_log: None,
        // Every file that matters is listed, so no commit has to stand in for the rest.
        head: None,
        tree: None,
        files: now.iter().map(then).collect(),
        modes: None,
        after: BTreeMap::new(),
        foreign: foreign.keys().cloned().collect(),
        holders: foreign.iter().filter_map(holder).collect(),
    }
}

/// By the time of the last change of any kind, which cannot be set back; for a missing file, that of its folder.
fn is_untouched_since(path: &Path, time: Timestamp) -> bool {
    let found = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
    found.is_some_and(|meta| {
        let changed = meta.ctime().saturating_mul(1000).saturating_add(meta.ctime_nsec() / 1_000_000);
        changed < time.as_millis()
    })
}

/// A text field of a transcript's line.
fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

fn time(line: &Value) -> Option<Timestamp> {
    mala_core::issue::parse_moment(text(line, "/timestamp")?)
}

/// The number in the first line that begins with one of these words, such as `Exit code 3`.
fn number_after<'a>(mut lines: impl Iterator<Item = &'a str>, words: &[&str]) -> Option<i32> {
    let rest = lines.find_map(|line| words.iter().find_map(|word| line.strip_prefix(word)))?;
    let rest = rest.trim_start_matches([':', ' ']);
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(rest.len());
    rest[..end].parse().ok()
}
