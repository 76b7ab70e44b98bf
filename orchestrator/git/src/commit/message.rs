//! The commit message: the agent's words, what mala knows, and what the repository's hooks make of it.

use std::fs;
use std::path::Path;

use mala_core::file::{MESSAGE, read_small};
use mala_core::{Actor, AgentId, EvidenceId, Fence};

use super::error::CommitError;
use super::hook::{self, HookRunner};
use super::stage::Draft;
use crate::{Commit, Repo};

/// The trailer that says whose work it is.
const AGENT: &str = "Mala-Agent";

/// True if the message says that it is this agent's.
pub fn is_signed_by(commit: &Commit, agent: &AgentId) -> bool {
    let mut names = commit.message.lines().filter_map(|line| line.strip_prefix(AGENT)?.strip_prefix(": "));
    names.any(|name| name.trim() == agent.as_str())
}

/// The message with its trailers.
pub(super) fn compose(
    repo: &Repo,
    message: &str,
    trailers: &[(&'static str, String)],
    folder: &Path,
) -> Result<String, CommitError> {
    let words = cleaned(repo, message)?;
    let path = folder.join("words");
    fs::write(&path, &words).map_err(CommitError::io(&path))?;
    let mut call = repo.git("interpret-trailers").args(["--no-divider", "--if-exists", "addIfDifferent"]);
    for (name, value) in trailers {
        call = call.arg("--trailer").arg(format!("{name}: {value}"));
    }
    Ok(String::from_utf8_lossy(&call.arg(&path).output()?).into_owned())
}

/// What mala knows about the commit.
pub(super) fn trailers(
    who: &Actor,
    evidence: &[EvidenceId],
    fences: &[Fence],
) -> Vec<(&'static str, String)> {
    let mut trailers = Vec::new();
    trailers.extend(who.issue.as_ref().map(|issue| ("Mala-Issue", issue.to_string())));
    trailers.extend(who.run.as_ref().map(|run| ("Mala-Run", run.to_string())));
    trailers.push((AGENT, who.agent.to_string()));
    trailers.extend(evidence.iter().map(|id| ("Mala-Evidence", id.to_string())));
    if !fences.is_empty() {
        trailers.push(("Mala-Fence", ranges(fences)));
    }
    trailers
}

/// Numbers in order, as a person would write them: `3, 5-2004`.
fn ranges(fences: &[Fence]) -> String {
    let runs = fences.chunk_by(|one, next| next.0 == one.0 + 1);
    let words = runs.map(|run| match run {
        [first, .., last] if run.len() > 2 => format!("{first}-{last}"),
        few => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Lets the hooks for messages change it or object to it.
pub(super) fn run_hooks(
    repo: &Repo,
    text: &str,
    draft: &mut Draft,
    hooks: &dyn HookRunner,
) -> Result<String, CommitError> {
    let path = draft.folder().join("COMMIT_EDITMSG");
    fs::write(&path, text).map_err(CommitError::io(&path))?;
    let file = path.clone().into_os_string();
    hook::ask(hooks, draft, "prepare-commit-msg", &[file.clone(), "message".into()])?;
    hook::ask(hooks, draft, "commit-msg", &[file])?;
    let changed = read_small(&path, MESSAGE).map_err(CommitError::io(&path))?;
    // What no hook has changed is clean already.
    if changed == text.as_bytes() {
        return Ok(text.to_owned());
    }
    cleaned(repo, &String::from_utf8_lossy(&changed))
}

/// As git cleans a message given on the command line; an empty one is refused.
fn cleaned(repo: &Repo, text: &str) -> Result<String, CommitError> {
    if text.trim().is_empty() {
        return Err(CommitError::EmptyMessage);
    }
    let cleaned = repo.git("stripspace").input(text).output()?;
    match String::from_utf8_lossy(&cleaned).into_owned() {
        text if text.trim().is_empty() => Err(CommitError::EmptyMessage),
        text => Ok(text),
    }
}
