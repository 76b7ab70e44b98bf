//! Refs that agents cannot write, whatever git they use: mala's own, and for agents of a run the branch, which moves only by landing.
//!
//! A ref is a file of its own, or a line in a file of all of them, so the names of both are out of reach, and with them the lock
//! files that git makes first: git gives up before it has changed anything. Other branches can still be deleted, for which git
//! locks the file of all refs (`packed-refs.lock`) and leaves it as it is unless the branch is in it.

use std::fs;
use std::path::{Path, PathBuf};

use mala_agents::git::RunAgent;
use mala_config::Settings;
use mala_core::Scope;
use mala_gate::rules::IssuePattern;
use mala_store::Party;

use crate::jail::head;

/// What mala pins work with.
const OWN: [&str; 4] = ["refs/mala", "refs/mala-runs", "logs/refs/mala", "logs/refs/mala-runs"];
/// Where git keeps many refs in one file, and what it writes before it puts that in place.
const COLLECTIONS: [&str; 3] = ["packed-refs", "packed-refs.new", "reftable"];
/// Git follows no more links from one ref to the next (`SYMREF_MAXDEPTH`).
const MAX_LINKS: usize = 5;

/// The agent as the run knows it; none outside of a run.
pub fn run_agent(party: &Party, scope: &Scope, settings: &Settings) -> Option<RunAgent> {
    party.run.as_ref()?;
    // A pattern that cannot be read is refused where it is used.
    let pattern = settings.gate.issue_pattern.parse::<IssuePattern>().unwrap_or_default();
    let mark = party.issue.as_ref().map(|issue| pattern.token(issue));
    let branch = branch_of(scope).and_then(|name| Some(name.strip_prefix("refs/heads/")?.to_owned()));
    Some(RunAgent { branch, mark })
}

/// The branch that is checked out, as the full name of its ref.
pub(crate) fn branch_of(scope: &Scope) -> Option<String> {
    linked_ref(&head(scope))
}

/// Absolute names, with everything below them.
#[derive(Debug)]
pub(crate) struct ReservedRefs {
    git_dir: PathBuf,
    own: Vec<PathBuf>,
    /// All that the branch could be moved by; nothing outside of a run.
    branch: Vec<PathBuf>,
}

impl ReservedRefs {
    pub(crate) fn of(party: &Party, scope: &Scope) -> Self {
        let git_dir = scope.git_dir().to_path_buf();
        let own = OWN.map(|name| git_dir.join(name)).into();
        let branch = if party.run.is_some() { branch_files(scope) } else { Vec::new() };
        Self { git_dir, own, branch }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.own.iter().chain(&self.branch)
    }

    /// True if whoever writes this name would move the branch, or what it is found by.
    pub(crate) fn moves_branch(&self, path: &Path) -> bool {
        let is_inside = path != self.git_dir && path.starts_with(&self.git_dir);
        is_inside && self.branch.iter().any(|name| path.starts_with(name) || name.starts_with(path))
    }
}

fn branch_files(scope: &Scope) -> Vec<PathBuf> {
    let git_dir = scope.git_dir();
    let head = head(scope);
    let mut files: Vec<PathBuf> = COLLECTIONS.map(|name| git_dir.join(name)).into();
    files.extend([with_lock(&head), head.clone()]);
    let mut link = linked_ref(&head);
    for _ in 0..MAX_LINKS {
        let Some(file) = link.map(|name| git_dir.join(name)) else { break };
        link = linked_ref(&file);
        files.extend([with_lock(&file), file]);
    }
    files
}

/// The ref that the one in this file stands for, if it is such a one.
fn linked_ref(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let name = text.strip_prefix("ref:")?.trim();
    name.starts_with("refs/").then(|| name.to_owned())
}

fn with_lock(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_written_by_its_file_its_lock_and_the_file_of_all_refs() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().canonicalize().unwrap().join(".git");
        fs::create_dir_all(git.join("refs/heads/topic")).unwrap();
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/topic/x\n").unwrap();
        fs::write(git.join("refs/heads/topic/x"), "ref: refs/heads/real\n").unwrap();
        let scope = Scope::discover(folder.path()).unwrap();
        let branch = branch_files(&scope);
        let reserved = ReservedRefs { git_dir: git.clone(), own: Vec::new(), branch };
        let moves = |name: &str| reserved.moves_branch(&git.join(name));
        for name in [
            "HEAD.lock",
            "refs/heads/topic/x",
            "refs/heads/topic/x.lock",
            "refs/heads/topic",
            "refs/heads",
            "refs/heads/real.lock",
            "packed-refs",
            "packed-refs.new",
            "reftable/tables.list",
        ] {
            assert!(moves(name), "{name}");
        }
        for name in ["refs/heads/topic/y", "refs/tags", "packed-refs.lock", "index", ""] {
            assert!(!moves(name), "{name}");
        }
    }
}
