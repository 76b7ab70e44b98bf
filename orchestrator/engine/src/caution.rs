//! What a person should know before agents begin. Nothing here keeps a run from beginning.

use mala_gate::git::{Kind, State};
use mala_gate::{RepoPath, hooks};

use crate::clerk::Clerk;
use crate::ports::PortError;

/// Files that are named at most.
const NAMED: usize = 5;

/// What is worth a warning, in words. What cannot be looked at now is worth none: whoever needs it says so.
pub(crate) fn cautions(clerk: &Clerk) -> Vec<String> {
    unheld_files(clerk).into_iter().chain(missing_hooks(clerk)).collect()
}

fn unheld_files(clerk: &Clerk) -> Option<String> {
    let files = unheld(clerk).ok().filter(|files| !files.is_empty())?;
    Some(format!(
        "uncommitted changes that nobody holds: {}; an agent that changes one of these files commits all that is in it: \
         commit or stash first",
        named(&files)
    ))
}

/// Tracked files with changes that are in nobody's hands.
fn unheld(clerk: &Clerk) -> Result<Vec<RepoPath>, PortError> {
    let is_tracked = |state: State| matches!(state, State::Tracked { .. } | State::Unmerged);
    let entries = clerk.repo.status()?.entries.into_iter();
    let changed = entries.filter(|entry| entry.kind == Kind::File && is_tracked(entry.state));
    let mut unheld = Vec::new();
    for path in changed.map(|entry| entry.path) {
        if clerk.ledger.holders(&clerk.wants([&path]))?.is_empty() {
            unheld.push(path);
        }
    }
    Ok(unheld)
}

pub(crate) fn missing_hooks(clerk: &Clerk) -> Option<String> {
    let is_missing = hooks::installed(&clerk.repo).ok()?.iter().any(|(_, is_there)| !is_there);
    is_missing.then(|| {
        "mala's hooks for git are not installed here: a plain `git commit` of an agent may carry a neighbour's staged files; \
         install them: mala init"
            .to_owned()
    })
}

fn named(files: &[RepoPath]) -> String {
    let first: Vec<String> = files.iter().take(NAMED).map(RepoPath::to_text).collect();
    let more = files.len() - first.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}
